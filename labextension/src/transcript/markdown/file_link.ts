/** Names of files in an answer, `tides.py:18`: where the page can open them, a press does, at their line. */

import type { Child } from "../dom";
import { button, element } from "../dom";
import { hasPageActions, request } from "../items/page_actions";
import { revealed } from "../visible_text";

const ENDINGS =
  "py|pyi|ipynb|md|rst|txt|csv|tsv|json|jsonl|toml|yaml|yml|cfg|ini|env|ts|tsx|js|jsx|mjs|css|scss|html|xml|sql|sh|bash|r|R|Rmd|jl|rs|go|java|kt|c|h|cc|cpp|hpp|cs|rb|php|swift|tex|lock|log";
const NAME = `(?:[\\w.@+~-]*[\\\\/])*[\\w.@+-]*\\.(?:${ENDINGS})`;
const WHOLE = new RegExp(`^(${NAME})(?::(\\d{1,7})(?:[-:]\\d+)?)?$`);
/** In running text only with a line: "the data.csv" is no wish to open it. */
const IN_TEXT = new RegExp(`(?<![\\w/\\\\.:])(${NAME}):(\\d{1,7})(?![\\w/])`, "g");
/** Python's own way to say it, in a traceback. */
const IN_RESULT = new RegExp(`File "(?<file>[^"<>\\n]{1,400})", line (?<line>\\d{1,7})|${IN_TEXT.source}`, "g");
/** Longer lines are data, and slow to look through. */
const MAX_LINE_CHARS = 400;
const MAX_RESULT_CHARS = 50_000;
const OPENING = /[([{“‘"']+$/;
const CLOSING = /^[)\]}.,;:!?”’"']+/;

/** A span of code, as a link to the file that it names, where it names one. */
export function codeOrFile(text: string): HTMLElement {
  const code = element("code", {}, text);
  const [, path, line] = (hasPageActions() ? WHOLE.exec(text) : null) ?? [];
  return path ? fileLink(path, line, code) : code;
}

/** Text, the files with a line in it as links. */
export function withFiles(text: string): Child[] {
  if (!text.includes(":") || !hasPageActions()) return [text];
  return linked(text, IN_TEXT).filter((part) => part !== "");
}

/** What a tool printed, the hits of a search and the lines of a traceback as links; null where there are none. */
export function resultWithFiles(text: string): Child[] | null {
  if (text.length > MAX_RESULT_CHARS || !hasPageActions()) return null;
  const parts = text.split(/(?<=\n)/).flatMap((line) => (line.length > MAX_LINE_CHARS ? [line] : linked(line, IN_RESULT)));
  return parts.some((part) => typeof part !== "string") ? parts : null;
}

/** Inline parts, with what opens and closes a bracket or a sentence kept on the line of its link. */
export function glued(parts: Child[]): Child[] {
  const kept: Child[] = [];
  const cut = (pattern: RegExp, text?: Child): string => (typeof text === "string" ? (pattern.exec(text)?.[0] ?? "") : "");
  parts.forEach((part, at) => {
    if (!(part instanceof HTMLElement && part.classList.contains("file-link"))) {
      kept.push(part);
      return;
    }
    const before = kept.at(-1);
    const opening = cut(OPENING, before);
    if (opening) kept.splice(-1, 1, (before as string).slice(0, -opening.length));
    const after = parts[at + 1];
    const closing = cut(CLOSING, after);
    if (closing) parts[at + 1] = (after as string).slice(closing.length);
    kept.push(opening || closing ? element("span", { class: "glued" }, opening, part, closing) : part);
  });
  return kept;
}

function linked(text: string, pattern: RegExp): Child[] {
  const parts: Child[] = [];
  let from = 0;
  for (const match of text.matchAll(pattern)) {
    const { file, line } = match.groups ?? {};
    const [path = "", at] = file === undefined ? match.slice(-2) : [file, line];
    parts.push(text.slice(from, match.index), fileLink(path, at, match[0]));
    from = match.index + match[0].length;
  }
  return [...parts, text.slice(from)];
}

/** A button that opens `path`, at `line` where there is one. */
export function fileLink(path: string, line: string | undefined, shown: Child): HTMLElement {
  const where = line === undefined ? "" : ` at line ${line}`;
  const node = button(shown, () => { request(node, { action: "open", path, line: line === undefined ? null : Number(line) }); }, {
    class: "file-link",
    title: `Open ${revealed(path)}${where}`,
  });
  return node;
}
