/** Buttons at outputs, beside them in the margin: there while the cell is hovered or active, and only then in the page. */

import type { Cell } from "@jupyterlab/cells";
import type { INotebookTracker, NotebookPanel } from "@jupyterlab/notebook";
import type { LabIcon } from "@jupyterlab/ui-components";

import { element } from "../../transcript/dom";
import type { FoundOutput } from "./notebook_outputs";
import { areaOf, outputAt } from "./notebook_outputs";

export type OutputTool = { readonly name: string; readonly label: string; readonly icon: LabIcon; appliesTo(found: FoundOutput): boolean; run(found: FoundOutput): void };

const CLASS = "cellwright-output-tools";
/** Of a cell with more outputs the others are reached by the context menu. */
const MAX_OUTPUTS = 50;

/** Between an output and its buttons. */
const GAP_PX = 8;

/** The right edge of the pictures and tables in an output; null if it has none. */
function rightEdge(host: HTMLElement): number | null {
  const edges = [...host.querySelectorAll("img, canvas, svg, table")].map((node) => node.getBoundingClientRect().right);
  return edges.length > 0 ? Math.max(...edges) : null;
}

export class OutputTools {
  private hovered: Cell | null = null;
  private readonly shown = new Set<Cell>();

  constructor(
    private readonly tracker: INotebookTracker,
    private readonly tools: readonly OutputTool[],
    private readonly isOffered: (found: FoundOutput) => boolean,
  ) {
    const watch = (panel: NotebookPanel): void => {
      panel.content.node.addEventListener("pointerover", (event) => { this.hover(panel, event.target as Element); });
      panel.content.node.addEventListener("pointerleave", () => { this.hover(panel, null); });
    };
    tracker.forEach(watch);
    tracker.widgetAdded.connect((_, panel) => { watch(panel); });
    let stop = (): void => undefined;
    const follow = (_: unknown, cell: Cell | null): void => {
      stop();
      const changed = cell?.model && areaOf(cell)?.model.changed;
      const look = (): void => { this.update(); };
      changed?.connect(look);
      stop = () => { changed?.disconnect(look); };
      this.update();
    };
    tracker.activeCellChanged.connect(follow);
    follow(null, tracker.activeCell);
  }

  private hover(panel: NotebookPanel, target: Element | null): void {
    const node = target?.closest(".jp-Cell") ?? null;
    if (node === (this.hovered?.node ?? null)) return;
    this.hovered = panel.content.widgets.find((cell) => cell.node === node) ?? null;
    this.update();
  }

  private update(): void {
    const wanted = new Set([this.hovered, this.tracker.activeCell].filter((cell) => cell !== null && !cell.isDisposed));
    for (const cell of this.shown) {
      if (wanted.has(cell) || cell.node.querySelector(`.${CLASS}:focus-within`)) continue;
      for (const node of cell.node.querySelectorAll(`.${CLASS}`)) node.remove();
      this.shown.delete(cell);
    }
    for (const cell of wanted) if (cell) this.show(cell);
  }

  private show(cell: Cell): void {
    const panel = this.tracker.find(({ content }) => content.widgets.includes(cell));
    const area = areaOf(cell);
    if (!panel || !area) return;
    this.shown.add(cell);
    for (let index = 0; index < Math.min(area.model.length, MAX_OUTPUTS); index++) {
      const host = area.widgets[index]?.node;
      const found = outputAt(panel, cell, index);
      if (!host || !found || host.querySelector(`:scope > .${CLASS}`)) continue;
      if (!this.isOffered(found)) continue;
      const tools = this.toolsOf(found, host);
      const edge = rightEdge(host);
      host.append(tools);
      // beside a picture or a table that is narrow
      if (edge !== null) tools.style.right = `${Math.max(0, host.getBoundingClientRect().right - edge - tools.offsetWidth - GAP_PX)}px`;
    }
  }

  private toolsOf(found: FoundOutput, host: HTMLElement): HTMLElement {
    const { panel, cell } = found;
    const buttons = this.tools.filter((tool) => tool.appliesTo(found)).map((tool) => {
      const button = element("button", { type: "button", title: tool.label, "aria-label": tool.label, "data-tool": tool.name });
      tool.icon.render(button);
      button.addEventListener("click", () => {
        // outputs come and go: which one it is now says where it stands
        const index = areaOf(cell)?.widgets.findIndex(({ node }) => node === host) ?? -1;
        const now = outputAt(panel, cell, index);
        if (now) tool.run(now);
      });
      return button;
    });
    const node = element("div", { class: CLASS, role: "toolbar", "aria-label": "Claude" }, ...buttons);
    node.addEventListener("keydown", (event) => {
      if (event.key === "Escape") panel.content.activate();
      // Enter would edit the cell
      if (["Enter", " "].includes(event.key)) event.stopPropagation();
    });
    return node;
  }
}
