/** A run's saved output, put into the notebook in the place of the widget that showed it. */

import type { JupyterFrontEndPlugin } from "@jupyterlab/application";
import type { IDisplayData, IMimeBundle } from "@jupyterlab/nbformat";
import type { INotebookModel } from "@jupyterlab/notebook";
import { INotebookTracker } from "@jupyterlab/notebook";
import type { IOutputAreaModel } from "@jupyterlab/outputarea";
import { JSONExt } from "@lumino/coreutils";

import type { JsonObject } from "../../json";
import type { SavedMessage } from "../../transcript/protocol";
import { SAVED_EVENT } from "../../transcript/protocol";
import type { CellModel } from "../cell_language";

const WIDGET_VIEW = "application/vnd.jupyter.widget-view+json";

/**
 * Puts what is `saved` into the places of its widgets, and what is not there yet below them, else into its cell; says whether a
 * notebook has either.
 */
export function insertSavedOutput(notebooks: readonly INotebookModel[], saved: SavedMessage): boolean {
  const cells = notebooks.flatMap((notebook) => [...notebook.cells]);
  const first = saved.outputs[0]?.model ?? "";
  const showing = outputsOf(cells).filter((outputs) => indexOfView(outputs, first) >= 0);
  for (const outputs of showing) insertFrom(indexOfView(outputs, first), outputs, saved);
  if (showing.length > 0) return true;
  const [lacking, ...copies] = outputsOf(cells.filter((cell) => cell.id === saved.cell));
  // a copy of the notebook has cells with the same ids, and one of them never ran
  if (!lacking || copies.length > 0) return false;
  // sent again to a page that asked before the kernel had heard that it is there, or read from disk as another page saved it
  if (!holds(lacking, saved)) insertFrom(lacking.length, lacking, saved);
  return true;
}

function holds(outputs: IOutputAreaModel, { outputs: [first] }: SavedMessage): boolean {
  for (let index = 0; index < outputs.length; index++) {
    if (first && JSONExt.deepEqual(outputs.get(index).data, first.data)) return true;
  }
  return false;
}

/** The page has read the first of these outputs from disk, or none: they stand together, from `index` on. */
function insertFrom(index: number, outputs: IOutputAreaModel, saved: SavedMessage): void {
  let at = index;
  for (const { data, metadata, model } of saved.outputs) {
    // what the cell has printed since stands where it is
    while (at < outputs.length && outputs.get(at).type !== "display_data") at++;
    if (at >= outputs.length) outputs.add(displayData(data, metadata));
    // while the run goes on it is the widget itself that belongs there
    else if (!(WIDGET_VIEW in data && model)) outputs.set(at, displayData(data, metadata));
    at++;
  }
}

function outputsOf(cells: CellModel[]): IOutputAreaModel[] {
  return cells.flatMap((cell) => cell.outputs ?? []);
}

function indexOfView(outputs: IOutputAreaModel, model: string): number {
  for (let index = 0; index < outputs.length; index++) {
    const view = outputs.get(index).data[WIDGET_VIEW];
    if (typeof view === "object" && view !== null && "model_id" in view && view.model_id === model) return index;
  }
  return -1;
}

function displayData(data: JsonObject, metadata: JsonObject): IDisplayData {
  return { output_type: "display_data", data: data as IMimeBundle, metadata };
}

// Keeps what came of a run in a notebook that was opened while it went on; elsewhere the kernel's own update does.

export const savedOutputPlugin: JupyterFrontEndPlugin<void> = {
  id: "cellwright:saved-output",
  description: "Puts Claude's answer into the notebook where the page was reloaded while the cell ran.",
  autoStart: true,
  optional: [INotebookTracker],
  activate: (_, tracker: INotebookTracker | null) => {
    if (!tracker) return;
    document.addEventListener(SAVED_EVENT, (event) => {
      // a notebook with two views has one model
      const notebooks = new Set<INotebookModel>();
      tracker.forEach(({ model }) => {
        if (model) notebooks.add(model);
      });
      if (insertSavedOutput([...notebooks], (event as CustomEvent<SavedMessage>).detail)) event.preventDefault();
    });
  },
};
