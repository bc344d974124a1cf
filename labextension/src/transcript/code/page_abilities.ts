/**
 * What a page can do for transcripts that they cannot do themselves: colour code, typeset formulas. The JupyterLab extension
 * lends them its own parsers and typesetter; nothing of those is in the renderer. Kernels of other versions bring renderers
 * of their own, so the page keeps this under a number that rises when its meaning changes.
 */

const ABILITIES = Symbol.for("cellwright.page.1");

/** One text as it grows, or is edited. */
export type CodeParser = {
  /** Takes `text`, and works until `until` (by `performance.now()`) or until all of it is parsed; true: it is. */
  parse(text: string, until: number): boolean;
  /** Calls `put` for each piece with a colour between two positions of the parsed text, in order; `kind` is one of `KINDS`. */
  tokens(from: number, to: number, put: (from: number, to: number, kind: string) => void): void;
};

/** The kinds of tokens that the style sheet has colours for. */
export const KINDS = ["keyword", "atom", "number", "def", "builtin", "special", "punctuation", "property", "operator", "comment", "string", "label", "bracket", "tag", "attribute", "quote", "link", "meta", "heading", "strong", "emphasis"] as const;

export type Kind = (typeof KINDS)[number];

export type PageAbilities = {
  /** How to make parsers for a language, by its name or by a file's name; null: it knows none. */
  readonly language?: (name: string) => Promise<(() => CodeParser) | null>;
  /** Typesets the formula that is the text of `node`, in its place; false where it could not. */
  readonly typeset?: (node: HTMLElement) => Promise<boolean>;
};

type Page = Record<symbol, PageAbilities | undefined>;

export function pageAbilities(): PageAbilities {
  return (globalThis as unknown as Page)[ABILITIES] ?? {};
}

export function lendAbilities(abilities: PageAbilities): void {
  const page = globalThis as unknown as Page;
  page[ABILITIES] = { ...page[ABILITIES], ...abilities };
}
