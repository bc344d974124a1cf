/** Changes of cells that Claude proposes, shown at the cells themselves until they are answered, here or elsewhere. */

import type { JupyterFrontEndPlugin } from "@jupyterlab/application";
import type { NotebookPanel } from "@jupyterlab/notebook";
import { INotebookTracker } from "@jupyterlab/notebook";

import type { JsonObject } from "../json";
import { addPageStyle } from "../page";
import type { ProposalCard } from "../transcript/cards/proposal_card";
import type { AnswerMessage, AskOp } from "../transcript/protocol";
import type { RpcLink } from "../transport/rpc";
import { notebookLinks } from "./notebook_links";
import css from "./proposals.css";

/** `where`: on the cell `cell`, before or after it, or at the start or end of the notebook. */
type ProposalRequest = { path: string; where: "on" | "before" | "after" | "start" | "end"; cell: string; ask: AskOp };
/** The renderer is loaded when there is something to draw. */
export type DrawProposal = (host: HTMLElement, ask: AskOp, send: (answer: AnswerMessage) => void) => Promise<ProposalCard>;

const PROPOSAL_CLASS = "cellwright-proposal";
const SETTLE_MS = 1_000;

export class Proposals {
  /** A function for each open question that removes it from the page. */
  private readonly open = new Map<string, () => void>();

  /** `panels` gives the notebooks that are open in this page. */
  constructor(
    private readonly panels: () => NotebookPanel[],
    private readonly draw: DrawProposal,
  ) {}

  /** Shows a proposal wherever its notebook is open in this page. */
  propose = async (params: JsonObject, link: RpcLink): Promise<boolean> => {
    const proposed = params as unknown as ProposalRequest;
    const { question } = proposed.ask;
    this.open.get(question)?.();
    const hosts: HTMLElement[] = [];
    const cards: ProposalCard[] = [];
    const takeAway = (): void => {
      if (this.open.get(question) === takeAway) this.open.delete(question);
      for (const card of cards) card.dispose();
      for (const host of hosts) removeCard(host);
    };
    this.open.set(question, takeAway);
    const isOpen = (): boolean => this.open.get(question) === takeAway;
    for (const panel of this.panels().filter(({ context }) => context.path === proposed.path)) {
      await panel.context.ready;
      const host = isOpen() ? insertHost(panel, proposed) : null;
      if (!host) continue;
      hosts.push(host);
      cards.push(
        await this.draw(host, proposed.ask, (answer) => {
          void link.request("answer", answer as unknown as JsonObject).then(
            () => { for (const card of cards) card.acknowledge(); },
            () => undefined, // the card offers to answer again
          );
        }),
      );
    }
    // it was answered while its cards were drawn
    if (!isOpen()) takeAway();
    return isOpen() && hosts.length > 0;
  };

  /** The question was answered, or is none any more. */
  withdraw = ({ question }: JsonObject): null => {
    if (typeof question === "string") this.open.get(question)?.();
    return null;
  };
}

/** Takes a card out of the page. A notebook can be scrolled past its end: whoever looked at the card might see nothing. */
function removeCard(host: HTMLElement): void {
  const scroller = host.closest<HTMLElement>(".jp-WindowedPanel-outer");
  const content = scroller?.querySelector<HTMLElement>(".jp-WindowedPanel-inner");
  host.remove();
  if (scroller && content) keepInView(scroller, content);
}

/** Scrolls back while the turn's own card goes as well, until the end of the notebook stands no higher than at a quarter. */
function keepInView(scroller: HTMLElement, content: HTMLElement): void {
  const watcher = new ResizeObserver(() => {
    const { top, height } = scroller.getBoundingClientRect();
    const tooHigh = top + height / 4 - content.getBoundingClientRect().bottom;
    if (tooHigh > 0) scroller.scrollTop -= tooHigh;
  });
  watcher.observe(content);
  setTimeout(() => { watcher.disconnect(); }, SETTLE_MS);
}

/** A place for the card in the page; null where there is no such cell. */
function insertHost({ content }: NotebookPanel, { where, cell }: ProposalRequest): HTMLElement | null {
  const cells = content.widgets;
  const at = where === "start" ? cells[0] : where === "end" ? cells.at(-1) : cells.find(({ model }) => model.id === cell);
  if (!at) return null;
  const host = document.createElement("div");
  host.className = PROPOSAL_CLASS;
  host.dataset.where = where === "start" ? "before" : where === "end" ? "after" : where;
  // at its end in the DOM, since JupyterLab counts a cell's first children; the style sheet puts it where it belongs
  at.node.append(host);
  return host;
}

// Shows what Claude proposes for a cell at the cell.

export const proposalsPlugin: JupyterFrontEndPlugin<void> = {
  id: "cellwright:proposals",
  description: "Shows changes that Claude proposes at the cells themselves, to accept, reject or edit.",
  autoStart: true,
  optional: [INotebookTracker],
  activate: (_, tracker: INotebookTracker | null) => {
    if (!tracker) return;
    addPageStyle(css);
    const panels = (): NotebookPanel[] => {
      const found: NotebookPanel[] = [];
      tracker.forEach((panel) => { found.push(panel); });
      return found;
    };
    const proposals = new Proposals(panels, async (host, ask, send) => {
      const { proposalCard: proposal } = await import("../transcript/cards/proposal_card");
      return proposal(host, ask, send);
    });
    notebookLinks.serve("propose", proposals.propose);
    notebookLinks.serve("withdraw", proposals.withdraw);
  },
};
