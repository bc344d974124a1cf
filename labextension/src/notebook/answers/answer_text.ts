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
    if (last && last.owner === owner) last.pieces.push({ node, text });
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
  const range = document.createRange();
  let at = 0;
  let begun = false;
  for (const { node, text } of block.pieces) {
    const end = at + text.length;
    if (!node.isConnected || (node instanceof Text && node.data !== text)) return null;
    if (!begun && from < end) {
      begun = true;
      if (node instanceof Text) range.setStart(node, from - at);
      else range.setStartBefore(node);
    }
    if (begun && from + length <= end) {
      if (node instanceof Text) range.setEnd(node, from + length - at);
      else range.setEndAfter(node);
      return range;
    }
    at = end;
  }
  return null;
}
