/** The little of JupyterLab that putting code into notebooks and consoles uses. */

import type { SharedNotebook, Signal } from "./jupyterlab_types";

export type NotebookModel = {
  readonly sharedModel: SharedNotebook;
  readonly readOnly: boolean;
  getMetadata(key: string): unknown;
};

/** A notebook's widget. */
export type Notebook = {
  readonly model: NotebookModel | null;
  activeCellIndex: number;
  mode: string;
  activate(): void;
  scrollToItem?(index: number): Promise<void>;
};

export type Panel = { readonly id: string; readonly content: Notebook; readonly context: { readonly path: string } };

/** A console's widget. */
export type ConsolePanel = {
  readonly sessionContext: { readonly ready: Promise<void> };
  readonly console: { inject(code: string): Promise<void> };
};

export type Tracker = {
  readonly currentWidget: Panel | null;
  readonly currentChanged: Signal;
  readonly activeCellChanged: Signal;
};
