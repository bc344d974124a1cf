/**
 * A unified diff as numbered lines; what was added and removed is told by sign, colour and number, the words that changed
 * are marked, and the code has its language's colours.
 */

import { coloredText, tokensBetween, withParser } from "../code/colored_code";
import type { Token } from "../code/colored_code";
import { work } from "../code/frame_work";
import { button, element } from "../dom";
import { lineCounts, plural } from "../format";
import type { CodeParser } from "../code/page_abilities";
import type { ChangedLines } from "../protocol";
import type { ToolItem } from "../store";
import { visibleText } from "../visible_text";
import type { Piece } from "./changed_words";
import { changedWords } from "./changed_words";

const NEITHER = { old: null, new: null };

type LineKind = "added" | "removed" | "same" | "hunk" | "file" | "remark";
export type DiffLine = { kind: LineKind; old: number | null; new: number | null; text: string };

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)$/;
const KINDS: Record<string, LineKind> = { "+": "added", "-": "removed", " ": "same", "": "same" };

/** The position of a hunk's next line, and the number of lines still to come. */
type Hunk = { old: number; new: number; oldLeft: number; newLeft: number };

/** The lines of `diff`; file headers only where there are several files. */
export function parseDiff(diff: string): DiffLine[] {
  const parsed: DiffLine[] = [];
  let hunk: Hunk = { old: 0, new: 0, oldLeft: 0, newLeft: 0 };
  for (const line of diff.replace(/\n$/, "").split("\n")) {
    const kind = KINDS[line.charAt(0)];
    const header = HUNK.exec(line);
    // counts decide what is content: a removed line may look like a header ("--- x")
    if (kind && hunk.oldLeft + hunk.newLeft > 0) {
      parsed.push(contentLine(kind, line.slice(1), hunk));
    } else if (header) {
      hunk = hunkOf(header);
      parsed.push({ kind: "hunk", ...NEITHER, text: header[5] ?? "" });
    } else if (!line.startsWith("--- ") && line !== "") {
      parsed.push(headerLine(line));
    }
  }
  return withoutUniformReturns(tidy(parsed));
}

function hunkOf([, old, oldLeft = "1", now, newLeft = "1"]: RegExpExecArray): Hunk {
  return { old: Number(old), new: Number(now), oldLeft: Number(oldLeft), newLeft: Number(newLeft) };
}

/** One file needs no header, and the beginning of a file no gap. */
function tidy(lines: DiffLine[]): DiffLine[] {
  const oneFile = lines.filter((line) => line.kind === "file").length < 2;
  return lines.filter(({ kind }, index) => {
    if (kind === "file") return !oneFile;
    const before = lines[index - 1]?.kind;
    return kind !== "hunk" || (before !== undefined && before !== "file");
  });
}

/** A line of `hunk`, whose counters go on. */
function contentLine(kind: LineKind, text: string, hunk: Hunk): DiffLine {
  const line: DiffLine = { kind, ...NEITHER, text };
  if (kind !== "added") {
    line.old = hunk.old++;
    hunk.oldLeft--;
  }
  if (kind !== "removed") {
    line.new = hunk.new++;
    hunk.newLeft--;
  }
  return line;
}

/** A line outside the hunks: what is not known is shown, never swallowed. */
function headerLine(line: string): DiffLine {
  if (line.startsWith("+++ ")) return { kind: "file", ...NEITHER, text: line.slice(4) };
  return { kind: "remark", ...NEITHER, text: line.replace(/^\\ /, "") };
}

/** A file with CRLF line ends has a carriage return in each line; only where they differ do they matter. */
function withoutUniformReturns(lines: DiffLine[]): DiffLine[] {
  const content = lines.filter((line) => line.old !== null || line.new !== null);
  if (!content.every((line) => line.text.endsWith("\r"))) return lines;
  for (const line of content) line.text = line.text.slice(0, -1);
  return lines;
}

/** The line at which a file, as it is now, differs first. */
export function firstChange(diff: string): string | undefined {
  const lines = parseDiff(diff);
  const at = lines.findIndex(({ kind }) => kind === "added" || kind === "removed");
  if (at < 0) return undefined;
  const there = lines.slice(at).find((line) => line.new !== null) ?? lines.slice(0, at).findLast((line) => line.new !== null);
  return `${there?.new ?? 1}`;
}

/** The lines that a call added and removed; null where it changed nothing. */
export function changedLines({ diff, lines }: Pick<ToolItem, "diff" | "lines">): ChangedLines | null {
  return diff === null ? null : (lines ?? countChanges(parseDiff(diff)));
}

function countChanges(lines: readonly DiffLine[]): ChangedLines {
  const number = (kind: LineKind): number => lines.filter((line) => line.kind === kind).length;
  return { added: number("added"), removed: number("removed") };
}

export function changeCounts(lines: readonly DiffLine[]): string {
  const { added, removed } = countChanges(lines);
  return lineCounts(added, removed);
}

/** The names of the files and cells (`analysis.ipynb#c4`) that `diff` changes. */
export function changedNames(diff: string): string[] {
  const headers = [...diff.matchAll(/^--- ([^\n]*)\n\+\+\+ ([^\n]*)$/gm)];
  const names = headers.map(([, before = "", after = ""]) => (after.startsWith("/dev/null") ? before : after));
  return names.map((name) => name.replace(/^[ab]\//, "").replace(/\t.*$/, "").trim());
}

/** The lines without the blank context at both ends of each hunk, which says nothing. */
export function withoutBlankEnds(lines: readonly DiffLine[]): DiffLine[] {
  const isEnd = (index: number): boolean => !["added", "removed", "same"].includes(lines[index]?.kind ?? "hunk");
  const isBlank = (index: number): boolean => lines[index]?.kind === "same" && lines[index].text.trim() === "";
  const gone = new Set<number>();
  lines.forEach((_, index) => { if (isBlank(index) && (isEnd(index - 1) || gone.has(index - 1))) gone.add(index); });
  for (let index = lines.length - 1; index >= 0; index--) if (isBlank(index) && (isEnd(index + 1) || gone.has(index + 1))) gone.add(index);
  return lines.filter((_, index) => !gone.has(index));
}

/** The second line of a long line begins no further to the right, in characters. */
const MAX_HANG = 14;

const SIGNS: Record<LineKind, string> = { added: "+", removed: "−", same: " ", hunk: " ", file: " ", remark: " " };

/** A line as it is shown: its text is drawn anew when its colours are known. */
type Row = { line: DiffLine; node: HTMLElement; text: HTMLElement; changed: readonly Piece[]; tokens: readonly Token[] };

function row(line: DiffLine): Row {
  const number = (value: number | null): HTMLElement => element("span", { class: "number", "data-n": value === null ? "" : `${value}` });
  const text = element("span", { class: "text", style: `--hang: ${Math.min(indentOf(line.text).replace(/\t/g, "    ").length + 2, MAX_HANG)}ch` });
  // a picture, whose name is read where the sign is seen
  const changed = line.kind === "added" || line.kind === "removed";
  const read = changed && { role: "img", "aria-label": `${line.kind}, line ${line.new ?? line.old}` };
  const node = element(
    "span",
    { class: `line ${line.kind}` },
    number(line.old),
    number(line.new),
    element("span", { class: "sign", ...read }, SIGNS[line.kind]),
    text,
  );
  return { line, node, text, changed: [], tokens: [] };
}

function indentOf(text: string): string {
  return /^[ \t]*/.exec(text)?.[0] ?? "";
}

/** The text of `row` with its tokens and its changed words. */
function drawText({ line, text, changed, tokens }: Row): void {
  const source = line.kind === "hunk" ? `⋯ ${line.text}` : line.text;
  const between = (from: number, to: number): (Node | string)[] => {
    const inside = tokens.filter((token) => token.to > from && token.from < to);
    const moved = inside.map((token) => ({ ...token, from: Math.max(token.from, from) - from, to: Math.min(token.to, to) - from }));
    return coloredText(source.slice(from, to), moved, visibleText);
  };
  // a line never breaks in its indent, which means something in Python
  const indent = line.kind === "hunk" || (changed[0]?.from ?? Infinity) < indentOf(source).length ? "" : indentOf(source);
  const nodes: (Node | string)[] = indent ? [element("span", { class: "indent" }, visibleText(indent))] : [];
  let at = indent.length;
  for (const { from, to } of changed) {
    nodes.push(...between(at, from), element(line.kind === "added" ? "ins" : "del", {}, ...between(from, to)));
    at = to;
  }
  text.replaceChildren(...nodes, ...between(at, source.length), "\n");
}

/** Marks in each change the words by which its lines differ. */
function markWords(rows: readonly Row[]): void {
  for (let at = 0; at < rows.length; ) {
    const start = at;
    while (rows[at]?.line.kind === "removed") at++;
    const middle = at;
    while (rows[at]?.line.kind === "added") at++;
    const [removed, added] = [rows.slice(start, middle), rows.slice(middle, at)];
    if (at === start) at++;
    if (removed.length === 0 || added.length === 0) continue;
    const words = changedWords(removed.map(({ line }) => line.text), added.map(({ line }) => line.text));
    removed.forEach((each, index) => { each.changed = words.removed.get(index) ?? []; });
    added.forEach((each, index) => { each.changed = words.added.get(index) ?? []; });
  }
}

/** Colours `rows` as code of the file `path`, hunk by hunk: once what was there, once what is there now. */
function colorRows(rows: readonly Row[], path: string): void {
  const sides = (part: readonly Row[]): Row[][] => [part.filter(({ line }) => line.kind !== "added"), part.filter(({ line }) => line.kind !== "removed")];
  for (const part of hunks(rows, path)) {
    for (const side of sides(part.rows)) {
      withParser(part.path, (parser) => { work(colorSide(side, parser)); });
    }
  }
}

function colorSide(side: readonly Row[], parser: CodeParser): (until: number) => boolean {
  const source = side.map(({ line }) => line.text).join("\n");
  return (until) => {
    if (!parser.parse(source, until)) return false;
    let at = 0;
    for (const each of side) {
      each.tokens = tokensBetween(parser, at, at + each.line.text.length);
      if (each.tokens.length > 0) drawText(each);
      at += each.line.text.length + 1;
    }
    return true;
  };
}

/** The rows of each hunk, and the name of its file. */
function hunks(rows: readonly Row[], path: string): { path: string; rows: Row[] }[] {
  const found: { path: string; rows: Row[] }[] = [];
  let file = path;
  let open = false;
  for (const each of rows) {
    const { kind, text } = each.line;
    if (kind === "file") file = text;
    if (kind === "remark") continue;
    if (kind === "file" || kind === "hunk") {
      open = false;
      continue;
    }
    if (!open) found.push({ path: codePath(file), rows: [] });
    open = true;
    found.at(-1)?.rows.push(each);
  }
  return found;
}

/** The name by which the language of a changed file is known: a notebook's cells are Python, as far as one can tell. */
function codePath(file: string): string {
  const path = file.replace(/^[ab]\//, "").replace(/\t.*$/, "").trim();
  return /\.ipynb(?:#|$)/.test(path) ? "python" : path;
}

/** The file that a diff of one file names. */
function pathIn(diff: string): string {
  const [, after = ""] = /^\+\+\+ ([^\n]*)/m.exec(diff) ?? [];
  return after === "/dev/null" ? (/^--- ([^\n]*)/m.exec(diff)?.[1] ?? "") : after;
}

/** Lines of the file `path` that begin with their numbers and a tab, as they are read. */
export function numberedLines(text: string, path: string): HTMLElement[] {
  const rows = text.replace(/\n$/, "").split("\n").map((line) => {
    const [, number, content] = /^ *(\d+)\t(.*)$/.exec(line) ?? [];
    return row({ kind: number === undefined ? "remark" : "same", old: null, new: number === undefined ? null : Number(number), text: content ?? line });
  });
  rows.forEach(drawText);
  colorRows(rows, path);
  return rows.map(({ node }) => node);
}

/** The diff, its lines after the first `fold` behind a button. */
export function diffView(diff: string, fold = Infinity): HTMLElement {
  const lines = withoutBlankEnds(parseDiff(diff));
  const rows = lines.map(row);
  markWords(rows);
  rows.forEach(drawText);
  const shown = rows.slice(0, fold);
  const pre = element("pre", { class: "diff exact", tabindex: "0", role: "list", "aria-label": `Changes ${changeCounts(lines)}` });
  // a screen reader goes from line to line
  for (const { node } of rows) node.setAttribute("role", "listitem");
  pre.append(...shown.map(({ node }) => node));
  colorRows(rows, pathIn(diff));
  const node = element("div", { class: "diff-box" }, pre);
  if (shown.length < lines.length) {
    const more = button(`Show all ${plural(lines.length, "line")} (${changeCounts(lines)})`, () => {
      pre.append(...rows.slice(fold).map((each) => each.node));
      more.remove();
      pre.focus({ preventScroll: true });
    });
    more.className = "more";
    node.append(more);
  }
  return node;
}
