/** The little of JupyterLab that the plugin uses: its own type packages would bring hundreds of megabytes. */

declare module "@jupyterlab/docmanager" {
  import type { IPlugin } from "@lumino/application";

  export type Signal<Value = unknown> = {
    connect(slot: (sender: unknown, value: Value) => void): boolean;
    disconnect(slot: (sender: unknown, value: Value) => void): boolean;
  };
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
  export type IDocumentWidgetOpener = { readonly opened: Signal<{ readonly context: DocumentContext }> };
  export const IDocumentWidgetOpener: NonNullable<IPlugin<unknown, unknown>["optional"]>[number];
}
