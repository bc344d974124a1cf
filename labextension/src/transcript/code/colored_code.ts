/**
 * Code in the colours of its language. The text is there at once; its colours come with it where the frame has time for
 * them, else some frames later, and nothing but colour changes then. A line that looks as it did is not touched again.
 */

import type { CodeParser } from "./page_abilities";
import { pageAbilities } from "./page_abilities";
import { element } from "../dom";
import { cancelWork, work } from "./frame_work";
import { smallLexer } from "./small_lexer";

/** What more may change when a text grows: so many lines above its end. The rest is looked at when it is complete. */
const LINES_ABOVE = 30;
/** Longer texts stay plain: nobody reads them here. */
const MAX_CHARS = 300_000;

export type Token = { from: number; to: number; kind: string };

type ParserMaker = () => CodeParser;
const known = new Map<string, ParserMaker | null | Promise<ParserMaker | null>>();

/** How to make a parser for `language`; a promise while the page loads it. */
export function languageParser(language: string): ParserMaker | null | Promise<ParserMaker | null> {
  if (language === "") return null;
  const { language: lent } = pageAbilities();
  if (!lent) return smallLexer(language);
  let found = known.get(language);
  if (found === undefined) {
    found = lent(language).catch(() => null);
    known.set(language, found);
    void found.then((maker) => known.set(language, maker));
  }
  return found;
}

/** Calls `then` with a new parser for `language`, at once where the page has it; never where it has none. */
export function withParser(language: string, then: (parser: CodeParser) => void): void {
  const maker = languageParser(language);
  if (maker instanceof Promise) {
    void maker.then((loaded) => {
      if (loaded) then(loaded());
    });
  } else if (maker) then(maker());
}

/** The coloured pieces of the parsed text between two positions, counted from the first. */
export function tokensBetween(parser: CodeParser, from: number, to: number): Token[] {
  const tokens: Token[] = [];
  parser.tokens(from, to, (start, end, kind) => {
    tokens.push({ from: start - from, to: end - from, kind });
  });
  return tokens;
}

export function tokenSpan(kind: string, ...content: (Node | string)[]): HTMLElement {
  return element("span", { class: `tok-${kind}` }, ...content);
}

/** `text` with its tokens as spans; `draw` makes of a piece what is shown of it. */
export function coloredText(text: string, tokens: readonly Token[], draw: (text: string) => Node | string = String): (Node | string)[] {
  const nodes: (Node | string)[] = [];
  let at = 0;
  for (const { from, to, kind } of tokens) {
    if (from > at) nodes.push(draw(text.slice(at, from)));
    nodes.push(tokenSpan(kind, draw(text.slice(from, to))));
    at = to;
  }
  if (at < text.length) nodes.push(draw(text.slice(at)));
  return nodes;
}

type Line = { text: string; key: string; node: HTMLElement };

export type ColoredCode = {
  /** Shows `text`; what it has in common with the last one stays. */
  update(text: string): void;
  /** The text is complete: all of it gets the colours that it has as a whole. */
  finish(): void;
};

/** Shows code in `node`, which nobody else changes; `draw` makes of a piece of text what is shown of it. */
export function coloredCode(node: HTMLElement, language: string, draw: (text: string) => Node | string = String): ColoredCode {
  const lines: Line[] = [];
  let text = "";
  let parser: CodeParser | null = null;
  /** The first line whose colours are not known, and the position where it begins. */
  let next = 0;
  let complete = false;

  const color = (until: number): boolean => {
    if (!parser) return true;
    if (!parser.parse(text, until)) return false;
    let at = lines.slice(0, next).reduce((sum, line) => sum + line.text.length, 0);
    for (; next < lines.length; next++) {
      const line = lines[next];
      if (line) colorLine(parser, line, at, draw);
      at += line?.text.length ?? 0;
      if (next % 20 === 19 && performance.now() >= until) {
        next++;
        return next >= lines.length;
      }
    }
    return true;
  };
  const start = (): void => {
    if (text.length > MAX_CHARS) return;
    if (parser) {
      work(color);
      return;
    }
    withParser(language, (made) => {
      parser ??= made;
      work(color);
    });
  };
  return {
    update(now) {
      if (now === text) return;
      const from = replaceLines(node, lines, now, draw);
      text = now;
      next = Math.min(next, Math.max(0, from - LINES_ABOVE));
      complete = false;
      if (text.length > MAX_CHARS) cancelWork(color);
      start();
    },
    finish() {
      if (complete) return;
      complete = true;
      next = 0;
      start();
    },
  };
}

/** Shows the whole of `text` in `node`, in the colours of `language` ("" for none). */
export function showCode(node: HTMLElement, text: string, language: string, draw: (text: string) => Node | string = String): void {
  if (language === "") node.replaceChildren(draw(text));
  else coloredCode(node, language, draw).update(text);
}

function colorLine(parser: CodeParser, line: Line, at: number, draw: (text: string) => Node | string): void {
  const tokens = tokensBetween(parser, at, at + line.text.length);
  const key = tokens.map(({ from, to, kind }) => `${from} ${to} ${kind}`).join();
  if (key === line.key) return;
  line.key = key;
  line.node.replaceChildren(...coloredText(line.text, tokens, draw));
}

/** Has `node` show `text`, line by line, and leaves alone the lines that are the same; the number of the first other one. */
function replaceLines(node: HTMLElement, lines: Line[], text: string, draw: (text: string) => Node | string): number {
  let from = 0;
  let at = 0;
  for (; from < lines.length; from++) {
    const line = lines[from]?.text ?? "";
    // the last one has no line end, and may have got more
    if (!line.endsWith("\n") || !text.startsWith(line, at)) break;
    at += line.length;
  }
  const fresh = text.slice(at).match(/[^\n]*\n|[^\n]+$/g) ?? [];
  fresh.forEach((line, index) => {
    const old = lines[from + index];
    if (old?.text === line) return;
    if (old && line.startsWith(old.text)) {
      // the colours of what was there stay until the whole line has its own
      old.node.append(draw(line.slice(old.text.length)));
      Object.assign(old, { text: line, key: "?" });
      return;
    }
    const made = { text: line, key: "", node: element("span", {}, draw(line)) };
    if (old) old.node.replaceWith(made.node);
    else node.append(made.node);
    lines[from + index] = made;
  });
  for (const { node: gone } of lines.splice(from + fresh.length)) gone.remove();
  return from;
}
