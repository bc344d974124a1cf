/** The status bar's item: what Claude does, in which cell, with Stop while it works; a click goes there. */

import type { IStatusBar } from "@jupyterlab/statusbar";
import { Widget } from "@lumino/widgets";

import type { LiveAnswer } from "../notebook/answers/live_answers";
import { liveAnswers, onLiveAnswers } from "../notebook/answers/live_answers";
import { addPageStyle } from "../page";
import { button, setText } from "../transcript/dom";
import { dollars } from "../transcript/format";
import type { Trans } from "../translation";
import type { Chat } from "../transport/chat";
import type { ChatStore } from "../transport/chat_store";
import css from "./status_bar.css";

export type StatusActions = {
  /** Brings the panel into sight. */
  open(): void;
  /** Brings a run of the panel's conversation into sight. */
  showRun(run: string): void;
  /** Brings a cell's answer into sight, with the keyboard on what it asks. */
  showAnswer(node: HTMLElement): void;
};

/** Adds the item where there is a status bar; it is empty until there is a conversation, or a first run in a cell. */
export function addStatusItem(statusBar: IStatusBar | null, store: ChatStore, trans: Trans, actions: StatusActions): void {
  if (!statusBar) return;
  addPageStyle(css);
  let hasRun = false;
  const look = (): StatusLine => statusOf(store, liveAnswers(), trans, hasRun);
  const go = button("", () => {
    const { answer, run } = look();
    if (answer) actions.showAnswer(answer.node);
    else if (run) actions.showRun(run);
    else actions.open();
  }, { class: "cellwright-status" });
  const stop = button(trans.__("Stop"), () => {
    const { answer, run } = look();
    if (answer) answer.transcript.stop();
    else if (run) store.send({ type: "stop", run });
  }, { class: "cellwright-status cellwright-status-stop" });
  const item = new Widget();
  item.addClass("cellwright-status-item");
  item.node.append(go, stop);
  const draw = (): void => {
    const line = look();
    hasRun ||= line.answer !== null;
    setText(go, line.text);
    go.title = line.title;
    stop.title = line.stopTitle;
    for (const each of [go, stop]) each.dataset.state = line.state;
    go.hidden = line.state === "off";
    const leaves = line.state !== "working";
    // a button that goes drops the keyboard
    if (leaves && document.activeElement === stop) go.focus();
    stop.hidden = leaves;
  };
  store.subscribe(draw);
  onLiveAnswers(draw);
  draw();
  statusBar.registerStatusItem("cellwright:status", { item, align: "right", rank: 40, isActive: () => true });
}

// The line in the status bar: whether Claude works, needs the user, and what the session has cost.

export type StatusLine = {
  readonly state: "off" | "idle" | "working" | "asking";
  readonly text: string;
  readonly title: string;
  readonly stopTitle: string;
  /** The run of a cell in this page that the line is about. */
  readonly answer: LiveAnswer | null;
  /** The run of the panel's conversation that it is about. */
  readonly run: string | null;
};

/** `hasRun`: a cell of this page has asked Claude before. */
export function statusOf(chat: Chat, answers: readonly LiveAnswer[], trans: Trans, hasRun = false): StatusLine {
  const state = chat.connection === "connected" ? chat.state : null;
  const line = (now: StatusLine["state"], text: string, title: string, of: Partial<StatusLine> = {}): StatusLine =>
    ({ state: now, text, title, stopTitle: trans.__("Stop Claude"), answer: null, run: null, ...of });
  const [answer] = answers;
  const open = trans.__("Claude: open the panel");
  if (!state && !answer) return hasRun ? line("idle", trans.__("Claude: idle"), open) : line("off", "", "");
  const asks = answer ? answer.progress === "asking" : (state?.asking.length ?? 0) > 0;
  const run = state?.current ?? null;
  const cost = state?.session.cost_usd ? ` · ${dollars(state.session.cost_usd)}` : "";
  if (answer || asks || run !== null) {
    const cell = answer ? cellName(answer.count, trans) : placeOf(chat, run, trans);
    const title = cell ? trans.__("Go to the cell") : trans.__("Show it in the panel");
    const text = asks ? trans.__("Claude needs your approval") : trans.__("Claude is working");
    return line(asks ? "asking" : "working", `${text}${cell && ` · ${cell}`}`, title, answer ? { answer } : { run });
  }
  return line("idle", state?.scripted ? trans.__("Scripted model") : trans.__("Claude: idle") + cost, open);
}

function cellName(count: number | null, trans: Trans): string {
  return count === null ? trans.__("cell") : trans.__("cell [%1]", count);
}

/** The cell of a run that is shown in the panel alone; empty for what was asked there. */
function placeOf(chat: Chat, run: string | null, trans: Trans): string {
  const place = chat.runs.find((each) => each.run.id === run)?.run.place ?? "";
  return place.startsWith("[") ? trans.__("cell %1", place) : "";
}
