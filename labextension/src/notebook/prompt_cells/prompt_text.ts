/** A prompt cell's text: where its prompt begins, what it mentions; to code and back. */

export type Range = { readonly from: number; readonly to: number };
export type MarkKind = "magic" | "option" | "mention";
/** A part of the text that reads as something else than prose. */
export type Mark = Range & { readonly kind: MarkKind };

export const HEADER = /^(\s*)%%claude(?=\s|$)([^\n]*)/;
const OPTIONS = /^[ \t]*--/;
const OPTION = /(?<!\S)--[A-Za-z][\w-]*/g;

/** True for a cell whose whole text is a prompt. */
export function isPrompt(source: string): boolean {
  return HEADER.test(source);
}

/** The place where the prompt's words begin: behind the magic, and behind the first line where that has options. */
export function promptStart(source: string): number {
  const header = HEADER.exec(source);
  if (!header) return 0;
  const [whole, , line = ""] = header;
  const start = OPTIONS.test(line) || !line.trim() ? whole.length : whole.length - line.trimStart().length;
  return start + (/^\s*/.exec(source.slice(start))?.[0].length ?? 0);
}

const FENCED = /^[ \t]*(`{3,}|~{3,})[^\n]*(?:\n(?![ \t]*\1)[^\n]*)*(?:\n[ \t]*\1[^\n]*)?/gm;
const CODE_SPAN = /(?<!`)(`+)(?!`)[^\n]*?(?<!`)\1(?!`)/g;
const MATH = /\$\$[^]*?\$\$|(?<![\w$\\])\$(?=[^\s$])[^$\n]*?(?<=[^\s\\])\$(?![\w$])/g;
const AT = /(?<![\w@./\\-])@(?:cell:(?:(?:In)?\[\d+\]|[\w.-]*\w)|agent-[\w:-]*\w|"[^"\n]+"|(?:[^\s,;!?()[\]{}<>"'`“”„‘’«»|*@\\#:]|:(?=\/))*[^\s,;!?()[\]{}<>"'`“”„‘’«»|*@\\#:.])(?:#L\d+(?:-L?\d+)?)?(?!\()/g;
const DOLLAR = /(?<![\p{L}\p{N}_$\\])\$[\p{L}_][\p{L}\p{N}\p{M}_]*(?![\p{L}\p{N}_$])/gu;
const COMMAND = /^\/[A-Za-z][\w-]*(?=\s|$)/;

/** The fenced code of a prompt, its fences included. */
export function fencedCode(source: string): Range[] {
  return found(FENCED, source);
}

/** The marks of a prompt cell, in order: the magic and its options, the command, what is mentioned. */
export function marksOf(source: string): Mark[] {
  const header = HEADER.exec(source);
  if (!header) return [];
  const [whole, indent = "", line = ""] = header;
  const behindMagic = indent.length + "%%claude".length;
  const start = promptStart(source);
  const prose = [FENCED, CODE_SPAN].reduce(blanked, source);
  const command = COMMAND.exec(source.slice(start));
  const marks: Mark[] = [
    { kind: "magic", from: indent.length, to: behindMagic },
    ...(OPTIONS.test(line) ? found(OPTION, source.slice(0, whole.length)).map((range): Mark => ({ kind: "option", ...range })) : []),
    ...(command ? [{ kind: "mention" as const, from: start, to: start + command[0].length }] : []),
    ...[...found(AT, prose), ...found(DOLLAR, blanked(prose, MATH))].filter(({ from }) => from > behindMagic).map((range): Mark => ({ kind: "mention", ...range })),
  ];
  return marks.sort((one, other) => one.from - other.from);
}

function found(pattern: RegExp, text: string): Range[] {
  return [...text.matchAll(pattern)].map((match) => ({ from: match.index, to: match.index + match[0].length }));
}

/** The text with spaces in the place of what fits: what stands behind it stays where it is. */
function blanked(text: string, pattern: RegExp): string {
  return text.replace(pattern, (part) => part.replace(/[^\n]/g, " "));
}

/** A prompt cell begins so. */
export const PROMPT_HEADER = "%%claude\n";

/** The part at the beginning of a prompt cell that makes it one: its magic with the options. */
export function headerRange(source: string): Range {
  const header = HEADER.exec(source);
  if (!header) return { from: 0, to: 0 };
  const [whole, indent = "", line = ""] = header;
  if (line.trim() && !OPTIONS.test(line)) return { from: indent.length, to: whole.length - line.trimStart().length };
  return { from: 0, to: source[whole.length] === "\n" ? whole.length + 1 : whole.length };
}
