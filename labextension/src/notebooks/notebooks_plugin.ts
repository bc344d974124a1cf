/** Lets Claude work on the notebooks of this page as their user sees them. */

import { INotebookTracker } from "@jupyterlab/notebook";
import type { IPlugin } from "@lumino/application";

import { serverRoot } from "../page";
import { links } from "../notebook/notebook_links";
import type { NotebookTracker } from "../notebook/jupyterlab_types";

type App = { readonly name: string; readonly version: string };

export const notebooksPlugin: IPlugin<unknown, void> = {
  id: "cellwright:notebooks",
  description: "Lets Claude read and change the notebook as you see it, unsaved changes included.",
  autoStart: true,
  optional: [INotebookTracker],
  activate: (app, tracker: NotebookTracker | null) => {
    if (!tracker) return;
    const { name, version } = app as App;
    links.introduce({ frontEnd: `${name} ${version}`, root: serverRoot() });
    tracker.forEach((panel) => { links.add(panel); });
    tracker.widgetAdded.connect((_, panel) => { links.add(panel); });
    window.addEventListener("pagehide", () => { links.leave(); });
  },
};
