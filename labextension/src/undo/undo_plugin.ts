/** Offers to take a turn back under its answer. */

import { INotebookTracker, NotebookActions } from "@jupyterlab/notebook";
import type { IPlugin } from "@lumino/application";

import { links } from "../notebook/notebook_links";
import { addPageStyle } from "../page_style";
import css from "../notebook/undo.css";
import type { Panel } from "../notebook/undo";
import { UndoButtons } from "../notebook/undo";

type Shown = Panel & Parameters<typeof links.of>[0];
type Tracker = { forEach(each: (panel: Shown) => void): void };

export const undoPlugin: IPlugin<unknown, void> = {
  id: "cellwright:undo",
  description: "Takes back what Claude changed in a turn, by a button under its answer.",
  autoStart: true,
  optional: [INotebookTracker],
  activate: (_, tracker: Tracker | null) => {
    if (!tracker) return;
    addPageStyle(css);
    const buttons = new UndoButtons((panel) => {
      const link = links.of(panel as Shown);
      return link && ((method, params) => link.request(method, params));
    });
    const lookAtAll = (): void => { tracker.forEach((panel) => { void buttons.look(panel); }); };
    links.onLinked(lookAtAll);
    NotebookActions.executed.connect(lookAtAll);
  },
};
