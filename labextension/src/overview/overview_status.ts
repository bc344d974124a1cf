/** The status bar's item for kernels that the panel does not show: how many of them ask, or work. */

import type { IStatusBar } from "@jupyterlab/statusbar";
import { Widget } from "@lumino/widgets";

import { setText } from "../transcript/dom";
import type { Trans } from "../translation";
import type { KernelRow } from "./overview_feed";

/** Adds the item; gives what to call with the rows after each change. It is empty while nothing runs or asks elsewhere. */
export function addOverviewStatus(statusBar: IStatusBar | null, trans: Trans, open: () => void): (elsewhere: readonly KernelRow[]) => void {
  if (!statusBar) return () => undefined;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "cellwright-status cellwright-elsewhere";
  button.hidden = true;
  button.title = trans.__("Claude: show all sessions");
  button.addEventListener("click", open);
  const item = new Widget();
  item.node.append(button);
  statusBar.registerStatusItem("cellwright:overview", { item, align: "right", rank: 41, isActive: () => true });
  return (rows) => {
    const text = elsewhereText(rows, trans);
    setText(button, text);
    button.hidden = !text;
    button.dataset.state = rows.some(({ overview }) => overview?.questions.length) ? "asking" : "working";
  };
}

export function elsewhereText(rows: readonly KernelRow[], trans: Trans): string {
  const asking = rows.reduce((sum, { overview }) => sum + (overview?.questions.length ?? 0), 0);
  if (asking) return asking === 1 ? trans.__("1 question elsewhere") : trans.__("%1 questions elsewhere", asking);
  const working = rows.filter(({ overview }) => overview?.runs.length).length;
  return working ? trans.__("%1 at work elsewhere", working) : "";
}
