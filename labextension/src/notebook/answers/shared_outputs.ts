/**
 * The outputs of notebooks that several pages edit together.
 *
 * What two pages have written stands twice: a page may have slept while another one wrote in its place. Each page takes away all
 * but the first of the same place, which is the same one everywhere, so nothing is lost when several do.
 *
 * JupyterLab appends an output that another page has put in the place of an earlier one: what it shows then has another order
 * than the document, and what the other page writes next goes to the wrong place (seen in 4.4 to 4.6). So where that has
 * happened, the page shows the document's outputs anew, and writes nothing.
 */

import type { YCodeCell } from "@jupyter/ydoc";
import type { INotebookModel } from "@jupyterlab/notebook";
import type { IOutputAreaModel } from "@jupyterlab/outputarea";

import type { CellModel } from "../cell_language";
import { repeatedPlaces } from "./run_places";

/** One look for all that another page writes together. */
const LOOK_AFTER_MS = 50;

export type SharedOutputs = Pick<YCodeCell, "changed" | "getOutputs" | "setOutputs" | "updateOutputs">;
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
  let isOutOfOrder = false;
  shared.changed.connect((_, { outputsChange }) => {
    const delta = (outputsChange ?? []) as unknown as OutputsDelta;
    if (!delta.some(({ insert }) => insert)) return;
    isOutOfOrder ||= insertsAbove(delta, cell.outputs.length);
    timer ??= setTimeout(() => {
      timer = undefined;
      if (cell.isDisposed) return;
      if (isOutOfOrder) showAnew(cell, shared);
      isOutOfOrder = false;
      takeRepeatedAway(cell, shared);
    }, LOOK_AFTER_MS);
  });
}

/** True where something was put above what there is. */
export function insertsAbove(delta: OutputsDelta, length: number): boolean {
  let at = 0;
  for (const { retain = 0, insert = [] } of delta) at += retain + insert.length;
  return at < length;
}

function takeRepeatedAway({ outputs }: WritingCell, shared: SharedOutputs): void {
  const shown = Array.from({ length: outputs.length }, (_, index) => ({ metadata: outputs.get(index).metadata }));
  if (repeatedPlaces(shown).length === 0) return;
  // as the document has them: it may hold streams apart that are shown as one
  for (const index of repeatedPlaces(shared.getOutputs()).reverse()) shared.updateOutputs(index, index + 1, []);
}

function showAnew(cell: WritingCell, shared: SharedOutputs): void {
  const { onOutputsChange, outputs } = cell;
  if (!onOutputsChange) return; // a JupyterLab that goes another way
  outputs.changed.disconnect(onOutputsChange, cell);
  try {
    outputs.fromJSON(shared.getOutputs());
  } finally {
    outputs.changed.connect(onOutputsChange, cell);
  }
}
