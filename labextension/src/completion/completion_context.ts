/** The notebook context of a completion request. */

import type { Cell } from "@jupyterlab/cells";
import type { CodeEditor } from "@jupyterlab/codeeditor";
import type { CompletionHandler, IInlineCompletionContext } from "@jupyterlab/completer";
import type { INotebookTracker, NotebookPanel } from "@jupyterlab/notebook";

import type { JsonObject } from "../json";
import type { RpcLink } from "../transport/rpc";
import type { CompletionContext } from "./claude_completion";

/** The kernel keeps to bounds of its own; these are for what travels. */
const MAX_CELLS_ABOVE = 40, MAX_CELLS_BELOW = 10, CELL_CHARS = 4_000;
/** Prompts, and what is written in another language. */
const NO_CODE = /^\s*%%(?!time|capture)/;

/** JupyterLab gives the editor as well; its interface does not declare it. */
export type EditorContext = IInlineCompletionContext & { readonly editor?: CodeEditor.IEditor | null };

/** The place of a request; null where it is not in code of a notebook whose kernel `linkOf` knows. */
export function completionContext(
  tracker: INotebookTracker, linkOf: (panel: NotebookPanel) => RpcLink | undefined, { text, offset }: CompletionHandler.IRequest, { widget, editor }: EditorContext,
): CompletionContext | null {
  const panel = panelOf(tracker, widget);
  const link = panel && linkOf(panel);
  const at = panel ? panel.content.widgets.findIndex((cell) => cell.editor === editor && cell.editor !== null) : -1;
  const cell = panel?.content.widgets[at];
  if (!link || cell?.model.type !== "code" || NO_CODE.test(text)) return null;
  const { widgets } = panel.content;
  // the offset counts characters
  const prefix = Array.from(text).slice(0, offset).join("");
  return {
    cell: `${panel.context.path} ${cell.model.id}`,
    prefix,
    suffix: text.slice(prefix.length),
    cells: [
      ...widgets.slice(Math.max(0, at - MAX_CELLS_ABOVE), at).map((each) => cellContext(each, false)),
      ...widgets.slice(at + 1, at + 1 + MAX_CELLS_BELOW).map((each) => cellContext(each, true)),
    ],
    language: languageOf(panel),
    link,
  };
}

function panelOf(tracker: INotebookTracker, widget: unknown): NotebookPanel | null {
  let found: NotebookPanel | null = null;
  tracker.forEach((panel) => {
    if (panel === widget) found = panel;
  });
  return found;
}

function cellContext({ model }: Cell, below: boolean): JsonObject {
  return { source: model.sharedModel.getSource().slice(-CELL_CHARS), cell_type: model.type, below };
}

function languageOf({ content }: NotebookPanel): string {
  const info = content.model?.getMetadata("language_info") as { name?: unknown } | undefined;
  return typeof info?.name === "string" ? info.name : "python";
}
