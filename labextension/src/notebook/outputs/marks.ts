/** What the user has marked for the next prompt: cells and outputs of any notebook of the page, each with a remark. */

import type { MarkedAttachment } from "../../transport/chat_protocol";

/** `index` is null for a cell as a whole. The attachment holds what was there when it was marked. */
export type Mark = {
  readonly id: string;
  readonly notebook: string;
  readonly cell: string;
  readonly index: number | null;
  readonly attachment: MarkedAttachment;
};

export class Marks {
  list: readonly Mark[];
  private readonly listeners = new Set<() => void>();

  /** `memory` keeps them over a reload of the page; null: nothing does. */
  constructor(private readonly memory: Pick<Storage, "getItem" | "setItem" | "removeItem"> | null = null) {
    this.list = keptMarks(memory);
  }

  /** Calls `listener` after each change; gives how to stop that. */
  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => { this.listeners.delete(listener); };
  }

  of(notebook: string, cell: string): readonly Mark[] {
    return this.list.filter((mark) => mark.notebook === notebook && mark.cell === cell);
  }

  /** Adds a mark; one of the same place gives it its remark, and goes. */
  add(mark: Mark): void {
    const before = this.list.find(({ notebook, cell, index }) => notebook === mark.notebook && cell === mark.cell && index === mark.index);
    const remark = before?.attachment.remark ?? "";
    const added = { ...mark, attachment: { ...mark.attachment, remark: mark.attachment.remark || remark } };
    this.list = before ? this.list.map((each) => (each === before ? added : each)) : [...this.list, added];
    this.changed();
  }

  setRemark(id: string, remark: string): void {
    this.list = this.list.map((mark) => (mark.id === id ? { ...mark, attachment: { ...mark.attachment, remark } } : mark));
    this.changed();
  }

  /** Takes marks away: they were sent, or are not wanted. */
  remove(ids: readonly string[]): void {
    if (!this.list.some(({ id }) => ids.includes(id))) return;
    this.list = this.list.filter(({ id }) => !ids.includes(id));
    this.changed();
  }

  /** A notebook has another path now. */
  renamed(before: string, after: string): void {
    this.list = this.list.map((mark) => (mark.notebook === before ? { ...mark, notebook: after, attachment: { ...mark.attachment, notebook: after } } : mark));
    this.changed();
  }

  private changed(): void {
    keep(this.memory, this.list);
    for (const listener of [...this.listeners]) listener();
  }
}

const KEY = "cellwright:marks";

function keptMarks(memory: Pick<Storage, "getItem"> | null): readonly Mark[] {
  try {
    const kept = JSON.parse(memory?.getItem(KEY) ?? "[]") as unknown;
    return Array.isArray(kept) ? (kept as Mark[]) : [];
  } catch {
    return [];
  }
}

/** Pictures may be more than a page can keep: then the marks are kept without them. */
function keep(memory: Pick<Storage, "setItem" | "removeItem"> | null, list: readonly Mark[]): void {
  const withoutPictures = list.map((mark) => (mark.attachment.picture ? { ...mark, attachment: { ...mark.attachment, picture: null, note: NOT_KEPT } } : mark));
  for (const marks of [list, withoutPictures]) {
    try {
      if (marks.length) memory?.setItem(KEY, JSON.stringify(marks));
      else memory?.removeItem(KEY);
      return;
    } catch {
      // tried again with less, then not kept
    }
  }
  try {
    memory?.removeItem(KEY);
  } catch {
    // a browser that keeps nothing for this site
  }
}

/** For Claude. */
const NOT_KEPT = "No picture: the page was loaded anew, and could not keep it.";

/** Those of the page: the notebooks add to them, the composer sends them. */
export const marks = new Marks(sessionStorage);
