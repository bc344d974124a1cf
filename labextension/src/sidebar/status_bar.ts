/** The status bar's item, as a widget of JupyterLab. */

import type { IStatusBar } from "@jupyterlab/statusbar";
import { Widget } from "@lumino/widgets";

import { addPageStyle } from "../page";
import { setText } from "../transcript/dom";
import { dollars } from "../transcript/format";
import type { Trans } from "../translation";
import type { Chat } from "../transport/chat";
import type { ChatStore } from "../transport/chat_store";
import css from "./status_bar.css";

/** Adds the item where there is a status bar; it is empty while there is no conversation. */
export function addStatusItem(statusBar: IStatusBar | null, store: ChatStore, trans: Trans, open: () => void): void {
  if (!statusBar) return;
  addPageStyle(css);
  const button = document.createElement("button");
  button.type = "button";
  button.className = "cellwright-status";
  button.addEventListener("click", open);
  const item = new Widget();
  item.node.append(button);
  const draw = (): void => {
    const { state, text, title } = statusOf(store, trans);
    setText(button, text);
    button.title = title;
    button.dataset.state = state;
    button.hidden = state === "off";
  };
  store.subscribe(draw);
  draw();
  statusBar.registerStatusItem("cellwright:status", { item, align: "right", rank: 40, isActive: () => true });
}

// The line in the status bar: whether Claude works, waits for the user, and what the session has cost.

export type StatusLine = { readonly state: "off" | "idle" | "working" | "asking"; readonly text: string; readonly title: string };

export function statusOf(chat: Chat, trans: Trans): StatusLine {
  const { state } = chat;
  if (chat.connection !== "connected" || !state) return { state: "off", text: "", title: "" };
  const cost = state.session.cost_usd ? ` · ${dollars(state.session.cost_usd)}` : "";
  const title = trans.__("Claude: open the panel");
  if (state.scripted) return { state: state.asking.length > 0 ? "asking" : state.current !== null ? "working" : "idle", text: trans.__("Scripted model"), title };
  if (state.asking.length > 0) return { state: "asking", text: trans.__("Claude waits for you") + cost, title };
  if (state.current !== null) return { state: "working", text: trans.__("Claude is working") + cost, title };
  return { state: "idle", text: trans.__("Claude: idle") + cost, title };
}
