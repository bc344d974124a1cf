/** Tells each notebook's kernel which documents are open with changes that are not on disk: nobody writes behind an editor's back. */

import type { JupyterFrontEndPlugin } from "@jupyterlab/application";
import { IDocumentWidgetOpener } from "@jupyterlab/docmanager";
import type { DocumentRegistry } from "@jupyterlab/docregistry";
import type { Kernel, ServerConnection } from "@jupyterlab/services";

import { randomName, serverRoot, tellsServerOfDocuments } from "../page";

export const DOCUMENTS_TARGET = "cellwright.documents";
/** Unless it is said again in time, the kernel forgets it: a page that was closed does not say so. */
export const REPEAT_MS = 20_000;

export type UnsavedMessage = { type: "unsaved"; page: string; root: string; paths: string[] };

export class UnsavedDocuments {
  private readonly contexts = new Set<DocumentRegistry.Context>();
  private readonly comms = new Map<string, Kernel.IComm>();
  private readonly pageId = randomName();
  private lastSent = "";

  /** `root` is the folder that documents' paths start from, on the server's disk; `tellServer` is there where it asks for it. */
  constructor(private readonly root: string, public tellServer: ((message: UnsavedMessage) => void) | null = null) {}

  /** Watches a document that was opened; the same document can be open in several places. */
  add(context: DocumentRegistry.Context): void {
    this.serve(context.sessionContext.session?.kernel ?? null);
    if (this.contexts.has(context)) return;
    this.contexts.add(context);
    const changed = (): void => { this.sendChanges(); };
    context.model.stateChanged.connect(changed);
    context.pathChanged.connect(changed);
    context.sessionContext.kernelChanged.connect((_, { newValue }) => { this.serve(newValue); });
    context.disposed.connect(() => {
      this.contexts.delete(context);
      this.sendChanges();
    });
    this.sendChanges();
  }

  /** Says it once more, where there is something to say. */
  repeat(): void {
    if (this.unsaved().length > 0) this.sendToAll();
  }

  /** Tells a kernel from now on. Those that hold Cellwright have a comm for it: they open it, or had before the page came. */
  serve(kernel: Kernel.IKernelConnection | null): void {
    if (!kernel || kernel.isDisposed) return;
    kernel.registerCommTarget(DOCUMENTS_TARGET, (comm) => { this.addComm(kernel, comm); });
    kernel.disposed.connect(() => { this.comms.delete(kernel.id); });
    if (this.comms.has(kernel.id)) return;
    void kernel.requestCommInfo({ target_name: DOCUMENTS_TARGET }).then(
      ({ content }) => {
        const [id] = Object.keys("comms" in content ? content.comms : {});
        if (id && !this.comms.has(kernel.id)) this.addComm(kernel, kernel.createComm(DOCUMENTS_TARGET, id));
      },
      () => undefined, // the kernel went away
    );
  }

  private addComm(kernel: Kernel.IKernelConnection, comm: Kernel.IComm): void {
    this.comms.set(kernel.id, comm);
    comm.onClose = () => {
      if (this.comms.get(kernel.id) === comm) this.comms.delete(kernel.id);
    };
    this.send(comm);
  }

  private unsaved(): string[] {
    return [...this.contexts].filter(({ model }) => model.dirty).map(({ path }) => path).sort();
  }

  private sendChanges(): void {
    const unsaved = this.unsaved();
    const said = JSON.stringify(unsaved);
    if (said === this.lastSent) return;
    this.lastSent = said;
    this.sendToAll();
  }

  private sendToAll(): void {
    this.comms.forEach((comm) => { this.send(comm); });
    this.tellServer?.(this.message());
  }

  private send(comm: Kernel.IComm): void {
    comm.send(this.message());
  }

  private message(): UnsavedMessage {
    return { type: "unsaved", page: this.pageId, root: this.root, paths: this.unsaved() };
  }
}

// The page's unsaved documents, for plugins that have a kernel of their own.

let documents: UnsavedDocuments | null = null;

export function pageDocuments(): UnsavedDocuments {
  return (documents ??= new UnsavedDocuments(serverRoot()));
}

/** Has a kernel without a document know of those that are unsaved: it must not write behind an editor's back either. */
export function reportUnsavedDocuments(kernel: Kernel.IKernelConnection): void {
  pageDocuments().serve(kernel);
}

// Has the kernels know of documents with unsaved changes, wherever they are open in this page.

export const unsavedDocumentsPlugin: JupyterFrontEndPlugin<void> = {
  id: "cellwright:unsaved-documents",
  description: "Keeps Claude from writing to a file that is open with unsaved changes.",
  autoStart: true,
  optional: [IDocumentWidgetOpener],
  activate: (app, opener: IDocumentWidgetOpener | null) => {
    if (!opener) return;
    const documents = pageDocuments();
    if (tellsServerOfDocuments()) documents.tellServer = (message) => { post(app.serviceManager.serverSettings, message); };
    opener.opened.connect((_sender, { context }) => { documents.add(context); });
    setInterval(() => { documents.repeat(); }, REPEAT_MS);
  },
};

/** Sends without waiting: it is said again soon. */
function post(settings: ServerConnection.ISettings, message: UnsavedMessage): void {
  const headers = new Headers({ "Content-Type": "application/json" });
  if (settings.token) headers.set("Authorization", `token ${settings.token}`);
  const xsrf = /(?:^|; )_xsrf=([^;]*)/.exec(document.cookie)?.[1];
  if (xsrf) headers.set("X-XSRFToken", xsrf);
  const { fetch } = settings; // the window's own takes no other `this`
  fetch(`${settings.baseUrl}cellwright/mcp/documents`, { ...settings.init, method: "POST", headers, body: JSON.stringify(message) })
    .catch((error: unknown) => { console.debug("Cellwright:", error); });
}
