/** Fix, Explain, Document and Edit with Claude: in the cell's toolbar, its context menu and the command palette. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ICommandPalette, Notification } from "@jupyterlab/apputils";
import type { Notebook, NotebookPanel } from "@jupyterlab/notebook";
import { INotebookTracker, NotebookActions } from "@jupyterlab/notebook";
import { ITranslator } from "@jupyterlab/translation";
import { LabIcon } from "@jupyterlab/ui-components";
import type { CommandRegistry } from "@lumino/commands";
import { Menu } from "@lumino/widgets";

import { addPageStyle } from "../page";
import { claudeIcon } from "../sidebar/panel_widget";
import { staleBundleMessage } from "../sidebar/stale_bundle";
import { guardFocus } from "../transcript/focus";
import type { Trans } from "../translation";
import { transOf } from "../translation";
import type { CellActionName, CellActionRequest } from "../transport/chat_protocol";
import { kernelPackage } from "../transport/kernel_package";
import type { Cell, CellRequest, CellRequests } from "./cell_asks/cell_requests";
import { isPython } from "./cell_language";
import css from "./cell_toolbar.css";
import { askingWays } from "./outputs/asking";

/** `of` "menu": the cell that the context menu was opened at, which need not be the active one. */
type Args = { of?: "menu" };
type Ask = (request: CellRequest) => Promise<void>;
type Target = { readonly panel: NotebookPanel; readonly cell: Cell };

const COMMAND_TEXTS: Record<CellActionName, { label: string; caption: string }> = {
  edit: { label: "Edit with Claude…", caption: "Edit this cell with Claude" },
  fix: { label: "Fix with Claude", caption: "Fix the error in this cell" },
  explain: { label: "Explain with Claude", caption: "Explain this cell and its output" },
  document: { label: "Document with Claude", caption: "Add docstrings and comments to this cell" },
};
const ACTIONS = Object.keys(COMMAND_TEXTS) as CellActionName[];
const MENU = "cellwright:cell-menu";
const CONVERT = ["cellwright:make-code", "cellwright:make-prompt"];
const MESSAGE_MS = 10_000;

export const cellToolbarPlugin: JupyterFrontEndPlugin<void> = {
  // the toolbar's and the menu's items and the keys stand in the schema of this name
  id: "cellwright:cell-toolbar",
  description: "Has Claude fix, explain, document or edit a cell.",
  autoStart: true,
  optional: [INotebookTracker, ICommandPalette, ITranslator],
  activate: (app, tracker: INotebookTracker | null, palette: ICommandPalette | null, translator: ITranslator | null) => {
    if (!tracker) return;
    const { commands } = app;
    addPageStyle(css);
    const trans = transOf(translator);
    const tell = (message: string): void => { Notification.warning(message, { autoClose: MESSAGE_MS }); };
    let requests: Promise<CellRequests> | null = null;
    const ask: Ask = async (request) => {
      // with the first request: most pages make none
      requests ??= import("./cell_asks/cell_requests").then(({ CellRequests }) => new CellRequests(`${app.name} ${app.version}`, trans, tell));
      const there = await requests.catch((error: unknown) => {
        console.error("Cellwright:", error);
        requests = null;
        tell(staleBundleMessage(trans));
      });
      await there?.ask(request);
    };
    askingWays.ask = ask;
    const failures = new LastFailures();
    /** The cell that is meant; null if `action` makes no sense for it. */
    const targetOf = (action: CellActionName, args: Args): Target | null => {
      const panel = tracker.currentWidget;
      if (!panel?.content.model || !isPython(panel.content.model)) return null;
      const { content } = panel;
      const cell = args.of === "menu" ? clickedCell(app, content) : content.activeCell;
      if (cell && applies(action, cell)) return { panel, cell };
      // running a cell leaves it: what is to be fixed is mostly the one before
      const failed = action === "fix" && args.of !== "menu" ? failures.of(content) : null;
      return failed ? { panel, cell: failed } : null;
    };
    for (const action of ACTIONS) {
      const command = commandOf(action);
      commands.addCommand(command, {
        label: (args) => {
          const target = action === "fix" ? targetOf(action, args) : null;
          const other = target && args.of !== "menu" && target.cell !== target.panel.content.activeCell;
          return other ? trans.__("Fix %1 with Claude", labelOf(target.cell)) : COMMAND_TEXTS[action].label;
        },
        caption: COMMAND_TEXTS[action].caption,
        icon: iconOf(action),
        isEnabled: (args) => targetOf(action, args) !== null,
        isVisible: (args) => targetOf(action, args) !== null,
        describedBy: { args: { type: "object", properties: { of: { type: "string", enum: ["menu"] } } } },
        execute: (args) => {
          const target = targetOf(action, args);
          if (target) return begin(ask, action, target);
        },
      });
      palette?.addItem({ command, category: "Claude" });
    }
    addMenu(commands, tracker, trans);
    followActiveCell(tracker, () => { for (const command of [...ACTIONS.map(commandOf), MENU]) commands.notifyCommandChanged(command); });
    const buttons = new FixButtons(
      (cell) => {
        const panel = tracker.currentWidget;
        if (panel?.content.widgets.includes(cell)) void begin(ask, "fix", { panel, cell });
      },
      () => keysOf(commands, commandOf("fix")),
    );
    NotebookActions.executed.connect((_, { notebook, cell }) => {
      if (!notebook.model || !isPython(notebook.model) || !applies("fix", cell)) return;
      failures.add(notebook, cell);
      commands.notifyCommandChanged(commandOf("fix"));
      const kernel = tracker.find(({ content }) => content === notebook)?.sessionContext.session?.kernel;
      // where the package is not, the button could do nothing
      void (kernel ? kernelPackage(kernel) : Promise.resolve(null)).catch(() => null).then((found) => {
        if (found?.installed !== false && !cell.isDisposed) buttons.ran(cell);
      });
    });
  },
};

function commandOf(action: CellActionName): string {
  return `cellwright:${action}-cell`;
}

function clickedCell(app: JupyterFrontEnd, content: Notebook): Cell | null {
  const node = app.contextMenuHitTest(({ classList }) => classList.contains("jp-Cell"));
  return content.widgets.find((cell) => cell.node === node) ?? null;
}

/** The keys that a command has, as the user has set them; "" if none. */
function keysOf(commands: CommandRegistry, command: string): string {
  return commands.keyBindings.findLast((binding) => binding.command === command)?.keys.join(" ").replaceAll(" ", "+") ?? "";
}

function begin(ask: Ask, name: CellActionName, { panel, cell }: Target): Promise<void> | undefined {
  const { content } = panel;
  const selection = selectionIn(cell);
  content.deselectAll();
  const at = content.widgets.indexOf(cell);
  content.activeCellIndex = at;
  const send = (words = ""): Promise<void> => {
    // the change that comes wants its keys, and whoever types goes on typing while something is explained
    if (name !== "explain") content.mode = "command";
    // a menu that was open has left the keyboard nowhere
    if (name !== "explain" || document.activeElement === document.body) content.activate();
    return ask({ panel, cell, action: actionOf(name, cell, words), selection });
  };
  if (name !== "edit") return send();
  openInstruction(cell, (words) => { void send(words); }, () => { content.activate(); });
  return undefined;
}

/** The text that is selected in a cell that is being edited. */
function selectionIn({ editor, model }: Cell): string {
  if (!editor?.hasFocus()) return "";
  const { start, end } = editor.getSelection();
  const [from, to] = [editor.getOffsetAt(start), editor.getOffsetAt(end)].sort((a, b) => a - b);
  return model.sharedModel.getSource().slice(from, to);
}

/** The cell of each notebook that failed last, as long as its error is there. */
class LastFailures {
  private readonly cells = new WeakMap<Notebook, Cell>();

  add(notebook: Notebook, cell: Cell): void {
    this.cells.set(notebook, cell);
  }

  of(notebook: Notebook): Cell | null {
    const cell = this.cells.get(notebook);
    return cell && !cell.isDisposed && notebook.widgets.includes(cell) && applies("fix", cell) ? cell : null;
  }
}

/** One button in the cell's toolbar, with a menu of everything: several would hide when the cell's first line is long. */
function addMenu(commands: CommandRegistry, tracker: INotebookTracker, trans: Trans): void {
  const items = [...ACTIONS.map(commandOf), ...CONVERT];
  const isOffered = (): boolean => items.some((command) => commands.hasCommand(command) && commands.isVisible(command));
  commands.addCommand(MENU, {
    label: trans.__("Claude"),
    caption: trans.__("Claude: edit, fix, explain, document"),
    icon: claudeIcon,
    isEnabled: isOffered,
    isVisible: isOffered,
    describedBy: { args: { type: "object", properties: {} } },
    execute: () => { openMenu(commands, tracker.currentWidget?.content ?? null); },
  });
}

function openMenu(commands: CommandRegistry, content: Notebook | null): void {
  const menu = new Menu({ commands });
  menu.addClass("cellwright-cell-menu");
  for (const command of ACTIONS.map(commandOf)) menu.addItem({ command });
  menu.addItem({ type: "separator" });
  for (const command of CONVERT) menu.addItem({ command });
  menu.aboutToClose.connect(() => {
    // Escape leaves the keyboard nowhere
    requestAnimationFrame(() => {
      if (document.activeElement === document.body) content?.activate();
      menu.dispose();
    });
  });
  const cell = content?.activeCell?.node;
  const { left, bottom } = (cell?.querySelector(`[data-command="${MENU}"]`) ?? cell ?? document.body).getBoundingClientRect();
  menu.open(left, bottom);
}

/** Calls `changed` when another cell is active, and when what can be done with the active one is something else. */
function followActiveCell(tracker: INotebookTracker, changed: () => void): void {
  let followed: Cell | null = null;
  let stopFollowing = (): void => undefined;
  let known = "";
  const offered = (cell: Cell): string => {
    const source = cell.model.sharedModel.getSource();
    return [...ACTIONS.filter((action) => applies(action, cell)), PROMPT.test(source) && "prompt"].join();
  };
  const look = (): void => {
    const now = followed ? offered(followed) : "";
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
    known = cell ? offered(cell) : "";
    changed();
  });
}

// What an action needs to know of a cell.

const PROMPT = /^\s*(?:%{1,2}claude\b|# \w+ with Claude: the cell above)/;

/** True if its last output is an error. */
export function hasFailed({ model: { outputs } }: Cell): boolean {
  return outputs !== undefined && outputs.length > 0 && outputs.get(outputs.length - 1).type === "error";
}

/** True if `action` makes sense for a cell; none does for an empty one, or for one that asks Claude itself. */
export function applies(action: CellActionName, cell: Cell): boolean {
  const source = cell.model.sharedModel.getSource();
  if (!source.trim() || PROMPT.test(source)) return false;
  if (action === "fix") return cell.model.type === "code" && hasFailed(cell);
  return action !== "document" || cell.model.type === "code";
}

/** A cell in words: by the number that it ran as. Without one its request stands beside it, and its place would look like a number. */
export function labelOf({ model: { executionCount } }: Cell): string {
  return executionCount ? `cell [${executionCount}]` : "this cell";
}

/** The action as the kernel takes it. */
export function actionOf(name: CellActionName, cell: Cell, words = ""): CellActionRequest {
  const { outputs } = cell.model;
  const error = name === "fix" && outputs ? (outputs.get(outputs.length - 1).toJSON() as { ename?: unknown }).ename : "";
  return { name, label: labelOf(cell), error: typeof error === "string" ? error : "", words: words.trim().replace(/\s+/g, " ") };
}

// A button under the output of a cell that failed just now; the toolbar is at the active cell, which is the next one by then.

const FIX_CLASS = "cellwright-fix";

export class FixButtons {
  /** \`keys\` are those that do the same. */
  constructor(
    private readonly fix: (cell: Cell) => void,
    private readonly keys: () => string,
  ) {}

  /** A cell was run: there is a button as long as its last output is an error. */
  ran(cell: Cell): void {
    const { outputs } = cell.model;
    if (!outputs || !applies("fix", cell) || cell.node.querySelector(`:scope > .${FIX_CLASS}`)) return;
    const host = document.createElement("div");
    host.className = FIX_CLASS;
    const button = document.createElement("button");
    button.type = "button";
    button.append("Fix with Claude");
    const keys = this.keys();
    if (keys) {
      const key = document.createElement("kbd");
      key.textContent = keys;
      button.append(key);
      button.setAttribute("aria-keyshortcuts", keys);
    }
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
  host.title = hint.textContent = "Enter to send · Esc to close";
  host.append(claudeIcon.element({ tag: "span", width: "16px" }), input, hint);
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

const PATHS: Record<CellActionName, string> = {
  fix: "M22.7 19l-9.1-9.1c.9-2.3.4-5-1.5-6.9-2-2-5-2.4-7.4-1.3L9 6 6 9 1.6 4.7C.4 7.1.9 10.1 2.9 12.1c1.9 1.9 4.6 2.4 6.9 1.5l9.1 9.1c.4.4 1 .4 1.4 0l2.3-2.3c.5-.4.5-1.1.1-1.4z",
  explain:
    "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zm0 16.2a7.2 7.2 0 1 1 0-14.4 7.2 7.2 0 0 1 0 14.4zM11.1 15.6h1.8v1.8h-1.8zM12 6.6a3.3 3.3 0 0 0-3.3 3.3h1.8a1.5 1.5 0 1 1 3 0c0 1.4-2.4 1.4-2.4 4.2h1.8c0-1.9 2.4-2.2 2.4-4.2A3.3 3.3 0 0 0 12 6.6z",
  document: "M14 2H6a2 2 0 0 0-2 2v16a2 2 0 0 0 2 2h12a2 2 0 0 0 2-2V8zm4 18H6V4h7v5h5zM8 12h8v1.6H8zm0 3.4h8V17H8z",
  edit: "M3 17.25V21h3.75L17.8 9.94l-3.75-3.75zM5.92 19H5v-.92l9.05-9.06.93.93zM18.5 1.5l.8 2.2 2.2.8-2.2.8-.8 2.2-.8-2.2-2.2-.8 2.2-.8z",
};

/** The icon of an action. */
export function iconOf(action: CellActionName): LabIcon {
  const svgstr = `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24"><path class="jp-icon3" fill="#616161" d="${PATHS[action]}"/></svg>`;
  return new LabIcon({ name: `cellwright:${action}`, svgstr });
}
