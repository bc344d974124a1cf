/** Goes to an answer in a notebook, which may be in another tab: to its question or its field for a key, else to its end. */

import type { INotebookTracker } from "@jupyterlab/notebook";

type Shell = { activateById(id: string): void };

const PROPOSAL = ".cellwright-proposal";

function cardIn(host: Element | null | undefined): HTMLElement | null | undefined {
  return host?.shadowRoot?.querySelector<HTMLElement>(".ask:not(.aside)");
}

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
    // what is asked about a cell is asked there
    const card = cardIn(node.firstElementChild) ?? cardIn(cellNode?.closest(".jp-Notebook")?.querySelector(PROPOSAL));
    const key = node.querySelector<HTMLElement>(".key-form input");
    if (key) {
      key.scrollIntoView({ block: "center" });
      key.focus({ preventScroll: true });
    } else if (card) {
      card.scrollIntoView({ block: "nearest" });
      card.focus({ preventScroll: true });
    } else (node.closest(".jp-OutputArea, .cellwright-strip") ?? node).scrollIntoView({ block: "end" });
  });
}
