/** The status bar's item: what Claude does, in which cell, with Stop while it works; a click goes there. */

import type { IStatusBar } from "@jupyterlab/statusbar";
import { Widget } from "@lumino/widgets";

import type { LiveAnswer } from "../notebook/answers/live_answers";
import { liveAnswers, onLiveAnswers } from "../notebook/answers/live_answers";
import { addPageStyle } from "../page";
import { button, setText } from "../transcript/dom";
import type { Trans } from "../translation";
import type { Chat } from "../transport/chat";
import type { ChatState } from "../transport/chat_protocol";
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

// The line in the status bar: whether Claude works or needs the user; the panel says what the session has cost.

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
  const [answer] = answers;
  const state = chat.connection === "connected" ? chat.state : null;
  const rest = { title: trans.__("Claude: open the panel"), stopTitle: trans.__("Stop Claude"), answer: null, run: null };
  if (answer) {
    const cell = answer.count === null ? "" : trans.__("cell [%1]", answer.count);
    return { ...rest, ...busyLine(answer.progress === "asking", cell, trans), title: trans.__("Go to the cell"), answer };
  }
  return { ...rest, ...conversationLine(chat, state, trans, hasRun) };
}

/** The line of the panel's conversation. */
function conversationLine(chat: Chat, state: ChatState | null, trans: Trans, hasRun: boolean): Pick<StatusLine, "state" | "text"> & Partial<StatusLine> {
  if (!state) return hasRun ? { state: "idle", text: trans.__("Claude: idle") } : { state: "off", text: "" };
  const { current: run, asking } = state;
  if (run !== null || asking.length > 0) return { ...busyLine(asking.length > 0, placeOf(chat, run, trans), trans), run };
  if (state.scripted) return { state: "idle", text: trans.__("Scripted model") };
  return { state: "idle", text: trans.__("Claude: idle") };
}

function busyLine(asks: boolean, cell: string, trans: Trans): Pick<StatusLine, "state" | "text" | "title"> {
  const text = asks ? trans.__("Claude is waiting for you") : trans.__("Claude is working");
  return { state: asks ? "asking" : "working", text: `${text}${cell && ` · ${cell}`}`, title: cell ? trans.__("Go to the cell") : trans.__("Show it in the panel") };
}

/** The cell of a run that is shown in the panel alone; empty for what was asked there. */
function placeOf(chat: Chat, run: string | null, trans: Trans): string {
  const place = chat.runs.find((each) => each.run.id === run)?.run.place ?? "";
  return place.startsWith("[") ? trans.__("cell %1", place) : "";
}
