/**
 * Formulas: found in the text, and typeset by the page where it can, before they show. Elsewhere they are the text they are.
 * As in the package's `markdown/writer.py`, what TeX could load, link to or define is no formula.
 */

import type { MarkedExtension } from "marked";

import { element } from "../dom";
import { pageAbilities } from "../code/page_abilities";

const MAX_CHARS = 10_000;

const FORBIDDEN =
  /\\(?:href|url|style|class|cssId|data|html|require|unicode|mmlToken|bbox|include|input|import|write|open|read|csname|catcode|tooltip|toggle|mathtip|texttip|breakAlign|def|let|gdef|edef|xdef|futurelet|new(?!line)|renew|provide)|`|[^\P{Cc}\t\n\x7f-\x9f]|(?<!\\)%/iu;

// \( … \), \[ … \], $$ … $$, an environment, and $ … $ by pandoc's rule: no space inside the dollars, no digit after ("$5 and $10" is money)
const DISPLAYED = String.raw`\\\[[\s\S]*?\\\]|\$\$[\s\S]+?\$\$|\\begin\{([a-z]{1,40}\*?)\}[\s\S]*?\\end\{\1\}`;
const IN_LINE = new RegExp(String.raw`^(?:\\\([^\n]*?\\\)|${DISPLAYED}|\$(?![\s$])(?:\\.|[^\n$\\])*?(?<!\s)\$(?!\d))`);
const IN_LINES = new RegExp(String.raw`^ {0,3}(${DISPLAYED.replaceAll("\\1", "\\2")})[ \t]*(?:\n|$)`);
const START = /\\(?:[([]|begin\{)|\$/;
const LINE_START = /\n {0,3}(?:\$\$|\\\[|\\begin\{)/;

/** Formulas as tokens of the type `math`: in lines of their own, where nothing in them is a list or a heading, and among words. */
export const mathTokens: MarkedExtension = {
  extensions: [
    {
      name: "mathBlock",
      level: "block",
      start: (src) => LINE_START.exec(src)?.index,
      tokenizer: (src) => {
        const match = IN_LINES.exec(src);
        return match?.[1] === undefined || /\n[ \t]*\n/.test(match[1]) ? undefined : { type: "mathBlock", raw: match[0], text: match[1] };
      },
    },
    {
      name: "math",
      level: "inline",
      start: (src) => START.exec(src)?.index,
      tokenizer: (src) => {
        const raw = IN_LINE.exec(src)?.[0];
        return raw === undefined ? undefined : { type: "math", raw };
      },
    },
  ],
};

/** A formula as its source, unseen until the page has typeset it; a string for what is none. */
export function formulaElement(source: string): HTMLElement | string {
  if (!isFormula(source)) return source;
  const displayed = /^(?:\$\$|\\\[|\\begin)/.test(source);
  return element("span", { class: displayed ? "math displayed" : "math", "data-pending": pageAbilities().typeset !== undefined && "" }, source);
}

function isFormula(source: string): boolean {
  return source.length <= MAX_CHARS && !FORBIDDEN.test(source);
}

// While text streams: a formula that is not whole, or not typeset yet, is waited for with the text behind it.

const OPEN = /\\\(|\\\[|\$\$|\\begin\{[a-z]{1,40}\*?\}|\$(?![\s$\d])/g;
const CLOSING: Record<string, string> = { "\\(": "\\)", "\\[": "\\]", "$$": "$$", $: "$" };
/** A dollar that nothing of TeX follows so soon is no formula's. */
const MOST_PLAIN = 30;
const MOST_OPEN = 1_000;
const CODE = /`+[^`]*(?:`+|$)/g;

/** The place where the last block of `source` opens a formula that it does not close; -1 for none. */
export function openFormula(source: string): number {
  if (!pageAbilities().typeset) return -1;
  const from = source.lastIndexOf("\n\n") + 1;
  const block = source.slice(from).replace(CODE, (code) => " ".repeat(code.length));
  let at = 0;
  for (;;) {
    OPEN.lastIndex = at;
    const found = OPEN.exec(block);
    if (!found) return -1;
    const begin = found.index + found[0].length;
    const close = CLOSING[found[0]] ?? found[0].replace("begin", "end");
    const end = block.indexOf(close, begin);
    if (end < 0 && mayGoOn(block.slice(begin), close)) return from + found.index;
    // a line's end closes nothing, and no formula goes on behind it
    at = end < 0 || isCutOff(block.slice(begin, end), close) ? begin : end + close.length;
  }
}

/** True where more of `rest` may yet be a formula that ends with `close`. */
function mayGoOn(rest: string, close: string): boolean {
  if (isCutOff(rest, close)) return false;
  return rest.length <= (close !== "$" || /[\\^_{}]/.test(rest) ? MOST_OPEN : MOST_PLAIN);
}

function isCutOff(text: string, close: string): boolean {
  return (close === "$" || close === "\\)") && text.includes("\n");
}

/** A text that waits longer for its formulas shows their source. */
const WAIT_MS = 1500;

/** The formulas of one text, typeset beside it, so that they are there when the text is drawn. */
export class ReadyFormulas {
  /** By source; null: not typeset, or not yet. */
  private readonly known = new Map<string, HTMLElement | null>();

  /** Typesets in `place`; `changed`: what was waited for is there. */
  constructor(private readonly place: HTMLElement, private readonly changed: () => void) {}

  /** True where the formula has to be waited for. */
  waitsFor(source: string): boolean {
    if (!isFormula(source) || !pageAbilities().typeset || !this.place.isConnected) return false;
    if (!this.known.has(source) && !this.waiting.has(source)) void this.typeset(source);
    return this.waiting.has(source);
  }

  /** Puts what is ready into its places in `node`. */
  show(node: Node): void {
    if (this.known.size === 0 || !(node instanceof HTMLElement)) return;
    for (const formula of node.querySelectorAll<HTMLElement>(".math:not([data-typeset])")) {
      const ready = this.known.get(formula.textContent);
      if (ready) put(formula, formula.textContent, [...(ready.cloneNode(true) as HTMLElement).childNodes]);
    }
  }

  private readonly waiting = new Set<string>();

  private async typeset(source: string): Promise<void> {
    this.waiting.add(source);
    const formula = formulaElement(source);
    if (typeof formula === "string") return;
    formula.style.position = "absolute";
    this.place.append(formula);
    const done = pageAbilities().typeset?.(formula).catch(() => false);
    this.known.set(source, (await within(WAIT_MS, done)) ? formula : null);
    this.waiting.delete(source);
    formula.remove();
    this.changed();
  }
}

function within(ms: number, done: Promise<boolean> | undefined): Promise<boolean> {
  return Promise.race([done ?? Promise.resolve(false), new Promise<boolean>((resolve) => { setTimeout(resolve, ms, false); })]);
}

function put(formula: HTMLElement, source: string, drawn: Node[]): void {
  formula.replaceChildren(...drawn);
  formula.dataset.typeset = "";
  formula.dataset.source = source;
  delete formula.dataset.pending;
  // by keyboard, too, where it is wider than its place
  if (formula.scrollWidth > formula.clientWidth && formula.clientWidth > 0) formula.tabIndex = 0;
}

// Typesetting: one formula after the other, a few milliseconds of each frame.

const MS_PER_FRAME = 6;

const waiting: HTMLElement[] = [];
let busy = false;

/** Has the page typeset the formulas in `node`, whose text is complete. */
export function typesetFormulas(node: ParentNode): void {
  if (!pageAbilities().typeset) return;
  const formulas = [...node.querySelectorAll<HTMLElement>(".math:not([data-typeset])")];
  if (node instanceof HTMLElement && node.matches(".math:not([data-typeset])")) formulas.push(node);
  for (const formula of formulas) {
    formula.dataset.typeset = "";
    waiting.push(formula);
  }
  if (waiting.length > 0 && !busy) {
    busy = true;
    void typesetWaiting();
  }
}

async function typesetWaiting(): Promise<void> {
  while (waiting.length > 0) {
    await frame();
    const until = performance.now() + MS_PER_FRAME;
    do {
      const formula = waiting.shift();
      // a block that was drawn anew has its formulas in the new nodes
      if (formula?.isConnected) await typeset(formula);
      else delete formula?.dataset.pending;
    } while (waiting.length > 0 && performance.now() < until);
  }
  busy = false;
}

async function typeset(formula: HTMLElement): Promise<void> {
  const source = formula.textContent;
  const done = pageAbilities().typeset?.(formula).catch(() => false);
  if (await within(WAIT_MS, done)) {
    put(formula, source, [...formula.childNodes]);
    return;
  }
  formula.replaceChildren(source);
  delete formula.dataset.pending;
}

function frame(): Promise<void> {
  return new Promise((resolve) => {
    if (document.hidden) setTimeout(resolve);
    else requestAnimationFrame(() => { resolve(); });
  });
}
