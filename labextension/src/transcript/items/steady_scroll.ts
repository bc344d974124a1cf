/** What the user reads stays where it is on the screen when steps above it fold. */

const SCROLLS = new Set(["auto", "scroll"]);

function parentOf(node: Element): Element | null {
  const root = node.getRootNode();
  return node.assignedSlot ?? node.parentElement ?? (root instanceof ShadowRoot ? root.host : null);
}

/** The box that `node` is scrolled in. */
function scrollerOf(node: Element): Element | null {
  for (let box = parentOf(node); box; box = parentOf(box)) {
    if (SCROLLS.has(getComputedStyle(box).overflowY) && box.scrollHeight > box.clientHeight) return box;
  }
  return null;
}

function isWithin(node: Element, top: number, bottom: number): boolean {
  const box = node.getBoundingClientRect();
  return box.height > 0 && box.bottom > top && box.top < bottom;
}

/**
 * Calls `change`, which folds some of what stands in `area`. The first of `stays` that is seen stands as far up as before, else
 * what follows `area`.
 */
export function steadily(area: HTMLElement, stays: readonly HTMLElement[], change: () => void): void {
  const scroller = scrollerOf(area);
  if (!scroller) {
    change();
    return;
  }
  const { top, bottom } = scroller.getBoundingClientRect();
  const seen = stays.find((node) => isWithin(node, top, bottom));
  const place = (): number => (seen ? seen.getBoundingClientRect().top : area.getBoundingClientRect().bottom);
  const before = place();
  change();
  // whoever sees only the beginning of the steps sees their line there
  if (before <= top || before >= bottom) return;
  const settle = (): void => { scroller.scrollTop += place() - before; };
  settle();
  // the browser and the notebook may have an anchor of their own, by which they scroll with the next layout
  requestAnimationFrame(settle);
}

/** True where the user is in the midst of `nodes`: with the keyboard, with a selection, or with nothing else in sight. */
export function isReading(nodes: readonly HTMLElement[], focus: Element | null): boolean {
  const selection = document.getSelection();
  const selected = selection !== null && !selection.isCollapsed;
  if (nodes.some((node) => (focus !== null && node.contains(focus)) || (selected && selection.containsNode(node, true)))) return true;
  const [first, last] = [nodes[0], nodes.at(-1)];
  const scroller = first && scrollerOf(first);
  if (!scroller || !last) return false;
  const { top, bottom } = scroller.getBoundingClientRect();
  return first.getBoundingClientRect().top < top && last.getBoundingClientRect().bottom > bottom;
}
