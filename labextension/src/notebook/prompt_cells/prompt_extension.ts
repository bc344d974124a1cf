/** What the editors of code cells need for prompts, as one chunk: it is loaded with the first of them. */

import type { Extension } from "@codemirror/state";
import type { INotebookTracker } from "@jupyterlab/notebook";
import type { CodeEditor } from "@jupyterlab/codeeditor";

import type { Trans } from "../../translation";
import { hintExtension, showFirstHint } from "./first_hint";
import { promptEditor } from "./prompt_editor";
import type { PromptListDeps } from "./prompt_list";

export { completeOrIndent } from "./prompt_list";

export type PromptExtension = {
  /** The extension of a code cell's editor. */
  of(model: CodeEditor.IModel): Extension;
  /** The user has asked Claude: the hint that one can ends for good. */
  hasAsked(): void;
};

export function promptExtension(tracker: INotebookTracker, trans: Trans, deps: PromptListDeps): PromptExtension {
  const hasAsked = showFirstHint(tracker, localStorage);
  return { of: (model) => [promptEditor(model, trans, deps), hintExtension(trans)], hasAsked };
}
