/** The plugins of the JupyterLab extension. */

import type { JupyterFrontEndPlugin } from "@jupyterlab/application";

import { completionPlugin } from "./completion/completion_plugin";
import { unsavedDocumentsPlugin } from "./documents/unsaved_documents";
import { answerActionsPlugin } from "./notebook/answers/answer_actions";
import { answerCopyPlugin } from "./notebook/answers/answer_copy";
import { answerSearchPlugin } from "./notebook/answers/answer_search";
import { answersPlugin, loadDrawing } from "./notebook/answers/answer_renderer";
import { foreignWidgetsPlugin } from "./notebook/answers/foreign_widgets";
import { cellToolbarPlugin } from "./notebook/cell_toolbar";
import { codeActionsPlugin } from "./notebook/code_actions";
import { magicCellsPlugin } from "./notebook/magic_cells";
import { notebooksPlugin } from "./notebook/notebook_links";
import { outputActionsPlugin } from "./notebook/outputs/output_actions";
import { staleNumbersPlugin } from "./notebook/outputs/stale_plugin";
import { promptCellsPlugin } from "./notebook/prompt_cells/prompt_cells";
import { proposalsPlugin } from "./notebook/proposals/proposals";
import { savedOutputPlugin } from "./notebook/answers/saved_output";
import { undoPlugin } from "./notebook/undo";
import { renderingPlugin } from "./rendering/rendering_plugin";
import { buildHash, rendererRegistry } from "./renderer_registry";
import { sidebarPlugin } from "./sidebar/sidebar_plugin";

/** Gives the page the renderer, so that no kernel has to send it. */
const transcriptPlugin: JupyterFrontEndPlugin<void> = {
  id: "cellwright:transcript",
  description: "Draws the transcripts of %%claude cells.",
  autoStart: true,
  activate: () => {
    rendererRegistry()[buildHash] = loadDrawing;
  },
};

export default [transcriptPlugin, renderingPlugin, answersPlugin, answerSearchPlugin, answerCopyPlugin, savedOutputPlugin, foreignWidgetsPlugin, unsavedDocumentsPlugin, notebooksPlugin, proposalsPlugin, magicCellsPlugin, promptCellsPlugin, cellToolbarPlugin, outputActionsPlugin, staleNumbersPlugin, answerActionsPlugin, undoPlugin, sidebarPlugin, completionPlugin, codeActionsPlugin];
