/** The panel's width: wide enough to read when it is opened first, then as its user has made it; toasts stay beside it. */

import type { SplitPanel as LuminoSplitPanel, Widget } from "@lumino/widgets";

const DEFAULT_PX = 400;
const KEY = "cellwright:panel-width";
/** Less than this apart is the same width. */
const TOLERANCE_PX = 8;
/** The notebook keeps the rest of the window; in a small one, beside a file browser, as much as the panel. */
const MAX_SHARE = 0.45;
/** Nothing is readable in less. */
const MIN_PX = 240;
/** How far from the window's right edge toasts stay, in the style of the body. */
const TOASTS_RIGHT = "--cellwright-toasts-right";
/** A toast and its margins: so much of a narrow window stays beside the panel, or it lies over its edge. */
const TOAST_PX = 350;

type SplitPanel = Widget & Pick<LuminoSplitPanel, "relativeSizes" | "setRelativeSizes" | "handleMoved">;

/** Gives the panel its width when it comes into sight in this page for the first time and when the window becomes another, and keeps what its user makes of it. */
export class PanelWidth {
  private isSet = false;
  private observer: ResizeObserver | null = null;

  constructor(private readonly widget: Widget, private readonly memory: Storage) {}

  shown(): void {
    if (this.isSet) return;
    this.isSet = true;
    // after JupyterLab has laid out what it shows
    requestAnimationFrame(() => {
      this.fit();
      this.remember();
    });
  }

  private fit(): void {
    const split = splitOf(this.widget);
    if (!split || this.widget.node.clientWidth === 0) return;
    const room = split.node.clientWidth;
    const sizes = split.relativeSizes();
    const at = sizes.length - 1;
    const own = sizes[at] ?? 0;
    // the documents, between the file browser and the panel, give what is lacking and get what is left
    const both = own + (sizes[at - 1] ?? 0);
    const wanted = Number(this.memory.getItem(KEY)) || DEFAULT_PX;
    const share = Math.min(wanted / room, MAX_SHARE, Math.max(both / 2, both - DEFAULT_PX / room, MIN_PX / room));
    if (share >= both || Math.abs(share - own) * room < TOLERANCE_PX) return;
    split.setRelativeSizes(sizes.map((size, each) => (each === at ? share : each === at - 1 ? both - share : size)));
  }

  private remember(): void {
    if (this.observer || !("ResizeObserver" in globalThis)) return;
    const split = splitOf(this.widget);
    let room = split?.node.clientWidth ?? 0;
    this.observer = new ResizeObserver(() => {
      keepToastsBeside(this.widget.node);
      const now = split?.node.clientWidth ?? 0;
      // a window that was small leaves the panel narrow, and one that becomes small takes all from the documents
      if (now !== room) requestAnimationFrame(() => { this.fit(); });
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
