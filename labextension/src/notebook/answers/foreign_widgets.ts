/**
 * The state of widgets that a notebook brings along is drawn from only once the notebook is trusted.
 *
 * JupyterLab's widgets are made anew from it when the notebook is opened, trusted or not, and anywidget, which comes with us,
 * then runs the script and loads the styles in it. The state itself stays in the file as it was.
 */

import type { JupyterFrontEndPlugin } from "@jupyterlab/application";
import { type INotebookModel, INotebookTracker, type NotebookPanel } from "@jupyterlab/notebook";

const WIDGETS = "widgets";

export const foreignWidgetsPlugin: JupyterFrontEndPlugin<void> = {
  id: "cellwright:foreign-widgets",
  description: "Keeps the widgets of notebooks that are not trusted from running.",
  autoStart: true,
  optional: [INotebookTracker],
  activate: (_, tracker: INotebookTracker | null) => {
    // the widgets' own plugin reads it when the kernel is ready, which is later
    tracker?.forEach(keepStateBack);
    tracker?.widgetAdded.connect((_, panel) => { keepStateBack(panel); });
  },
};

function keepStateBack(panel: NotebookPanel): void {
  const { model } = panel.context;
  const read = model.getMetadata.bind(model);
  model.getMetadata = (key: string): unknown => (key === WIDGETS && !isTrusted(model) ? undefined : read(key));
}

/** A notebook without code has nothing by which it could be. */
function isTrusted(model: INotebookModel): boolean {
  const code = [...model.cells].filter(({ type }) => type === "code");
  return code.length > 0 && code.every(({ trusted }) => trusted);
}
