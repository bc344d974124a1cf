/** The tokens of JupyterLab that completion uses. */

declare module "@jupyterlab/completer" {
  import type { IPlugin } from "@lumino/application";

  export const ICompletionProviderManager: NonNullable<IPlugin<unknown, unknown>["optional"]>[number];
}
