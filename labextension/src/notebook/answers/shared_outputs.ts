/**
 * The outputs of notebooks that several pages edit together.
 *
 * JupyterLab appends an output that another page has put in the place of an earlier one: what it shows then has another order
 * than the document, and what the other page writes next goes to the wrong place (seen in 4.4 to 4.6). So where that has
 * happened, the page shows the document's outputs anew, and writes nothing.
 */

import type { YCodeCell } from "@jupyter/ydoc";
import type { INotebookModel } from "@jupyterlab/notebook";
import type { IOutputAreaModel } from "@jupyterlab/outputarea";

import type { CellModel } from "../cell_language";

/** One look for all that another page writes together. */
const LOOK_AFTER_MS = 50;

export type SharedOutputs = Pick<YCodeCell, "changed" | "getOutputs" | "setOutputs">;
type OutputsDelta = readonly { retain?: number; delete?: number; insert?: readonly unknown[] }[];
/** A code cell; by its slot it writes what is shown into the document, and we show what stands there. */
type WritingCell = CellModel & { readonly outputs: IOutputAreaModel; onOutputsChange?: (sender: IOutputAreaModel, change: IOutputAreaModel.ChangedArgs) => void };

/** The outputs of a cell in the document; null where it has none. */
export function sharedOutputs(cell: CellModel): SharedOutputs | null {
  const shared: object = cell.sharedModel;
  return "getOutputs" in shared && "setOutputs" in shared ? (shared as SharedOutputs) : null;
}

const followed = new WeakSet<object>();

/** Has the cells of a notebook show their outputs in the document's order, those that come later as well. */
export function keepOutputsInOrder(model: INotebookModel): void {
  if (model.collaborative !== true || followed.has(model)) return;
  followed.add(model);
  const follow = (): void => { for (const cell of model.cells) followCell(cell as unknown as WritingCell); };
  follow();
  model.cells.changed.connect(follow);
}

function followCell(cell: WritingCell): void {
  const shared = sharedOutputs(cell);
  if (!shared || followed.has(cell)) return;
  followed.add(cell);
  let timer: ReturnType<typeof setTimeout> | undefined;
  shared.changed.connect((_, { outputsChange }) => {
    if (!outputsChange || !insertsAbove(outputsChange as unknown as OutputsDelta, shared.getOutputs().length)) return;
    timer ??= setTimeout(() => {
      timer = undefined;
      showAnew(cell, shared);
    }, LOOK_AFTER_MS);
  });
}

/** True where something was put above what there is. */
export function insertsAbove(delta: OutputsDelta, length: number): boolean {
  let at = 0;
  for (const { retain = 0, insert = [] } of delta) at += retain + insert.length;
  return delta.some(({ insert }) => insert) && at < length;
}

function showAnew(cell: WritingCell, shared: SharedOutputs): void {
  const { onOutputsChange, outputs } = cell;
  // it is disposed, or a JupyterLab that goes another way
  if (!onOutputsChange || !(outputs as IOutputAreaModel | null) || outputs.isDisposed) return;
  outputs.changed.disconnect(onOutputsChange, cell);
  try {
    outputs.fromJSON(shared.getOutputs());
  } finally {
    outputs.changed.connect(onOutputsChange, cell);
  }
}
