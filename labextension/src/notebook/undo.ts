/** A button at each answer whose turn can be undone: it shows what that would do, and does it when that is confirmed. */

import type { JupyterFrontEndPlugin } from "@jupyterlab/application";
import type { NotebookPanel } from "@jupyterlab/notebook";
import { INotebookTracker, NotebookActions } from "@jupyterlab/notebook";

import type { JsonObject } from "../json";
import { addPageStyle } from "../page";
import type { UndoPlace } from "../transcript/items/undo_offers";
import { undoOffers } from "../transcript/items/undo_offers";
import { TRANSCRIPT_TYPE } from "../transcript/protocol";
import { sentence } from "../transcript/visible_text";
import type { CellModel } from "./cell_language";
import { notebookLinks } from "./notebook_links";
import css from "./undo.css";

export const UNDO_CLASS = "cellwright-undo";
const TURN = "data-turn";
const ANSWERS = ".jp-Cell, .run";

export type KernelRequest = (method: string, params: JsonObject) => Promise<unknown>;

/** `variables`: it changed these at most, which come back while the kernel has a copy. */
type UndoableTurn = { session: string; turn: number; variables: boolean };
export type UndoableTurns = { session: string; turns: number[] };
/** `failed` says what was not done after all; absent where the kernel is older. */
type UndoPreview = { title: string; text: string; does_something: boolean; conflicts: boolean; failed?: string[] };

export class UndoButtons {
  /** `askOf` gives the way to the kernel of a notebook; undefined where it does not hold Cellwright. */
  constructor(private readonly askOf: (panel: NotebookPanel) => KernelRequest | undefined) {}

  /** Puts buttons where turns can be taken back now, and takes them away elsewhere. */
  async update(panel: NotebookPanel): Promise<void> {
    const ask = this.askOf(panel);
    const there = ask ? await undoableTurns(ask) : null;
    for (const cell of panel.content.widgets) {
      const turn = turnOf((cell.model as CellModel).outputs);
      const offered = turn !== null && canBeUndone(turn, there);
      const host = cell.node.querySelector(`:scope > .${UNDO_CLASS}`);
      if (!offered) {
        host?.remove();
        for (const place of undoOffers().in(cell.node)) place.offer(null);
      } else if (host?.getAttribute(TURN) !== nameOf(turn)) {
        host?.remove();
        cell.node.append(undoButton(turn, this.requestNow(panel), cell.node, hasTranscript((cell.model as CellModel).outputs)));
      }
    }
  }

  /** The way to the kernel as it is when something is asked: a connection that was lost has another since. */
  private requestNow(panel: NotebookPanel): KernelRequest {
    return (method, params) =>
      this.askOf(panel)?.(method, params) ?? Promise.reject(new Error("The kernel is not connected. Try again in a moment."));
  }
}

function canBeUndone(turn: UndoableTurn, there: UndoableTurns | null): boolean {
  // of another session's turn the kernel says why it cannot be undone here
  return there !== null && (turn.session === there.session ? there.turns.includes(turn.turn) : !turn.variables);
}

/** The session of the kernel, and its turns that can be taken back; null where it does not say. */
export async function undoableTurns(ask: KernelRequest): Promise<UndoableTurns | null> {
  try {
    return (await ask("undo_turns", {})) as UndoableTurns;
  } catch {
    return null; // the kernel is gone, or older than this page
  }
}

function turnOf(outputs: CellModel["outputs"]): UndoableTurn | null {
  for (let index = 0; index < (outputs?.length ?? 0); index++) {
    const metadata = outputs?.get(index).metadata as { cellwright?: Record<"session" | "undo" | "undo_variables", unknown> } | undefined;
    const { session, undo, undo_variables } = metadata?.cellwright ?? {};
    const turn = undo ?? undo_variables;
    if (typeof session === "string" && typeof turn === "number") return { session, turn, variables: undo === undefined };
  }
  return null;
}

/** Whether an answer is drawn there, now or when the cell comes into sight. */
function hasTranscript(outputs: CellModel["outputs"]): boolean {
  return Array.from({ length: outputs?.length ?? 0 }, (_, index) => outputs?.get(index)).some((output) => output && TRANSCRIPT_TYPE in output.data);
}

/** The button of a turn: in the footers of its answer, as they come, else in `host`, where its card opens. */
type Offer = { readonly host: HTMLElement; readonly turn: UndoableTurn; readonly ask: KernelRequest; offer(): void; focus(): void; withdraw(): void };

const offers = new WeakMap<Element, Offer>();
let begun = false;

function begin(): void {
  if (begun) return;
  begun = true;
  addPageStyle(css);
  undoOffers().onChanged((answered) => {
    // it stands in its cell by then
    queueMicrotask(() => {
      const host = answered.closest(ANSWERS)?.querySelector(`:scope > .${UNDO_CLASS}`);
      if (host) offers.get(host)?.offer();
    });
  });
}

function nameOf({ session, turn }: UndoableTurn): string {
  return `${session} ${turn}`;
}

/**
 * The place of a card that undoes a turn after it has shown what that would do. `answer` holds the answer, and its footer; with
 * `hasFooter` that may be drawn later, and until then there is no button: a row that came and went would move what is read.
 */
export function undoButton(turn: UndoableTurn, ask: KernelRequest, answer: HTMLElement, hasFooter = false): HTMLElement {
  begin();
  const host = document.createElement("div");
  host.className = UNDO_CLASS;
  host.setAttribute(TURN, nameOf(turn));
  const own = textElement("button", "Undo turn");
  own.addEventListener("click", () => { void preview(offer); });
  let over = false;
  const places = (): UndoPlace[] => undoOffers().in(answer);
  const offer: Offer = {
    host,
    turn,
    ask,
    offer() {
      if (over) return;
      const there = places();
      for (const place of there) place.offer(() => void preview(offer));
      if (there.length > 0) own.remove();
      else if (host.childElementCount === 0 && !hasFooter && !undoOffers().isAwaited(answer)) host.append(own);
    },
    focus() {
      (places()[0] ?? own).focus();
    },
    withdraw() {
      over = true;
      for (const place of places()) place.offer(null);
      own.remove();
    },
  };
  offers.set(host, offer);
  offer.offer();
  return host;
}

async function preview(offer: Offer): Promise<void> {
  const { host, turn, ask } = offer;
  const shown = await requestPreview(offer, () => ask("undo_turn", { session: turn.session, turn: turn.turn, preview: true }));
  if (!shown) return;
  const leave = (): void => {
    host.replaceChildren();
    offer.offer();
    offer.focus();
  };
  const choices = [
    ...(shown.does_something ? [applyButton("Undo", offer, false, "1")] : []),
    ...(shown.conflicts ? [applyButton("Also undo later changes", offer, true, "2")] : []),
    cardButton("Cancel", leave, "4"),
  ];
  const card = document.createElement("div");
  card.className = "card";
  card.setAttribute("role", "group");
  card.setAttribute("aria-label", shown.title);
  const row = document.createElement("div");
  row.append(...choices);
  card.append(textElement("strong", shown.title), textElement("pre", shown.text), row);
  card.addEventListener("keydown", (event) => {
    event.stopPropagation(); // the notebook has commands on these keys
    if (event.key === "Escape") leave();
    // as in the card of %claude /undo
    else choices.find((each) => each.ariaKeyShortcuts === event.key)?.click();
  });
  host.replaceChildren(card);
  choices[0]?.focus();
}

function applyButton(label: string, offer: Offer, force: boolean, key = ""): HTMLElement {
  return cardButton(label, () => {
    void requestPreview(offer, () => offer.ask("undo_turn", { session: offer.turn.session, turn: offer.turn.turn, preview: false, force })).then((done) => {
      if (!done) return;
      const failed = done.failed?.length ? ` But: ${done.failed.join(" ")}` : "";
      showMessage(offer.host, `${done.title}.${failed} %claude /redo restores it.`);
      offer.withdraw();
    });
  }, key);
}

function cardButton(label: string, close: () => void, key = ""): HTMLElement {
  const node = textElement("button", label);
  if (key) node.setAttribute("aria-keyshortcuts", key);
  node.addEventListener("click", close);
  return node;
}

/** The kernel's answer; null for an error, which is shown below the answer: it may be asked again. */
async function requestPreview(offer: Offer, ask: () => Promise<unknown>): Promise<UndoPreview | null> {
  const { host } = offer;
  try {
    return (await ask()) as UndoPreview;
  } catch (error) {
    const hadFocus = host.contains(document.activeElement);
    host.replaceChildren();
    offer.offer();
    showMessage(host, error instanceof Error ? error.message : String(error), ...host.querySelectorAll("button"));
    if (hadFocus) offer.focus();
    return null;
  }
}

function showMessage(host: HTMLElement, text: string, ...beside: HTMLElement[]): void {
  const line = textElement("span", text);
  line.setAttribute("role", "status");
  line.tabIndex = -1;
  // the button that was pressed goes: who works by keys stays here
  const hadFocus = host.contains(document.activeElement);
  host.replaceChildren(...beside, line);
  if (hadFocus) (beside[0] ?? line).focus();
}

function textElement(tag: "button" | "strong" | "pre" | "span", text: string): HTMLElement {
  const node = document.createElement(tag);
  if (node instanceof HTMLButtonElement) node.type = "button";
  node.append(...sentence(text));
  return node;
}

const LOOK_AFTER_MS = 500;

/** Calls `changed` when there is another answer in a notebook that several pages edit: another one may have run its cell. */
function followAnswers({ context: { model } }: NotebookPanel, changed: () => void): void {
  if (model.collaborative !== true) return;
  const answers = (): string => JSON.stringify([...model.cells].flatMap((cell) => {
    const { outputs, executionCount, executionState } = cell as CellModel;
    const turn = turnOf(outputs);
    return turn ? [[cell.id, turn, executionCount, executionState]] : [];
  }));
  let known = answers();
  let timer: ReturnType<typeof setTimeout> | undefined;
  model.contentChanged.connect(() => {
    timer ??= setTimeout(() => {
      timer = undefined;
      if (model.isDisposed) return;
      const now = answers();
      if (now !== known) changed();
      known = now;
    }, LOOK_AFTER_MS);
  });
}

// Offers to take a turn back under its answer.

export const undoPlugin: JupyterFrontEndPlugin<void> = {
  id: "cellwright:undo",
  description: "A button at an answer undoes what Claude changed in that turn.",
  autoStart: true,
  optional: [INotebookTracker],
  activate: (_, tracker: INotebookTracker | null) => {
    if (!tracker) return;
    const buttons = new UndoButtons((panel) => {
      const link = notebookLinks.linkFor(panel);
      return link && ((method, params) => link.request(method, params));
    });
    const lookAtAll = (): void => { tracker.forEach((panel) => { void buttons.update(panel); }); };
    notebookLinks.onLinked(lookAtAll);
    NotebookActions.executed.connect(lookAtAll);
    const followShared = (panel: NotebookPanel): void => { void panel.context.ready.then(() => { followAnswers(panel, () => void buttons.update(panel)); }); };
    tracker.forEach(followShared);
    tracker.widgetAdded.connect((_sender, panel) => { followShared(panel); });
  },
};
