/** The page's unsaved documents, for plugins that have a kernel of their own. */

import type { Kernel } from "@jupyterlab/docmanager";

import { UnsavedDocuments } from "./unsaved_documents";
import { serverRoot } from "../page";

let documents: UnsavedDocuments | null = null;

export function pageDocuments(): UnsavedDocuments {
  return (documents ??= new UnsavedDocuments(serverRoot()));
}

/** Has a kernel without a document know of those that are unsaved: it must not write behind an editor's back either. */
export function tellOfDocuments(kernel: Kernel): void {
  pageDocuments().serve(kernel);
}
