/**
 * What came of a run, put into the notebook where the page that ran the cell did not do it.
 *
 * A page whose document is its own puts it there. Where several pages edit one document together, all but the one that the
 * kernel names leave it alone. A place is an output whose metadata name the run.
 */

import type { JupyterFrontEndPlugin } from "@jupyterlab/application";
import type { IDisplayData, IMimeBundle, IOutput } from "@jupyterlab/nbformat";
import type { INotebookModel, NotebookPanel } from "@jupyterlab/notebook";
import { INotebookTracker } from "@jupyterlab/notebook";
import type { IOutputAreaModel } from "@jupyterlab/outputarea";
import { JSONExt } from "@lumino/coreutils";

import type { SavedCellOutput, SavedMessage } from "../../transcript/protocol";
import { SAVED_EVENT } from "../../transcript/protocol";
import type { CellModel } from "../cell_language";
import { keepOutputsInOrder, sharedOutputs } from "./shared_outputs";

const WIDGET_VIEW = "application/vnd.jupyter.widget-view+json";

/** A notebook of the page; `session` is what the messages of its kernel connection carry. */
export type OpenNotebook = { readonly model: INotebookModel; readonly session: string };
type CodeCell = CellModel & { readonly outputs: IOutputAreaModel };

/**
 * Puts what is `saved` into its places, and what is not there yet below them, else into its cell; says whether a notebook has
 * either.
 */
export function insertSavedOutput(notebooks: readonly OpenNotebook[], saved: SavedMessage): boolean {
  const cells = notebooks.flatMap(({ model, session }) => codeCells(model).map((cell) => ({ cell, isShared: model.collaborative === true, session })));
  const runs = runsIn(saved);
  const showing = cells.filter(({ cell }) => outputsOf(cell).some((output) => partOf(output, runs) !== null));
  // a copy of the notebook has cells with the same ids, and one of them never ran
  const [lacking, ...copies] = showing.length > 0 ? [] : cells.filter(({ cell }) => cell.id === saved.cell);
  const found = lacking && copies.length === 0 ? [lacking] : showing;
  for (const { cell, isShared, session } of found) {
    if (!isShared) keepInOwn(cell.outputs, saved);
    else if (session === saved.writer) keepInShared(cell, saved);
  }
  return found.length > 0;
}

function codeCells(model: INotebookModel): CodeCell[] {
  return [...model.cells].flatMap((cell) => ((cell as CellModel).outputs ? [cell as unknown as CodeCell] : []));
}

function outputsOf({ outputs }: CodeCell): IOutput[] {
  return Array.from({ length: outputs.length }, (_, index) => outputs.get(index).toJSON());
}

/** Changes what differs alone: what streamed goes on being shown as it is. */
function keepInOwn(outputs: IOutputAreaModel, saved: SavedMessage): void {
  const before = Array.from({ length: outputs.length }, (_, index) => outputs.get(index).toJSON());
  const after = withSaved(before, saved);
  if (after.length < before.length) {
    outputs.fromJSON(after);
    return;
  }
  after.forEach((output, index) => {
    if (index >= before.length) outputs.add(output);
    else if (output !== before[index]) outputs.set(index, output);
  });
}

/** The page that ran the cell has gone: this one writes in its place. */
function keepInShared(cell: CodeCell, saved: SavedMessage): void {
  const shared = sharedOutputs(cell);
  if (!shared) return;
  const before = shared.getOutputs();
  const after = withSaved(before, saved);
  if (after.length !== before.length || after.some((output, index) => output !== before[index])) shared.setOutputs(after);
  if (saved.outputs.some(isLive)) return;
  // what the kernel says of the cell reached nobody
  cell.executionState = "idle";
  cell.executionCount = saved.count;
}

/** The outputs as they are to be: those that stay are the same objects. */
export function withSaved(outputs: readonly IOutput[], saved: SavedMessage): IOutput[] {
  const runs = runsIn(saved);
  const seen = new Set<number>();
  // each once, also where two pages have written it
  const after = outputs.filter((output) => {
    const part = partOf(output, runs);
    return part === null || (!seen.has(part) && seen.add(part));
  });
  const first = after.findIndex((output) => partOf(output, runs) !== null);
  let at = first < 0 ? after.length : first;
  for (const output of saved.outputs) {
    const place = output.part === null ? -1 : after.findIndex((each) => partOf(each, runs) === output.part);
    if (place >= 0) at = place;
    // what the cell has printed since stands where it is
    else while (at < after.length && after[at]?.output_type !== "display_data") at++;
    const there = after[at];
    const isThere = there !== undefined && (place >= 0 || (output.part === null && partOf(there, runs) === null));
    if (!isThere) after.splice(at, 0, displayData(output));
    else if (!isAsSaved(there as IDisplayData, output)) after[at] = displayData(output);
    at++;
  }
  return after;
}

/** Its own name, and that which its saved outputs have: a run that was played says the same each time. */
function runsIn({ run, outputs }: SavedMessage): Set<unknown> {
  return new Set([run, ...outputs.map(({ metadata }) => ours(metadata)?.run).filter((name) => name !== undefined)]);
}

/** The number of the part of one of these runs that stands in an output. */
function partOf({ metadata }: IOutput, runs: ReadonlySet<unknown>): number | null {
  const { run, part } = ours(metadata) ?? {};
  return runs.has(run) && typeof part === "number" ? part : null;
}

function ours(metadata: unknown): { run?: unknown; part?: unknown } | undefined {
  return (metadata as { cellwright?: { run?: unknown; part?: unknown } } | undefined)?.cellwright;
}

/** True for what shows a run that goes on: it belongs there until there is more, and never in the place of what was saved. */
function isLive({ data }: Pick<SavedCellOutput, "data">): boolean {
  return WIDGET_VIEW in data;
}

function isAsSaved(there: IDisplayData, output: SavedCellOutput): boolean {
  if (output.part !== null && isLive(output)) return true;
  return JSONExt.deepEqual(there.data, output.data) && JSONExt.deepEqual(there.metadata, output.metadata);
}

function displayData({ data, metadata }: SavedCellOutput): IDisplayData {
  return { output_type: "display_data", data: data as IMimeBundle, metadata };
}

// Keeps what came of a run in a notebook that was opened while it went on; elsewhere the kernel's own update does.

export const savedOutputPlugin: JupyterFrontEndPlugin<void> = {
  id: "cellwright:saved-output",
  description: "Puts Claude's answer into the notebook where the page that ran the cell was closed or reloaded.",
  autoStart: true,
  optional: [INotebookTracker],
  activate: (_, tracker: INotebookTracker | null) => {
    if (!tracker) return;
    const keepInOrder = ({ context }: NotebookPanel): void => { void context.ready.then(() => { keepOutputsInOrder(context.model); }); };
    tracker.forEach(keepInOrder);
    tracker.widgetAdded.connect((_sender, panel) => { keepInOrder(panel); });
    document.addEventListener(SAVED_EVENT, (event) => {
      // a notebook with two views has one model
      const notebooks = new Map<INotebookModel, OpenNotebook>();
      tracker.forEach(({ model, sessionContext }: NotebookPanel) => {
        if (model) notebooks.set(model, { model, session: sessionContext.session?.kernel?.clientId ?? "" });
      });
      if (insertSavedOutput([...notebooks.values()], (event as CustomEvent<SavedMessage>).detail)) event.preventDefault();
    });
  },
};
