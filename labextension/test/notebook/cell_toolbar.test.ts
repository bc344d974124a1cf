import { Notification } from "@jupyterlab/apputils";
import { NotebookActions } from "@jupyterlab/notebook";
import { CommandRegistry } from "@lumino/commands";
import { Signal } from "@lumino/signaling";
import { beforeEach, describe, expect, it, vi } from "vitest";

import schema from "../../schema/cell-toolbar.json";
import { isPython } from "../../src/notebook/cell_language";
import { applies, cellToolbarPlugin, questionFor } from "../../src/notebook/cell_toolbar";
import type { Cell, Kernel, Notebook, NotebookModel, Panel } from "../support/cell_shapes";
import { standIn } from "../support/stand_in";

const LOADED = { status: "ok" };

class Outputs {
  types: string[] = [];
  readonly changed = new Signal<this, unknown>(this);

  get length(): number {
    return this.types.length;
  }

  get(index: number): { type: string } {
    return { type: this.types[index] ?? "" };
  }

  set(...types: string[]): void {
    this.types = types;
    this.changed.emit(undefined);
  }
}

/** A cell as JupyterLab has it, in the page. */
class TestCell implements Cell {
  readonly node = document.body.appendChild(document.createElement("div"));
  readonly disposed = new Signal<this, unknown>(this);
  readonly outputs = new Outputs();
  readonly outputArea = { future: null };
  readonly model;

  constructor(id: string, public source: string, type = "code") {
    const contentChanged = new Signal<unknown, unknown>(this);
    const sharedModel = { getSource: (): string => this.source };
    this.model = { executionCount: null as number | null, executionState: "idle", id, type, sharedModel, contentChanged, ...(type === "code" ? { outputs: this.outputs } : {}) };
  }
}

/** The code that was run in cells, with the cell's id. */
const ran: [cell: string, code: string][] = [];

class Scene {
  readonly cells: TestCell[];
  readonly executed: string[] = [];
  readonly commands = new CommandRegistry();
  readonly activeCellChanged = new Signal<this, Cell | null>(this);
  readonly inPalette: string[] = [];
  readonly activate = vi.fn();
  menuAt: Cell | undefined;
  reply: object = LOADED;
  panel: Panel;

  constructor(...cells: TestCell[]) {
    this.cells = cells;
    const metadata: Record<string, unknown> = { kernelspec: { language: "python" }, language_info: { name: "" } };
    const model: NotebookModel = {
      getMetadata: (key) => metadata[key],
      sharedModel: {
        insertCell: (index, { source }) => this.cells.splice(index, 0, new TestCell(`new-${this.cells.length}`, source)),
        deleteCell: (index) => this.cells.splice(index, 1),
      },
    };
    const kernel: Kernel = {
      requestExecute: ({ code, silent }, _, metadata) => {
        if (metadata) {
          ran.push([metadata.cellId, code]);
          return { done: Promise.resolve({ content: { status: "ok", execution_count: ran.length } }) };
        }
        this.executed.push(`${code}${silent ? " silently" : ""}`);
        return { done: Promise.resolve({ content: this.reply as { status: string } }) };
      },
    };
    const cellAt = (index: number): Cell | null => this.cells[index] ?? null;
    const content: Notebook = {
      model,
      widgets: this.cells,
      activeCellIndex: 0,
      mode: "edit",
      get activeCell() {
        return cellAt(this.activeCellIndex);
      },
      activate: this.activate,
    };
    this.panel = { content, sessionContext: { ready: Promise.resolve(), session: { kernel } } };
    const find = (fits: (panel: Panel) => boolean): Panel | undefined => (fits(this.panel) ? this.panel : undefined);
    const tracker = { currentWidget: this.panel, activeCellChanged: this.activeCellChanged, find };
    const palette = { addItem: ({ command }: { command: string }) => this.inPalette.push(command) };
    void cellToolbarPlugin.activate(standIn({ commands: this.commands, contextMenuHitTest: () => this.menuAt?.node }), tracker, palette);
  }

  get sources(): string[] {
    return this.cells.map(({ source }) => source);
  }

  /** The cells in which something was run, by where they stand. */
  get asked(): number[] {
    return ran.map(([id]) => this.cells.findIndex(({ model }) => model.id === id));
  }

  do(action: string): Promise<unknown> {
    return this.commands.execute(`cellwright:${action}-cell`);
  }

  offers(action: string): boolean {
    return this.commands.isVisible(`cellwright:${action}-cell`) && this.commands.isEnabled(`cellwright:${action}-cell`);
  }
}

const actions = NotebookActions as unknown as { executed: Signal<unknown, unknown> };
const notifications = Notification as unknown as { shown: string[] };

beforeEach(() => {
  document.body.replaceChildren();
  ran.length = 0;
  notifications.shown.length = 0;
  Signal.disconnectSender(NotebookActions);
});

describe("which actions a cell offers", () => {
  const cell = (source: string, type: string, ...outputs: string[]): TestCell => {
    const made = new TestCell("a", source, type);
    made.outputs.types = outputs;
    return made;
  };

  it.each([
    ["1 / 0", "code", ["stream", "error"], "fix explain document edit"],
    ["1 / 0", "code", ["error", "stream"], "explain document edit"],
    ["1", "code", [], "explain document edit"],
    ["# Title", "markdown", [], "explain edit"],
    ["  ", "code", [], ""],
    ["%%claude\nhello", "code", ["error"], ""],
    ["%claude fix", "code", ["error"], ""],
    ["%claudette", "code", [], "explain document edit"],
  ])("%j (%s, %j): %s", (source, type, outputs, offered) => {
    const found = (["fix", "explain", "document", "edit"] as const).filter((action) =>
      applies(action, standIn(cell(source, type, ...outputs))),
    );
    expect(found.join(" ")).toBe(offered);
  });

  it.each([
    [{}, true],
    [{ kernelspec: { language: "R" } }, false],
    [{ kernelspec: { language: "python" }, language_info: { name: "" } }, true],
    [{ language_info: { name: "ipython" } }, false],
    [{ language_info: { name: "python" }, kernelspec: { language: "R" } }, true],
  ])("in a notebook with %j: %s", (metadata: Record<string, unknown>, python) => {
    const getMetadata = (key: string): unknown => metadata[key];
    expect(isPython({ getMetadata })).toBe(python);
  });
});

it("asks in a cell below, with the cell's id, when the kernel has loaded Cellwright", async () => {
  const scene = new Scene(new TestCell("a", "1 / 0"), new TestCell("b", "2"));
  scene.cells[0]?.outputs.set("error");
  await scene.do("fix");
  expect(scene.sources).toEqual(["1 / 0", "# Fix with Claude: the cell above", "2"]);
  expect(scene.executed).toEqual(['get_ipython().extension_manager.load_extension("cellwright") silently']);
  expect(ran).toEqual([[scene.cells[1]?.model.id, "%claude fix @cell:a"]]);
  expect([scene.cells[1]?.model.executionState, scene.cells[1]?.model.executionCount]).toEqual(["idle", 1]);
  expect([scene.panel.content.activeCellIndex, scene.panel.content.mode]).toEqual([1, "command"]);
});

it("asks about the cell that the menu was opened at", async () => {
  const scene = new Scene(new TestCell("a", ""), new TestCell("b", "2"));
  const explain = (args: { of?: "menu" }): boolean => scene.commands.isVisible("cellwright:explain-cell", args);
  expect([explain({}), explain({ of: "menu" })]).toEqual([false, false]);
  scene.menuAt = scene.cells[1];
  expect([explain({}), explain({ of: "menu" })]).toEqual([false, true]);
  await scene.commands.execute("cellwright:explain-cell", { of: "menu" });
  expect(ran[0]?.[1]).toContain("@cell:b");
  expect(scene.asked).toEqual([2]);
});

it("asks again in the cell that asked the same", async () => {
  const scene = new Scene(new TestCell("a", "x = 1"));
  await scene.do("explain");
  scene.panel.content.activeCellIndex = 0;
  await scene.do("explain");
  expect(scene.sources).toHaveLength(2);
  expect(scene.asked).toEqual([1, 1]);
});

it("asks once, however often it is clicked meanwhile", async () => {
  const scene = new Scene(new TestCell("a", "x = 1"));
  const first = scene.do("explain");
  scene.panel.content.activeCellIndex = 0;
  await Promise.all([first, scene.do("explain")]);
  expect(ran).toHaveLength(1);
});

describe("when the kernel cannot be asked", () => {
  it.each([
    [{ status: "error", ename: "ModuleNotFoundError" }, "%pip install cellwright"],
    [{ status: "error", ename: "ImportError", evalue: "broken" }, "(ImportError: broken). Run %load_ext cellwright"],
    [{ status: "aborted" }, "because a cell before it failed"],
  ])("for %j it says so, and leaves nothing behind", async (reply, said) => {
    const scene = new Scene(new TestCell("a", "x = 1"));
    scene.reply = reply;
    await scene.do("explain");
    expect(notifications.shown.join()).toContain(said);
    expect(scene.sources).toEqual(["x = 1"]);
    expect(ran).toEqual([]);
  });

  it("there is no kernel: it says so", async () => {
    const scene = new Scene(new TestCell("a", "x = 1"));
    Object.assign(scene.panel.sessionContext, { session: null });
    await scene.do("explain");
    expect(notifications.shown.join()).toContain("has no kernel");
  });

  it("a question that the user has changed meanwhile stays", async () => {
    const scene = new Scene(new TestCell("a", "x = 1"));
    scene.reply = { status: "error" };
    const asked = scene.do("explain");
    const question = scene.cells[1];
    if (question) question.source += " Briefly.";
    await asked;
    expect(scene.sources).toHaveLength(2);
  });
});

describe("the line for an instruction", () => {
  const input = (cell: Cell | undefined): HTMLInputElement | null => cell?.node.querySelector("input") ?? null;
  const press = (field: HTMLInputElement | null, key: string): boolean | undefined =>
    field?.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));

  it("is sent with Enter", async () => {
    const scene = new Scene(new TestCell("a", "x = 1"));
    await scene.do("edit");
    const field = input(scene.cells[0]);
    expect(document.activeElement).toBe(field);
    expect(field?.getAttribute("aria-label")).toBe("What should Claude change in this cell?");
    press(field, "Enter");
    expect(scene.sources).toHaveLength(1); // nothing was said yet
    if (field) field.value = " use a list ";
    press(field, "Enter");
    await vi.waitFor(() => { expect(ran).toHaveLength(1); });
    expect(scene.sources[1]).toBe("# Edit with Claude: the cell above: use a list");
    expect(ran[0]?.[1]).toBe("%%claude\nChange @cell:a: use a list");
    expect(input(scene.cells[0])).toBeNull();
  });

  it("keeps the focus from the button that opened it", async () => {
    const scene = new Scene(new TestCell("a", "x = 1"));
    await scene.do("edit");
    input(scene.cells[0])?.blur();
    await vi.waitFor(() => { expect(document.activeElement).toBe(input(scene.cells[0])); });
  });

  it("is closed with Escape, keeps its keys to itself, and is there once", async () => {
    const scene = new Scene(new TestCell("a", "x = 1"));
    const keys = vi.fn();
    document.body.addEventListener("keydown", keys);
    await scene.do("edit");
    await scene.do("edit");
    expect(document.querySelectorAll("input")).toHaveLength(1);
    press(input(scene.cells[0]), "d");
    press(input(scene.cells[0]), "Escape");
    expect(keys).not.toHaveBeenCalled();
    expect(document.querySelectorAll("input")).toHaveLength(0);
    expect(scene.activate).toHaveBeenCalled();
  });
});

describe("the button under a cell that failed", () => {
  it("is there as long as the error is, and fixes that cell", async () => {
    const scene = new Scene(new TestCell("a", "1 / 0"), new TestCell("b", "2"));
    const [cell] = scene.cells;
    if (!cell) throw new Error("no cell");
    cell.outputs.set("error");
    const executed = { notebook: scene.panel.content, cell };
    actions.executed.emit(executed);
    actions.executed.emit(executed);
    await vi.waitFor(() => { expect(cell.node.querySelectorAll("button")).toHaveLength(1); });
    const buttons = cell.node.querySelectorAll("button");
    scene.panel.content.activeCellIndex = 1;
    buttons[0]?.click();
    await vi.waitFor(() => { expect(ran).toHaveLength(1); });
    expect(ran[0]?.[1]).toBe("%claude fix @cell:a");
    cell.outputs.set();
    expect(cell.node.querySelector("button")).toBeNull();
  });

  it("is not there where the kernel has no package to fix it with", async () => {
    const scene = new Scene(new TestCell("a", "1 / 0"));
    scene.reply = { status: "ok", user_expressions: { installed: { status: "ok", data: { "text/plain": "False" } } } };
    scene.cells[0]?.outputs.set("error");
    actions.executed.emit({ notebook: scene.panel.content, cell: scene.cells[0] });
    await new Promise((resolve) => { setTimeout(resolve); });
    expect(scene.executed).toHaveLength(1);
    expect(document.querySelector("button")).toBeNull();
  });

  it("is not there for a cell that went well, or that asks Claude", () => {
    const scene = new Scene(new TestCell("a", "1"), new TestCell("b", "%claude why?"));
    scene.cells[1]?.outputs.set("error");
    for (const cell of scene.cells) actions.executed.emit({ notebook: scene.panel.content, cell });
    expect(document.querySelector("button")).toBeNull();
  });
});

it("tells the toolbar when something else can be done with the active cell", () => {
  const scene = new Scene(new TestCell("a", "1 / 0"), new TestCell("b", ""));
  const changed: string[] = [];
  scene.commands.commandChanged.connect((_, { id }) => { if (id) changed.push(id); });
  scene.activeCellChanged.emit(scene.cells[0] ?? null);
  expect(scene.offers("fix")).toBe(false);
  changed.length = 0;
  scene.cells[0]?.outputs.set("stream");
  expect(changed).toEqual([]);
  scene.cells[0]?.outputs.set("stream", "error");
  expect(changed).toContain("cellwright:fix-cell");
  expect(scene.offers("fix")).toBe(true);
  scene.panel.content.activeCellIndex = 1;
  expect(scene.offers("explain")).toBe(false);
});

it("has each command in the palette, the toolbar and the context menu", () => {
  const scene = new Scene();
  const commands = ["fix", "edit", "explain", "document"].map((action) => `cellwright:${action}-cell`);
  expect(scene.inPalette).toEqual(commands);
  expect(schema["jupyter.lab.toolbars"].Cell.map(({ command }) => command)).toEqual(commands);
  expect(schema["jupyter.lab.menus"].context.flatMap(({ command }) => command ?? [])).toEqual(commands);
  for (const command of commands) expect(scene.commands.label(command)).toMatch(/ with Claude/);
});

it("names the cell in every question, and leaves a comment that every Python runs", () => {
  const cell = new TestCell("b2d4", "x");
  for (const action of ["fix", "explain", "document", "edit"] as const) {
    const { source, code } = questionFor(action, standIn(cell), "two\nlines");
    expect(code).toMatch(/^%{1,2}claude\s[^]*@cell:b2d4\b/);
    expect(source).toMatch(/^# [^\n]*$/);
    expect(applies("explain", standIn(new TestCell("c", source)))).toBe(false);
  }
});
