/** A button under each answer whose turn can be taken back: it shows what that would do, and does it when that is confirmed. */

import type { JupyterFrontEndPlugin } from "@jupyterlab/application";
import type { NotebookPanel } from "@jupyterlab/notebook";
import { INotebookTracker, NotebookActions } from "@jupyterlab/notebook";

import type { JsonObject } from "../json";
import { addPageStyle } from "../page";
import { revealed } from "../transcript/visible_text";
import type { CellModel } from "./cell_language";
import { notebookLinks } from "./notebook_links";
import css from "./undo.css";

export const UNDO_CLASS = "cellwright-undo";

export type KernelRequest = (method: string, params: JsonObject) => Promise<unknown>;

type UndoableTurn = { session: string; turn: number };
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
      const offered = there !== null && turn !== null && turn.session === there.session && there.turns.includes(turn.turn);
      const host = cell.node.querySelector(`:scope > .${UNDO_CLASS}`);
      if (!offered) host?.remove();
      else if (!host) cell.node.append(undoButton(turn, this.requestNow(panel)));
    }
  }

  /** The way to the kernel as it is when something is asked: a connection that was lost has another since. */
  private requestNow(panel: NotebookPanel): KernelRequest {
    return (method, params) =>
      this.askOf(panel)?.(method, params) ?? Promise.reject(new Error("The kernel is not connected. Try again in a moment."));
  }
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
    const metadata = (outputs?.get(index).metadata as { cellwright?: { session?: unknown; undo?: unknown } } | undefined)?.cellwright;
    if (typeof metadata?.session === "string" && typeof metadata.undo === "number") return { session: metadata.session, turn: metadata.undo };
  }
  return null;
}

let styled = false;

/** A button that takes a turn back, after it has shown what that would do. */
export function undoButton(turn: UndoableTurn, ask: KernelRequest): HTMLElement {
  if (!styled) addPageStyle(css);
  styled = true;
  const host = document.createElement("div");
  host.className = UNDO_CLASS;
  const offer = textElement("button", "Undo turn");
  offer.addEventListener("click", () => { void preview(host, offer, turn, ask); });
  host.append(offer);
  return host;
}

async function preview(host: HTMLElement, offer: HTMLElement, turn: UndoableTurn, ask: KernelRequest): Promise<void> {
  const shown = await requestPreview(host, offer, () => ask("undo_turn", { ...turn, preview: true }));
  if (!shown) return;
  const leave = (): void => {
    host.replaceChildren(offer);
    offer.focus();
  };
  const choices = [
    ...(shown.does_something ? [applyButton("Undo", host, offer, turn, ask, false)] : []),
    ...(shown.conflicts ? [applyButton("Also undo later changes", host, offer, turn, ask, true)] : []),
    cardButton("Cancel", leave),
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
  });
  host.replaceChildren(card);
  choices[0]?.focus();
}

function applyButton(label: string, host: HTMLElement, offer: HTMLElement, turn: UndoableTurn, ask: KernelRequest, force: boolean): HTMLElement {
  return cardButton(label, () => {
    void requestPreview(host, offer, () => ask("undo_turn", { ...turn, preview: false, force })).then((done) => {
      if (!done) return;
      const failed = done.failed?.length ? ` But: ${done.failed.join(" ")}` : "";
      showMessage(host, `${done.title}.${failed} %claude /redo restores it.`);
    });
  });
}

function cardButton(label: string, close: () => void): HTMLElement {
  const node = textElement("button", label);
  node.addEventListener("click", close);
  return node;
}

/** The kernel's answer; null for an error, which is shown beside `offer`: it may be asked again. */
async function requestPreview(host: HTMLElement, offer: HTMLElement, ask: () => Promise<unknown>): Promise<UndoPreview | null> {
  try {
    return (await ask()) as UndoPreview;
  } catch (error) {
    showMessage(host, error instanceof Error ? error.message : String(error), offer);
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
  node.textContent = revealed(text);
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
  description: "A button under an answer takes back what Claude changed in that turn.",
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
