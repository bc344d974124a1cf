/** What the stand-ins for JupyterLab's documents and outputs consist of. */

import type { Signal } from "./cell_shapes";

export type Comm = {
  open(data: Record<string, unknown>): unknown;
  send(data: Record<string, unknown>): unknown;
  onClose: () => void;
};

export type Kernel = {
  readonly id: string;
  readonly isDisposed: boolean;
  readonly disposed: Signal;
  registerCommTarget(target: string, opened: (comm: Comm) => void): void;
  createComm(target: string, id: string): Comm;
  requestCommInfo(content: { target_name: string }): Promise<{ content: { status: string; comms?: Record<string, unknown> } }>;
};

export type DocumentContext = {
  readonly path: string;
  readonly model: { readonly dirty: boolean; readonly stateChanged: Signal };
  readonly sessionContext: {
    readonly session: { readonly kernel: Kernel | null } | null;
    readonly kernelChanged: Signal<{ newValue: Kernel | null }>;
  };
  readonly pathChanged: Signal;
  readonly disposed: Signal;
};
