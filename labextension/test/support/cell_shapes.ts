/** What the stand-ins for JupyterLab's cells and notebooks consist of, where actions on cells are tested. */

export type Signal<Value = unknown> = {
  connect(slot: (sender: unknown, value: Value) => void): boolean;
  disconnect(slot: (sender: unknown, value: Value) => void): boolean;
};

export type CellModel = {
  readonly id: string;
  readonly type: string;
  readonly sharedModel: { getSource(): string };
  readonly contentChanged: Signal;
  /** Cells of code alone have outputs. */
  readonly outputs?: { readonly length: number; get(index: number): { readonly type: string }; readonly changed: Signal };
};

export type Cell = { readonly model: CellModel; readonly node: HTMLElement; readonly disposed: Signal };

type NewCell = { cell_type: "code"; source: string; metadata: { trusted: true } };

export type NotebookModel = {
  readonly sharedModel: { insertCell(index: number, cell: NewCell): unknown; deleteCell(index: number): void };
  getMetadata(key: string): unknown;
};

export type Notebook = {
  readonly model: NotebookModel | null;
  readonly widgets: readonly Cell[];
  readonly activeCell: Cell | null;
  activeCellIndex: number;
  mode: string;
  activate(): void;
};

export type Kernel = {
  requestExecute(content: { code: string; silent: boolean; store_history: boolean }, disposeOnDone?: boolean, metadata?: { cellId: string }): {
    readonly done: Promise<{ readonly content: { readonly status: string; readonly execution_count?: number; readonly ename?: string; readonly evalue?: string } }>;
  };
};

export type SessionContext = { readonly ready: Promise<void>; readonly session: { readonly kernel: Kernel | null } | null };

export type Panel = { readonly content: Notebook; readonly sessionContext: SessionContext };

export type Tracker = {
  readonly currentWidget: Panel | null;
  readonly activeCellChanged: Signal<Cell | null>;
};
