/** Has the kernels know of documents with unsaved changes, wherever they are open in this page. */

import { IDocumentWidgetOpener } from "@jupyterlab/docmanager";
import type { IPlugin } from "@lumino/application";

import { pageDocuments } from "./page_documents";
import { AGAIN_MS } from "./unsaved_documents";

export const unsavedDocumentsPlugin: IPlugin<unknown, void> = {
  id: "cellwright:unsaved-documents",
  description: "Keeps Claude from writing to a file that is open with unsaved changes.",
  autoStart: true,
  optional: [IDocumentWidgetOpener],
  activate: (_, opener: IDocumentWidgetOpener | null) => {
    if (!opener) return;
    const documents = pageDocuments();
    opener.opened.connect((_sender, { context }) => { documents.add(context); });
    setInterval(() => { documents.again(); }, AGAIN_MS);
  },
};
