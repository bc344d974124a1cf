/** In the place of JupyterLab's package: its token, and its actions. */

import { Token } from "@lumino/coreutils";
import { Signal } from "@lumino/signaling";

export const INotebookTracker = new Token("@jupyterlab/notebook:INotebookTracker");

/** Runs nothing; a test sees what was to be run, and says what was. */
class Actions {
  readonly executed = new Signal<this, unknown>(this);
  readonly executionScheduled = new Signal<this, unknown>(this);
  readonly ran: unknown[] = [];

  runCells(_notebook: unknown, cells: readonly unknown[]): Promise<boolean> {
    this.ran.push(...cells);
    return Promise.resolve(true);
  }
}

export const NotebookActions = new Actions();
