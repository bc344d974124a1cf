/** What tools wrote appears in the page at once: in the file browser, and in open documents without changes of the user. */

import type { Emits } from "../transport/kernel_types";

/** One look at all that is written together. */
export const REFRESH_DELAY_MS = 300;

export type OpenDocument = {
  readonly path: string;
  readonly isReady: boolean;
  readonly model: { readonly dirty: boolean };
  readonly contentsModel: { readonly last_modified: string } | null;
  readonly sessionContext: { readonly session: { readonly kernel: { readonly status: string } | null } | null };
  readonly disposed: Emits;
  revert(): Promise<void>;
};

export type FileAccess = {
  refreshBrowser(): Promise<unknown>;
  /** When the file was changed last. */
  lastModified(path: string): Promise<string>;
};

export class ChangedFiles {
  private readonly documents = new Set<OpenDocument>();
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly disk: FileAccess) {}

  /** Keeps a document that was opened as it is on disk. */
  add(document: OpenDocument): void {
    if (this.documents.has(document)) return;
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
  private async update(document: OpenDocument): Promise<void> {
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
