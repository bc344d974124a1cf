/** The status bar's item, as a widget of JupyterLab. */

import { Widget } from "@lumino/widgets";

import type { ChatStore } from "../transport/chat_store";
import type { Trans } from "../composer/composer_deps";
import { addPageStyle } from "../page_style";
import { setText } from "../transcript/dom";
import css from "./status_bar.css";
import { statusOf } from "./status_item";

type Item = { item: Widget; align: "right"; rank: number; isActive(): boolean };
export type StatusBar = { registerStatusItem(id: string, item: Item): unknown };

/** Adds the item where there is a status bar; it is empty while there is no conversation. */
export function addStatusItem(statusBar: StatusBar | null, store: ChatStore, trans: Trans, open: () => void): void {
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
