/**
 * What came of a run, put into the notebook where the page that ran the cell did not do it.
 *
 * A page whose document is its own puts it there. Where several pages edit one document together, all but the one that the
 * kernel names leave it alone.
 */

import type { JupyterFrontEndPlugin } from "@jupyterlab/application";
import type { IOutput } from "@jupyterlab/nbformat";
import type { INotebookModel, NotebookPanel } from "@jupyterlab/notebook";
import { INotebookTracker } from "@jupyterlab/notebook";
import type { IOutputAreaModel } from "@jupyterlab/outputarea";

import type { SavedMessage } from "../../transcript/protocol";
import { SAVED_EVENT } from "../../transcript/protocol";
import type { CellModel } from "../cell_language";
import { isLive, isPlaceOf, withSaved } from "./run_places";
import { keepOutputsInOrder, sharedOutputs } from "./shared_outputs";

/** A notebook of the page; `session` is what the messages of its kernel connection carry. */
export type OpenNotebook = { readonly model: INotebookModel; readonly session: string };
type CodeCell = CellModel & { readonly outputs: IOutputAreaModel };

/**
 * Puts what is `saved` into its places, and what is not there yet below them, else into its cell; says whether a notebook has
 * either.
 */
export function insertSavedOutput(notebooks: readonly OpenNotebook[], saved: SavedMessage): boolean {
  const cells = notebooks.flatMap(({ model, session }) => codeCells(model).map((cell) => ({ cell, isShared: model.collaborative === true, session })));
  const showing = cells.filter(({ cell }) => outputsOf(cell.outputs).some((output) => isPlaceOf(output, saved)));
  // a copy of the notebook has cells with the same ids, and one of them never ran
  const [lacking, ...copies] = showing.length > 0 ? [] : cells.filter(({ cell }) => cell.id === saved.cell);
  const found = lacking && copies.length === 0 ? [lacking] : showing;
  for (const { cell, isShared, session } of found) {
    if (!isShared) keepInOwn(cell.outputs, saved);
    else if (session !== "" && session === saved.writer) keepInShared(cell, saved);
  }
  return found.length > 0;
}

function codeCells(model: INotebookModel): CodeCell[] {
  return [...model.cells].flatMap((cell) => ((cell as CellModel).outputs ? [cell as unknown as CodeCell] : []));
}

function outputsOf(outputs: IOutputAreaModel): IOutput[] {
  return Array.from({ length: outputs.length }, (_, index) => outputs.get(index).toJSON());
}

/** Changes what differs alone: what streamed goes on being shown as it is. */
function keepInOwn(outputs: IOutputAreaModel, saved: SavedMessage): void {
  const before = outputsOf(outputs);
  withSaved(before, saved).forEach((output, index) => {
    if (index >= before.length) outputs.add(output);
    else if (output !== before[index]) outputs.set(index, output);
  });
}

/** The page that ran the cell has gone: this one writes in its place. */
function keepInShared(cell: CodeCell, saved: SavedMessage): void {
  const shared = sharedOutputs(cell);
  if (!shared) return;
  const before = shared.getOutputs();
  const after = withSaved(before, saved);
  if (after.length !== before.length || after.some((output, index) => output !== before[index])) shared.setOutputs(after);
  if (saved.outputs.some(isLive)) return;
  // what the kernel says of the cell reached nobody
  cell.executionState = "idle";
  cell.executionCount = saved.count;
}

// Keeps what came of a run in a notebook that was opened while it went on; elsewhere the kernel's own update does.

export const savedOutputPlugin: JupyterFrontEndPlugin<void> = {
  id: "cellwright:saved-output",
  description: "Puts Claude's answer into the notebook where the page that ran the cell was closed or reloaded.",
  autoStart: true,
  optional: [INotebookTracker],
  activate: (_, tracker: INotebookTracker | null) => {
    if (!tracker) return;
    const keepInOrder = ({ context }: NotebookPanel): void => { void context.ready.then(() => { keepOutputsInOrder(context.model); }); };
    tracker.forEach(keepInOrder);
    tracker.widgetAdded.connect((_sender, panel) => { keepInOrder(panel); });
    document.addEventListener(SAVED_EVENT, (event) => {
      // a notebook with two views has one model
      const notebooks = new Map<INotebookModel, OpenNotebook>();
      tracker.forEach(({ model, sessionContext }: NotebookPanel) => {
        if (model) notebooks.set(model, { model, session: sessionContext.session?.kernel?.clientId ?? "" });
      });
      if (insertSavedOutput([...notebooks.values()], (event as CustomEvent<SavedMessage>).detail)) event.preventDefault();
    });
  },
};
