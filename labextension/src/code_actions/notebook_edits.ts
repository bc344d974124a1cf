/** Code that is put into the notebook that the user was at, as one step that Ctrl-Z takes back. */

import type { Change } from "../notebook/change_cells";
import { change } from "../notebook/change_cells";
import type { SharedCell } from "../notebook/jupyterlab_types";
import { randomName } from "../page";
import type { CellOfCode } from "../notebook/cell_language";
import { cellOf, languageOf } from "../notebook/cell_language";
import type { Notebook } from "../notebook/code_actions_types";

/** Why nothing can be put into the notebook; empty when it can. */
export function insertProblem(notebook: Notebook | null): "" | "no notebook" | "read-only" {
  if (!notebook?.model) return "no notebook";
  return notebook.model.readOnly ? "read-only" : "";
}

/** The same for the active cell. */
export function replaceProblem(notebook: Notebook | null): ReturnType<typeof insertProblem> | "no cell" | "locked" {
  const problem = insertProblem(notebook);
  if (problem) return problem;
  const cell = activeCell(notebook);
  if (!cell) return "no cell";
  return cell.metadata.editable === false ? "locked" : "";
}

/** Puts the code below the active cell, and makes it the active one. */
export function insertBelow(notebook: Notebook, language: string, text: string): void {
  const { model } = notebook;
  if (!model) return;
  const cell = cellOf(language, text, languageOf(model));
  const active = activeCell(notebook);
  const where = active ? { where: "after" as const, beside: active.id } : { where: "end" as const, beside: "" };
  const [made] = change(model.sharedModel, [{ type: "insert", ...where, ...newCell(cell) }]);
  if (made) show(notebook, made.position);
}

/** Puts the code in the place of the active cell's. Throws RequestError where that cell is running. */
export function replaceActive(notebook: Notebook, language: string, text: string): void {
  const { model } = notebook;
  const active = activeCell(notebook);
  if (!model || !active) return;
  const { cell_type, source } = cellOf(language, text, languageOf(model));
  const replace: Change = {
    type: "replace",
    id: active.id,
    expect: active.getSource(),
    source,
    cell_type,
    outputs: null,
    execution_count: null,
    attachments: null,
  };
  const [changed] = change(model.sharedModel, [replace]);
  if (changed) show(notebook, changed.position);
}

function activeCell(notebook: Notebook | null): SharedCell | undefined {
  return notebook?.model?.sharedModel.cells[notebook.activeCellIndex];
}

function newCell({ cell_type, source }: CellOfCode): Omit<Extract<Change, { type: "insert" }>, "type" | "where" | "beside"> {
  return { id: randomName().slice(0, 8), cell_type, source, metadata: {}, outputs: [], execution_count: null, attachments: {} };
}

/** The notebook has the keyboard then, with its own undo on Ctrl-Z. */
function show(notebook: Notebook, position: number): void {
  notebook.activeCellIndex = position;
  notebook.mode = "command";
  notebook.activate();
  void notebook.scrollToItem?.(position);
}
