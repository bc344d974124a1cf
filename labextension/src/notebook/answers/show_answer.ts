/** Goes to an answer in a notebook, which may be in another tab: to what it asks, else to its end. */

import type { INotebookTracker } from "@jupyterlab/notebook";

type Shell = { activateById(id: string): void };

/** Brings the answer in `node` into sight; what it asks gets the keyboard. */
export function showAnswer(shell: Shell, tracker: INotebookTracker | null, node: HTMLElement): void {
  const cellNode = node.closest(".jp-Cell");
  tracker?.forEach((panel) => {
    const at = panel.content.widgets.findIndex((widget) => widget.node === cellNode);
    if (at < 0) return;
    shell.activateById(panel.id);
    panel.content.activeCellIndex = at;
    panel.content.activate();
  });
  // the tab is laid out first
  requestAnimationFrame(() => {
    const card = node.firstElementChild?.shadowRoot?.querySelector<HTMLElement>(".ask:not(.aside)");
    if (card) {
      card.scrollIntoView({ block: "nearest" });
      card.focus({ preventScroll: true });
    } else (node.closest(".jp-OutputArea") ?? node).scrollIntoView({ block: "end" });
  });
}
