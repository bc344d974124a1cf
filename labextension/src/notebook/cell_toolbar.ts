/** Fix, Explain, Document and Edit with Claude: in the cell's toolbar, its context menu and the command palette. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ICommandPalette, Notification } from "@jupyterlab/apputils";
import type { CodeCell, Cell as CellWidget } from "@jupyterlab/cells";
import type { Notebook, NotebookPanel } from "@jupyterlab/notebook";
import { INotebookTracker, NotebookActions } from "@jupyterlab/notebook";
import { LabIcon } from "@jupyterlab/ui-components";

import { addPageStyle } from "../page";
import { guardFocus } from "../transcript/focus";
import { kernelPackage } from "../transport/kernel_package";
import { loadForCell } from "../transport/load_extension";
import type { CellModel } from "./cell_language";
import { isPython } from "./cell_language";
import css from "./cell_toolbar.css";

/** `of` "menu": the cell that the context menu was opened at, which need not be the active one. */
type Args = { of?: "menu" };

const COMMAND_TEXTS: Record<CellAction, { label: string; caption: string }> = {
  fix: { label: "Fix with Claude", caption: "Have Claude fix the error in this cell" },
  edit: { label: "Edit with Claude…", caption: "Say what Claude should change in this cell" },
  explain: { label: "Explain with Claude", caption: "Have Claude explain this cell" },
  document: { label: "Document with Claude", caption: "Have Claude document the code of this cell" },
};
const ACTIONS = Object.keys(COMMAND_TEXTS) as CellAction[];

export const cellToolbarPlugin: JupyterFrontEndPlugin<void> = {
  // the toolbar's and the menu's items stand in the schema of this name
  id: "cellwright:cell-toolbar",
  description: "Has Claude fix, explain, document or edit a cell.",
  autoStart: true,
  optional: [INotebookTracker, ICommandPalette],
  activate: (app, tracker: INotebookTracker | null, palette: ICommandPalette | null) => {
    if (!tracker) return;
    const { commands } = app;
    addPageStyle(css);
    const actions = new CellActions(
      runInCell,
      (message) => { Notification.warning(message, { autoClose: 10_000 }); },
    );
    /** The cell that is meant; null where `action` makes no sense for it. */
    const cellFor = (action: CellAction, args: Args): Cell | null => {
      const content = tracker.currentWidget?.content;
      const cell = content ? targetCell(app, content, args) : null;
      return content?.model && cell && isPython(content.model) && applies(action, cell) ? cell : null;
    };
    for (const action of ACTIONS) {
      const command = commandOf(action);
      commands.addCommand(command, {
        ...COMMAND_TEXTS[action],
        icon: iconOf(action),
        isEnabled: (args) => cellFor(action, args) !== null,
        isVisible: (args) => cellFor(action, args) !== null,
        describedBy: { args: { type: "object", properties: { of: { type: "string", enum: ["menu"] } } } },
        execute: (args) => {
          const panel = tracker.currentWidget;
          const cell = cellFor(action, args);
          if (panel && cell) return begin(actions, action, panel, cell);
        },
      });
      palette?.addItem({ command, category: "Claude" });
    }
    followActiveCell(tracker, () => { for (const action of ACTIONS) commands.notifyCommandChanged(commandOf(action)); });
    const buttons = new FixButtons((cell) => {
      const panel = tracker.currentWidget;
      if (panel?.content.widgets.includes(cell)) void begin(actions, "fix", panel, cell);
    });
    NotebookActions.executed.connect((_, { notebook, cell }) => {
      if (!notebook.model || !isPython(notebook.model) || !applies("fix", cell)) return;
      const kernel = tracker.find(({ content }) => content === notebook)?.sessionContext.session?.kernel;
      // where the package is not, the button could do nothing
      void (kernel ? kernelPackage(kernel) : Promise.resolve(null)).catch(() => null).then((found) => {
        if (found?.installed !== false && !cell.isDisposed) buttons.ran(cell);
      });
    });
  },
};

function commandOf(action: CellAction): string {
  return `cellwright:${action}-cell`;
}

function targetCell(app: JupyterFrontEnd, content: Notebook, { of }: Args): Cell | null {
  if (of !== "menu") return content.activeCell;
  const node = app.contextMenuHitTest(({ classList }) => classList.contains("jp-Cell"));
  return content.widgets.find((cell) => cell.node === node) ?? null;
}

function begin(actions: CellActions, action: CellAction, panel: NotebookPanel, cell: Cell): Promise<void> | undefined {
  panel.content.activeCellIndex = panel.content.widgets.indexOf(cell);
  if (action !== "edit") return actions.ask(panel, cell, questionFor(action, cell));
  openInstruction(
    cell,
    (instruction) => { void actions.ask(panel, cell, questionFor("edit", cell, instruction)); },
    () => { panel.content.activate(); },
  );
  return undefined;
}

/** Calls `changed` when another cell is active, and when what can be done with the active one is something else. */
function followActiveCell(tracker: INotebookTracker, changed: () => void): void {
  let followed: Cell | null = null;
  let stopFollowing = (): void => undefined;
  let known = "";
  const look = (): void => {
    const now = followed ? ACTIONS.filter((action) => followed && applies(action, followed)).join() : "";
    if (now !== known) changed();
    known = now;
  };
  tracker.activeCellChanged.connect((_, cell: Cell | null) => {
    stopFollowing();
    followed = cell;
    // kept, since a cell that was taken out has no model any more
    const signals = cell ? [cell.model.contentChanged, cell.model.outputs?.changed] : [];
    for (const signal of signals) signal?.connect(look);
    stopFollowing = () => { for (const signal of signals) signal?.disconnect(look); };
    known = cell ? ACTIONS.filter((action) => applies(action, cell)).join() : "";
    changed();
  });
}

// Questions about a cell, answered in a cell below it. What stays in the notebook is a comment: it runs on every machine.

/** A cell's widget: its model has outputs where it is of code. */
export type Cell = CellWidget & { readonly model: CellModel };

export type CellAction = "fix" | "explain" | "document" | "edit";

const PROMPT = /^\s*(?:%{1,2}claude\b|# \w+ with Claude: the cell above)/;

/** True if its last output is an error. */
export function hasFailed({ model: { outputs } }: Cell): boolean {
  return outputs !== undefined && outputs.length > 0 && outputs.get(outputs.length - 1).type === "error";
}

/** True if `action` makes sense for a cell; none does for an empty one, or for one that asks Claude itself. */
export function applies(action: CellAction, cell: Cell): boolean {
  const source = cell.model.sharedModel.getSource();
  if (!source.trim() || PROMPT.test(source)) return false;
  if (action === "fix") return cell.model.type === "code" && hasFailed(cell);
  return action !== "document" || cell.model.type === "code";
}

/** What a cell shows, and what the kernel runs for it. */
export type Question = { readonly source: string; readonly code: string };

/** The question that an action asks about a cell. */
export function questionFor(action: CellAction, { model: { id, type } }: Cell, instruction = ""): Question {
  const cell = `@cell:${id}`;
  const words = instruction.trim().replace(/\s+/g, " ");
  switch (action) {
    case "fix":
      return { source: "# Fix with Claude: the cell above", code: `%claude fix ${cell}` };
    case "explain":
      return { source: "# Explain with Claude: the cell above", code: `%%claude\nExplain ${cell}${type === "code" ? ": what it does, and what its output shows" : ""}.` };
    case "document":
      return { source: "# Document with Claude: the cell above", code: `%%claude\nDocument ${cell}: docstrings and comments where they help a reader. Change nothing else in it.` };
    case "edit":
      return { source: `# Edit with Claude: the cell above: ${words}`, code: `%%claude\nChange ${cell}: ${words}` };
  }
}

/** Says that something went wrong, and what to do. */
export type ShowMessage = (message: string) => void;
/** Runs `code` in a cell, in the place of its own source. */
export type RunInCell = (panel: NotebookPanel, cell: Cell, code: string) => Promise<unknown>;

async function runInCell({ sessionContext }: NotebookPanel, cell: Cell, code: string): Promise<void> {
  const kernel = sessionContext.session?.kernel;
  if (!kernel || !("outputArea" in cell)) return;
  const { model, outputArea } = cell as Cell & Pick<CodeCell, "outputArea">;
  model.executionCount = null;
  model.executionState = "running";
  const future = kernel.requestExecute({ code, stop_on_error: true }, false, { cellId: model.id });
  outputArea.future = future;
  const { content } = await future.done;
  model.executionState = "idle";
  model.executionCount = content.execution_count ?? null;
}

export class CellActions {
  /** The cells that wait for their kernel: a second click asks nothing twice. */
  private readonly asking = new Set<Cell>();

  constructor(
    private readonly run: RunInCell,
    private readonly tell: ShowMessage,
  ) {}

  /** Asks with a cell below `cell`; the same question that stands there already is asked again. */
  async ask(panel: NotebookPanel, cell: Cell, { source, code }: Question): Promise<void> {
    const { content } = panel;
    if (!content.model) return;
    const at = content.widgets.indexOf(cell) + 1;
    const isThere = content.widgets[at]?.model.sharedModel.getSource() === source;
    if (!isThere) {
      content.model.sharedModel.insertCell(at, { cell_type: "code", source, metadata: { trusted: true } });
    }
    const asks = content.widgets[at];
    if (!asks || this.asking.has(asks)) return;
    content.activeCellIndex = at;
    content.mode = "command";
    content.activate();
    this.asking.add(asks);
    try {
      const problem = await kernelProblem(panel);
      if (problem === null) await this.run(panel, asks, code);
      else {
        this.tell(problem);
        if (!isThere) removeQuestion(panel, asks, source);
      }
    } finally {
      this.asking.delete(asks);
    }
  }
}

/** The reason why the notebook's kernel cannot ask Claude, with what to do; null when it is ready. */
async function kernelProblem({ sessionContext }: NotebookPanel): Promise<string | null> {
  await sessionContext.ready;
  const kernel = sessionContext.session?.kernel;
  if (!kernel) return "This notebook has no kernel. Start one, then ask Claude again.";
  return await loadForCell(kernel, "The kernel dropped this because a cell before it failed. Ask Claude again.");
}

/** A question that could not be asked does not stay in the notebook, unless the user has changed it meanwhile. */
function removeQuestion({ content }: NotebookPanel, cell: Cell, source: string): void {
  const at = content.widgets.indexOf(cell);
  if (at < 0 || cell.model.sharedModel.getSource() !== source) return;
  content.model?.sharedModel.deleteCell(at);
  content.activeCellIndex = Math.max(at - 1, 0);
}

// A button under the output of a cell that failed just now; the toolbar is at the active cell, which is the next one by then.

const FIX_CLASS = "cellwright-fix";

export class FixButtons {
  constructor(private readonly fix: (cell: Cell) => void) {}

  /** A cell was run: there is a button as long as its last output is an error. */
  ran(cell: Cell): void {
    const { outputs } = cell.model;
    if (!outputs || !applies("fix", cell) || cell.node.querySelector(`:scope > .${FIX_CLASS}`)) return;
    const host = document.createElement("div");
    host.className = FIX_CLASS;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Fix with Claude";
    button.addEventListener("click", () => { this.fix(cell); });
    host.append(button);
    cell.node.append(host);
    const changed = (): void => {
      if (applies("fix", cell)) return;
      host.remove();
      outputs.changed.disconnect(changed);
    };
    outputs.changed.connect(changed);
  }
}

// The line above a cell in which the user says what Claude should change in it.

const INSTRUCTION_CLASS = "cellwright-instruction";
const FOCUS_DELAY_MS = 300;

/** Opens the line, or goes to the one that is open. Enter gives `send` what was typed, Escape closes it. */
export function openInstruction(cell: Cell, send: (instruction: string) => void, close: () => void): void {
  const open = cell.node.querySelector<HTMLInputElement>(`:scope > .${INSTRUCTION_CLASS} input`);
  if (open) {
    open.focus();
    return;
  }
  const host = document.createElement("div");
  host.className = INSTRUCTION_CLASS;
  const input = document.createElement("input");
  input.type = "text";
  input.className = "jp-mod-styled";
  input.placeholder = "What should Claude change in this cell?";
  input.setAttribute("aria-label", input.placeholder);
  const hint = document.createElement("span");
  hint.textContent = "Enter to ask · Esc to close";
  host.append(input, hint);
  const stopKeeping = guardFocus(host);
  const remove = (): void => {
    stopKeeping();
    host.remove();
  };
  host.addEventListener("keydown", (event) => {
    // a notebook would take keys as commands
    event.stopPropagation();
    if (event.key === "Escape") {
      remove();
      close();
    } else if (event.key === "Enter" && !event.isComposing && input.value.trim()) {
      remove();
      send(input.value);
    }
  });
  // the button or menu that opened it takes the focus once more, and keys would be the notebook's commands
  const opened = performance.now();
  input.addEventListener("blur", () => {
    if (performance.now() - opened < FOCUS_DELAY_MS) setTimeout(() => { input.focus(); });
  });
  // at its end in the DOM, since JupyterLab counts a cell's first children; the style sheet puts it where it belongs
  cell.node.append(host);
  input.focus();
}

// The icons of the actions, drawn as JupyterLab draws its own: `jp-icon3` follows the theme.

const PATHS: Record<CellAction, string> = {
  fix: "M22.7 19l-9.1-9.1c.9-2.3.4-5-1.5-6.9-2-2-5-2.4-7.4-1.3L9 6 6 9 1.6 4.7C.4 7.1.9 10.1 2.9 12.1c1.9 1.9 4.6 2.4 6.9 1.5l9.1 9.1c.4.4 1 .4 1.4 0l2.3-2.3c.5-.4.5-1.1.1-1.4z",
  explain:
    "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zm0 16.2a7.2 7.2 0 1 1 0-14.4 7.2 7.2 0 0 1 0 14.4zM11.1 15.6h1.8v1.8h-1.8zM12 6.6a3.3 3.3 0 0 0-3.3 3.3h1.8a1.5 1.5 0 1 1 3 0c0 1.4-2.4 1.4-2.4 4.2h1.8c0-1.9 2.4-2.2 2.4-4.2A3.3 3.3 0 0 0 12 6.6z",
  document: "M14 2H6a2 2 0 0 0-2 2v16a2 2 0 0 0 2 2h12a2 2 0 0 0 2-2V8zm4 18H6V4h7v5h5zM8 12h8v1.6H8zm0 3.4h8V17H8z",
  edit: "M3 17.25V21h3.75L17.8 9.94l-3.75-3.75zM5.92 19H5v-.92l9.05-9.06.93.93zM18.5 1.5l.8 2.2 2.2.8-2.2.8-.8 2.2-.8-2.2-2.2-.8 2.2-.8z",
};

/** The icon of an action. */
export function iconOf(action: CellAction): LabIcon {
  const svgstr = `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24"><path class="jp-icon3" fill="#616161" d="${PATHS[action]}"/></svg>`;
  return new LabIcon({ name: `cellwright:${action}`, svgstr });
}
