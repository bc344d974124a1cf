/** The notebook's state as the start page's suggestions need it: what failed, which tables nobody has plotted, how far it was run. */

import type { NotebookPanel } from "@jupyterlab/notebook";

import type { CellModel } from "../notebook/cell_language";

/** `failed` and `table` name a cell by its number in `[…]`; the last one of its kind. */
export type NotebookFacts = {
  readonly cells: number;
  readonly code: number;
  readonly ran: number;
  readonly hasProse: boolean;
  readonly failed: { readonly count: number; readonly error: string } | null;
  readonly table: { readonly count: number } | null;
};

const PICTURES = ["image/png", "image/svg+xml", "image/jpeg", "application/vnd.plotly.v1+json"];
const TABLE = /<table[^>]*class="[^"]*\bdataframe\b/;
const ASKS_CLAUDE = /^\s*%{1,2}claude\b/;

type Output = { readonly output_type?: string; readonly ename?: string; readonly data?: Record<string, unknown> };

/** The facts of the notebook that is open in `panel`; null where there is none. */
export function notebookFacts(panel: NotebookPanel | null): NotebookFacts | null {
  const cells = panel?.content.model ? panel.content.widgets.map(({ model }) => model as CellModel) : null;
  if (!cells) return null;
  const written = cells.filter(({ sharedModel }) => sharedModel.getSource().trim() !== "");
  return {
    cells: written.length,
    code: written.filter(({ type }) => type === "code").length,
    ran: written.filter(({ executionCount }) => executionCount != null).length,
    hasProse: written.some(({ type }) => type === "markdown"),
    ...lastOfEach(written),
  };
}

/** What the user's own cells came to. */
function lastOfEach(cells: readonly CellModel[]): Pick<NotebookFacts, "failed" | "table"> {
  let failed: NotebookFacts["failed"] = null;
  let table: NotebookFacts["table"] = null;
  for (const cell of cells) {
    const count = cell.executionCount;
    if (count == null || ASKS_CLAUDE.test(cell.sharedModel.getSource())) continue;
    const outputs = outputsOf(cell);
    const error = outputs.find(({ output_type }) => output_type === "error");
    if (error) failed = { count, error: error.ename ?? "" };
    if (outputs.some(isPicture)) table = null;
    else if (outputs.some(isTable)) table = { count };
  }
  return { failed, table };
}

function outputsOf({ outputs }: CellModel): Output[] {
  return outputs ? Array.from({ length: outputs.length }, (_, at) => outputs.get(at).toJSON() as Output) : [];
}

function isPicture({ data }: Output): boolean {
  return data !== undefined && PICTURES.some((type) => type in data);
}

function isTable({ data }: Output): boolean {
  const html = data?.["text/html"];
  return TABLE.test(Array.isArray(html) ? html.join("") : typeof html === "string" ? html : "");
}
