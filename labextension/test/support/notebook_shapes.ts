/** What the stand-ins for JupyterLab's notebooks, documents and kernels consist of. */

import type { JsonObject } from "../../src/json";

export type Signal<Sender = unknown, Value = unknown> = {
  connect(slot: (sender: Sender, value: Value) => void): boolean;
};

export type Comm = {
  onMsg: (message: { content: { data: unknown } }) => void;
  onClose: () => void;
  readonly subshellStarted?: Promise<void>;
  open(data: JsonObject): unknown;
  send(data: JsonObject): unknown;
  close(): unknown;
};

type IopubMessage = { header: { msg_type: string }; content: Record<string, unknown> };

export type Kernel = {
  readonly id: string;
  readonly clientId: string;
  readonly isDisposed: boolean;
  readonly status: string;
  readonly supportsSubshells?: boolean;
  readonly disposed: Signal;
  readonly statusChanged: Signal<unknown, string>;
  readonly iopubMessage: Signal<unknown, IopubMessage>;
  createComm(target: string): Comm;
  requestCommInfo(content: { target_name: string }): Promise<{ content: { comms?: Record<string, unknown> } }>;
};

type UndoManager = { trackedOrigins: Set<unknown>; stopCapturing(): void };

/** A cell of `@jupyter/ydoc`. */
export type SharedCell = {
  readonly id: string;
  readonly cell_type: string;
  readonly metadata: JsonObject;
  readonly undoManager?: UndoManager | null;
  toJSON(): NewCell;
  getSource(): string;
  /** Puts `value` at `start`, and takes away what then stands from there to where `end` was. */
  updateSource(start: number, end: number, value: string): void;
  // cells of code
  execution_count?: number | null;
  readonly executionState?: string;
  getOutputs?(): JsonObject[];
  setOutputs?(outputs: JsonObject[]): void;
  // other cells
  getAttachments?(): JsonObject | undefined;
  setAttachments?(attachments: JsonObject | undefined): void;
};

export type NewCell = {
  id: string;
  cell_type: string;
  source: string;
  metadata: JsonObject;
  outputs?: JsonObject[];
  execution_count?: number | null;
  attachments?: JsonObject;
};

/** A notebook of `@jupyter/ydoc`. */
export type SharedNotebook = {
  readonly cells: readonly SharedCell[];
  readonly ydoc: { transact(work: () => void, origin: unknown): void };
  readonly undoManager: UndoManager;
  insertCell(index: number, cell: NewCell): SharedCell;
  deleteCell(index: number): void;
};

export type CellModel = {
  readonly id: string;
  readonly type: string;
  readonly trusted: boolean;
  // cells of code
  executionCount?: number | null;
  executionState?: string;
  readonly outputs?: { clear(): void; add(output: JsonObject): number };
};

export type NotebookModel = {
  readonly cells: Iterable<CellModel>;
  readonly sharedModel: SharedNotebook;
  readonly readOnly: boolean;
  readonly dirty: boolean;
  readonly stateChanged: Signal;
};

export type NotebookContext = {
  readonly path: string;
  readonly isReady: boolean;
  readonly ready: Promise<void>;
  readonly model: NotebookModel;
  readonly pathChanged: Signal;
  readonly sessionContext: {
    readonly session: { readonly kernel: Kernel | null } | null;
    readonly kernelChanged: Signal<unknown, { newValue: Kernel | null }>;
  };
};

export type NotebookPanel = {
  readonly context: NotebookContext;
  /** Disposed while the notebook still has its connection to the kernel. */
  readonly content: { readonly disposed: Signal };
};

export type NotebookTracker = {
  readonly widgetAdded: Signal<unknown, NotebookPanel>;
  forEach(each: (panel: NotebookPanel) => void): void;
};
