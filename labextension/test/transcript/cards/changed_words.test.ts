import { describe, expect, it } from "vitest";

import { changedWords } from "../../../src/transcript/cards/changed_words";

/** The lines, what changed in brackets. */
function marked(removed: string[], added: string[]): [string[], string[]] {
  const found = changedWords(removed, added);
  const mark = (lines: string[], pieces: typeof found.added): string[] =>
    lines.map((line, index) => {
      const cuts = pieces.get(index) ?? [];
      return cuts.reduceRight((text, { from, to }) => `${text.slice(0, from)}[${text.slice(from, to)}]${text.slice(to)}`, line);
    });
  return [mark(removed, found.removed), mark(added, found.added)];
}

describe("the words that changed", () => {
  it.each<[string, string[], string[], [string[], string[]]]>([
    ["added at the end", ["range(n - w)"], ["range(n - w + 1)"], [["range(n - w)"], ["range(n - w[ + 1])"]]],
    ["in the middle", ["a = old_name(1)"], ["a = new_name(1)"], [["a = [old_name](1)"], ["a = [new_name](1)"]]],
    ["a line that is new as a whole has none", ["import os"], ["x = compute()"], [["import os"], ["x = compute()"]]],
    ["a line more: the one that became the other is found", ["total = a + b"], ["check(a)", "total = a + c"], [["total = a + [b]"], ["check(a)", "total = a + [c]"]]],
    ["characters of one emoji stay together", ["say('👩‍🔬 hello there')"], ["say('👩‍🚀 hello there')"], [["say('[👩‍🔬] hello there')"], ["say('[👩‍🚀] hello there')"]]],
  ])("%s", (_, removed, added, expected) => {
    expect(marked(removed, added)).toEqual(expected);
  });
});
