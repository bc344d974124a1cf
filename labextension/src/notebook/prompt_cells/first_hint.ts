/** "Ask Claude (P)" in the active cell while it is empty, until the user has asked once: drawn by the editor alone, never saved. */

import type { Extension } from "@codemirror/state";
import { placeholder } from "@codemirror/view";
import type { INotebookTracker, NotebookPanel } from "@jupyterlab/notebook";
import { NotebookActions } from "@jupyterlab/notebook";

import type { Trans } from "../../translation";
import { isPython } from "../cell_language";
import { isPrompt } from "./prompt_text";

/** Notebooks in which the hint may show; the style shows it in the active cell alone. */
const CLASS = "cellwright-first-hint";
const KEY = "cellwright:has-asked";

/** The hint in the editor of a code cell; P works in command mode, which Escape leads to. */
export function hintExtension(trans: Trans): Extension {
  return placeholder(() => {
    const node = document.createElement("span");
    node.className = "cellwright-ask-hint";
    for (const [mode, words] of [["command", trans.__("Ask Claude (P)")], ["edit", trans.__("Ask Claude (Esc, P)")]] as const) {
      const part = document.createElement("span");
      part.dataset.mode = mode;
      part.textContent = words;
      node.append(part);
    }
    return node;
  });
}

/** Has the hint shown in Python notebooks; the result ends that, for good. */
export function showFirstHint(tracker: INotebookTracker, storage: Pick<Storage, "getItem" | "setItem">): () => void {
  let hasAsked = storage.getItem(KEY) !== null;
  const show = (panel: NotebookPanel): void => {
    void panel.context.ready.then(() => { panel.content.toggleClass(CLASS, !hasAsked && panel.content.model !== null && isPython(panel.content.model)); });
  };
  const end = (): void => {
    if (hasAsked) return;
    hasAsked = true;
    storage.setItem(KEY, "1");
    tracker.forEach(show);
  };
  tracker.forEach(show);
  tracker.widgetAdded.connect((_, panel) => { show(panel); });
  NotebookActions.executed.connect((_, { cell }) => { if (isPrompt(cell.model.sharedModel.getSource())) end(); });
  return end;
}
