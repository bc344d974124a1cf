/**
 * Formulas: found in the text, and typeset by the page where it can. Until then, and elsewhere, they are the text they are.
 * As in the package's `markdown/mathematics.py`, what TeX could load, link to or define is no formula.
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

/** A formula, as text so far. */
export function formulaElement(source: string): HTMLElement | string {
  if (source.length > MAX_CHARS || FORBIDDEN.test(source)) return source;
  const displayed = /^(?:\$\$|\\\[|\\begin)/.test(source);
  return element("span", { class: displayed ? "math displayed" : "math" }, source);
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
    } while (waiting.length > 0 && performance.now() < until);
  }
  busy = false;
}

async function typeset(formula: HTMLElement): Promise<void> {
  const source = formula.textContent;
  const done = await pageAbilities().typeset?.(formula).catch(() => false);
  if (!done) {
    formula.replaceChildren(source);
    return;
  }
  formula.dataset.source = source;
  // by keyboard, too, where it is wider than its place
  if (formula.scrollWidth > formula.clientWidth && formula.clientWidth > 0) formula.tabIndex = 0;
}

function frame(): Promise<void> {
  return new Promise((resolve) => {
    if (document.hidden) setTimeout(resolve);
    else requestAnimationFrame(() => { resolve(); });
  });
}
