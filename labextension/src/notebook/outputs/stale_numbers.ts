/**
 * Stale numbers of a notebook's answers: each answer keeps the places that its numbers were seen in, and Jupyter Server compares
 * them with the cells as they are in this page, saved or not, and with files. So a notebook without a kernel has its marks, too.
 */

import type { Cell } from "@jupyterlab/cells";
import type { IOutput } from "@jupyterlab/nbformat";
import type { NotebookPanel } from "@jupyterlab/notebook";
import type { Kernel } from "@jupyterlab/services";

import type { StaleAnswer } from "../../transcript/items/numbers";
import { showStale } from "../../transcript/items/numbers";
import type { WrittenPrompt } from "../../transcript/items/page_actions";
import { TRANSCRIPT_TYPE } from "../../transcript/protocol";
import { loadForCell } from "../../transport/load_extension";
import type { ComparedCell, ServerApi } from "../../transport/server_api";
import type { CellModel } from "../cell_language";
import { HEADER } from "../prompt_cells/prompt_text";
import { areaOf } from "./notebook_outputs";

/** After the last change; while somebody types nothing is compared. */
const QUIET_MS = 400;
const TEXTS = new Set(["text/plain", "text/html", "text/markdown", "text/latex", TRANSCRIPT_TYPE]);
const OPTIONS = /^[ \t]*--/;

type Kept = { readonly n: readonly { readonly cell?: unknown; readonly path?: unknown }[] };
type CodeCell = CellModel & Required<Pick<CellModel, "outputs" | "executionState">>;

/** What a kernel says of the answers that it gave elsewhere than in a cell. */
type AskKernel = () => Promise<readonly StaleAnswer[]>;

/**
 * Marks the stale numbers of the answers that no cell shows, such as the panel's: when cells have run, and when the page is come back to.
 * The kernel compares them, as it has what they keep.
 */
export function watchPanelAnswers(panel: NotebookPanel, ask: AskKernel): void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let names: readonly string[] = [];
  const compare = async (): Promise<void> => {
    if (panel.isDisposed || isBusy(panel)) return;
    const found = await ask().catch(() => null);
    if (!found) return; // the kernel is gone, or older than this page
    const elsewhere = found.filter(({ answer }) => !panel.content.widgets.some((cell) => shows(cell, answer)));
    if (elsewhere.length > 0 || names.length > 0) showStale(elsewhere, names);
    names = elsewhere.map(({ answer }) => answer);
  };
  const soon = (): void => {
    clearTimeout(timer);
    timer = setTimeout(() => { void compare(); }, QUIET_MS);
  };
  void panel.context.ready.then(() => {
    if (panel.isDisposed) return;
    panel.sessionContext.statusChanged.connect(soon);
    window.addEventListener("focus", soon);
    panel.disposed.connect(() => {
      clearTimeout(timer);
      window.removeEventListener("focus", soon);
      showStale([], names);
    });
  });
}

/** Marks the stale numbers of the notebook when it is shown, when it has changed and nothing runs, and when the page is come back to. */
export function watchNumbers(panel: NotebookPanel, server: Pick<ServerApi, "staleNumbers">): void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let names: readonly string[] = [];
  let last = "";
  let asked = 0;
  const show = (found: Awaited<ReturnType<typeof server.staleNumbers>>): void => {
    if (found.length > 0 || names.length > 0) showStale(found, names);
    names = found.map(({ answer }) => answer);
  };
  const compare = async (): Promise<void> => {
    const { model } = panel.context;
    if (panel.isDisposed || isBusy(panel)) return;
    const compared = comparedCells([...model.cells] as CellModel[]);
    const number = ++asked;
    if (!compared) {
      last = "";
      show([]);
      return;
    }
    const folder = folderOf(panel.context.path);
    const now = JSON.stringify([folder, compared.cells]);
    if (now === last && !compared.files) return;
    try {
      const found = await server.staleNumbers(folder, compared.cells);
      if (number !== asked) return;
      last = now;
      show(found);
    } catch {
      // a server without Cellwright, or one that is gone: numbers are as they were
    }
  };
  const soon = (): void => {
    clearTimeout(timer);
    timer = setTimeout(() => { void compare(); }, QUIET_MS);
  };
  void panel.context.ready.then(() => {
    if (panel.isDisposed) return;
    panel.context.model.contentChanged.connect(soon);
    panel.sessionContext.statusChanged.connect(soon);
    // files may have been written elsewhere
    window.addEventListener("focus", soon);
    panel.disposed.connect(() => {
      clearTimeout(timer);
      asked++;
      window.removeEventListener("focus", soon);
      show([]);
    });
    soon();
  });
}

/** What a cell prints comes piece by piece. */
function isBusy({ sessionContext }: NotebookPanel): boolean {
  return sessionContext.session?.kernel?.status === "busy";
}

function folderOf(path: string): string {
  return path.slice(0, Math.max(path.lastIndexOf("/"), 0));
}

/** What is compared: the answers that keep places, and the cells that these name; null if no answer keeps any. */
export function comparedCells(cells: readonly CellModel[]): { cells: readonly ComparedCell[]; files: boolean } | null {
  const code = cells.filter((cell): cell is CodeCell => cell.outputs !== undefined);
  const records = new Map(code.map((cell) => [cell, keptOf(cell)] as const).filter((pair): pair is readonly [CodeCell, Kept] => pair[1] !== null));
  if (records.size === 0) return null;
  const places = [...records.values()].flatMap(({ n }) => n);
  const named = new Set(places.flatMap(({ cell }) => (typeof cell === "string" && cell ? [cell] : [])));
  // a cell whose id changed is found by its source
  const isLost = [...named].some((id) => !code.some((cell) => cell.id === id));
  return {
    cells: code.filter((cell) => isLost || records.has(cell) || named.has(cell.id)).map((cell) => ({
      id: cell.id,
      source: cell.sharedModel.getSource(),
      execution_count: cell.executionCount ?? null,
      outputs: outputsOf(cell).map(withoutPictures),
    })),
    files: places.some(({ path }) => Boolean(path)),
  };
}

function outputsOf({ outputs }: CodeCell): IOutput[] {
  return Array.from({ length: outputs.length }, (_, index) => outputs.get(index).toJSON());
}

/** What an answer keeps of its numbers; null: nothing. */
function keptOf({ outputs }: CodeCell): Kept | null {
  for (let index = 0; index < outputs.length; index++) {
    const ours = outputs.get(index).metadata.cellwright as { numbers?: Partial<Kept> } | undefined;
    if (Array.isArray(ours?.numbers?.n)) return ours.numbers as Kept;
  }
  return null;
}

function withoutPictures(output: IOutput): IOutput {
  const { data } = output;
  if (typeof data !== "object" || data === null) return output;
  return { ...output, data: Object.fromEntries(Object.entries(data).filter(([mime]) => TEXTS.has(mime))) };
}

/**
 * Has the answer of this name written anew in the cell that shows it, whose prompt stays; false where no prompt's cell shows it.
 * If the new one is not finished, the old one stays above it.
 */
export async function refreshAnswer(panels: readonly NotebookPanel[], answer: string, prompt: WrittenPrompt, host: Element): Promise<boolean> {
  const found = panels.flatMap((panel) => panel.content.widgets.filter((cell) => shows(cell, answer)).map((cell) => ({ panel, cell })));
  const place = found.find(({ cell }) => cell.node.contains(host)) ?? found[0];
  return place !== undefined && askWritten(place.panel, place.cell, prompt);
}

/** Runs the prompt's `cell` with `prompt` in place of its words, which stay; false if it has no kernel, or is no prompt's. */
export async function askWritten(panel: NotebookPanel, cell: Cell, { title, instructions }: WrittenPrompt): Promise<boolean> {
  const header = HEADER.exec(cell.model.sharedModel.getSource());
  const kernel = panel.sessionContext.session?.kernel;
  if (!header || !kernel) return false;
  const options = header[2] ?? "";
  // as `kernel/magic/cell_prompt.py` reads it
  const prompt = `${title}\n<cellwright-instructions>\n${instructions}\n</cellwright-instructions>`;
  await runInPlace(panel, cell, kernel, `%%claude${OPTIONS.test(options) ? options : ""}\n${prompt}`);
  return true;
}

async function runInPlace(panel: NotebookPanel, cell: Cell, kernel: Kernel.IKernelConnection, code: string): Promise<void> {
  const area = areaOf(cell);
  if (!area) return;
  panel.content.activeCellIndex = panel.content.widgets.indexOf(cell);
  panel.content.activate();
  const before = area.model.toJSON();
  const model = cell.model as CodeCell;
  await loadForCell(kernel);
  const future = kernel.requestExecute({ code, stop_on_error: true }, false, { cellId: model.id });
  area.future = future;
  model.executionCount = null;
  model.executionState = "running";
  const { content } = await future.done;
  if (panel.isDisposed) return;
  model.executionState = "idle";
  model.executionCount = content.execution_count;
  const after = area.model.toJSON();
  if (!isFinished(after)) area.model.fromJSON([...before, ...after]);
}

function opsOf(output: IOutput): readonly { op?: unknown; answer?: unknown; stop_reason?: unknown }[] {
  const data = output.data as Record<string, { ops?: unknown } | undefined> | undefined;
  const ops = data?.[TRANSCRIPT_TYPE]?.ops;
  return Array.isArray(ops) ? (ops as { op?: unknown }[]) : [];
}

function shows(cell: Cell, answer: string): boolean {
  return outputsOf(cell.model as CodeCell).flatMap(opsOf).some(({ op, answer: name }) => op === "numbers" && name === answer);
}

function isFinished(outputs: readonly IOutput[]): boolean {
  return outputs.flatMap(opsOf).findLast(({ op }) => op === "end")?.stop_reason === "end_turn";
}
