/** Marks numbers of Claude's answers whose cells or files have another value now; its code is loaded with the first notebook. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from "@jupyterlab/application";
import type { NotebookPanel } from "@jupyterlab/notebook";
import { INotebookTracker } from "@jupyterlab/notebook";

import type { StaleAnswer } from "../../transcript/items/numbers";
import { serverApi } from "../../transport/server_api";
import { notebookLinks } from "../notebook_links";

export const staleNumbersPlugin: JupyterFrontEndPlugin<void> = {
  id: "cellwright:stale-numbers",
  description: "Marks numbers of Claude's answers whose cells or files have changed since.",
  autoStart: true,
  optional: [INotebookTracker],
  activate: (given, tracker: INotebookTracker | null) => {
    const app = given as JupyterFrontEnd | undefined;
    if (!app || !tracker) return;
    const watch = (panel: NotebookPanel): void => {
      void import("./stale_numbers").then(({ watchNumbers, watchPanelAnswers }) => {
        watchNumbers(panel, serverApi(app.serviceManager.serverSettings));
        watchPanelAnswers(panel, async () => {
          const said = await notebookLinks.linkFor(panel)?.request("stale_numbers", {});
          return (said as { answers: readonly StaleAnswer[] } | undefined)?.answers ?? [];
        });
      });
    };
    tracker.forEach(watch);
    tracker.widgetAdded.connect((_, panel) => { watch(panel); });
  },
};
