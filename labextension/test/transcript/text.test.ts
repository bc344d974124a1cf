import { describe, expect, it } from "vitest";

import DOLLARS from "../../../tests/shared/dollars.json";
import { changeCounts, diffView, parseDiff } from "../../src/transcript/cards/diff";
import { terminalText } from "../../src/transcript/cards/tool_card";
import { count, dollars, duration, wholeSeconds } from "../../src/transcript/format";
import { revealed, visibleText } from "../../src/transcript/visible_text";

describe("what would deceive is written out", () => {
  it.each([
    ["rm \u202Egnp.exe", "rm ⟦U+202E⟧gnp.exe"],
    ["a\u200Bb\u2060c\uFEFFd", "a⟦U+200B⟧b⟦U+2060⟧c⟦U+FEFF⟧d"],
    ["a\u00A0b\u2003c\u3000d", "a⟦U+00A0⟧b⟦U+2003⟧c⟦U+3000⟧d"],
    ["\u001b[31m\u0000\u007f\u0085\r", "⟦U+001B⟧[31m⟦U+0000⟧⟦U+007F⟧⟦U+0085⟧⟦U+000D⟧"],
    ["x\u2028y\u2029z", "x⟦U+2028⟧y⟦U+2029⟧z"],
    ["tag\u{E0041}\u{E007F}", "tag⟦U+E0041⟧⟦U+E007F⟧"],
    ["soft\u00ADhyphen \u3164filler \u2800blank", "soft⟦U+00AD⟧hyphen ⟦U+3164⟧filler ⟦U+2800⟧blank"],
    ["lone \uD800 half", "lone ⟦U+D800⟧ half"],
    ["e\uFE0F is no emoji, a\u200Db neither", "e⟦U+FE0F⟧ is no emoji, a⟦U+200D⟧b neither"],
    ["tab\tand\nline, é, 漢字, עברית, ⚠\uFE0F, 👩\u200D🔬", "tab\tand\nline, é, 漢字, עברית, ⚠\uFE0F, 👩\u200D🔬"],
  ])("%j", (text, expected) => {
    expect(revealed(text)).toBe(expected);
    expect(visibleText(text).textContent).toBe(expected);
  });

  it("is marked", () => {
    const marks = visibleText("a\u202Eb\u202Cc").querySelectorAll("mark");
    expect([...marks].map((mark) => mark.textContent)).toEqual(["⟦U+202E⟧", "⟦U+202C⟧"]);
  });
});

describe("what a program wrote for a terminal", () => {
  it.each([
    ["\u001b[1;31mred\u001b[0m plain", "red plain"],
    ["\u001b]8;;https://x.example\u0007link\u001b]8;;\u001b\\", "link"],
    ["10 %\r50 %\r100 %\ndone\r\n", "100 %\ndone\n"],
    ["50 %\r", "50 %"],
    ["bell\u0007 null\u0000", "bell null"],
  ])("%j", (text, expected) => {
    expect(terminalText(text)).toBe(expected);
  });
});

describe("diffs", () => {
  const numbered = (diff: string): unknown[] => parseDiff(diff).map(({ kind, old, new: now, text }) => [kind, old, now, text]);

  it("have line numbers on both sides", () => {
    expect(numbered("--- a/x\n+++ b/x\n@@ -3,2 +3,3 @@ def f():\n same\n-old\n+new\n+more\n@@ -9 +10 @@ def g():\n-a\n+b\n")).toEqual([
      ["same", 3, 3, "same"],
      ["removed", 4, null, "old"],
      ["added", null, 4, "new"],
      ["added", null, 5, "more"],
      ["hunk", null, null, "def g():"],
      ["removed", 9, null, "a"],
      ["added", null, 10, "b"],
    ]);
  });

  it("keep content that looks like a header", () => {
    expect(numbered("--- a\n+++ b\n@@ -1,2 +1,2 @@\n--- x\n+++ y\n @@ -1 +1 @@\n")).toEqual([
      ["removed", 1, null, "-- x"],
      ["added", null, 1, "++ y"],
      ["same", 2, 2, "@@ -1 +1 @@"],
    ]);
  });

  it("name the files where there are several, and show what is no diff", () => {
    const kinds = parseDiff("--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n\\ No newline at end of file\n--- c\n+++ d\n@@ -0,0 +1 @@\n+z\nBinary files differ\n");
    expect(kinds.map(({ kind, text }) => [kind, text])).toEqual([
      ["file", "b"], ["removed", "x"], ["added", "y"], ["remark", "No newline at end of file"],
      ["file", "d"], ["added", "z"], ["remark", "Binary files differ"],
    ]);
  });

  it("show carriage returns only where line ends differ", () => {
    expect(diffView("--- a\n+++ b\n@@ -1 +1 @@\n-x\r\n+y\r\n").textContent).not.toContain("U+000D");
    expect(diffView("--- a\n+++ b\n@@ -1 +1 @@\n-x\n+x\r\n").textContent).toContain("x⟦U+000D⟧");
  });

  it("of many lines are folded, and unfold", () => {
    const diff = `--- a\n+++ b\n@@ -0,0 +1,60 @@\n${"+x\n".repeat(60)}`;
    const node = diffView(diff, 40);
    expect(node.querySelectorAll(".line")).toHaveLength(40);
    const more = node.querySelector("button");
    expect(more?.textContent).toBe("Show all 60 lines (+60 −0)");
    more?.click();
    expect(node.querySelectorAll(".line")).toHaveLength(60);
    expect(node.querySelector("button")).toBeNull();
  });

  it("tell additions from removals by sign as well", () => {
    const node = diffView("--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n");
    expect([...node.querySelectorAll(".sign")].map((sign) => sign.textContent)).toEqual(["−", "+"]);
    // and by a name, which is read before the line
    expect([...node.querySelectorAll("[role='img']")].map((sign) => sign.ariaLabel ?? sign.getAttribute("aria-label"))).toEqual(["removed, line 1", "added, line 1"]);
    expect(node.querySelector("pre")?.getAttribute("aria-label")).toBe("Changes +1 −1");
    expect(changeCounts([])).toBe("+0 −0");
  });
});

describe("numbers", () => {
  it.each([[0.0042, "4 ms"], [2.345, "2.3 s"], [9.97, "10 s"], [65.2, "1 min 5 s"], [7384, "2 h 3 min"]])("%d seconds", (seconds, expected) => {
    expect(duration(seconds)).toBe(expected);
  });

  it("clocks count whole seconds, never below zero", () => {
    expect([wholeSeconds(-3), wholeSeconds(59.6), wholeSeconds(0.2)]).toEqual(["0 s", "1 min 0 s", "0 s"]);
  });

  it.each(DOLLARS as [number, string][])("%d dollars, as Python writes them", (amount, expected) => {
    expect(dollars(amount)).toBe(expected);
  });

  it.each([[950, "950"], [5230, "5.2k"], [99_960, "100k"], [999_600, "1.0M"], [12_000_000, "12M"]])("%d tokens", (number, expected) => {
    expect(count(number)).toBe(expected);
  });
});
