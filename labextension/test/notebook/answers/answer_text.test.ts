/** What search and copying read of an answer. */

import { describe, expect, it } from "vitest";

import { blocksOf, rangeIn } from "../../../src/notebook/answers/answer_text";
import { copiedText } from "../../../src/notebook/answers/answer_copy";
import { markdownOf } from "../../../src/notebook/answers/copied_markdown";
import { Markdown } from "../../../src/transcript/markdown/markdown";
import { element } from "../../../src/transcript/dom";

const SOURCE = `## Tides

The **tide** rises with \`moon\`, [see](https://example.org/) *this*.

- one
- two
  1. deep

\`\`\`python
import moon
moon.rise()
\`\`\`

| hour | tide |
| --- | --- |
| 1 | 0.5 |

> said

- [x] done`;

function drawn(source: string): HTMLElement {
  const node = element("div", { class: "prose" });
  new Markdown(node).update(source, false);
  document.body.replaceChildren(node);
  return node;
}

function selected(node: Node): Range {
  const range = document.createRange();
  range.selectNodeContents(node);
  return range;
}

describe("copying from an answer", () => {
  it("gives the Markdown that Claude wrote, without the buttons of code", () => {
    const node = drawn(SOURCE);
    expect(copiedText(selected(node))).toBe(SOURCE);
  });

  it("gives of code the code alone", () => {
    const code = drawn(SOURCE).querySelector("pre code");
    expect(code && copiedText(selected(code))).toBe("import moon\nmoon.rise()");
  });

  it("gives a formula that is drawn as its source, and leaves out what is hidden", () => {
    const formula = element("span", { class: "math" }, element("span", {}, "x2"));
    formula.dataset.source = "$x^2$";
    const node = element("div", {}, element("p", {}, "It is ", formula, "."), element("p", { hidden: "" }, "no"), element("p", { class: "unseen" }, "no"));
    expect(markdownOf(node)).toBe("It is $x^2$.");
  });
});

describe("the text that search reads", () => {
  it("is one for each block, across bold words and coloured code, and its ranges are in the answer's own text", () => {
    const node = drawn(SOURCE);
    const blocks = blocksOf(node);
    const texts = blocks.map(({ text }) => text);
    expect(texts).toContain("The tide rises with moon, see this.");
    expect(texts).toContain("import moon\nmoon.rise()");
    expect(texts.join("\n")).not.toContain("Copy");
    const block = blocks.find(({ text }) => text.startsWith("The tide"));
    const range = block && rangeIn(block, 2, "e tide r".length);
    expect(range?.toString()).toBe("e tide r");
  });

  it("has no range in what was drawn anew", () => {
    const node = drawn("The **tide** rises.");
    const [block] = blocksOf(node);
    new Markdown(node).update("Other", false);
    node.replaceChildren("Other");
    expect(block && rangeIn(block, 0, 4)).toBeNull();
  });
});
