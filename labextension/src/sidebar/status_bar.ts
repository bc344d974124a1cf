/** The status bar's item: what Claude does, in which cell, with Stop while it works, and what asks or works in other kernels; a click goes there. */

import type { IStatusBar } from "@jupyterlab/statusbar";
import { Widget } from "@lumino/widgets";

import type { LiveAnswer } from "../notebook/answers/live_answers";
import { liveAnswers, onLiveAnswers } from "../notebook/answers/live_answers";
import { elsewhereText } from "../overview/overview_feed";
import type { KernelRow } from "../overview/overview_feed";
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
  /** Shows the sessions of all kernels. */
  overview(): void;
};

/**
 * Adds the item where there is a status bar; it is empty until there is a conversation, or a first run in a cell. Gives what
 * to call with the other kernels' rows after each change.
 */
export function addStatusItem(statusBar: IStatusBar | null, store: ChatStore, trans: Trans, actions: StatusActions): (elsewhere: readonly KernelRow[]) => void {
  if (!statusBar) return () => undefined;
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
  const elsewhere = button("", () => { actions.overview(); }, { class: "cellwright-status cellwright-elsewhere", title: trans.__("Claude: show all sessions"), hidden: "" });
  const item = new Widget();
  item.addClass("cellwright-status-item");
  item.node.append(go, stop, elsewhere);
  const draw = (): void => {
    const line = look();
    hasRun ||= line.answer !== null;
    setText(go, line.text);
    go.title = line.title;
    stop.title = line.stopTitle;
    for (const each of [go, stop]) each.dataset.state = line.state;
    // a question in another kernel is not beside the word that nothing goes on
    go.hidden = line.state === "off" || (line.state === "idle" && !elsewhere.hidden);
    const leaves = line.state !== "working";
    // a button that goes drops the keyboard
    if (leaves && document.activeElement === stop) go.focus();
    stop.hidden = leaves;
  };
  store.subscribe(draw);
  onLiveAnswers(draw);
  draw();
  statusBar.registerStatusItem("cellwright:status", { item, align: "right", rank: 40, isActive: () => true });
  return (rows) => {
    const text = elsewhereText(rows, trans);
    setText(elsewhere, text);
    elsewhere.hidden = !text;
    elsewhere.dataset.state = rows.some(({ overview }) => overview?.questions.length) ? "asking" : "working";
    draw();
  };
}

// The line in the status bar: whether Claude works, or needs the user.

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
    const line = busyLine(answer.progress === "asking", cell, trans);
    return { ...rest, ...line, ...(answer.transcript.needsKey ? { text: trans.__("Claude needs a key") } : {}), title: trans.__("Go to the cell"), answer };
  }
  return { ...rest, ...conversationLine(chat, state, trans, hasRun) };
}

/** The line of the panel's conversation. */
function conversationLine(chat: Chat, state: ChatState | null, trans: Trans, hasRun: boolean): Pick<StatusLine, "state" | "text"> & Partial<StatusLine> {
  const idle = { state: "idle", text: trans.__("Claude: idle") } as const;
  if (chat.needsKey) return { ...idle, text: trans.__("Claude needs a key"), title: trans.__("Enter a key") };
  if (!state) return hasRun ? idle : { state: "off", text: "" };
  const { current: run, asking } = state;
  if (run !== null || asking.length > 0) return { ...busyLine(asking.length > 0, placeOf(chat, run, trans), trans), run };
  return idle;
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
