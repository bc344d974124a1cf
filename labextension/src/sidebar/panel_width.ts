/** The panel's width: wide enough to read when it is opened first, then as its user has made it; toasts stay beside it. */

import type { SplitPanel as LuminoSplitPanel, Widget } from "@lumino/widgets";

const DEFAULT_PX = 400;
const KEY = "cellwright:panel-width";
/** Less than this apart is the same width. */
const TOLERANCE_PX = 8;
/** Neither the panel nor the documents are made narrower for the other. */
const LEAST_PX = 240;
/** The notebook keeps so much of the window. */
const MAX_SHARE = 0.45;
/** How far from the window's right edge toasts stay, in the style of the body. */
const TOASTS_RIGHT = "--cellwright-toasts-right";
/** A toast and its margins: so much of a narrow window stays beside the panel, or it lies over its edge. */
const TOAST_PX = 350;

type SplitPanel = Widget & Pick<LuminoSplitPanel, "relativeSizes" | "setRelativeSizes" | "handleMoved">;

/** Gives the panel its width when it comes into sight in this page for the first time and when the window grows, and keeps what its user makes of it. */
export class PanelWidth {
  private isSet = false;
  private observer: ResizeObserver | null = null;

  constructor(private readonly widget: Widget, private readonly memory: Storage) {}

  shown(): void {
    if (this.isSet) return;
    this.isSet = true;
    // after JupyterLab has laid out what it shows
    requestAnimationFrame(() => {
      this.widen();
      this.remember();
    });
  }

  private widen(): void {
    const split = splitOf(this.widget);
    const wanted = Number(this.memory.getItem(KEY)) || DEFAULT_PX;
    const { clientWidth } = this.widget.node;
    if (!split || clientWidth === 0 || clientWidth >= wanted - TOLERANCE_PX) return;
    const sizes = split.relativeSizes();
    const own = sizes.at(-1) ?? 0;
    const share = Math.min(wanted / split.node.clientWidth, MAX_SHARE);
    // the largest of the others, the documents, gives what is lacking
    const largest = sizes.indexOf(Math.max(...sizes.slice(0, -1)));
    const given = sizes[largest] ?? 0;
    if (share <= own || given <= share - own) return;
    split.setRelativeSizes(sizes.map((size, at) => (at === sizes.length - 1 ? share : at === largest ? given - (share - own) : size)));
  }

  /** In a window that has become small the documents have half of what both had, unless that would be too little for the panel. */
  private leaveRoom(): void {
    const split = splitOf(this.widget);
    if (!split || this.widget.node.clientWidth === 0) return;
    const sizes = split.relativeSizes();
    const [documents = 0, own = 0] = sizes.slice(-2);
    const least = LEAST_PX / split.node.clientWidth;
    if (documents >= least || own <= least) return;
    const share = Math.max((documents + own) / 2, least);
    split.setRelativeSizes([...sizes.slice(0, -2), documents + own - share, share]);
  }

  private remember(): void {
    if (this.observer || !("ResizeObserver" in globalThis)) return;
    const split = splitOf(this.widget);
    let room = split?.node.clientWidth ?? 0;
    this.observer = new ResizeObserver(() => {
      keepToastsBeside(this.widget.node);
      const now = split?.node.clientWidth ?? 0;
      // a window that was small leaves the panel narrow
      if (now > room) requestAnimationFrame(() => { this.widen(); });
      else if (now < room) requestAnimationFrame(() => { this.leaveRoom(); });
      room = now;
    });
    this.observer.observe(this.widget.node);
    if (split) this.observer.observe(split.node);
    // a width that a small window or a twice as large zoom leaves is none that its user has made
    split?.handleMoved.connect(() => {
      const { clientWidth } = this.widget.node;
      if (clientWidth > 0) this.memory.setItem(KEY, `${clientWidth}`);
    });
  }
}

/** JupyterLab's toasts come up in the lower right corner, where one writes to Claude: they make way for the panel that is in sight there. */
function keepToastsBeside(node: HTMLElement): void {
  const { left, right, width } = node.getBoundingClientRect();
  const { clientWidth } = document.body;
  const isInTheWay = width > 0 && left + right > clientWidth;
  if (isInTheWay) document.body.style.setProperty(TOASTS_RIGHT, `${clientWidth - Math.max(left, Math.min(TOAST_PX, clientWidth))}px`);
  else document.body.style.removeProperty(TOASTS_RIGHT);
}

/** The panel of JupyterLab's whose parts lie side by side. */
function splitOf(widget: Widget): SplitPanel | null {
  for (let up = widget.parent; up; up = up.parent) {
    if ("setRelativeSizes" in up && up.node.clientWidth > up.node.clientHeight / 4) return up as SplitPanel;
  }
  return null;
}
