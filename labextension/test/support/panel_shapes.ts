/** What the stand-ins for JupyterLab consist of, where the panel is tested. */

import type { ChatKernel, Emits } from "./kernel_shapes";

export type CodeEditor = {
  getSelection(): { readonly start: Position; readonly end: Position };
  readonly model: { readonly selections: { readonly changed: Emits } };
  getOffsetAt(position: Position): number;
};
type Position = { readonly line: number; readonly column: number };

export type Cell = {
  readonly node: HTMLElement;
  readonly editor: CodeEditor | null;
  readonly model: {
    readonly id: string;
    readonly type: string;
    readonly executionCount?: number | null;
    readonly sharedModel: { getSource(): string };
    readonly contentChanged: Emits;
  };
};

export type SessionContext = {
  readonly session: { readonly kernel: ChatKernel | null } | null;
  readonly kernelChanged: Emits<{ readonly newValue: ChatKernel | null }>;
};

export type NotebookPanel = {
  readonly id: string;
  readonly isDisposed: boolean;
  readonly context: { readonly path: string; readonly pathChanged: Emits; readonly model: { getMetadata(key: string): unknown } };
  readonly sessionContext: SessionContext;
  readonly content: {
    readonly widgets: readonly Cell[];
    readonly activeCell: Cell | null;
    activeCellIndex: number;
    readonly activeCellChanged: Emits<Cell | null>;
    activate(): void;
  };
};

export type NotebookTracker = {
  readonly currentWidget: NotebookPanel | null;
  readonly currentChanged: Emits<NotebookPanel | null>;
  readonly widgetAdded: Emits<NotebookPanel>;
  readonly activeCellChanged: Emits<Cell | null>;
  forEach(each: (panel: NotebookPanel) => void): void;
};

export type SessionModel = {
  readonly id: string;
  readonly path: string;
  readonly type: string;
  readonly kernel?: { readonly id: string; readonly connections?: number } | null;
};

export type SessionConnection = {
  readonly id: string;
  readonly path: string;
  readonly kernel: ChatKernel | null;
  readonly isDisposed: boolean;
  readonly disposed: Emits;
  readonly kernelChanged: Emits;
  shutdown(): Promise<void>;
  dispose(): void;
};

export type Specs = {
  readonly default: string;
  readonly kernelspecs: Record<string, { readonly language: string; readonly display_name: string } | undefined>;
};

export type Services = {
  readonly sessions: {
    refreshRunning(): Promise<void>;
    running(): Iterable<SessionModel>;
    startNew(options: { path: string; name: string; type: string; kernel: { name: string } }): Promise<SessionConnection>;
    connectTo(options: { model: SessionModel }): SessionConnection;
  };
  readonly kernels: { connectTo(options: { model: { id: string; name: string } }): ChatKernel };
  readonly kernelspecs: { readonly ready: Promise<void>; readonly specs: Specs | null };
};
