/** Fix, Explain, Document and Edit with Claude: in the cell's toolbar, its context menu and the command palette. */

import { ICommandPalette, Notification } from "@jupyterlab/apputils";
import { INotebookTracker, NotebookActions } from "@jupyterlab/notebook";
import type { Application, IPlugin } from "@lumino/application";

import { addPageStyle } from "../page_style";
import type { Action } from "../cell_toolbar/cell_actions";
import { applies, CellActions, isPython, sourceFor } from "../cell_toolbar/cell_actions";
import { FixButtons } from "../cell_toolbar/fix_buttons";
import { iconOf } from "../cell_toolbar/icons";
import { openInstruction } from "../cell_toolbar/instruction";
import css from "./cell_toolbar.css";
import type { Cell, Panel, Tracker } from "./cell_toolbar_types";

type Executed = { notebook: Panel["content"]; cell: Cell };
/** `of` "menu": the cell that the context menu was opened at, which need not be the active one. */
type Args = { of?: "menu" };
type App = Application & { contextMenuHitTest(isIt: (node: HTMLElement) => boolean): HTMLElement | undefined };
type Palette = { addItem(item: { command: string; category: string }): unknown };

const TEXTS: Record<Action, { label: string; caption: string }> = {
  fix: { label: "Fix with Claude", caption: "Have Claude fix the error of this cell" },
  edit: { label: "Edit with Claude…", caption: "Say what Claude should change in this cell" },
  explain: { label: "Explain with Claude", caption: "Have Claude explain this cell" },
  document: { label: "Document with Claude", caption: "Have Claude document the code of this cell" },
};
const ACTIONS = Object.keys(TEXTS) as Action[];

export const cellToolbarPlugin: IPlugin<unknown, void> = {
  // the toolbar's and the menu's items stand in the schema of this name
  id: "cellwright:cell-toolbar",
  description: "Has Claude fix, explain, document or edit a cell.",
  autoStart: true,
  optional: [INotebookTracker, ICommandPalette],
  activate: (app, tracker: Tracker | null, palette: Palette | null) => {
    if (!tracker) return;
    const { commands } = app as App;
    addPageStyle(css);
    const actions = new CellActions(
      (panel, cell) => NotebookActions.runCells(panel.content, [cell], panel.sessionContext),
      (message) => { Notification.warning(message, { autoClose: 10_000 }); },
    );
    /** The cell that is meant; null where `action` makes no sense for it. */
    const cellFor = (action: Action, args: Args): Cell | null => {
      const content = tracker.currentWidget?.content;
      const cell = content ? meantCell(app as App, content, args) : null;
      return content?.model && cell && isPython(content.model) && applies(action, cell) ? cell : null;
    };
    for (const action of ACTIONS) {
      const command = commandOf(action);
      commands.addCommand(command, {
        ...TEXTS[action],
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
    NotebookActions.executed.connect((_, { notebook, cell }: Executed) => {
      if (notebook.model && isPython(notebook.model)) buttons.ran(cell);
    });
  },
};

function commandOf(action: Action): string {
  return `cellwright:${action}-cell`;
}

function meantCell(app: App, content: Panel["content"], { of }: Args): Cell | null {
  if (of !== "menu") return content.activeCell;
  const node = app.contextMenuHitTest(({ classList }) => classList.contains("jp-Cell"));
  return content.widgets.find((cell) => cell.node === node) ?? null;
}

function begin(actions: CellActions, action: Action, panel: Panel, cell: Cell): Promise<void> | undefined {
  panel.content.activeCellIndex = panel.content.widgets.indexOf(cell);
  if (action !== "edit") return actions.ask(panel, cell, sourceFor(action, cell));
  openInstruction(
    cell,
    (instruction) => { void actions.ask(panel, cell, sourceFor("edit", cell, instruction)); },
    () => { panel.content.activate(); },
  );
  return undefined;
}

/** Calls `changed` when another cell is active, and when what can be done with the active one is something else. */
function followActiveCell(tracker: Tracker, changed: () => void): void {
  let followed: Cell | null = null;
  let known = "";
  const look = (): void => {
    const now = followed ? ACTIONS.filter((action) => followed && applies(action, followed)).join() : "";
    if (now !== known) changed();
    known = now;
  };
  tracker.activeCellChanged.connect((_, cell) => {
    followed?.model.contentChanged.disconnect(look);
    followed?.model.outputs?.changed.disconnect(look);
    followed = cell;
    cell?.model.contentChanged.connect(look);
    cell?.model.outputs?.changed.connect(look);
    known = cell ? ACTIONS.filter((action) => applies(action, cell)).join() : "";
    changed();
  });
}
