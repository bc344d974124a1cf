/** The little of JupyterLab that the plugin uses: its own type packages would bring hundreds of megabytes. */

declare module "@jupyterlab/notebook" {
  type Executed = { notebook: import("./cell_toolbar_types").Notebook; cell: import("./cell_toolbar_types").Cell };

  export const NotebookActions: {
    readonly executed: import("./cell_toolbar_types").Signal<Executed>;
    runCells(
      notebook: import("./cell_toolbar_types").Notebook,
      cells: readonly import("./cell_toolbar_types").Cell[],
      session: import("./cell_toolbar_types").SessionContext,
    ): Promise<boolean>;
  };
}

declare module "@jupyterlab/apputils" {
  import type { IPlugin } from "@lumino/application";

  export const ICommandPalette: NonNullable<IPlugin<unknown, unknown>["optional"]>[number];
  type NotificationOptions = { autoClose: number | false; actions?: { label: string; callback: () => void }[] };
  export const Notification: {
    info(message: string, options: NotificationOptions): string;
    warning(message: string, options: NotificationOptions): string;
  };
}

declare module "@jupyterlab/ui-components" {
  import type { VirtualElement } from "@lumino/virtualdom";

  export class LabIcon implements VirtualElement.IRenderer {
    constructor(options: { name: string; svgstr: string });
    render(host: HTMLElement): void;
  }
}
