/** The plugins of the JupyterLab extension. */

import type { JupyterFrontEndPlugin } from "@jupyterlab/application";

import { completionPlugin } from "./completion/completion_plugin";
import { unsavedDocumentsPlugin } from "./documents/unsaved_documents";
import { answerActionsPlugin } from "./notebook/answer_actions";
import { cellToolbarPlugin } from "./notebook/cell_toolbar";
import { codeActionsPlugin } from "./notebook/code_actions";
import { magicCellsPlugin } from "./notebook/magic_cells";
import { notebooksPlugin } from "./notebook/notebook_links";
import { proposalsPlugin } from "./notebook/proposals";
import { savedOutputPlugin } from "./notebook/saved_output";
import { undoPlugin } from "./notebook/undo";
import { buildHash, rendererRegistry } from "./renderer_registry";
import { sidebarPlugin } from "./sidebar/sidebar_plugin";

/** Gives the page the renderer, so that no kernel has to send it. */
const transcriptPlugin: JupyterFrontEndPlugin<void> = {
  id: "cellwright:transcript",
  description: "Draws the transcripts of %%claude cells.",
  autoStart: true,
  activate: () => {
    // loaded with the first cell that needs it, not with JupyterLab
    rendererRegistry()[buildHash] = () => import("./transcript/transcript");
  },
};

export default [transcriptPlugin, savedOutputPlugin, unsavedDocumentsPlugin, notebooksPlugin, proposalsPlugin, magicCellsPlugin, cellToolbarPlugin, answerActionsPlugin, undoPlugin, sidebarPlugin, completionPlugin, codeActionsPlugin];
