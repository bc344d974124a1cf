/** The outputs of the page's notebooks: where each is drawn. */

import type { Cell } from "@jupyterlab/cells";
import type { NotebookPanel } from "@jupyterlab/notebook";
import type { OutputArea } from "@jupyterlab/outputarea";
import type { IOutputModel } from "@jupyterlab/rendermime";

/** An output in a cell of a notebook; `node` is what it is drawn in, null while it is not drawn. */
export type FoundOutput = {
  readonly panel: NotebookPanel;
  readonly cell: Cell;
  readonly index: number;
  readonly output: IOutputModel;
  readonly node: HTMLElement | null;
};

export function areaOf(cell: Cell): OutputArea | null {
  return "outputArea" in cell ? (cell.outputArea as OutputArea) : null;
}

/** The output of `cell` at `index`; null where there is none. */
export function outputAt(panel: NotebookPanel, cell: Cell, index: number): FoundOutput | null {
  const area = areaOf(cell);
  if (!area || index < 0 || index >= area.model.length) return null;
  const node = area.widgets[index]?.node.querySelector<HTMLElement>(".jp-OutputArea-output") ?? null;
  return { panel, cell, index, output: area.model.get(index), node };
}
