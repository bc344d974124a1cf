import { Notification } from "@jupyterlab/apputils";
import { NotebookActions } from "@jupyterlab/notebook";
import { CommandRegistry } from "@lumino/commands";
import { Signal } from "@lumino/signaling";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import schema from "../../schema/cell-toolbar.json";
import type { JsonObject } from "../../src/json";
import { visiblePanel } from "../../src/notebook/cell_asks/visible_panel";
import { isPython } from "../../src/notebook/cell_language";
import { actionOf, applies, cellToolbarPlugin } from "../../src/notebook/cell_toolbar";
import type { EndOp, Op } from "../../src/transcript/protocol";
import type { CellActionName } from "../../src/transport/chat_protocol";
import type { Cell } from "../support/cell_shapes";
import { standIn } from "../support/stand_in";
import { OneKernel, ops, run, text } from "../transport/chat_kernel";

class Outputs {
  types: string[] = [];
  readonly changed = new Signal<this, unknown>(this);

  get length(): number {
    return this.types.length;
  }

  get(index: number): { type: string; toJSON(): object } {
    const type = this.types[index] ?? "";
    return { type, toJSON: () => (type === "error" ? { ename: "KeyError" } : {}) };
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
  readonly editor = null;
  isDisposed = false;
  rendered = false;
  readonly model;

  constructor(id: string, public source: string, type = "code", readonly metadata: object = {}) {
    this.node.tabIndex = 0;
    const contentChanged = new Signal<unknown, unknown>(this);
    const sharedModel = { getSource: (): string => this.source };
    this.model = { executionCount: null as number | null, id, type, sharedModel, contentChanged, ...(type === "code" ? { outputs: this.outputs } : {}) };
  }
}

const END: EndOp = { op: "end", stop_reason: "end_turn", cost_usd: 0, session_cost_usd: 0, ms: 5, error: null };

class Scene {
  cells: TestCell[];
  readonly commands = new CommandRegistry();
  readonly activeCellChanged = new Signal<this, Cell | null>(this);
  readonly cellsChanged = new Signal<this, unknown>(this);
  readonly panelDisposed = new Signal<this, unknown>(this);
  readonly inPalette: string[] = [];
  readonly activate = vi.fn();
  readonly kernel = new OneKernel();
  menuAt: Cell | undefined;
  readonly panel;
  private told = 0;

  constructor(...cells: TestCell[]) {
    this.cells = cells;
    const metadata: Record<string, unknown> = { kernelspec: { language: "python" }, language_info: { name: "" } };
    const scene = this as Scene;
    const model = {
      getMetadata: (key: string) => metadata[key],
      cells: { changed: this.cellsChanged },
      sharedModel: {
        insertCell: (index: number, cell: { cell_type: string; source: string; metadata: object }) =>
          this.cells.splice(index, 0, new TestCell(`new-${this.cells.length}`, cell.source, cell.cell_type, cell.metadata)),
      },
    };
    const content = {
      model,
      activeCellIndex: 0,
      mode: "edit",
      get widgets(): readonly TestCell[] {
        return scene.cells;
      },
      get activeCell(): TestCell | null {
        return scene.cells[this.activeCellIndex] ?? null;
      },
      deselectAll: () => undefined,
      activate: this.activate,
    };
    const session: { kernel: OneKernel } | null = { kernel: this.kernel };
    const sessionContext = { ready: Promise.resolve(), session: session as { kernel: OneKernel } | null };
    this.panel = { content, sessionContext, context: { path: "study.ipynb" }, disposed: this.panelDisposed, isDisposed: false };
    const find = (fits: (panel: unknown) => boolean): unknown => (fits(this.panel) ? this.panel : undefined);
    const tracker = { currentWidget: this.panel, activeCellChanged: this.activeCellChanged, find };
    const palette = { addItem: ({ command }: { command: string }) => this.inPalette.push(command) };
    void cellToolbarPlugin.activate(standIn({ name: "JupyterLab", version: "4.6", commands: this.commands, contextMenuHitTest: () => this.menuAt?.node }), tracker, palette, null);
  }

  do(action: string, args = {}): Promise<unknown> {
    return this.commands.execute(`cellwright:${action}-cell`, args);
  }

  offers(action: string): boolean {
    return this.commands.isVisible(`cellwright:${action}-cell`) && this.commands.isEnabled(`cellwright:${action}-cell`);
  }

  get strip(): HTMLElement | null {
    return document.querySelector(".cellwright-strip");
  }

  button(label: string): HTMLButtonElement | undefined {
    return [...(this.strip?.querySelectorAll("button") ?? [])].find(({ textContent, hidden }) => textContent === label && !hidden);
  }

  /** The requests that the kernel was sent, without messages. */
  requests(method: string): { id: string; params: JsonObject }[] {
    const sent = this.kernel.comms.flatMap((comm) => comm.sent.map(({ message }) => message));
    return sent.filter((message) => message.method === method) as unknown as { id: string; params: JsonObject }[];
  }

  /** The kernel answers the newest request of this method. */
  async reply(method: string, result: JsonObject): Promise<void> {
    const before = this.told;
    await vi.waitFor(() => { expect(this.requests(method).length).toBeGreaterThan(method === "prompt" ? before : 0); });
    if (method === "prompt") this.told += 1;
    this.kernel.tell({ type: "reply", id: this.requests(method).at(-1)?.id ?? "", result });
  }

  /** The kernel runs the newest prompt as `id`, and says `told` of it. */
  async runs(id: string, ...told: Op[]): Promise<void> {
    await this.reply("prompt", { run: id });
    this.kernel.tell(run(id, { state: "running" }), ops(id, 0, { op: "run", model: "m", mode: "default", session: "s", started: 1 }, ...told));
  }

  ends(id: string, have: number, ...told: Op[]): void {
    this.kernel.tell(ops(id, have, ...told, END), run(id, { state: "done" }));
  }
}

const actions = NotebookActions as unknown as { executed: Signal<unknown, unknown> };
const notifications = Notification as unknown as { shown: string[] };

beforeEach(() => {
  document.body.replaceChildren();
  notifications.shown.length = 0;
  Signal.disconnectSender(NotebookActions);
});

afterEach(() => { visiblePanel.of = () => null; });

describe("which actions a cell offers", () => {
  const cell = (source: string, type: string, ...outputs: string[]): TestCell => {
    const made = new TestCell("a", source, type);
    made.outputs.types = outputs;
    return made;
  };

  it.each([
    ["1 / 0", "code", ["stream", "error"], "edit fix explain document"],
    ["1 / 0", "code", ["error", "stream"], "edit explain document"],
    ["1", "code", [], "edit explain document"],
    ["# Title", "markdown", [], "edit explain"],
    ["  ", "code", [], ""],
    ["%%claude\nhello", "code", ["error"], ""],
    ["%claude fix", "code", ["error"], ""],
    ["# Fix with Claude: the cell above", "code", ["error"], ""],
    ["%claudette", "code", [], "edit explain document"],
  ])("%j (%s, %j): %s", (source, type, outputs, offered) => {
    const found = (["edit", "fix", "explain", "document"] as const).filter((action) =>
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

describe("what is asked", () => {
  it("goes to the kernel of the cell, which writes the prompt; the notebook stays as it is", async () => {
    const scene = new Scene(new TestCell("a", "rates['dk']"), new TestCell("b", "2"));
    const [cell] = scene.cells;
    cell?.outputs.set("error");
    if (cell) cell.model.executionCount = 3;
    await scene.do("fix");
    await scene.runs("run-1");
    expect(scene.requests("prompt")[0]?.params).toEqual({
      text: "", attachments: [], context: "auto", options: {},
      cell: { path: "study.ipynb", id: "a", selection: "" },
      action: { name: "fix", label: "cell [3]", error: "KeyError", words: "" },
    });
    expect(scene.strip?.parentElement).toBe(cell?.node);
    await vi.waitFor(() => { expect(scene.strip?.textContent).toContain("Fix the KeyError in cell [3]Claude is working…"); });
    expect(scene.cells).toHaveLength(2);
    expect(scene.panel.content.mode).toBe("command");
  });

  it("is about the cell that the menu was opened at", async () => {
    const scene = new Scene(new TestCell("a", ""), new TestCell("b", "2"));
    const explain = (args: { of?: "menu" }): boolean => scene.commands.isVisible("cellwright:explain-cell", args);
    expect([explain({}), explain({ of: "menu" })]).toEqual([false, false]);
    scene.menuAt = scene.cells[1];
    expect([explain({}), explain({ of: "menu" })]).toEqual([false, true]);
    await scene.do("explain", { of: "menu" });
    await vi.waitFor(() => { expect(scene.requests("prompt")[0]?.params.cell).toMatchObject({ id: "b" }); });
    // who types goes on typing
    expect(scene.panel.content.mode).toBe("edit");
  });

  it("is fixed where it failed, from the cell below as well", async () => {
    const scene = new Scene(new TestCell("a", "1 / 0"), new TestCell("b", "2"));
    scene.cells[0]?.outputs.set("error");
    scene.panel.content.activeCellIndex = 1;
    expect(scene.offers("fix")).toBe(false);
    actions.executed.emit({ notebook: scene.panel.content, cell: scene.cells[0] });
    expect(scene.commands.label("cellwright:fix-cell")).toBe("Fix this cell with Claude");
    await scene.do("fix");
    await vi.waitFor(() => { expect(scene.requests("prompt")[0]?.params.cell).toMatchObject({ id: "a" }); });
    expect(scene.panel.content.activeCellIndex).toBe(0);
  });

  it("is answered in the panel if it is in sight, and asked once", async () => {
    const scene = new Scene(new TestCell("a", "x = 1"));
    const prompt = vi.fn(() => Promise.resolve("run-1"));
    const action = { ...actionOf("explain", standIn(scene.cells[0])), path: "study.ipynb", id: "a" };
    const runs: unknown[] = [];
    const follow = vi.fn();
    visiblePanel.of = (kernel) => (kernel === scene.kernel.id ? standIn({ chat: { runs, prompt }, follow }) : null);
    await scene.do("explain");
    runs.push({ run: { state: "running", action } });
    await scene.do("explain");
    expect(prompt).toHaveBeenCalledTimes(1);
    expect(follow).toHaveBeenCalled();
    expect(scene.strip).toBeNull();
  });
});

describe("the strip", () => {
  const explained = async (): Promise<Scene> => {
    const scene = new Scene(new TestCell("a", "x = 1"), new TestCell("b", "2"));
    await scene.do("explain");
    await scene.runs("run-1", text("It sets x."));
    scene.ends("run-1", 2);
    await vi.waitFor(() => { expect(scene.button("Dismiss")).toBeDefined(); });
    return scene;
  };

  it("streams, stops, and is asked once", async () => {
    const scene = new Scene(new TestCell("a", "x = 1"));
    await scene.do("explain");
    await scene.do("explain");
    await scene.runs("run-1", text("It sets x."));
    expect(document.activeElement).toBe(scene.strip);
    await vi.waitFor(() => { expect(scene.strip?.querySelector(".cellwright-strip-answer > div")?.shadowRoot?.textContent).toContain("It sets x."); });
    expect(scene.button("Keep as cell")).toBeUndefined();
    scene.button("Stop")?.click();
    expect(scene.kernel.comm.sent.at(-1)?.message).toEqual({ type: "stop", run: "run-1" });
    expect(scene.requests("prompt")).toHaveLength(1);
  });

  it("becomes a Markdown cell below its cell if it is to be kept", async () => {
    const scene = await explained();
    scene.button("Keep as cell")?.click();
    await scene.reply("answer_markdown", { markdown: "It sets `x`.", asked: "Explain this cell", session: "s" });
    await vi.waitFor(() => { expect(scene.strip).toBeNull(); });
    const kept = scene.cells[1];
    expect([kept?.model.type, kept?.source, kept?.rendered]).toEqual(["markdown", "It sets `x`.", true]);
    expect(kept?.metadata).toMatchObject({ cellwright: { asked: "Explain this cell", session: "s" } });
    expect(scene.panel.content.activeCellIndex).toBe(1);
  });

  it("goes with Escape, and gives the keyboard and the connection back", async () => {
    const scene = await explained();
    await scene.do("explain");
    expect(document.activeElement).toBe(scene.strip);
    const keys = vi.fn();
    document.body.addEventListener("keydown", keys);
    scene.strip?.dispatchEvent(new KeyboardEvent("keydown", { key: "d", bubbles: true }));
    expect(keys).not.toHaveBeenCalled();
    scene.activate.mockClear();
    scene.strip?.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
    expect(scene.strip).toBeNull();
    expect(scene.activate).toHaveBeenCalled();
    expect(scene.kernel.comm.sent.at(-1)?.message).toEqual({ type: "bye" });
    document.body.removeEventListener("keydown", keys);
  });

  it("goes along when its cell gets another widget", async () => {
    const scene = await explained();
    const moved = new TestCell("a", "x = 1");
    scene.cells = scene.cells.map((cell) => (cell.model.id === "a" ? moved : cell));
    scene.cellsChanged.emit(undefined);
    await vi.waitFor(() => { expect(scene.strip?.parentElement).toBe(moved.node); });
  });

  it("of a change that was made leaves nothing", async () => {
    const scene = new Scene(new TestCell("a", "x = 1"));
    await scene.do("document");
    await scene.runs("run-1");
    expect(scene.strip?.querySelector<HTMLElement>(".cellwright-strip-answer")?.hidden).toBe(true);
    scene.ends("run-1", 1, { op: "changes", turn: 1, files: [], cells: [{ where: "study.ipynb#a", kind: "changed", added: 1, removed: 0 }], effects: [], not_kept: [] });
    await vi.waitFor(() => { expect(scene.strip).toBeNull(); });
    expect(document.querySelector(".cellwright-announcer")?.textContent).toBe("Done: Document this cell");
  });

  it("shows what Claude says if it changes nothing", async () => {
    const scene = new Scene(new TestCell("a", "x = 1"));
    await scene.do("document");
    await scene.runs("run-1", text("There is nothing to document."));
    scene.ends("run-1", 2);
    await vi.waitFor(() => { expect(scene.button("Dismiss")).toBeDefined(); });
    expect(scene.strip?.querySelector<HTMLElement>(".cellwright-strip-answer")?.hidden).toBe(false);
  });

  it("says what is missing, and asks again", async () => {
    const scene = new Scene(new TestCell("a", "x = 1"));
    scene.kernel.loading = { status: "error", ename: "ModuleNotFoundError", evalue: "No module named 'cellwright'" };
    await scene.do("explain");
    await vi.waitFor(() => { expect(scene.strip?.querySelector("[role=alert]")?.textContent).toContain("%pip install cellwright"); });
    scene.kernel.loading = { status: "ok" };
    scene.button("Try again")?.click();
    await scene.runs("run-1", text("It sets x."));
    await vi.waitFor(() => { expect(scene.strip?.textContent).toContain("Claude is working…"); });
  });

  it("says that the kernel restarted", async () => {
    const scene = new Scene(new TestCell("a", "x = 1"));
    await scene.do("explain");
    await scene.runs("run-1", text("It"));
    await vi.waitFor(() => { expect(scene.button("Stop")).toBeDefined(); });
    scene.kernel.greeting = [{ type: "welcome", protocol: 1, version: "0.1.0", log: "log-2", executable: "" }];
    scene.kernel.setStatus("restarting");
    scene.kernel.setStatus("idle");
    await vi.waitFor(() => { expect(scene.strip?.textContent).toContain("The kernel restarted: this answer is not complete."); });
    expect(scene.button("Dismiss")).toBeDefined();
  });
});

it("says that there is no kernel", async () => {
  const scene = new Scene(new TestCell("a", "x = 1"));
  scene.panel.sessionContext.session = null;
  await scene.do("explain");
  expect(notifications.shown.join()).toContain("has no kernel");
  expect(scene.strip).toBeNull();
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
    expect(scene.strip).toBeNull(); // nothing was said yet
    if (field) field.value = " use a list ";
    press(field, "Enter");
    await vi.waitFor(() => { expect(scene.requests("prompt")[0]?.params.action).toMatchObject({ name: "edit", words: "use a list" }); });
    expect(input(scene.cells[0])).toBeNull();
    expect(scene.strip?.textContent).toContain("Edit this cell: use a list");
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
  it("is there as long as the error is, names its key, and fixes that cell", async () => {
    const scene = new Scene(new TestCell("a", "1 / 0"), new TestCell("b", "2"));
    scene.commands.addKeyBinding({ command: "cellwright:fix-cell", keys: ["Alt F"], selector: "body" });
    const [cell] = scene.cells;
    if (!cell) throw new Error("no cell");
    scene.kernel.expressions = { installed: "True", executable: "'/env/bin/python'" };
    cell.outputs.set("error");
    const executed = { notebook: scene.panel.content, cell };
    actions.executed.emit(executed);
    actions.executed.emit(executed);
    await vi.waitFor(() => { expect(cell.node.querySelectorAll(".cellwright-fix button")).toHaveLength(1); });
    const button = cell.node.querySelector<HTMLButtonElement>(".cellwright-fix button");
    expect(button?.textContent).toBe("Fix with ClaudeAlt+F");
    scene.panel.content.activeCellIndex = 1;
    button?.click();
    await vi.waitFor(() => { expect(scene.requests("prompt")[0]?.params.cell).toMatchObject({ id: "a" }); });
    cell.outputs.set();
    expect(cell.node.querySelector(".cellwright-fix")).toBeNull();
  });

  it("is not there where the kernel has no package to fix it with", async () => {
    const scene = new Scene(new TestCell("a", "1 / 0"));
    scene.kernel.expressions = { installed: "False", executable: "'/env/bin/python'" };
    scene.cells[0]?.outputs.set("error");
    actions.executed.emit({ notebook: scene.panel.content, cell: scene.cells[0] });
    await vi.waitFor(() => { expect(scene.kernel.executed).toHaveLength(1); });
    await new Promise((resolve) => { setTimeout(resolve); });
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

it("has each command in the palette, the context menu and the menu of the one button", async () => {
  const scene = new Scene(new TestCell("a", "1 / 0"));
  scene.cells[0]?.outputs.set("error");
  const commands = ["edit", "fix", "explain", "document"].map((action) => `cellwright:${action}-cell`);
  expect(scene.inPalette).toEqual(commands);
  expect(schema["jupyter.lab.toolbars"].Cell.map(({ command }) => command)).toEqual(["cellwright:cell-menu"]);
  expect(schema["jupyter.lab.menus"].context.flatMap(({ command }) => command ?? []).sort()).toEqual([...commands].sort());
  for (const command of commands) expect(scene.commands.label(command)).toMatch(/ with Claude/);
  await scene.commands.execute("cellwright:cell-menu");
  const items = [...document.querySelectorAll(".cellwright-cell-menu .lm-Menu-itemLabel")].map(({ textContent }) => textContent).filter(Boolean);
  expect(items).toEqual(["Edit with Claude…", "Fix with Claude", "Explain with Claude", "Document with Claude"]);
});

it("has keys for what is done often, other ones on a Mac, where Alt writes letters", () => {
  const keys = schema["jupyter.lab.shortcuts"];
  for (const name of ["fix", "edit", "explain"] satisfies CellActionName[]) {
    const of = keys.filter(({ command }) => command === `cellwright:${name}-cell`);
    // the one that menus show is the last
    expect(of.at(-1)?.keys[0]).toMatch(/^Alt /);
    expect(of.at(-1)?.macKeys?.[0]).toMatch(/^Ctrl Alt /);
  }
});
