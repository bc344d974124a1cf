/** `%%claude` without `%load_ext`: a cell that asks Claude has its kernel load the package before it runs. */

import type { JupyterFrontEndPlugin } from "@jupyterlab/application";
import { Notification } from "@jupyterlab/apputils";
import type { NotebookPanel } from "@jupyterlab/notebook";
import { INotebookTracker, NotebookActions } from "@jupyterlab/notebook";
import type { Kernel } from "@jupyterlab/services";

import { loadForCell } from "../transport/load_extension";
import { isPython } from "./cell_language";

export const magicCellsPlugin: JupyterFrontEndPlugin<void> = {
  id: "cellwright:magic-cells",
  description: "Lets %%claude cells run in kernels that have not loaded the package yet.",
  autoStart: true,
  optional: [INotebookTracker],
  activate: (_, tracker: INotebookTracker | null) => {
    if (!tracker) return;
    const kernels = new LoadedKernels((message) => { Notification.warning(message, { autoClose: 10_000 }); });
    NotebookActions.executionScheduled.connect((_sender, { notebook, cell }) => {
      const panel: NotebookPanel | undefined = tracker.find(({ content }) => content === notebook);
      const kernel = panel?.sessionContext.session?.kernel;
      const { type, sharedModel } = cell.model;
      if (!kernel || !notebook.model || !isPython(notebook.model) || type !== "code" || !asksClaude(sharedModel.getSource())) return;
      void kernels.load(kernel);
    });
  },
};

/** True for a cell that is a prompt, or has a line that is one. */
export function asksClaude(source: string): boolean {
  return /^\s*%%claude\b/.test(source) || /^[ \t]*%claude\b/m.test(source);
}

const RESTARTED: readonly string[] = ["starting", "restarting", "autorestarting", "dead"];

/** The kernels of which the page knows that they have loaded the package since they started. */
export class LoadedKernels {
  private readonly loaded = new WeakSet<Kernel.IKernelConnection>();
  private readonly followed = new WeakSet<Kernel.IKernelConnection>();

  constructor(private readonly tell: (problem: string) => void) {}

  /** Has `kernel` load the package before what it is asked next; says what keeps it from that. */
  async load(kernel: Kernel.IKernelConnection): Promise<void> {
    if (this.loaded.has(kernel)) return;
    this.follow(kernel);
    // the kernel does one request after the other: this one is sent first
    const problem = await loadForCell(kernel);
    if (problem === null) this.loaded.add(kernel);
    else this.tell(problem);
  }

  private follow(kernel: Kernel.IKernelConnection): void {
    if (this.followed.has(kernel)) return;
    this.followed.add(kernel);
    kernel.statusChanged.connect((_, status) => { if (RESTARTED.includes(status)) this.loaded.delete(kernel); });
  }
}
