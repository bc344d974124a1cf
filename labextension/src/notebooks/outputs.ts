/** Outputs that the kernel has for a cell which it ran itself. */

import { RequestError } from "../transport/rpc";
import type { JsonObject, NotebookModel } from "../notebook/jupyterlab_types";

export type PutOutputs = {
  id: string;
  expect: string | null;
  outputs: JsonObject[];
  execution_count: number | null;
  clear: boolean;
  running: boolean;
};

/** Puts outputs into a cell as JupyterLab does when it runs one. Throws RequestError. */
export function putOutputs(model: NotebookModel, put: PutOutputs): void {
  const cell = [...model.cells].find(({ id }) => id === put.id);
  const shared = model.sharedModel.cells.find(({ id }) => id === put.id);
  if (!cell || !shared) throw new RequestError("no_cell", `There is no cell ${put.id}.`);
  if (!cell.outputs) throw new RequestError("not_code", `Cell ${put.id} is no code cell: it has no outputs.`);
  const source = shared.getSource();
  if (put.expect !== null && source !== put.expect) {
    throw new RequestError("conflict", "The cell has changed.", { conflicts: [{ id: put.id, now: source }] });
  }
  if (put.clear) cell.outputs.clear();
  for (const output of put.outputs) cell.outputs.add(output);
  cell.executionState = put.running ? "running" : "idle";
  cell.executionCount = put.running ? null : put.execution_count;
}
