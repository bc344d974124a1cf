/** A run's saved output, put into the notebook in the place of the widget that showed it. */

import type { JupyterFrontEndPlugin } from "@jupyterlab/application";
import type { IDisplayData, IMimeBundle } from "@jupyterlab/nbformat";
import type { INotebookModel } from "@jupyterlab/notebook";
import { INotebookTracker } from "@jupyterlab/notebook";
import type { IOutputAreaModel } from "@jupyterlab/outputarea";

import type { JsonObject } from "../json";
import type { SavedMessage } from "../transcript/protocol";
import { SAVED_EVENT } from "../transcript/protocol";
import type { CellModel } from "./cell_language";

const WIDGET_VIEW = "application/vnd.jupyter.widget-view+json";

/** Puts `saved` into the place of its widget, else into its cell; says whether a notebook has either. */
export function insertSavedOutput(notebooks: readonly INotebookModel[], saved: SavedMessage): boolean {
  const cells = notebooks.flatMap((notebook) => [...notebook.cells]);
  const showing = outputsOf(cells).filter((outputs) => indexOfView(outputs, saved.model) >= 0);
  // while the run goes on it is the widget itself that belongs there
  for (const outputs of WIDGET_VIEW in saved.data ? [] : showing) {
    outputs.set(indexOfView(outputs, saved.model), displayData(saved.data, saved.metadata));
    addImages(outputs, saved);
  }
  if (showing.length > 0) return true;
  const [lacking, ...copies] = outputsOf(cells.filter((cell) => cell.id === saved.cell));
  // a copy of the notebook has cells with the same ids, and one of them never ran
  if (!lacking || copies.length > 0) return false;
  lacking.add(displayData(saved.data, saved.metadata));
  addImages(lacking, saved);
  return true;
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

function addImages(outputs: IOutputAreaModel, saved: SavedMessage): void {
  for (const image of saved.images) outputs.add(displayData(image));
}

function displayData(data: JsonObject, metadata: JsonObject = {}): IDisplayData {
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
