/** The cell that the user is at, in the notebook that the conversation is about. */

import type { Cell } from "@jupyterlab/cells";
import type { INotebookTracker, NotebookPanel } from "@jupyterlab/notebook";

import type { ActiveCell } from "../composer/composer_deps";
import type { CellModel } from "../notebook/cell_language";
import { asksClaude } from "../notebook/magic_cells";

/** The active cell of `panel`; null where there is none. */
export function activeCell(panel: NotebookPanel | null): ActiveCell | null {
  const cell = panel?.content.activeCell;
  if (!panel || !cell) return null;
  const { id, sharedModel, executionCount } = cell.model as CellModel;
  return {
    path: panel.context.path,
    id,
    selection: selectedText(cell),
    source: sharedModel.getSource(),
    executionCount: executionCount ?? null,
    position: panel.content.widgets.indexOf(cell),
  };
}

/** Calls `listener` when the active cell, its text or what is selected in it changes; gives how to stop. */
export function onActiveCell(tracker: INotebookTracker | null, listener: () => void): () => void {
  let stopCell = (): void => undefined;
  const changed = (): void => { listener(); };
  const follow = (): void => {
    stopCell();
    const cell = tracker?.currentWidget?.content.activeCell;
    const signals = cell ? [cell.model.contentChanged, cell.editor?.model.selections.changed] : [];
    for (const signal of signals) signal?.connect(changed);
    stopCell = () => { for (const signal of signals) signal?.disconnect(changed); };
    listener();
  };
  tracker?.activeCellChanged.connect(follow);
  tracker?.currentChanged.connect(follow);
  follow();
  return () => {
    stopCell();
    tracker?.activeCellChanged.disconnect(follow);
    tracker?.currentChanged.disconnect(follow);
  };
}

/** Goes to the cell of `panel` that was run as `[count]`. Whether there is one. */
export function goToCell(panel: NotebookPanel | null, place: string): boolean {
  const at = indexAt(panel, place);
  const cell = panel?.content.widgets[at];
  if (!panel || !cell) return false;
  panel.content.activeCellIndex = at;
  cell.node.scrollIntoView({ block: "center" });
  panel.content.activate();
  return true;
}

/** The cell of `panel` that was run as `[count]` and still asks `prompt`, whatever its options are by now; else null. */
export function promptCell(panel: NotebookPanel | null, place: string, prompt: string): Cell | null {
  const cell = panel?.content.widgets[indexAt(panel, place)];
  const source = cell?.model.sharedModel.getSource() ?? "";
  return cell && asksClaude(source) && source.includes(prompt.trim()) ? cell : null;
}

function indexAt(panel: NotebookPanel | null, place: string): number {
  const count = Number(/^\[(\d+)\]$/.exec(place)?.[1]);
  return panel?.content.widgets.findIndex(({ model }) => (model as CellModel).executionCount === count) ?? -1;
}

function selectedText({ editor, model }: Cell): string {
  if (!editor) return "";
  const { start, end } = editor.getSelection();
  const [from, to] = [editor.getOffsetAt(start), editor.getOffsetAt(end)].sort((a, b) => a - b);
  return model.sharedModel.getSource().slice(from, to);
}
