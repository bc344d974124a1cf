import { describe, expect, it } from "vitest";

import type { NumberSaid } from "../../../src/transcript/protocol";
import type { Numbers } from "../../../src/transcript/items/numbers";
import { markNumbers, numbersOf, renewed, showStale, summary } from "../../../src/transcript/items/numbers";
import { ACTION_EVENT, offerPageActions } from "../../../src/transcript/items/page_actions";
import { TranscriptStore } from "../../../src/transcript/store";

function said(text: string, from_end: number, marked = true): NumberSaid {
  return { text, from_end, verdict: marked ? "not_found" : "seen", words: marked ? "not in any result of this conversation" : "from Python, call 1, line 2", source: null, marked };
}

function answer(html: string): HTMLElement {
  const node = document.createElement("div");
  node.innerHTML = html;
  return node;
}

const marks = (node: HTMLElement): string[] => [...node.querySelectorAll(".unsourced")].map((mark) => mark.textContent);

const none = (): HTMLElement[] => [];

describe("marks", () => {
  it("stand at the number that the kernel means, counted from the end of the answer", () => {
    const node = answer("<div class='prose'><p>412 rows first</p></div><div class='prose'><p>412 and <b>412</b>, not 9.75 %</p></div>");
    markNumbers(node, [said("412", 1), said("9.75 %", 0)], none);
    expect(marks(node)).toEqual(["412", "9.75 %"]);
    expect(node.querySelector(".unsourced")?.nextSibling?.textContent).toBe(" and ");
    expect(node.textContent).toBe("412 rows first412 and 412, not 9.75 %");
  });

  it("leave code, formulas and thinking alone", () => {
    const node = answer("<details class='thinking'><div class='prose'>412</div></details><div class='prose'><code>412</code> 412</div>");
    markNumbers(node, [said("412", 0)], none);
    expect(node.querySelector(".unsourced")?.previousElementSibling?.localName).toBe("code");
    markNumbers(node, [said("412", 5)], none);
    expect(marks(node)).toEqual([]);
  });

  it("mark two numbers of one text", () => {
    const node = answer("<div class='prose'>from 184 to 97 and 53 %</div>");
    markNumbers(node, [said("184", 0), said("97", 0), said("53 %", 0, false)], none);
    expect(marks(node)).toEqual(["184", "97"]);
    expect(node.querySelectorAll(".claim").length).toBe(3);
  });
});

it("says how many have a source", () => {
  expect(summary([said("1", 0), said("2", 0, false)])).toBe("1 of 2 numbers traced");
  expect(summary([said("2", 0, false)])).toBe("1 of 1 number traced");
});

it("has what was computed for a number since", () => {
  const found = { words: "computed as 12.2 in Python, call 7", source: { quote: "check 1 12.2", call: "7", cell: "", path: "" } };
  const numbers = [said("7", 0, false), said("12.2 %", 0), said("3,100", 0)];
  const [first, second, third] = renewed(numbers, { answer: "a", numbers: [{ number: 1, agrees: true, ...found }, { number: 2, agrees: false, ...found }] });
  expect(first?.marked).toBe(false);
  expect([second?.verdict, second?.marked, second?.words]).toEqual(["seen", false, found.words]);
  expect([third?.verdict, third?.marked, third?.words]).toEqual(["not_found", true, `not found; ${found.words}`]);
});

function inList({ list }: Numbers, name: string): HTMLButtonElement | undefined {
  return [...list.querySelectorAll("button")].find((node) => node.textContent === name);
}

describe("an answer", () => {
  const place = { quote: "mean   2.4", call: "t1", cell: "", path: "" };
  function shown(): { items: HTMLElement; store: TranscriptStore; host: HTMLElement; numbers: ReturnType<typeof numbersOf> } {
    const items = answer("<div class='prose'><p>It is 2.4, not 31.8 %.</p></div><div class='tool'><details><summary>Python</summary><pre>mean   2.4</pre></details></div>");
    const host = document.body.appendChild(document.createElement("div"));
    host.append(items);
    const store = new TranscriptStore();
    const numbers = numbersOf({ store, host }, items, () => items.querySelector<HTMLElement>(".tool") ?? undefined, () => undefined);
    store.numbers = { op: "numbers", answer: "a1", check: "Check 1 number", numbers: [{ ...said("2.4", 0, false), source: place }, said("31.8 %", 0)], checked: null };
    numbers.update();
    return { items, store, host, numbers };
  }

  const press = (node: Element | undefined, key: string): void => {
    node?.dispatchEvent(new KeyboardEvent("keydown", { key }));
  };

  it("has one stop of the keyboard for its numbers, named with their sources, and Enter shows the source", () => {
    const { items, numbers } = shown();
    const [first, second] = items.querySelectorAll<HTMLElement>(".claim");
    expect(first?.getAttribute("aria-label")).toBe("2.4, from Python, call 1, line 2");
    expect([first, second].map((each) => each?.tabIndex)).toEqual([-1, 0]);
    second?.focus();
    press(second, "ArrowLeft");
    expect(document.activeElement).toBe(first);
    press(first, "Enter");
    const card = items.querySelector(".claim-source");
    expect(card?.textContent).toContain("from Python, call 1, line 2");
    expect(card?.previousElementSibling?.localName).toBe("p");
    card?.querySelector("button")?.click();
    expect(items.querySelector<HTMLDetailsElement>(".tool details")?.open).toBe(true);
    press(first, "Escape");
    expect(items.querySelector(".claim-source")).toBeNull();
    numbers.dispose();
  });

  it("marks what the page finds stale, says so to a screen reader, and asks to write the answer anew", () => {
    offerPageActions();
    const { items, host, numbers } = shown();
    const asked: unknown[] = [];
    host.addEventListener(ACTION_EVENT, (event) => asked.push((event as CustomEvent).detail));
    const refresh = numbers.buttons[1];
    expect(refresh?.hidden).toBe(true);
    showStale([{ answer: "a1", numbers: [{ text: "2.4", from_end: 0, words: "cell [3] gave 2.4 then, 2.6 now", cell: "c3", path: "" }], refresh: "Write it anew" }]);
    const stale = items.querySelector<HTMLElement>(".stale");
    expect(stale?.getAttribute("aria-label")).toBe("2.4, stale: cell [3] gave 2.4 then, 2.6 now");
    expect(stale?.tabIndex).toBe(0);
    expect(numbers.buttons[0]?.textContent).toBe("0 of 2 numbers traced, 1 stale");
    press(stale ?? undefined, "Enter");
    expect(items.querySelector(".claim-source")?.textContent).toBe("2.4 stale: cell [3] gave 2.4 then, 2.6 nowGo to cell");
    refresh?.click();
    expect(asked).toEqual([{ action: "refresh", answer: "a1", prompt: { title: "Refresh 1 number", instructions: "Write it anew" } }]);
    showStale([], ["a1"]);
    expect(items.querySelector(".stale")).toBeNull();
    expect(refresh?.hidden).toBe(true);
    numbers.dispose();
  });

  it("marks names that nothing has, in code style and in words, with their reason", () => {
    const items = answer("<div class='prose'><p>The column <code>wage</code>, the column <code>wage</code> and cell [9].</p><pre><code>wage</code></pre></div>");
    const store = new TranscriptStore();
    const numbers = numbersOf({ store, host: items }, items, () => undefined, () => undefined);
    const words = "no column of this name in anything that this conversation saw";
    store.numbers = { op: "numbers", answer: "a3", check: "", numbers: [], checked: null, names: [{ text: "wage", from_end: 1, words, code: true }, { text: "cell [9]", from_end: 0, words: "none", code: false }] };
    numbers.update();
    expect(marks(items)).toEqual(["wage", "cell [9]"]);
    expect(items.querySelector(".unsourced")?.nextSibling?.textContent).toBe(", the column ");
    expect(items.querySelector(".unsourced")?.getAttribute("aria-label")).toBe(`wage, ${words}`);
    expect(numbers.buttons[0]?.textContent).toBe("2 names not found");
    numbers.dispose();
  });

  it("asks Claude to check those that were not found, and takes the marks back once they are computed", () => {
    offerPageActions();
    const { items, store, host, numbers } = shown();
    const asked: unknown[] = [];
    host.addEventListener(ACTION_EVENT, (event) => asked.push((event as CustomEvent).detail));
    inList(numbers, "Check these")?.click();
    expect(asked).toEqual([{ action: "ask", prompt: "Check 1 number" }]);
    store.numbers = { op: "numbers", answer: "a2", check: "", numbers: [], checked: { answer: "a1", numbers: [{ number: 1, agrees: true, words: "computed", source: place }] } };
    const other = numbersOf({ store, host }, answer(""), () => undefined, () => undefined);
    other.update();
    expect(marks(items)).toEqual([]);
    expect(numbers.buttons[0]?.textContent).toBe("2 of 2 numbers traced");
    for (const each of [numbers, other]) each.dispose();
  });

  it("offers to test numbers that code gave, by a command that the user sends", () => {
    offerPageActions();
    const { host, store, numbers } = shown();
    store.items.push({ kind: "text", block: 0, text: "It **is** 2.4, not 31.8 %.", open: false, revision: 0 });
    const asked: unknown[] = [];
    host.addEventListener(ACTION_EVENT, (event) => asked.push((event as CustomEvent).detail));
    inList(numbers, "Test stability")?.click();
    expect(asked).toEqual([{ action: "command", command: "/stability answer=\"It is 2 4 not 31 8\"" }]);
    numbers.dispose();
  });
});
