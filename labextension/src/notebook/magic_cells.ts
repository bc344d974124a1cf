/** `%%claude` without `%load_ext`: a cell that asks Claude has its kernel load the package before it runs. */

import type { JupyterFrontEndPlugin } from "@jupyterlab/application";
import { Notification } from "@jupyterlab/apputils";
import type { Cell } from "@jupyterlab/cells";
import type { NotebookPanel } from "@jupyterlab/notebook";
import { INotebookTracker, NotebookActions } from "@jupyterlab/notebook";
import type { Kernel } from "@jupyterlab/services";

import { installCommand, kernelPackage } from "../transport/kernel_package";
import { loadForCell } from "../transport/load_extension";
import type { CellModel } from "./cell_language";
import { isPython } from "./cell_language";

export const magicCellsPlugin: JupyterFrontEndPlugin<void> = {
  id: "cellwright:magic-cells",
  description: "Lets %%claude cells run in kernels that have not loaded the package yet.",
  autoStart: true,
  optional: [INotebookTracker],
  activate: (_, tracker: INotebookTracker | null) => {
    if (!tracker) return;
    const failed = new Set<Cell>();
    NotebookActions.executionScheduled.connect((_sender, { notebook, cell }) => {
      const panel: NotebookPanel | undefined = tracker.find(({ content }) => content === notebook);
      const kernel = panel?.sessionContext.session?.kernel;
      const { type, sharedModel } = cell.model;
      if (!kernel || !notebook.model || !isPython(notebook.model) || type !== "code" || !asksClaude(sharedModel.getSource())) return;
      // each time: the page may hear of a restart after the cell. The kernel does one request after the other: this one first
      void loadForCell(kernel).then((problem) => {
        if (problem === null) return;
        failed.add(cell);
        Notification.warning(problem, { autoClose: 10_000 });
      });
    });
    NotebookActions.executed.connect((_sender, { notebook, cell }) => {
      const kernel = tracker.find(({ content }) => content === notebook)?.sessionContext.session?.kernel;
      if (failed.delete(cell) && kernel) void explain(kernel, cell);
    });
  },
};

/** Says below IPython's message, which knows no magic of this name, what the panel says of such a kernel. */
async function explain(kernel: Kernel.IKernelConnection, cell: Cell): Promise<void> {
  const found = await kernelPackage(kernel).catch(() => null);
  const { outputs } = cell.model as CellModel;
  if (found?.installed !== false || !outputs || cell.isDisposed) return;
  const text = `This kernel has no Cellwright. Install it for the kernel's Python, then run this cell again:\n  ${installCommand(found.executable)}\n`;
  outputs.add({ output_type: "stream", name: "stderr", text });
}

/** True for a cell that is a prompt, or has a line that is one. */
export function asksClaude(source: string): boolean {
  return /^\s*%%claude\b/.test(source) || /^[ \t]*%claude\b/m.test(source);
}
