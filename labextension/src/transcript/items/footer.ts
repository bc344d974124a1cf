/** The line below a transcript: how the run goes, with what, what it costs; Stop while it runs. */

import { copyButton } from "../clipboard";
import { button, element, setText } from "../dom";
import { returnFocus } from "../focus";
import { changeWords, count, dollars, duration, wholeSeconds } from "../format";
import type { EndOp } from "../protocol";
import type { TranscriptStore } from "../store";
import type { ItemView, TranscriptContext } from "./item_view";
import { hasOwnStop, isInPanel } from "./item_view";
import { changedIn } from "./folded_steps";
import { hasPageActions } from "./page_actions";
import { undoOffers } from "./undo_offers";

/** A stop that the kernel did not follow may be tried again. */
const STOP_AGAIN_MS = 5000;

const SHOWN_CONTEXT_PERCENT = 50;
/** With more links than these the rest unfolds. */
const LINKS = 2;

const ENDS: Record<string, string> = {
  end_turn: "Done",
  stop_sequence: "Done",
  interrupted: "Stopped",
  max_turns: "Stopped: step limit reached",
  budget: "Stopped: budget reached",
  max_tokens: "Stopped: answer too long",
  refusal: "Refused",
};

/** Permission modes by the names that people choose them by. */
export const MODE_NAMES: Readonly<Record<string, string>> = {
  default: "Ask",
  acceptEdits: "Accept edits",
  plan: "Plan",
  dontAsk: "Only what rules allow",
  bypassPermissions: "Bypass permissions",
};

export type FooterState = "starting" | "running" | "asking" | "retrying" | "done" | "interrupted" | "failed";

export function runState(store: TranscriptStore): FooterState {
  const { end, run } = store;
  if (end) return end.stop_reason === "interrupted" ? "interrupted" : end.error ? "failed" : "done";
  if (store.pending().length > 0) return "asking";
  if (store.retry) return "retrying";
  return run ? "running" : "starting";
}

/** The end of the run in a few words. */
export function endText(end: EndOp): string {
  return ENDS[end.stop_reason] ?? (end.error ? "Failed" : "Done");
}

/** `more` are buttons that open what is below the footer. */
export function footer(place: TranscriptContext, more: readonly HTMLButtonElement[]): ItemView {
  const { store } = place;
  const state = element("span", { class: "state" });
  const mode = element("span", { class: "chip mode", title: "Permission mode" });
  const facts = element("span", { class: "facts" });
  const stop = button("Stop", () => {
    place.send({ type: "stop" });
    // a button that is disabled drops the keyboard
    returnFocus(stop, null, place.host);
    stop.disabled = true;
    setText(stop, "Stopping…");
    setTimeout(() => {
      stop.disabled = false;
      setText(stop, "Stop");
    }, STOP_AGAIN_MS);
  }, { class: "stop" });
  const copy = copyButton(() => answerOf(store), "Copy the answer");
  copy.classList.add("plain");
  const undo = undoButton(place);
  const about = element("span", { class: "about" }, state, mode, facts);
  let unfolded = false;
  const rest = button("More", () => {
    const shown = new Set(facts.querySelectorAll("button"));
    unfolded = true;
    draw();
    [...facts.querySelectorAll("button")].find((node) => !shown.has(node))?.focus();
  }, { class: "plain", "aria-expanded": "false", "aria-label": "More about this answer" });
  const draw = (): void => { drawFacts(facts, factsOf(place, { undo: undo.node, more, rest: unfolded ? null : rest, copy })); };
  const node = element("footer", {}, element("span", { class: "dot", "aria-hidden": "true" }), about, stop);

  const tick = (): void => {
    setText(state, stateText(store));
  };
  return {
    node,
    tick,
    update() {
      const now = runState(store);
      node.dataset.state = now;
      // nothing was run: a card that asks for a key
      node.hidden = store.end !== null && store.run === null && store.items.length === 0 && store.end.error !== null;
      // a command is no run that the panel's own button could stop
      const noStop = store.end !== null || store.have === 0 || (store.run !== null && hasOwnStop(place));
      if (noStop) returnFocus(stop, null, place.host);
      stop.hidden = noStop;
      copy.hidden = store.end === null || answerOf(store) === "";
      setText(mode, MODE_NAMES[store.mode] ?? store.mode);
      mode.dataset.mode = store.mode;
      mode.hidden = ["", "default"].includes(store.mode);
      draw();
      tick();
      undo.settle();
    },
    dispose: () => { undo.dispose(); },
  };
}

type Fact = { readonly text: string; readonly title?: string } | HTMLElement;

function factNode(fact: Fact): HTMLElement {
  if (fact instanceof HTMLElement) return element("span", {}, fact);
  return element("span", { title: fact.title ?? false }, fact.text);
}

/** A button that is moved loses the keyboard. */
function drawFacts(node: HTMLElement, facts: readonly Fact[]): void {
  if (!sameFacts([...node.children], facts)) node.replaceChildren(...facts.map(factNode));
}

function sameFacts(nodes: readonly Element[], facts: readonly Fact[]): boolean {
  return nodes.length === facts.length && facts.every((fact, index) => {
    const node = nodes[index];
    return fact instanceof HTMLElement ? node?.firstElementChild === fact : node?.textContent === fact.text && node.childElementCount === 0;
  });
}

/** The button that undoes the turn: shown once the page offers that. */
function undoButton({ store, host }: TranscriptContext): { readonly node: HTMLButtonElement; settle(): void; dispose(): void } {
  let undo: (() => void) | null = null;
  let withdraw: (() => unknown) | null = null;
  const ended = store.end ? null : undoOffers().await(host);
  const node = button("Undo", () => undo?.(), { class: "plain", title: "Undo what this turn changed", hidden: "" });
  return {
    node,
    settle() {
      if (!store.end) return;
      if (withdraw || !store.changes) {
        ended?.();
        return;
      }
      withdraw = undoOffers().add({
        host,
        offer: (offered) => {
          undo = offered;
          if (offered === null) returnFocus(node, null, host);
          node.hidden = offered === null;
        },
        focus: () => { node.focus(); },
      });
      ended?.();
    },
    dispose: () => {
      withdraw?.();
      ended?.();
    },
  };
}

/** The answer as Claude wrote it. */
function answerOf({ items }: TranscriptStore): string {
  return items.flatMap((item) => (item.kind === "text" ? [item.text.trim()] : [])).filter(Boolean).join("\n\n");
}

function stateText(store: TranscriptStore): string {
  const { run, end, retry } = store;
  if (end) return `${endText(end)} · ${duration(end.ms / 1000)}`;
  if (store.pending().length > 0) return "Claude asks";
  if (retry) return `Trying again in ${wholeSeconds(retry.at + retry.wait - store.now())}`;
  // something was said before the run began: another one goes on
  return run ? `Working… ${wholeSeconds(store.now() - run.started)}` : store.have > 0 ? "Waiting…" : "Starting…";
}

/** `rest` unfolds what is too much; null: all is shown. */
type FooterButtons = { undo: HTMLElement; more: readonly HTMLElement[]; rest: HTMLElement | null; copy: HTMLElement };

function factsOf(place: TranscriptContext, { undo, more, rest, copy }: FooterButtons): Fact[] {
  const { store } = place;
  const inPanel = isInPanel(place);
  const links = shownLinks(more, store.end !== null || !inPanel);
  // a panel has one line: its composer names the model, and the numbers go before the cost, Undo before Copy
  const left = rest !== null && inPanel ? links.length : 0;
  // a change has Undo; in a panel one line has no room for the context sent, the last of them
  const room = Math.max(0, Math.min(LINKS - Number(countsOf(store) !== ""), links.length - Number(inPanel)));
  return [
    ...(left > 0 ? [] : modelFact(store)),
    ...(left > 1 ? [] : spent(store)),
    ...changedFact(store),
    // of code that ran the page knows whether it can be undone
    ...(store.changes ? [undo] : []),
    ...fewest(links, room, rest),
    // the panel has it in sight all the time
    ...(inPanel ? [] : contextFact(store.totals)),
    ...(left > 1 && store.changes ? [] : [copy]),
  ];
}

/** In a panel one line has room, and while Claude works the steps are what is read: it has the links at the end. */
function shownLinks(links: readonly HTMLElement[], isTime: boolean): HTMLElement[] {
  return isTime ? links.filter((node) => !node.hidden) : [];
}

/** A line above says the same of changes that have a diff. */
function changedFact(store: TranscriptStore): Fact[] {
  const changed = countsOf(store);
  return changed && !diffsShow(store) ? [{ text: `${changed} changed${hasPageActions() ? "" : " (/undo)"}` }] : [];
}

/** While there is much room nobody asks. */
function contextFact({ window, context }: TranscriptStore["totals"]): Fact[] {
  const used = window ? Math.round((100 * context) / window) : 0;
  return used >= SHOWN_CONTEXT_PERCENT ? [{ text: `${used}% context` }] : [];
}

function modelFact({ run }: TranscriptStore): Fact[] {
  return run ? [{ text: modelName(run.model), title: run.model }] : [];
}

/** What the run has cost, with its tokens and the session's cost as the tooltip. */
function spent(store: TranscriptStore): Fact[] {
  const { totals } = store;
  const tokens = totals.output > 0 ? `${count(totals.input)} tokens in, ${count(totals.output)} out` : "";
  const { cost, session } = costs(store);
  if (cost) return [{ text: cost, title: [tokens, session && `session ${session}`].filter(Boolean).join(" · ") }];
  return tokens ? [{ text: tokens }] : [];
}

function fewest(links: readonly HTMLElement[], room: number, rest: HTMLElement | null): readonly HTMLElement[] {
  return rest && links.length > room ? [...links.slice(0, room), rest] : links;
}

function countsOf({ changes }: TranscriptStore): string {
  return changes ? changeWords(changes.files.length, changes.cells.length) : "";
}

/** True if the steps name all that the run changed, and the page can undo it. */
function diffsShow({ changes, items }: TranscriptStore): boolean {
  return hasPageActions() && changedIn(items.flatMap((item) => (item.kind === "tool" ? [item] : [])), changes).length >= (changes?.files.length ?? 0) + (changes?.cells.length ?? 0);
}

/** `claude-opus-5-5` is `Opus 5.5`, as the model's picker calls it; other names stay. */
export function modelName(model: string): string {
  const [, family = "", version = ""] = /^claude-([a-z]+)-(\d+(?:-\d{1,2})?)(?:-\d{8})?$/.exec(model) ?? [];
  return family ? `${family[0]?.toUpperCase()}${family.slice(1)} ${version.replace("-", ".")}` : model;
}

/** "" for what is not known, and for nothing; the session's if it has cost more. */
function costs({ end, totals, items }: TranscriptStore): { readonly cost: string; readonly session: string } {
  const agents = items.flatMap((item) => (item.kind === "tool" ? item.agents : []));
  const cost = (end ? end.cost_usd : agents.reduce((sum, agent) => sum + (agent.cost ?? 0), totals.cost ?? 0)) ?? 0;
  const session = end?.session_cost_usd ?? 0;
  return { cost: cost > 0 ? dollars(cost) : "", session: cost > 0 && session > cost ? dollars(session) : "" };
}
