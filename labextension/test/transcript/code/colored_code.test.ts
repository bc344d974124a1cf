import { afterEach, describe, expect, it, vi } from "vitest";

import { coloredCode, showCode } from "../../../src/transcript/code/colored_code";
import type { CodeParser } from "../../../src/transcript/code/page_abilities";
import { lendAbilities } from "../../../src/transcript/code/page_abilities";

function colors(node: HTMLElement): string[] {
  return [...node.querySelectorAll("[class^=tok-]")].map((each) => `${each.className.slice(4)}: ${each.textContent}`);
}

describe("in a page that lends no parser", () => {
  it.each([
    ["python", 'def f(x):  # why\n    return "a # b", 12\n', ["keyword: def", "comment: # why", "keyword: return", 'string: "a # b"', "number: 12"]],
    ["js", "const a = 1; // one\n/* two\nlines */ let b", ["keyword: const", "number: 1", "comment: // one", "comment: /* two\n", "comment: lines */", "keyword: let"]],
    ["sql", "select 1 -- all", ["keyword: select", "number: 1", "comment: -- all"]],
    ["prose", "for a while", []],
  ])("code in %s has the colours that most languages share", async (language, source, expected) => {
    const node = document.createElement("code");
    showCode(node, source, language);
    await vi.waitFor(() => { expect(colors(node)).toEqual(expected); });
    expect(node.textContent).toBe(source);
  });

  it("a text that grows keeps the nodes of the lines that are the same", async () => {
    const node = document.createElement("code");
    const code = coloredCode(node, "python");
    code.update("x = 1\nde");
    const [first] = node.childNodes;
    code.update("x = 1\ndef f");
    await vi.waitFor(() => { expect(colors(node)).toEqual(["number: 1", "keyword: def"]); });
    expect(node.childNodes[0]).toBe(first);
    expect(node.textContent).toBe("x = 1\ndef f");
  });
});

describe("in a page that lends a parser", () => {
  afterEach(() => { lendAbilities({ language: () => Promise.resolve(null) }); });

  it("that has no time yet, the text is there at once and its colours come later", async () => {
    let parsed = 0;
    const slow: CodeParser = {
      parse: () => ++parsed > 3,
      tokens: (from, _to, put) => { put(from, from + 1, "keyword"); },
    };
    lendAbilities({ language: (name) => Promise.resolve(name === "slow" ? () => slow : null) });
    const node = document.createElement("code");
    showCode(node, "ab", "slow");
    expect([node.textContent, colors(node)]).toEqual(["ab", []]);
    await vi.waitFor(() => { expect(colors(node)).toEqual(["keyword: a"]); });
  });
});
