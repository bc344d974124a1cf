/** Keeps what came of a run in a notebook that was opened while it went on; elsewhere the kernel's own update does. */

import type { NotebookModel } from "@jupyterlab/notebook";
import { INotebookTracker } from "@jupyterlab/notebook";
import type { IPlugin } from "@lumino/application";

import type { SavedMessage } from "../transcript/protocol";
import { SAVED_EVENT } from "../transcript/saved_output";
import { keep } from "../notebook/saved_output";

export const savedOutputPlugin: IPlugin<unknown, void> = {
  id: "cellwright:saved-output",
  description: "Puts Claude's answer into the notebook where the page was reloaded while the cell ran.",
  autoStart: true,
  optional: [INotebookTracker],
  activate: (_, tracker: INotebookTracker | null) => {
    if (!tracker) return;
    document.addEventListener(SAVED_EVENT, (event) => {
      const notebooks: NotebookModel[] = [];
      tracker.forEach(({ model }) => {
        if (model) notebooks.push(model);
      });
      if (keep(notebooks, (event as CustomEvent<SavedMessage>).detail)) event.preventDefault();
    });
  },
};
