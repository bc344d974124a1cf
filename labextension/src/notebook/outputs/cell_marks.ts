/** The marks at their cells: a line below the cell for each, with its remark to be written. No part of the notebook. */

import type { Cell } from "@jupyterlab/cells";
import type { INotebookTracker, NotebookPanel } from "@jupyterlab/notebook";

import { button, element } from "../../transcript/dom";
import { guardFocus } from "../../transcript/focus";
import type { Trans } from "../../translation";
import { askingWays } from "./asking";
import type { Mark, Marks } from "./marks";

const CLASS = "cellwright-marks";

type Line = { readonly node: HTMLElement; readonly input: HTMLInputElement; readonly stop: () => void };

export class CellMarks {
  private readonly lines = new Map<string, Line>();
  private readonly watched = new WeakSet<NotebookPanel>();

  constructor(
    private readonly tracker: INotebookTracker,
    private readonly marks: Marks,
    private readonly trans: Trans,
  ) {
    const update = (): void => { this.update(); };
    const watch = (panel: NotebookPanel): void => {
      if (this.watched.has(panel)) return;
      this.watched.add(panel);
      let { path } = panel.context;
      panel.context.pathChanged.connect((_, now) => {
        marks.renamed(path, now);
        path = now;
      });
      void panel.context.ready.then(() => {
        panel.content.model?.cells.changed.connect(update);
        update();
      });
    };
    tracker.forEach(watch);
    tracker.widgetAdded.connect((_, panel) => { watch(panel); });
    marks.subscribe(update);
  }

  /** Brings the keyboard to a mark's remark. */
  focus(id: string): void {
    const line = this.lines.get(id);
    line?.input.focus();
    line?.node.scrollIntoView({ block: "nearest" });
  }

  private update(): void {
    const { list } = this.marks;
    for (const id of [...this.lines.keys()]) if (!list.some((mark) => mark.id === id)) this.drop(id);
    this.tracker.forEach((panel) => {
      if (!list.some(({ notebook }) => notebook === panel.context.path)) return;
      for (const cell of panel.content.widgets) {
        for (const mark of this.marks.of(panel.context.path, cell.model.id)) this.show(panel, cell, mark);
      }
    });
  }

  private show(panel: NotebookPanel, cell: Cell, mark: Mark): void {
    let line = this.lines.get(mark.id);
    if (line && !line.node.isConnected && !cell.node.contains(line.node)) {
      this.drop(mark.id);
      line = undefined;
    }
    if (!line) {
      const host = cell.node.querySelector(`:scope > .${CLASS}`) ?? element("ul", { class: CLASS, "aria-label": this.trans.__("Marked for Claude") });
      line = this.lineOf(panel, mark);
      this.lines.set(mark.id, line);
      host.append(line.node);
      // at its end in the DOM, since JupyterLab counts a cell's first children
      if (!host.parentElement) cell.node.append(host);
    }
    // what is being written comes back from here
    if (line.input.value.trim() !== mark.attachment.remark) line.input.value = mark.attachment.remark;
  }

  private lineOf(panel: NotebookPanel, mark: Mark): Line {
    const { trans, marks } = this;
    const { name } = mark.attachment;
    const input = element("input", {
      type: "text", class: "jp-mod-styled", placeholder: mark.index === null ? trans.__("Remark about this cell…") : trans.__("Remark about this output…"), "aria-label": trans.__("Remark about: %1", name),
    });
    const hint = element("span", { class: "cellwright-mark-hint" }, trans.__("Enter to ask · Esc to close"));
    const remove = button("×", () => {
      marks.remove([mark.id]);
      panel.content.activate();
    }, { title: trans.__("Remove the mark"), "aria-label": trans.__("Remove the mark: %1", name) });
    const node = element("li", {}, input, hint, remove);
    const stop = guardFocus(node);
    input.addEventListener("input", () => { marks.setRemark(mark.id, input.value.trim()); });
    node.addEventListener("keydown", (event) => {
      // a notebook would take keys as commands
      event.stopPropagation();
      if (event.key === "Escape") panel.content.activate();
      else if (event.key === "Enter" && event.target === input && !event.isComposing) void askingWays.compose?.();
      else return;
      event.preventDefault();
    });
    return { node, input, stop };
  }

  private drop(id: string): void {
    const line = this.lines.get(id);
    this.lines.delete(id);
    const host = line?.node.parentElement;
    line?.stop();
    line?.node.remove();
    if (host?.childElementCount === 0) host.remove();
  }
}
