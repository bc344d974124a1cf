/** Buttons on blocks of code: which cell a block becomes, where it goes, and what is said where it cannot. */

import { Notification } from "@jupyterlab/apputils";
import { Signal } from "@lumino/signaling";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { cellForCode, languageOf } from "../../src/notebook/cell_language";
import { codeActionsPlugin } from "../../src/notebook/code_actions";
import { codeBlock, codeBlocks, finishCodeBlock } from "../../src/transcript/markdown/code_block";
import { Markdown } from "../../src/transcript/markdown/markdown";
import { settled } from "../sidebar/panel_scene";
import { standIn } from "../support/stand_in";
import { code, markdown, OneSharedNotebook } from "./shared_notebook";

const shown = (Notification as unknown as { shown: string[] }).shown;

describe("which cell a block becomes", () => {
  const rows: [language: string, text: string, kernel: string, type: string, source: string][] = [
    ["python", "x = 1\n", "python", "code", "x = 1"],
    ["py", "x = 1", "python", "code", "x = 1"],
    ["Python3", "x = 1", "python", "code", "x = 1"],
    ["", "x = 1", "python", "code", "x = 1"],
    ["bash", "ls -l", "python", "code", "%%bash\nls -l"],
    ["sh", "ls -l", "python", "code", "%%sh\nls -l"],
    ["console", "$ cd tides\n$ ls\na.py\nb.py", "python", "code", "%%bash\ncd tides\nls"],
    ["html", "<b>hi</b>", "python", "code", "%%html\n<b>hi</b>"],
    ["markdown", "# Tides\n", "python", "markdown", "# Tides"],
    ["json", "{}", "python", "markdown", "```json\n{}\n```"],
    ["diff", "+ a\n````", "python", "markdown", "`````diff\n+ a\n````\n`````"],
    ["r", "x <- 1", "R", "code", "x <- 1"],
    ["bash", "ls", "R", "markdown", "```bash\nls\n```"],
    ["python", "x = 1", "julia", "markdown", "```python\nx = 1\n```"],
    ["js", "let x", "javascript", "code", "let x"],
  ];
  it.each(rows)("%s", (language, text, kernel, cell_type, source) => {
    expect(cellForCode(language, text, kernel)).toEqual({ cell_type, source });
  });

  it("depends on the kernel's language, which a new notebook names in its kernel's description alone", () => {
    const model = (metadata: Record<string, unknown>) => ({ getMetadata: (key: string) => metadata[key] });
    expect(languageOf(model({}))).toBe("python");
    expect(languageOf(model({ language_info: { name: "" }, kernelspec: { language: "R" } }))).toBe("R");
    expect(languageOf(model({ language_info: { name: "julia" }, kernelspec: { language: "python" } }))).toBe("julia");
  });
});

/** A notebook in a page, and the page. */
class Page {
  readonly shared = new OneSharedNotebook(code("a", "x = 1"), code("b", "y = 2", { execution_count: 3 }), markdown("c", "text"));
  readonly executed: [command: string, args: unknown][] = [];
  readonly activated: string[] = [];
  readonly currentChanged = new Signal<this, unknown>(this);
  readonly activeCellChanged = new Signal<this, unknown>(this);
  readonly model = { sharedModel: this.shared, readOnly: false, getMetadata: () => undefined };
  readonly content = { model: this.model as Page["model"] | null, activeCellIndex: 0, mode: "edit", activate: () => void this.activated.push("content"), scrollToItem: () => Promise.resolve() };
  current: unknown = { id: "notebook-1", content: this.content, context: { path: "tides/n.ipynb" } };

  readonly injected: string[] = [];
  consoleReady: () => void = () => undefined;

  constructor(name = "JupyterLab", commands = ["console:open"]) {
    const tracker = { currentChanged: this.currentChanged, activeCellChanged: this.activeCellChanged };
    Object.defineProperty(tracker, "currentWidget", { get: () => this.current });
    const app = {
      name,
      shell: { activateById: (id: string) => void this.activated.push(id) },
      commands: {
        hasCommand: (id: string) => commands.includes(id),
        execute: (id: string, args: unknown) => {
          this.executed.push([id, args]);
          const ready = new Promise<void>((resolve) => { this.consoleReady = resolve; });
          const inject = (code: string): Promise<void> => Promise.resolve(void this.injected.push(code));
          return Promise.resolve({ sessionContext: { ready }, console: { inject } });
        },
      },
    };
    void codeActionsPlugin.activate(standIn(app), tracker, null);
  }

  /** Another notebook, or none, is the current one. */
  go(current: unknown): void {
    this.current = current;
    this.currentChanged.emit(null);
  }

  get cells(): [string, string][] {
    return this.shared.cells.map((cell) => [cell.cell_type, cell.getSource()]);
  }
}

const buttons = (block: HTMLElement): HTMLElement[] => [...block.querySelectorAll<HTMLElement>("figcaption button")];
const button = (block: HTMLElement, label: string): HTMLElement => {
  const found = buttons(block).find((each) => each.textContent === label);
  if (!found) throw new Error(`there is no button ${label}`);
  return found;
};

function block(text = "z = 3\n", language = "python"): HTMLElement {
  const node = codeBlock(text, language);
  finishCodeBlock(node);
  document.body.replaceChildren(node);
  return node;
}

beforeEach(() => {
  shown.length = 0;
});

afterEach(() => {
  codeBlocks.actions = () => ({ nodes: [], update: () => undefined });
});

describe("insert", () => {
  it("puts the code below the active cell, as one step that can be undone, and goes there", async () => {
    const page = new Page();
    const node = block();
    button(node, "Insert").click();
    await settled();
    expect(page.cells).toEqual([["code", "x = 1"], ["code", "z = 3"], ["code", "y = 2"], ["markdown", "text"]]);
    expect(page.content.activeCellIndex).toBe(1);
    expect([page.content.mode, page.activated]).toEqual(["command", ["notebook-1", "content"]]);
    expect(page.shared.origins).toHaveLength(1);
    expect(page.shared.undoManager.trackedOrigins).toContain(page.shared.origins[0]);
    expect(buttons(node)[0]?.textContent).toBe("Inserted");
    block("w = 4").querySelector<HTMLElement>("figcaption button")?.click();
    expect(page.cells[2]).toEqual(["code", "w = 4"]);
  });

  it("puts what the block holds by then", async () => {
    const page = new Page();
    const node = block("z");
    const held = node.querySelector("code");
    if (held) held.textContent = "z = 30";
    button(node, "Insert").click();
    await settled();
    expect(page.cells[1]).toEqual(["code", "z = 30"]);
  });

  it("waits until the code is complete, in its place", async () => {
    const page = new Page();
    const answer = document.createElement("div");
    document.body.replaceChildren(answer);
    const markdown = new Markdown(answer);
    markdown.update("```python\nz = 3\n", true);
    const insert = button(answer, "Insert");
    expect([insert.hidden, insert.getAttribute("aria-disabled")]).toEqual([false, "true"]);
    expect(insert.title).toBe("Insert below the active cell of the notebook. Wait until the code is complete.");
    insert.click();
    await settled();
    expect([page.cells.length, shown]).toEqual([3, ["Wait until the code is complete."]]);
    markdown.update("```python\nz = 3\nw = 4\n```", true);
    expect(insert.getAttribute("aria-disabled")).toBe("true");
    markdown.update("```python\nz = 3\nw = 4\n```\n", true);
    expect([insert.isConnected, insert.getAttribute("aria-disabled"), insert.title]).toEqual([true, "false", "Insert below the active cell of the notebook"]);
    insert.click();
    await settled();
    expect(page.cells[1]).toEqual(["code", "z = 3\nw = 4"]);
  });

  it.each(["~~~\na\n```\n", "````\na\n```\n", "    a\n", "```\n"])("waits while %j is open", (source) => {
    new Page();
    const answer = document.createElement("div");
    document.body.replaceChildren(answer);
    new Markdown(answer).update(source, true);
    expect(button(answer, "Insert").getAttribute("aria-disabled")).toBe("true");
  });

  it("says why it cannot, by mouse and keyboard, and can when a notebook has come", async () => {
    const page = new Page();
    page.go(null);
    const node = block();
    const insert = button(node, "Insert");
    expect([insert.getAttribute("aria-disabled"), insert.title]).toEqual(["true", "Insert below the active cell of the notebook. Open a notebook first."]);
    insert.click();
    await settled();
    expect(shown).toEqual(["Open a notebook first."]);
    page.go({ id: "notebook-1", content: page.content, context: { path: "tides/n.ipynb" } });
    expect(insert.getAttribute("aria-disabled")).toBe("false");
    Object.assign(page.model, { readOnly: true });
    insert.focus();
    expect(insert.title).toContain("The notebook is open read-only.");
    insert.click();
    await settled();
    expect(page.cells).toHaveLength(3);
  });
});

describe("replace", () => {
  it("takes the active cell's place, and its old output with it", async () => {
    const page = new Page();
    page.content.activeCellIndex = 1;
    button(block(), "Replace").click();
    await settled();
    expect(page.cells[1]).toEqual(["code", "z = 3"]);
    expect(page.shared.cells[1]?.execution_count).toBeNull();
    expect(page.shared.cells[1]?.id).toBe("b");
    expect(page.shared.undoManager.trackedOrigins).toContain(page.shared.origins[0]);
  });

  it("makes another kind of cell where the block is of another kind", async () => {
    const page = new Page();
    page.content.activeCellIndex = 2;
    button(block(), "Replace").click();
    await settled();
    expect(page.cells[2]).toEqual(["code", "z = 3"]);
  });

  it("leaves a cell that runs, or is locked, as it is, and says so", async () => {
    const page = new Page();
    Object.assign(page.shared.cells[0] ?? {}, { executionState: "running" });
    button(block(), "Replace").click();
    await settled();
    Object.assign(page.shared.cells[1] ?? {}, { metadata: { editable: false } });
    page.content.activeCellIndex = 1;
    button(block(), "Replace").click();
    await settled();
    expect(page.cells.slice(0, 2)).toEqual([["code", "x = 1"], ["code", "y = 2"]]);
    expect(shown).toEqual([
      "Cell a is running, or waits to be run: it can be changed when it has ended.",
      "The active cell can't be edited.",
    ]);
  });
});

describe("run in console", () => {
  it("opens the notebook's console and sends the code when that has its session", async () => {
    const page = new Page();
    button(block("ls", "bash"), "Console").click();
    await settled();
    expect(page.executed).toEqual([
      ["console:open", { path: "tides/n.ipynb", activate: false, insertMode: "split-bottom", ref: "notebook-1" }],
    ]);
    expect(page.injected).toEqual([]);
    page.consoleReady();
    await settled();
    expect(page.injected).toEqual(["%%bash\nls"]);
  });

  it.each([
    ["where there are no consoles", "JupyterLab", [], "python"],
    ["in Jupyter Notebook", "Jupyter Notebook", ["console:open"], "python"],
    ["for what no kernel can run", "JupyterLab", ["console:open"], "json"],
  ])("is not offered %s", (_, name, commands, language) => {
    new Page(name, commands);
    expect(button(block("{}", language), "Console").hidden).toBe(true);
  });
});

it("in a cell only what makes sense there is shown: the rest waits for the panel's style", () => {
  new Page();
  const labels = buttons(block()).map((each) => [each.textContent, each.classList.contains("panel-only")]);
  expect(labels).toEqual([["Insert", false], ["Replace", true], ["Console", true], ["Copy", false]]);
});

it("without the extension there is Copy alone", () => {
  expect(buttons(block()).map((each) => each.textContent)).toEqual(["Copy"]);
});
