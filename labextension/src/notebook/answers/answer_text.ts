/** What is read of an answer that is on the screen, without its buttons: by JupyterLab's search, and by who copies it. */

/** The elements of the page that hold an answer of Claude's, in cells and in the panel. */
export const ANSWERS = ".cellwright-answer > div, .cellwright-panel .answer";

/** No text of the answer: what works it, and what only a screen reader gets. */
const NOT_READ = "button, textarea, select, input, kbd, svg, style, .unseen, .number, [aria-hidden='true'], [hidden]:not([hidden='until-found'])";
/** What begins a line of its own; text of one of them is found across its bold and coloured pieces. */
const BLOCKS = "p, li, pre, h2, h3, h4, h5, h6, td, th, summary, figcaption, dt, dd, legend, label, footer, .line, .call";

/** A formula that is drawn keeps the source that it was drawn from. */
export const FORMULA = ".math[data-source]";

export type Piece = { readonly node: Text | HTMLElement; readonly text: string };
/** The text of a block, and the nodes that it is in. */
export type Block = { readonly text: string; readonly pieces: readonly Piece[] };

/** The blocks of text in `root`, in order; those in closed folds as well. */
export function blocksOf(root: ParentNode & Node): Block[] {
  const blocks: { owner: Element | null; pieces: Piece[] }[] = [];
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT, (node) => {
    if (!(node instanceof Element)) return NodeFilter.FILTER_ACCEPT;
    if (node.matches(NOT_READ)) return NodeFilter.FILTER_REJECT;
    return node.matches(FORMULA) ? NodeFilter.FILTER_ACCEPT : NodeFilter.FILTER_SKIP;
  });
  const add = (node: Text | HTMLElement, text: string): void => {
    const owner = node.parentElement?.closest(BLOCKS) ?? node.parentElement;
    const last = blocks.at(-1);
    if (last?.owner === owner) last.pieces.push({ node, text });
    else blocks.push({ owner, pieces: [{ node, text }] });
  };
  let node = walker.nextNode();
  while (node) {
    if (node instanceof Text) {
      if (node.data) add(node, node.data);
      node = walker.nextNode();
      continue;
    }
    const formula = node as HTMLElement;
    add(formula, formula.dataset.source ?? "");
    // its drawing is no text
    node = walker.nextSibling() ?? nextBeyond(walker, formula);
  }
  return blocks
    .map(({ pieces }) => ({ pieces, text: pieces.map(({ text }) => text).join("") }))
    .filter(({ text }) => text.trim() !== "");
}

function nextBeyond(walker: TreeWalker, element: Element): Node | null {
  let node = walker.nextNode();
  while (node && element.contains(node)) node = walker.nextNode();
  return node;
}

/** True for what is no text of an answer. */
export function isNotRead(element: Element): boolean {
  return element.matches(NOT_READ);
}

/** The range of so many characters of a block's text, while its nodes are as they were; a drawn formula is in it whole. */
export function rangeIn(block: Block, from: number, length: number): Range | null {
  if (!block.pieces.every(isAsRead)) return null;
  const begin = pieceAt(block, from);
  const end = pieceAt(block, from + length - 1);
  if (!begin || !end) return null;
  const range = document.createRange();
  if (begin.node instanceof Text) range.setStart(begin.node, begin.offset);
  else range.setStartBefore(begin.node);
  if (end.node instanceof Text) range.setEnd(end.node, end.offset + 1);
  else range.setEndAfter(end.node);
  return range;
}

function isAsRead({ node, text }: Piece): boolean {
  return node.isConnected && (node instanceof Text ? node.data : node.dataset.source) === text;
}

function pieceAt({ pieces }: Block, at: number): { node: Piece["node"]; offset: number } | null {
  let begins = 0;
  for (const { node, text } of pieces) {
    if (at < begins + text.length) return { node, offset: at - begins };
    begins += text.length;
  }
  return null;
}
