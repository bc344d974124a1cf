/** Changes of cells that Claude proposes, shown at the cells themselves until they are answered, here or elsewhere. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ICommandPalette } from "@jupyterlab/apputils";
import type { NotebookPanel } from "@jupyterlab/notebook";
import { INotebookTracker } from "@jupyterlab/notebook";

import type { JsonObject } from "../../json";
import { addPageStyle } from "../../page";
import { askingPlaces } from "../../transcript/cards/asking_place";
import type { ProposalCard } from "../../transcript/cards/proposal_card";
import type { ChangePage } from "../../transcript/cards/question_card";
import { watchInput, whenUserRests } from "../../transcript/focus";
import { offerChangeRunner } from "../../transcript/items/page_actions";
import type { AnswerMessage, AskOp } from "../../transcript/protocol";
import type { RpcLink } from "../../transport/rpc";
import type { SharedNotebook } from "../change_cells";
import { changedByClaude } from "../change_cells";
import { notebookLinks } from "../notebook_links";
import { CellRunner } from "./changed_cell_runs";
import css from "./proposals.css";

/** `where`: on the cell `cell`, before or after it, or at the start or end of the notebook. */
export type ProposalRequest = { path: string; where: "on" | "before" | "after" | "start" | "end"; cell: string; ask: AskOp };
/** The renderer is loaded when there is something to draw. */
export type DrawProposal = (
  host: HTMLElement,
  ask: AskOp,
  send: (answer: AnswerMessage) => void,
  page: ChangePage,
) => Promise<ProposalCard>;

const PROPOSAL_CLASS = "cellwright-proposal";
const SETTLE_MS = 1_000;

/** A card in the page. */
type ShownCard = { card: ProposalCard; host: HTMLElement; panel: NotebookPanel; question: string; send: (answer: AnswerMessage) => void };
type Place = { panel: NotebookPanel; host: HTMLElement };

export class Proposals {
  /** A function for each open question that removes it from the page. */
  private readonly open = new Map<string, () => void>();
  private readonly requests = new Map<string, ProposalRequest>();
  private readonly shown = new Set<ShownCard>();
  private readonly lastInput = watchInput();

  /** `panels` gives the notebooks that are open in this page; `show` brings one of them to the front; `changed` gives the cells that are as Claude changed them. */
  constructor(
    private readonly panels: () => NotebookPanel[],
    private readonly draw: DrawProposal,
    private readonly show: (panel: NotebookPanel) => void = () => undefined,
    private readonly changed: (panel: NotebookPanel) => ReadonlySet<string> = () => new Set(),
  ) {}

  /** Shows a proposal wherever its notebook is open in this page. */
  propose = async (params: JsonObject, link: RpcLink): Promise<boolean> => {
    const proposed = params as unknown as ProposalRequest;
    const { question } = proposed.ask;
    this.open.get(question)?.();
    const places: Place[] = [];
    const cards: ShownCard[] = [];
    const takeAway = (): void => {
      if (this.open.get(question) === takeAway) {
        this.open.delete(question);
        this.requests.delete(question);
      }
      const hadKeys = cards.find(({ card }) => card.hasFocus());
      const next = hadKeys && this.following(hadKeys, 1);
      for (const shown of cards) {
        this.shown.delete(shown);
        shown.card.dispose();
      }
      for (const { host } of places) removeCard(host);
      this.count();
      if (next && next.question !== question) this.giveKeys(next, () => { next.card.offerKeys(); });
    };
    this.open.set(question, takeAway);
    this.requests.set(question, proposed);
    const isOpen = (): boolean => this.open.get(question) === takeAway;
    for (const panel of this.panels().filter(({ context }) => context.path === proposed.path)) {
      await panel.context.ready;
      const host = isOpen() ? insertHost(panel, proposed) : null;
      if (!host) continue;
      places.push({ panel, host });
      const send = (answer: AnswerMessage): void => {
        void link.request("answer", answer as unknown as JsonObject).then(
          () => { for (const { card } of cards) card.acknowledge(); },
          () => undefined, // the card offers to answer again
        );
      };
      const own = (): ShownCard | undefined => cards.find((shown) => shown.host === host);
      const card = await this.draw(host, proposed.ask, send, this.pageOf(panel, host, own));
      const shown = { card, host, panel, question, send };
      cards.push(shown);
      this.shown.add(shown);
      this.count();
    }
    // it was answered while its cards were drawn
    if (!isOpen()) takeAway();
    return isOpen() && places.length > 0;
  };

  /** The question was answered, or is none any more. */
  withdraw = ({ question }: JsonObject): null => {
    if (typeof question === "string") this.open.get(question)?.();
    return null;
  };

  /** The place of an open question in this page; undefined if no card of it is here. */
  placeOf(question: string): { panel: NotebookPanel; request: ProposalRequest } | undefined {
    const request = this.requests.get(question);
    const panel = this.panels().find(({ context }) => context.path === request?.path);
    return request && panel && { panel, request };
  }

  /** True if changes wait in `panel`. */
  waitIn(panel: NotebookPanel): boolean {
    return this.cardsIn(panel).length > 0;
  }

  /** True if `step` has a change to go to. */
  hasChanges(panel: NotebookPanel): boolean {
    return this.waitIn(panel) || this.changed(panel).size > 0;
  }

  /**
   * Goes to the next change in `panel`, or with -1 to the last: one that waits, or one that was made and is still there. From the card
   * that has the keys, else from the active cell.
   */
  step(panel: NotebookPanel, direction: 1 | -1): void {
    const cards = this.cardsIn(panel);
    const made = this.changed(panel);
    const stops: Stop[] = cards.map((shown) => ({ at: cardPlace(shown), go: () => { this.goTo(shown); } }));
    panel.content.widgets.forEach(({ model }, at) => {
      if (made.has(model.id) && !stops.some(({ at: [cell] }) => cell === at)) stops.push({ at: [at, 0], go: () => { this.goToCell(panel, at); } });
    });
    stops.sort((one, other) => order(one.at, other.at));
    const focused = cards.find(({ card }) => card.hasFocus());
    const from: CellPlace = focused ? cardPlace(focused) : [panel.content.activeCellIndex, 0];
    // a card at the active cell is still to be visited, a change that was made there is what is looked at
    const isAhead = ({ at }: Stop): boolean => order(at, from) * direction > 0 || (!focused && direction === 1 && at[0] === from[0] && cards.some((shown) => cardPlace(shown)[0] === at[0]));
    const to = direction === 1 ? (stops.find(isAhead) ?? stops[0]) : (stops.findLast(isAhead) ?? stops.at(-1));
    to?.go();
  }

  private goToCell(panel: NotebookPanel, at: number): void {
    this.show(panel);
    const { content } = panel;
    content.activeCellIndex = at;
    content.mode = "command";
    content.activate();
    void content.scrollToItem(at);
  }

  /** Answers all changes that wait in `panel` and could be read. */
  answerAll(panel: NotebookPanel, behavior: AnswerMessage["behavior"]): void {
    for (const { card, question, send } of this.cardsIn(panel)) {
      if (card.ready()) send({ type: "answer", question, behavior, scope: "once", reason: "", input: null });
    }
  }

  private pageOf(panel: NotebookPanel, host: HTMLElement, own: () => ShownCard | undefined): ChangePage {
    return {
      reveal: () => {
        const shown = own();
        if (shown) this.goTo(shown);
      },
      askKeys: () =>
        whenUserRests(host, this.lastInput, () => {
          const shown = own();
          if (!shown || !askingPlaces().onlyChangesWait() || !panel.isVisible) return;
          if (this.cardsIn(panel).some(({ card }) => card.hasFocus())) return;
          shown.card.offerKeys();
          host.scrollIntoView({ block: "nearest" });
        }),
      answerAll: (behavior) => { this.answerAll(panel, behavior); },
    };
  }

  /** Goes to a card, as the user has asked for. */
  private goTo(shown: ShownCard): void {
    shown.card.choose();
    this.giveKeys(shown, () => { shown.card.focus(); });
  }

  private giveKeys({ host, panel }: ShownCard, focus: () => void): void {
    this.show(panel);
    const cell = panel.content.widgets.findIndex(({ node }) => node.contains(host));
    void bringIntoView(panel, cell, host).then(focus);
  }

  /** Says on each card how many wait. */
  private count(): void {
    for (const panel of new Set(Array.from(this.shown, (shown) => shown.panel))) {
      const cards = this.cardsIn(panel);
      cards.forEach(({ card }, index) => { card.number(index + 1, cards.length); });
    }
  }

  /** The cards of a notebook, from the top. */
  private cardsIn(panel: NotebookPanel): ShownCard[] {
    return [...this.shown]
      .filter((shown) => shown.panel === panel)
      .map((shown) => ({ shown, at: cardPlace(shown) }))
      .sort((one, other) => order(one.at, other.at))
      .map(({ shown }) => shown);
  }

  /** The card after `from`, or with -1 before it; the first comes after the last. */
  private following(from: ShownCard, direction: 1 | -1): ShownCard | undefined {
    const cards = this.cardsIn(from.panel);
    return cards[(cards.indexOf(from) + direction + cards.length) % cards.length];
  }
}

/** The cell's number, and the place at it. */
type CellPlace = readonly [cell: number, place: number];
type Stop = { readonly at: CellPlace; readonly go: () => void };

/** How the style sheet puts the cards of one cell. */
const ORDER: Record<string, number> = { before: -1, on: 0, after: 1 };

function cardPlace({ host, panel }: ShownCard): CellPlace {
  return [panel.content.widgets.findIndex(({ node }) => node === host.parentElement), ORDER[host.dataset.where ?? ""] ?? 0];
}

function order(one: CellPlace, other: CellPlace): number {
  return one[0] - other[0] || one[1] - other[1];
}

async function bringIntoView({ content }: NotebookPanel, cell: number, host: HTMLElement): Promise<void> {
  content.activeCellIndex = cell;
  content.mode = "command";
  // a notebook that draws only what is in sight has to draw it first
  if (!host.checkVisibility()) await content.scrollToItem(cell);
  const isHigh = host.offsetHeight > (host.closest<HTMLElement>(".jp-WindowedPanel-outer")?.clientHeight ?? innerHeight);
  host.scrollIntoView({ block: isHigh ? "start" : "center" });
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

// Shows what Claude proposes for a cell at the cell, and goes from one change to the next.

const COMMANDS = {
  next: "cellwright:next-change",
  previous: "cellwright:previous-change",
  accept: "cellwright:accept-all-changes",
  reject: "cellwright:reject-all-changes",
} as const;

export const proposalsPlugin: JupyterFrontEndPlugin<void> = {
  // the keys stand in the schema of this name
  id: "cellwright:proposals",
  description: "Shows changes that Claude proposes at the cells themselves, to accept, reject or edit.",
  autoStart: true,
  optional: [INotebookTracker, ICommandPalette],
  activate: (app: JupyterFrontEnd, tracker: INotebookTracker | null, palette: ICommandPalette | null) => {
    if (!tracker) return;
    addPageStyle(css);
    const panels = (): NotebookPanel[] => {
      const found: NotebookPanel[] = [];
      tracker.forEach((panel) => { found.push(panel); });
      return found;
    };
    const proposals = new Proposals(
      panels,
      async (host, ask, send, page) => {
        const { proposalCard: proposal } = await import("../../transcript/cards/proposal_card");
        return proposal(host, ask, send, page);
      },
      (panel) => { app.shell.activateById(panel.id); },
      ({ content: { model } }) => (model ? changedByClaude(model.sharedModel as unknown as SharedNotebook) : new Set()),
    );
    offerChangeRunner(new CellRunner((question) => proposals.placeOf(question)));
    notebookLinks.serve("propose", proposals.propose);
    notebookLinks.serve("withdraw", proposals.withdraw);
    const add = (command: string, label: string, caption: string, act: (panel: NotebookPanel) => void, applies = (panel: NotebookPanel): boolean => proposals.waitIn(panel)): void => {
      app.commands.addCommand(command, {
        label,
        caption,
        describedBy: { args: { type: "object", properties: {} } },
        isEnabled: () => tracker.currentWidget !== null && applies(tracker.currentWidget),
        execute: () => { if (tracker.currentWidget) act(tracker.currentWidget); },
      });
      palette?.addItem({ command, category: "Claude" });
    };
    const has = (panel: NotebookPanel): boolean => proposals.hasChanges(panel);
    add(COMMANDS.next, "Next Change", "Go to the next change that Claude proposes or has made", (panel) => { proposals.step(panel, 1); }, has);
    add(COMMANDS.previous, "Previous Change", "Go to the last change before this one", (panel) => { proposals.step(panel, -1); }, has);
    add(COMMANDS.accept, "Accept All Changes", "Accept all changes that wait in this notebook", (panel) => { proposals.answerAll(panel, "allow"); });
    add(COMMANDS.reject, "Reject All Changes", "Reject all changes that wait in this notebook", (panel) => { proposals.answerAll(panel, "deny"); });
  },
};
