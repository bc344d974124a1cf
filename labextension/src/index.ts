/** The plugins of the JupyterLab extension. */

import { cellToolbarPlugin } from "./notebook/cell_toolbar";
import { codeActionsPlugin } from "./notebook/code_actions";
import { completionPlugin } from "./completion/completion_plugin";
import { savedOutputPlugin } from "./cells/saved_output_plugin";
import { unsavedDocumentsPlugin } from "./documents/unsaved_documents_plugin";
import { notebooksPlugin } from "./notebooks/notebooks_plugin";
import { proposalsPlugin } from "./proposals/proposals_plugin";
import { sidebarPlugin } from "./sidebar/sidebar_plugin";
import { undoPlugin } from "./undo/undo_plugin";
import { transcriptPlugin } from "./transcript_plugin";

export default [transcriptPlugin, savedOutputPlugin, unsavedDocumentsPlugin, notebooksPlugin, proposalsPlugin, cellToolbarPlugin, undoPlugin, sidebarPlugin, completionPlugin, codeActionsPlugin];
