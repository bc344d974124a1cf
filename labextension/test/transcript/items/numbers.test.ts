import { describe, expect, it } from "vitest";

import type { NumberSaid } from "../../../src/transcript/protocol";
import { markNumbers, summary } from "../../../src/transcript/items/numbers";

function said(text: string, from_end: number, marked = true): NumberSaid {
  return { text, from_end, verdict: marked ? "not_found" : "seen", words: "not in any result of this conversation", quote: "", call: "", marked };
}

function answer(html: string): HTMLElement {
  const node = document.createElement("div");
  node.innerHTML = html;
  return node;
}

const marks = (node: HTMLElement): string[] => [...node.querySelectorAll(".unsourced")].map((mark) => mark.textContent);

describe("marks", () => {
  it("stand at the number that the kernel means, counted from the end of the answer", () => {
    const node = answer("<div class='prose'><p>412 rows first</p></div><div class='prose'><p>412 and <b>412</b>, not 9.75 %</p></div>");
    markNumbers(node, [said("412", 1), said("9.75 %", 0)]);
    expect(marks(node)).toEqual(["412", "9.75 %"]);
    expect(node.querySelector(".unsourced")?.nextSibling?.textContent).toBe(" and ");
    expect(node.textContent).toBe("412 rows first412 and 412, not 9.75 %");
  });

  it("leave code, formulas and thinking alone", () => {
    const node = answer("<details class='thinking'><div class='prose'>412</div></details><div class='prose'><code>412</code> 412</div>");
    markNumbers(node, [said("412", 0)]);
    expect(node.querySelector(".unsourced")?.previousElementSibling?.localName).toBe("code");
    markNumbers(node, [said("412", 5)]);
    expect(marks(node)).toEqual(["412"]);
  });

  it("mark two numbers of one text", () => {
    const node = answer("<div class='prose'>from 184 to 97 and 53 %</div>");
    markNumbers(node, [said("184", 0), said("97", 0), said("53 %", 0, false)]);
    expect(marks(node)).toEqual(["184", "97"]);
  });
});

it("says how many have no source", () => {
  expect(summary([said("1", 0), said("2", 0, false)])).toBe("2 numbers · 1 not found");
  expect(summary([said("2", 0, false)])).toBe("1 number");
});
