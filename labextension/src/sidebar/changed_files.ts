/** What tools wrote appears in the page at once: in the file browser, and in open documents without changes of the user. */

import type { Chat } from "../chat/chat";
import type { Emits } from "../chat/kernel_types";
import { isOver } from "../transcript/items";

/** Calls that write files, or may. */
const WRITING = new Set(["Write", "Edit", "MultiEdit", "ApplyPatch", "EditSymbol", "NotebookEdit", "Bash", "Git", "Python", "Undo"]);
/** One refresh for all that is written together. */
export const TOGETHER_MS = 300;

export type OpenDocument = {
  readonly path: string;
  readonly isReady: boolean;
  readonly model: { readonly dirty: boolean };
  readonly contentsModel: { readonly last_modified: string } | null;
  readonly sessionContext: { readonly session: { readonly kernel: { readonly status: string } | null } | null };
  readonly disposed: Emits;
  revert(): Promise<void>;
};

export type Disk = {
  refreshBrowser(): Promise<unknown>;
  /** When the file was changed last. */
  lastModified(path: string): Promise<string>;
};

export class ChangedFiles {
  private readonly documents = new Set<OpenDocument>();
  /** How many writing calls of each run have ended. */
  private readonly counted = new Map<string, number>();
  private readonly following = new Map<string, () => void>();
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly chat: Chat,
    private readonly disk: Disk,
  ) {
    chat.subscribe(() => { this.follow(); });
    this.follow();
  }

  /** Keeps a document that was opened as it is on disk. */
  add(document: OpenDocument): void {
    if (this.documents.has(document)) return;
    this.documents.add(document);
    document.disposed.connect(() => { this.documents.delete(document); });
  }

  /** Follows the runs that go on. */
  private follow(): void {
    const here = new Set(this.chat.runs.map(({ run }) => run.id));
    for (const [id, stop] of this.following) {
      if (here.has(id)) continue;
      stop();
      this.following.delete(id);
      this.counted.delete(id);
    }
    for (const { run, transcript } of this.chat.runs) {
      if (this.following.has(run.id) || run.kind === "past") continue;
      const look = (): void => { this.look(run.id, transcript); };
      this.following.set(run.id, transcript.subscribe(look));
    }
  }

  private look(id: string, { items, end }: Chat["runs"][number]["transcript"]): void {
    let ended = end ? 1 : 0;
    for (const item of items) if (item.kind === "tool" && isOver(item.status) && WRITING.has(item.name)) ended++;
    if (ended <= (this.counted.get(id) ?? 0)) return;
    this.counted.set(id, ended);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => { void this.refresh(); }, TOGETHER_MS);
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
