/** The line below a transcript: how the run goes, with what, what it costs; Stop while it runs. */

import { copyButton } from "../clipboard";
import { button, element, setText } from "../dom";
import { returnFocus } from "../focus";
import { count, dollars, duration, wholeSeconds } from "../format";
import type { EndOp } from "../protocol";
import type { TranscriptStore } from "../store";
import type { ItemView, TranscriptContext } from "./item_view";
import { isInPanel } from "./item_view";

/** A stop that the kernel did not follow may be tried again. */
const STOP_AGAIN_MS = 5000;

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

export function footer(place: TranscriptContext): ItemView {
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
  const copy = copyButton(() => answerOf(store));
  copy.title = "Copy the answer";
  const node = element("footer", {}, element("span", { class: "dot", "aria-hidden": "true" }), element("span", { class: "about" }, state, mode, facts), copy, stop);

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
      const noStop = store.end !== null || store.have === 0 || (store.run !== null && isInPanel(place));
      if (noStop) returnFocus(stop, null, place.host);
      stop.hidden = noStop;
      copy.hidden = store.end === null || answerOf(store) === "";
      setText(mode, MODE_NAMES[store.mode] ?? store.mode);
      mode.hidden = ["", "default"].includes(store.mode);
      facts.replaceChildren(...factTexts(store).map((fact) => element("span", {}, fact)));
      tick();
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

function factTexts(store: TranscriptStore): string[] {
  const { run, totals } = store;
  const facts: string[] = [];
  if (run) facts.push(run.model);
  facts.push(...costText(store));
  if (totals.output > 0) facts.push(`${count(totals.input)} in, ${count(totals.output)} out`);
  facts.push(...changedTexts(store));
  if (totals.window) facts.push(`context ${Math.max(1, Math.round((100 * totals.context) / totals.window))} %`);
  return facts;
}

/** The number of changes, and how to take them back: the widget is gone when that can be done. */
function changedTexts({ changes }: TranscriptStore): string[] {
  if (!changes) return [];
  const counts = [countOf(changes.files.length, "file"), countOf(changes.cells.length, "cell")].filter((text) => text !== "");
  return counts.length > 0 ? [`${counts.join(", ")} changed, /undo takes it back`] : [];
}

function countOf(number: number, what: string): string {
  return number === 0 ? "" : `${number} ${what}${number > 1 ? "s" : ""}`;
}

function costText({ end, totals }: TranscriptStore): string[] {
  const cost = end ? end.cost_usd : totals.cost;
  // nothing yet, or nobody knows
  if (!cost) return [];
  const session = end?.session_cost_usd ?? 0;
  return [session > cost ? `${dollars(cost)} (session ${dollars(session)})` : dollars(cost)];
}
