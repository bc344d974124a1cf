/** The diff of an edit whose new text the user changes before they allow it: from the card's own diff, without asking the kernel. */

import type { JsonObject } from "../../json";
import type { AskOp } from "../protocol";
import { aligned } from "./changed_words";
import type { DiffLine } from "./diff";
import { parseDiff } from "./diff";

const CONTEXT_LINES = 3;
/** Of larger changes the lines between the first and the last one that differ count as changed. */
const MAX_CELLS = 1_000_000;

/** A part of a file, before: its lines, and the number of the first. */
type Part = { start: number; lines: string[] };

/** The diff of `ask`, whose input would be `edited`; "" if nothing would change. */
export function renewedDiff(ask: Pick<AskOp, "name" | "detail" | "detail_kind">, input: JsonObject, edited: JsonObject): string {
  const path = /^\+\+\+ ([^\n]*)/m.exec(ask.detail)?.[1] ?? textOf(input.file_path ?? input.notebook_path);
  const parsed = ask.detail_kind === "diff" ? parseDiff(ask.detail) : [];
  const whole = wholeTextKey(ask.name);
  const hunks =
    whole === null
      ? editHunks(oldParts(parsed), editsOf(input), editsOf(edited))
      : changedHunks({ start: 1, lines: linesOf(withOldLines(textOf(input[whole]), parsed)) }, linesOf(textOf(edited[whole])));
  return hunks ? `--- ${path}\n+++ ${path}\n${hunks}` : "";
}

/** The field that holds the whole new text of a file or a cell; null for tools that change pieces of it. */
export function wholeTextKey(name: string): string | null {
  return { Write: "content", NotebookEdit: "new_source" }[name] ?? null;
}

type Edit = { before: string; now: string; everywhere: boolean };

function editsOf(input: JsonObject): Edit[] {
  const edits = Array.isArray(input.edits) ? (input.edits as JsonObject[]) : [input];
  return edits.map((edit) => ({ before: textOf(edit.old_string), now: textOf(edit.new_string), everywhere: edit.replace_all === true }));
}

/** The parts of the file that `lines` show, as they were before. */
function oldParts(lines: readonly DiffLine[]): Part[] {
  const parts: Part[] = [];
  let open = false;
  for (const { kind, old, text } of lines) {
    if (kind === "hunk") open = false;
    if (old === null) continue;
    if (!open) parts.push({ start: old, lines: [] });
    open = true;
    parts.at(-1)?.lines.push(text);
  }
  return parts;
}

/** The hunks of `edits` made in `parts`; each for itself if the parts do not show the whole of what is replaced. */
function editHunks(parts: readonly Part[], were: readonly Edit[], edits: readonly Edit[]): string {
  const found = new Set<number>();
  let shift = 0;
  const hunks = parts.map((part) => {
    const before = part.lines.join("\n");
    let now = before;
    edits.forEach((edit, index) => {
      if (edit.before === "" || !now.includes(edit.before)) return;
      found.add(index);
      now = edit.everywhere ? now.split(edit.before).join(edit.now) : now.replace(edit.before, () => edit.now);
    });
    const lines = now.split("\n");
    const hunk = changedHunks(part, lines, shift);
    shift += lines.length - part.lines.length;
    return hunk;
  });
  if (found.size === were.length) return hunks.join("");
  return edits.map((edit) => changedHunks({ start: lineOf(edit.before, parts), lines: linesOf(edit.before) }, linesOf(edit.now))).join("");
}

/** The line at which `text`, of which `parts` show a piece, begins in the file; 1 if that cannot be seen. */
function lineOf(text: string, parts: readonly Part[]): number {
  const lines = linesOf(text);
  for (const part of parts) {
    for (const [index, line] of part.lines.entries()) {
      const at = line.trim() === "" ? -1 : lines.indexOf(line);
      if (at >= 0 && lines.lastIndexOf(line) === at) return Math.max(1, part.start + index - at);
    }
  }
  return 1;
}

/** `text` with the lines that `changed` says were there before: the text that the diff is a change of. */
function withOldLines(text: string, changed: readonly DiffLine[]): string {
  const shown = changed.filter(({ kind }) => ["same", "added", "removed"].includes(kind));
  if (shown.length === 0) return "";
  const lines = linesOf(text);
  const before: string[] = [];
  let next = 1;
  for (const { kind, now, text: line } of shown.map((line) => ({ ...line, now: line.new }))) {
    if (now !== null) {
      before.push(...lines.slice(next - 1, now - 1));
      next = now + 1;
    }
    if (kind !== "added") before.push(line);
  }
  return [...before, ...lines.slice(next - 1)].join("\n");
}

/** The unified hunks from `before` to `now`; `shift`: so many lines more are above it now. */
function changedHunks(before: Part, now: readonly string[], shift = 0): string {
  const signed = lineDiff(before.lines, now);
  const near = signed.map((_, index) => signed.slice(Math.max(0, index - CONTEXT_LINES), index + CONTEXT_LINES + 1).some(([sign]) => sign !== " "));
  let hunks = "";
  let [old, fresh] = [before.start, before.start + shift];
  for (let at = 0; at < signed.length; ) {
    const start = at;
    const from = [old, fresh] as const;
    while (at < signed.length && near[at] === near[start]) {
      const [sign] = signed[at++] ?? [" "];
      if (sign !== "+") old++;
      if (sign !== "-") fresh++;
    }
    if (!near[start]) continue;
    const body = signed.slice(start, at).map(([sign, text]) => `${sign}${text}\n`).join("");
    hunks += `@@ -${from[0]},${old - from[0]} +${from[1]},${fresh - from[1]} @@\n${body}`;
  }
  return hunks;
}

type SignedLine = readonly [sign: " " | "+" | "-", text: string];

/** All lines of both texts in order, each with its sign. */
function lineDiff(before: readonly string[], now: readonly string[]): SignedLine[] {
  const shorter = Math.min(before.length, now.length);
  let start = 0;
  while (start < shorter && before[start] === now[start]) start++;
  let end = 0;
  while (end < shorter - start && before.at(-1 - end) === now.at(-1 - end)) end++;
  const [old, fresh] = [before.slice(start, before.length - end), now.slice(start, now.length - end)];
  const kept = old.length * fresh.length > MAX_CELLS ? [] : aligned(old.length, fresh.length, (row, column) => Number(old[row] === fresh[column]));
  const lines: SignedLine[] = [];
  let [row, column] = [0, 0];
  for (const [nextRow, nextColumn] of [...kept, [old.length, fresh.length] as const]) {
    lines.push(...old.slice(row, nextRow).map((text) => ["-", text] as const), ...fresh.slice(column, nextColumn).map((text) => ["+", text] as const));
    if (nextRow < old.length) lines.push([" ", old[nextRow] ?? ""]);
    [row, column] = [nextRow + 1, nextColumn + 1];
  }
  const same = (texts: readonly string[]): SignedLine[] => texts.map((text) => [" ", text] as const);
  return [...same(before.slice(0, start)), ...lines, ...same(before.slice(before.length - end))];
}

/** The lines of a text; the line end of the last one begins none. */
function linesOf(text: string): string[] {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
