/** Cells of a shared notebook as the protocol has them, and changed as one step that can be undone. */

import type { YBaseCell, YCodeCell, YMarkdownCell, YNotebook } from "@jupyter/ydoc";
import type { IAttachments, IBaseCellMetadata, IOutput } from "@jupyterlab/nbformat";

import type { JsonObject } from "../json";
import { RequestError } from "../transport/rpc";

type InsertPosition = { where: "before" | "after" | "start" | "end"; beside: string };
type ReplaceChange = {
  type: "replace";
  id: string;
  expect: string;
  source: string | null;
  cell_type: string | null;
  outputs: JsonObject[] | null;
  execution_count: number | null;
  attachments: JsonObject | null;
};
type NewCell = {
  id: string;
  cell_type: string;
  source: string;
  metadata: JsonObject;
  outputs?: JsonObject[];
  execution_count?: number | null;
  attachments?: JsonObject;
};
type InsertChange = InsertPosition & NewCell & { type: "insert"; outputs: JsonObject[]; attachments: JsonObject };
type DeleteChange = { type: "delete"; id: string; expect: string };
type MoveChange = InsertPosition & { type: "move"; id: string };
export type CellChange = ReplaceChange | InsertChange | DeleteChange | MoveChange;

export type ChangedCell = { id: string; position: number; was: number; before: JsonObject | null; after: JsonObject | null };

/** A notebook's document, as far as changes of cells use it. */
export type SharedNotebook = Pick<YNotebook, "cells" | "ydoc" | "undoManager" | "insertCell" | "deleteCell">;

/** A cell of any type: those of code have outputs, the others attachments. */
type AnyCell = { readonly cell_type: string } & Pick<YBaseCell<IBaseCellMetadata>, "id" | "metadata" | "setMetadata" | "deleteMetadata" | "undoManager" | "toJSON" | "getSource" | "updateSource"> &
  Partial<Pick<YCodeCell, "execution_count" | "executionState" | "getOutputs" | "setOutputs">> &
  Partial<Pick<YMarkdownCell, "getAttachments" | "setAttachments">>;

/** Of a cell's metadata: who asked Claude for what it holds. */
export const PROVENANCE_KEY = "cellwright";

/** Undo managers take back what has an origin that they follow. */
const ORIGIN = { changedBy: "Claude" };

export function cellJson(cell: AnyCell, outputs = true): JsonObject {
  return {
    id: cell.id,
    cell_type: cell.cell_type,
    source: cell.getSource(),
    metadata: cell.metadata as JsonObject,
    execution_count: cell.execution_count ?? null,
    outputs: outputs ? ((cell.getOutputs?.() ?? []) as JsonObject[]) : [],
    attachments: (cell.getAttachments?.() ?? {}) as JsonObject,
  };
}

/** Makes all changes or none; changed cells keep `provenance`, the reason, in their metadata. Throws RequestError. */
export function changeCells(notebook: SharedNotebook, changes: CellChange[], provenance: JsonObject | null = null): ChangedCell[] {
  checkChanges(notebook, changes);
  const managers = undoManagers(notebook, changes);
  // what the user has typed just now is a step of its own
  for (const manager of managers) {
    manager.trackedOrigins.add(ORIGIN);
    manager.stopCapturing();
  }
  const changed: ChangedCell[] = [];
  notebook.ydoc.transact(() => {
    // the notebook's own list follows when the transaction is over
    const cells = [...notebook.cells];
    for (const each of changes) {
      const done = applyChange(notebook, cells, each);
      if (each.type === "replace" || each.type === "insert") keepProvenance(cells.find(({ id }) => id === done.id), provenance);
      changed.push(done);
    }
  }, ORIGIN);
  for (const manager of managers) manager.stopCapturing();
  const made = readBack(notebook, changed);
  remember(notebook, made, provenance !== null);
  return made;
}

/** The sources that Claude gave to cells of a document while this page shows it. */
const given = new WeakMap<SharedNotebook["ydoc"], Map<string, string>>();

/** What takes a change back is none itself. */
function remember({ ydoc }: SharedNotebook, made: readonly ChangedCell[], isClaudes: boolean): void {
  const sources = given.get(ydoc) ?? new Map<string, string>();
  given.set(ydoc, sources);
  for (const { id, after } of made) {
    if (isClaudes && typeof after?.source === "string") sources.set(id, after.source);
    else sources.delete(id);
  }
}

/** The ids of the cells that are as Claude changed them: those changes can be undone still. */
export function changedByClaude({ ydoc, cells }: Pick<SharedNotebook, "ydoc" | "cells">): ReadonlySet<string> {
  const sources = given.get(ydoc);
  return new Set(sources ? cells.filter(({ id, source }) => sources.get(id) === source).map(({ id }) => id) : []);
}

function undoManagers(notebook: SharedNotebook, changes: CellChange[]): Set<SharedNotebook["undoManager"]> {
  const ids = new Set(changes.map(({ id }) => id));
  const touched = notebook.cells.filter(({ id }) => ids.has(id)).flatMap(({ undoManager }) => undoManager ?? []);
  return new Set([notebook.undoManager, ...touched]);
}

type CellOutline = { id: string; cell_type: string; source: string; running: boolean };

/** Goes through all changes without making them: a transaction cannot be taken back half done. */
function checkChanges(notebook: SharedNotebook, changes: CellChange[]): void {
  const cells: CellOutline[] = notebook.cells.map((cell: AnyCell) => ({
    id: cell.id,
    cell_type: cell.cell_type,
    source: cell.getSource(),
    running: cell.executionState === "running",
  }));
  const conflicts: JsonObject[] = [];
  for (const each of changes) {
    if (each.type === "insert") {
      const id = cells.some((cell) => cell.id === each.id) ? "" : each.id;
      cells.splice(positionFor(cells, each), 0, { id, cell_type: each.cell_type, source: each.source, running: false });
      continue;
    }
    const at = indexOf(cells, each.id);
    const cell = cellAt(cells, at);
    if (cell.running) {
      throw new RequestError("running", `Cell ${cell.id} is running, or waits to be run: it can be changed when it has ended.`);
    }
    if (each.type === "move") {
      const to = positionFor(cells, each);
      cells.splice(to - Number(to > at), 0, ...cells.splice(at, 1));
      continue;
    }
    if (cell.source !== each.expect) conflicts.push({ id: cell.id, now: cell.source });
    if (each.type === "delete") cells.splice(at, 1);
    else cell.source = each.source ?? cell.source;
  }
  if (conflicts.length) throw new RequestError("conflict", "Cells have changed since they were read.", { conflicts });
}

function indexOf(cells: readonly { id: string }[], id: string): number {
  const index = cells.findIndex((cell) => cell.id === id);
  if (index < 0) {
    const names = cells.slice(0, 40).map((cell) => cell.id).join(", ");
    throw new RequestError("no_cell", `There is no cell ${id}. The cells are: ${names || "none"}.`);
  }
  return index;
}

function cellAt<Cell>(cells: readonly Cell[], index: number): Cell {
  const cell = cells[index];
  if (cell === undefined) throw new RangeError(`no cell ${index}`);
  return cell;
}

function positionFor(cells: readonly { id: string }[], { where, beside }: InsertPosition): number {
  if (where === "start") return 0;
  if (where === "end") return cells.length;
  return indexOf(cells, beside) + Number(where === "after");
}

function applyChange(notebook: SharedNotebook, cells: AnyCell[], each: CellChange): ChangedCell {
  if (each.type === "insert") return insertCell(notebook, cells, each);
  const at = indexOf(cells, each.id);
  const cell = cellAt(cells, at);
  const before = cellJson(cell);
  let now = at;
  if (each.type === "replace") replaceCell(notebook, cells, at, each);
  else if (each.type === "move") {
    const to = positionFor(cells, each);
    now = to - Number(to > at);
    if (now !== at) {
      const same = cell.toJSON() as NewCell;
      removeCell(notebook, cells, at);
      addCell(notebook, cells, now, same);
    }
  } else {
    removeCell(notebook, cells, at);
    return { id: each.id, position: at, was: at, before, after: null };
  }
  return { id: each.id, position: now, was: at, before, after: cellJson(cellAt(cells, now)) };
}

/** The reason of a cell's last change by Claude, in its metadata; a change without one takes that of an earlier change away. */
function keepProvenance(cell: AnyCell | undefined, provenance: JsonObject | null): void {
  if (provenance) cell?.setMetadata(PROVENANCE_KEY, provenance);
  else if (cell && PROVENANCE_KEY in (cell.metadata as JsonObject)) cell.deleteMetadata(PROVENANCE_KEY);
}

function removeCell(notebook: SharedNotebook, cells: AnyCell[], at: number): void {
  notebook.deleteCell(at);
  cells.splice(at, 1);
}

function addCell(notebook: SharedNotebook, cells: AnyCell[], at: number, cell: NewCell): void {
  cells.splice(at, 0, notebook.insertCell(at, cell));
}

function insertCell(notebook: SharedNotebook, cells: AnyCell[], each: InsertChange): ChangedCell {
  const at = positionFor(cells, each);
  const taken = cells.some(({ id }) => id === each.id);
  const id = taken ? `${each.id}-${crypto.getRandomValues(new Uint16Array(1))[0]}` : each.id;
  const { cell_type, source, metadata } = each;
  const cell: NewCell = { id, cell_type, source, metadata };
  if (cell_type === "code") Object.assign(cell, { outputs: each.outputs, execution_count: each.execution_count });
  else if (Object.keys(each.attachments).length) cell.attachments = each.attachments;
  addCell(notebook, cells, at, cell);
  return { id, position: at, was: at, before: null, after: cellJson(cellAt(cells, at)) };
}

function replaceCell(notebook: SharedNotebook, cells: AnyCell[], at: number, each: ReplaceChange): void {
  const cell = cellAt(cells, at);
  const old = cell.getSource();
  const source = each.source ?? old;
  if (each.cell_type !== null && each.cell_type !== cell.cell_type) {
    const other = withCellType(cell, each, each.cell_type, source);
    removeCell(notebook, cells, at);
    addCell(notebook, cells, at, other);
    return;
  }
  if (source !== old) setSource(cell, old, source);
  if (each.attachments) cell.setAttachments?.(each.attachments as IAttachments);
  if (each.outputs) setOutputs(cell, each.outputs, each.execution_count);
  else if (source !== old) setOutputs(cell, [], null);
}

function withCellType(cell: AnyCell, each: ReplaceChange, kind: string, source: string): NewCell {
  const same: NewCell = { id: cell.id, cell_type: kind, source, metadata: cell.metadata as JsonObject };
  if (kind === "code") return { ...same, outputs: each.outputs ?? [], execution_count: each.execution_count };
  const attachments = each.attachments ?? (cell.getAttachments?.() as JsonObject | undefined);
  return attachments ? { ...same, attachments } : same;
}

function setOutputs(cell: AnyCell, outputs: JsonObject[], count: number | null): void {
  if (!cell.setOutputs) return; // no code
  cell.setOutputs(outputs as unknown as IOutput[]);
  cell.execution_count = count;
}

/** Only what differs is exchanged: the user's cursor stays where it is, and what others type elsewhere in the cell. */
function setSource(cell: AnyCell, old: string, source: string): void {
  let start = 0;
  const least = Math.min(old.length, source.length);
  while (start < least && old[start] === source[start]) start++;
  let tail = 0;
  while (tail < least - start && old[old.length - 1 - tail] === source[source.length - 1 - tail]) tail++;
  // the halves of a character beyond the basic plane stay together
  if (start && (isLowSurrogate(old[start]) || isLowSurrogate(source[start]))) start -= 1;
  if (tail && isLowSurrogate(old[old.length - tail])) tail -= 1;
  cell.updateSource(start, old.length - tail, source.slice(start, source.length - tail));
}

function isLowSurrogate(character: string | undefined): boolean {
  return character !== undefined && character >= "\udc00" && character <= "\udfff";
}

/** The document's current state of the last change of each cell. */
function readBack(notebook: SharedNotebook, changed: ChangedCell[]): ChangedCell[] {
  const places = new Map(notebook.cells.map((cell, index) => [cell.id, index]));
  const last = new Map(changed.map((each) => [each.id, each]));
  for (const each of last.values()) {
    const at = places.get(each.id);
    if (at === undefined) each.after = null;
    else if (each.after) Object.assign(each, { position: at, after: cellJson(cellAt(notebook.cells, at)) });
  }
  return changed;
}
