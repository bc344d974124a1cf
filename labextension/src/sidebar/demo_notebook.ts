/** Opens a notebook of the demo where its reader begins. */

import type { NotebookPanel } from "@jupyterlab/notebook";

import { asksClaude } from "../notebook/magic_cells";

/** Opens the notebook at `path` with its first prompt selected, and its folder in the file browser. */
export async function openAtPrompt(path: string, run: (command: string, args?: Record<string, unknown>) => Promise<unknown>): Promise<void> {
  const panel = (await run("docmanager:open", { path })) as NotebookPanel | undefined;
  await run("filebrowser:go-to-path", { path: path.replace(/[^/]*$/, ""), dontShowBrowser: true }).catch(() => undefined);
  if (!panel) return;
  await panel.revealed;
  await panel.context.ready;
  const { content } = panel;
  const at = content.widgets.findIndex(({ model }) => asksClaude(model.sharedModel.getSource()));
  if (at < 0) return;
  content.activeCellIndex = at;
  content.mode = "command";
  content.activate();
}
