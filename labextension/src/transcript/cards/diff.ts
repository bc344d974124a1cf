/** A unified diff as numbered lines; what was added and removed is told by sign, colour and number. */

import { button, element } from "../dom";
import { plural } from "../format";
import { visibleText } from "../visible_text";

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

export function changeCounts(lines: DiffLine[]): string {
  const number = (kind: LineKind): number => lines.filter((line) => line.kind === kind).length;
  return `+${number("added")} −${number("removed")}`;
}

const SIGNS: Record<LineKind, string> = { added: "+", removed: "−", same: " ", hunk: " ", file: " ", remark: " " };

function row(line: DiffLine): HTMLElement {
  const number = (value: number | null): HTMLElement => element("span", { class: "number", "data-n": value === null ? "" : `${value}` });
  return element(
    "span",
    { class: `line ${line.kind}` },
    number(line.old),
    number(line.new),
    element("span", { class: "sign" }, SIGNS[line.kind]),
    element("span", { class: "text" }, visibleText(line.kind === "hunk" ? `⋯ ${line.text}` : line.text), "\n"),
  );
}

/** The diff, its lines after the first `fold` behind a button. */
export function diffView(diff: string, fold = Infinity): HTMLElement {
  const lines = parseDiff(diff);
  const shown = lines.length > fold ? lines.slice(0, fold) : lines;
  const pre = element("pre", { class: "diff exact", tabindex: "0", role: "region", "aria-label": `Changes ${changeCounts(lines)}` });
  pre.append(...shown.map(row));
  const node = element("div", { class: "diff-box" }, pre);
  if (shown.length < lines.length) {
    const more = button(`Show all ${plural(lines.length, "line")} (${changeCounts(lines)})`, () => {
      pre.append(...lines.slice(fold).map(row));
      more.remove();
      pre.focus({ preventScroll: true });
    });
    more.className = "more";
    node.append(more);
  }
  return node;
}
