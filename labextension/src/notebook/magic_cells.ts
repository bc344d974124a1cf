/** `%%claude` without `%load_ext`: a cell that asks Claude has its kernel load the package before it runs. */

import type { JupyterFrontEndPlugin } from "@jupyterlab/application";
import { Notification } from "@jupyterlab/apputils";
import type { NotebookPanel } from "@jupyterlab/notebook";
import { INotebookTracker, NotebookActions } from "@jupyterlab/notebook";

import { loadForCell } from "../transport/load_extension";
import { isPython } from "./cell_language";

export const magicCellsPlugin: JupyterFrontEndPlugin<void> = {
  id: "cellwright:magic-cells",
  description: "Lets %%claude cells run in kernels that have not loaded the package yet.",
  autoStart: true,
  optional: [INotebookTracker],
  activate: (_, tracker: INotebookTracker | null) => {
    if (!tracker) return;
    NotebookActions.executionScheduled.connect((_sender, { notebook, cell }) => {
      const panel: NotebookPanel | undefined = tracker.find(({ content }) => content === notebook);
      const kernel = panel?.sessionContext.session?.kernel;
      const { type, sharedModel } = cell.model;
      if (!kernel || !notebook.model || !isPython(notebook.model) || type !== "code" || !asksClaude(sharedModel.getSource())) return;
      // each time: the page may hear of a restart after the cell. The kernel does one request after the other: this one first
      void loadForCell(kernel).then((problem) => {
        if (problem !== null) Notification.warning(problem, { autoClose: 10_000 });
      });
    });
  },
};

/** True for a cell that is a prompt, or has a line that is one. */
export function asksClaude(source: string): boolean {
  return /^\s*%%claude\b/.test(source) || /^[ \t]*%claude\b/m.test(source);
}
