import { describe, expect, it } from "vitest";

import { closeOpenMarks, Markdown } from "../../../src/transcript/markdown/markdown";

/** What is drawn, without the colours of code, which come when a frame has time for them. */
function looks(node: HTMLElement): string {
  return node.innerHTML.replace(/<span class="tok-\w+">([^<]*)<\/span>/g, "$1");
}

function whole(source: string): string {
  const node = document.createElement("div");
  new Markdown(node).update(source, false);
  return looks(node);
}

const SAMPLES: Record<string, string> = {
  prose: "First **bold** and *soft* words.\nStill the first.\n\nSecond `code` ~~gone~~ [link](https://a.example/b).\n\n\n## Head\nThird",
  lists: "- a\n- b\n  - c\n\n    d\n- e\n\npara\n\n1. x\n\n2. y\n   z\n\n   ```py\n   1\n   ```\n3. w\n\n* other\n+ third\n\nend",
  code: "Before\n```py\nx = 1\n\ny = 2\n```\nAfter\n\n~~~\nraw ``` inside\n~~~\n\n    indented\n\n    more\n\nend",
  table: "Intro\n\n| a | b |\n|---|:-:|\n| 1 | `2|` |\n| **3** | 4 |\n\nOutro | with | pipes\n",
  quotes: "> one\n> two\n\n> three\n\ntext\n> lazy\ncontinued\n\n---\n\nTitle\n===\n\nx",
  references: "See [docs] and [the docs][docs].\n\nMore text here.\n\n[docs]: https://a.example/x 'T'\n\nAgain [docs].\n",
  html: "<div>\nraw\n\n</div>\n\n<!-- open\n\ncomment -->\n\ntext <b>x</b> &amp; &lt;\n\n<script>\n1\n\n</script>\n\nend",
  windows: "one\r\ntwo\r\n\r\n- a\r\n- b\r\n\r\n```\r\ncode\r\n```\r\nend\r\n",
  tasks: "- [x] done **b**\n- [ ] to [do](https://a.example)\n  - [ ] below\n\npara\n\n- [x] loose\n\n- [ ] more\n\n  text\n- [ ]\n",
  marks: "a * b * c ** d\n\n**kw** and *a **b** c*\n\n`` a ` b `` \\*x\\* ***both***\n\n_under_ __score__ $a_1$ 5 * 3\n",
};

it("has lists and quotes begin where their text does", () => {
  const node = document.createElement("div");
  new Markdown(node).update("- \u05d0\u05d7\u05d3\n\n1. one\n\n> \u05d0", false);
  expect([...node.children].map(({ localName, attributes }) => [localName, attributes.getNamedItem("dir")?.value])).toEqual([["ul", "auto"], ["ol", "auto"], ["blockquote", "auto"]]);
});

it("names the box of a task by its words", () => {
  const node = document.createElement("div");
  new Markdown(node).update(SAMPLES.tasks ?? "", false);
  const names = [...node.querySelectorAll("input")].map((box) => box.closest("label")?.textContent.trim());
  expect(names).toEqual(["done b", "to do", "below", "loose", "more"]);
});

describe("what was streamed is what would have been drawn at once", () => {
  it.each(Object.entries(SAMPLES))("%s, cut at every place", (_, source) => {
    const expected = whole(source);
    for (let cut = 0; cut <= source.length; cut++) {
      const node = document.createElement("div");
      const markdown = new Markdown(node);
      markdown.update(source.slice(0, cut), true);
      markdown.update(source, true);
      markdown.update(source, false);
      expect(looks(node), `cut at ${cut}`).toBe(expected);
    }
  });

  it.each(Object.entries(SAMPLES))("%s, in steps of 1 to 7 characters, and on the way", (name, source) => {
    for (let step = 1; step <= 7; step++) {
      const node = document.createElement("div");
      const markdown = new Markdown(node);
      for (let end = step; end < source.length; end += step) {
        const sofar = source.slice(0, end);
        markdown.update(sofar, true);
        // a definition that comes late is taken up at the end
        if (name === "references" || name === "windows") continue;
        expect(looks(node), `after ${JSON.stringify(sofar.slice(-30))}`).toBe(whole(closeOpenMarks(sofar)));
      }
      markdown.update(source, false);
      expect(looks(node), `steps of ${step}`).toBe(whole(source));
    }
  });
});

describe("whatever comes, in whatever pieces", () => {
  const PARTS = [
    "word ", "**", "*", "`", "```", "\n", "\n\n", "- ", "1. ", "> ", "    ", "| a | b |\n|---|---|\n", "| x | y |\n", "# H", "---", "<div>",
    "<!--", "-->", "[a](http://b.c)", "![i](", ")", "[", "]: u", "\\", "&amp;", "$", "~~", "~~~", "\t", "<pre>", "\r\n", "\n- x\n", "\n\npara\n",
  ];

  it("ends as if it had been drawn at once", () => {
    let seed = 7;
    const below = (limit: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
      return Math.floor((seed / 2 ** 31) * limit);
    };
    for (let round = 0; round < 200; round++) {
      const source = Array.from({ length: 5 + below(40) }, () => PARTS[below(PARTS.length)]).join("");
      const node = document.createElement("div");
      const markdown = new Markdown(node);
      for (let end = 1; end < source.length; end += 1 + below(6)) markdown.update(source.slice(0, end), true);
      markdown.update(source, false);
      expect(looks(node), JSON.stringify(source)).toBe(whole(source));
    }
  });
});

describe("what is settled stays", () => {
  it("keeps finished blocks, growing code and the items of a growing list", () => {
    const node = document.createElement("div");
    const markdown = new Markdown(node);
    let source = "First paragraph.\n\nSecond.\n\n```py\nx";
    markdown.update(source, true);
    const [first, code] = [node.querySelector("p"), node.querySelector("code")];
    source += " = 1\ny = 2\n```\n\n- one\n- two\n";
    markdown.update(source, true);
    const item = node.querySelector("li");
    source += "- three";
    markdown.update(source, true);
    markdown.update(source, false);
    expect(node.querySelector("p")).toBe(first);
    expect(node.querySelector("code")).toBe(code);
    expect(code?.textContent).toBe("x = 1\ny = 2");
    expect(node.querySelector("li")).toBe(item);
    expect(node.querySelectorAll("li")).toHaveLength(3);
  });

  it("keeps the rows of a growing table, and of each that is new draws it alone", () => {
    const node = document.createElement("div");
    const markdown = new Markdown(node);
    let source = "| a | b |\n|---|--:|\n| 1 | **2** |\n| 3 | 4 |\n";
    markdown.update(source, true);
    const [head, first] = [node.querySelector("thead"), node.querySelector("tbody tr")];
    for (let row = 0; row < 20; row++) {
      source += `| ${row} | **bo`;
      markdown.update(source, true);
      source += `ld** |\n`;
      markdown.update(source, true);
    }
    expect(node.querySelector("thead")).toBe(head);
    expect(node.querySelector("tbody tr")).toBe(first);
    expect(node.querySelectorAll("tbody tr")).toHaveLength(22);
    expect(looks(node)).toBe(whole(source));
    markdown.update("| a | c |\n|---|---|\n| 1 | 2 |\n", false);
    expect(looks(node)).toBe(whole("| a | c |\n|---|---|\n| 1 | 2 |\n"));
  });

  it("draws a long answer without drawing it again and again", () => {
    const node = document.createElement("div");
    const markdown = new Markdown(node);
    const paragraph = "Some words of **an answer** that is long, with `code` in it.\n\n";
    let source = "";
    let made = 0;
    const observer = new MutationObserver((records) => {
      made += records.reduce((sum, record) => sum + record.addedNodes.length, 0);
    });
    observer.observe(node, { childList: true });
    for (let part = 0; part < 300; part++) {
      source += paragraph;
      markdown.update(source, true);
    }
    for (const record of observer.takeRecords()) made += record.addedNodes.length;
    // a paragraph and the space after it, each perhaps once more while they were the tail
    expect(made).toBeLessThan(300 * 5);
    expect(node.querySelectorAll("p")).toHaveLength(300);
  });
});

describe("marks that are still open", () => {
  it.each([
    ["a **bol", "a **bol**"],
    ["a **bold *soft", "a **bold *soft***"],
    ["a **", "a "],
    ["use `cod", "use `cod`"],
    ["`a ** b", "`a ** b`"],
    ["- item\n* ", "- item\n* "],
    ["2 * 3", "2 * 3"],
    ["[docs](https://exa", "docs"],
    ["done **here**\n\nnext *x", "done **here**\n\nnext *x*"],
    ["```py\nx = '**", "```py\nx = '**"],
    ["\\*not", "\\*not"],
    ["**bold ", "**bold**"],
  ])("%j reads as %j", (source, expected) => {
    expect(closeOpenMarks(source)).toBe(expected);
  });
});
