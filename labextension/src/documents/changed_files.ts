/** Files changed by tools appear in the page at once: in the file browser, and in open documents without unsaved changes. */

import type { DocumentRegistry } from "@jupyterlab/docregistry";

/** One look at all that is written together. */
export const REFRESH_DELAY_MS = 300;

export type FileAccess = {
  refreshBrowser(): Promise<unknown>;
  /** The time of the file's last change. */
  lastModified(path: string): Promise<string>;
};

export class ChangedFiles {
  private readonly documents = new Set<DocumentRegistry.Context>();
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly disk: FileAccess) {}

  /** Keeps a document that was opened as it is on disk. */
  add(document: DocumentRegistry.Context): void {
    // the server itself brings what is on disk into a document that several pages share
    if (this.documents.has(document) || document.model.collaborative === true) return;
    this.documents.add(document);
    document.disposed.connect(() => { this.documents.delete(document); });
  }

  /** A kernel says that files may have changed: there will be a look at them soon. */
  changed(): void {
    // what writes one file after another must not put the look off for ever
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      void this.refresh();
    }, REFRESH_DELAY_MS);
  }

  private async refresh(): Promise<void> {
    await Promise.all([this.disk.refreshBrowser().catch(() => undefined), ...[...this.documents].map((document) => this.update(document))]);
  }

  /** Reads a document again that is another on disk. */
  private async update(document: DocumentRegistry.Context): Promise<void> {
    // a cell that runs in it is about to write its output there
    const isFree = (): boolean => document.isReady && !document.model.dirty && document.sessionContext.session?.kernel?.status !== "busy";
    const known = document.contentsModel?.last_modified;
    if (!known || !isFree()) return;
    try {
      const now = await this.disk.lastModified(document.path);
      if (Date.parse(now) > Date.parse(known) && isFree()) await document.revert();
    } catch (error) {
      // it was deleted, or cannot be read: its editor says so when it is saved
      console.debug("Cellwright:", error);
    }
  }
}
