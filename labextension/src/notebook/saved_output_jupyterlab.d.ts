/** The little of JupyterLab that the plugins use: its own type packages would bring hundreds of megabytes. */

declare module "@jupyterlab/notebook" {
  import type { IPlugin } from "@lumino/application";

  type JsonObject = { [key: string]: null | boolean | number | string | JsonObject | JsonObject[string][] };

  export type DisplayData = { output_type: "display_data"; data: JsonObject; metadata: JsonObject };
  export type OutputAreaModel = {
    readonly length: number;
    get(index: number): { readonly data: Readonly<Record<string, unknown>> };
    set(index: number, output: DisplayData): void;
    add(output: DisplayData): number;
  };
  /** Cells of code alone have outputs. */
  export type CellModel = { readonly id: string; readonly outputs?: OutputAreaModel };
  export type NotebookModel = { readonly cells: Iterable<CellModel> };
  export type INotebookTracker = {
    /** A panel has no model before its file was read. */
    forEach(each: (panel: { readonly model: NotebookModel | null }) => void): void;
  };
  export const INotebookTracker: NonNullable<IPlugin<unknown, unknown>["optional"]>[number];
}
