/** Actions on a session: resume, fork, rename, tag, export, delete. */

import type { JsonObject } from "../json";
import type { PanelDeps } from "../panel_view";
import { element } from "../transcript/dom";
import type { Chat } from "../transport/chat";
import type { SessionEntry } from "../transport/chat_protocol";
import type { RowAction, RowForm } from "./row_menu";
import { titleOf } from "./session_row";

/** A long session takes a while to be written down. */
const EXPORT_TIMEOUT_MS = 60_000;

const FORMATS = ["markdown", "notebook", "json"] as const;

export type SessionActionsHost = {
  form(entry: SessionEntry, form: RowForm): void;
  /** The list is another now. */
  changed(): void;
  tell(text: string): void;
};

export class SessionActions {
  constructor(
    private readonly chat: Chat,
    private readonly deps: PanelDeps,
    private readonly host: SessionActionsHost,
  ) {}

  /** The menu of a session. */
  items(entry: SessionEntry): RowAction[] {
    const { trans } = this.deps;
    const names = { markdown: trans.__("Export as Markdown"), notebook: trans.__("Export as notebook"), json: trans.__("Export as JSON") };
    const busy = this.busy();
    return [
      { label: trans.__("Resume"), problem: busy, run: () => { void this.resume(entry); } },
      { label: trans.__("Fork…"), problem: busy, run: () => { this.fork(entry); } },
      { label: trans.__("Rename…"), run: () => { this.rename(entry); } },
      { label: trans.__("Tags…"), run: () => { this.tag(entry); } },
      ...FORMATS.map((format) => ({ label: names[format], run: () => { void this.export(entry, format); } })),
      { label: trans.__("Delete…"), problem: this.undeletable(entry), run: () => { this.remove(entry); } },
    ];
  }

  async resume(entry: SessionEntry): Promise<void> {
    const { trans } = this.deps;
    if (entry.id === this.chat.state?.session.id) {
      this.deps.close();
      return;
    }
    await this.switchSession("session_resume", { id: entry.id }, trans.__("Continuing “%1”", titleOf(entry, trans)));
  }

  /** Goes on with a session of its own. */
  rename(entry: SessionEntry): void {
    const { trans } = this.deps;
    this.host.form(entry, {
      label: trans.__("Title"),
      action: trans.__("Rename"),
      leave: trans.__("Cancel"),
      field: { value: entry.title, type: "text" },
      run: (title) => this.change("session_rename", { id: entry.id, title }),
    });
  }

  remove(entry: SessionEntry): void {
    const { trans } = this.deps;
    const problem = this.undeletable(entry);
    if (problem) {
      this.host.tell(problem);
      return;
    }
    this.host.form(entry, {
      label: trans.__("Delete “%1”? This cannot be undone.", titleOf(entry, trans)),
      action: trans.__("Delete"),
      leave: trans.__("Keep"),
      run: () => this.change("session_delete", { id: entry.id }),
    });
  }

  private tag(entry: SessionEntry): void {
    const { trans } = this.deps;
    this.host.form(entry, {
      label: trans.__("Tags"),
      action: trans.__("Save"),
      leave: trans.__("Cancel"),
      field: { value: entry.tags.join(", "), type: "text", hint: trans.__("Separated by commas") },
      run: (words) => {
        const tags = [...new Set(words.split(",").map((tag) => tag.trim()).filter(Boolean))];
        return this.change("session_tag", { id: entry.id, tags });
      },
    });
  }

  private fork(entry: SessionEntry): void {
    const { trans } = this.deps;
    this.host.form(entry, {
      label: trans.__("Continue in a copy, up to turn"),
      action: trans.__("Fork"),
      leave: trans.__("Cancel"),
      field: { value: `${entry.turns}`, type: "number", max: entry.turns, hint: trans.__("The session itself stays as it is.") },
      run: async (number) => {
        const busy = this.busy();
        if (busy) throw new Error(busy);
        const turn = Number(number);
        await this.chat.request("session_fork", { id: entry.id, turn: turn === entry.turns ? null : turn });
        this.deps.announce(trans.__("Continuing in a copy of “%1”", titleOf(entry, trans)));
        this.deps.close();
      },
    });
  }

  private async export(entry: SessionEntry, format: string): Promise<void> {
    await this.reportingErrors(async () => {
      const exported = (await this.chat.request("session_export", { id: entry.id, format }, EXPORT_TIMEOUT_MS)) as ExportedSession;
      download(exported);
      this.deps.announce(this.deps.trans.__("%1 was saved", exported.name));
    });
  }

  /** Goes on with another session, unless that would take one away from a run. */
  private async switchSession(method: string, params: JsonObject, announcement: string): Promise<void> {
    const busy = this.busy();
    if (busy) {
      this.host.tell(busy);
      return;
    }
    await this.reportingErrors(async () => {
      await this.chat.request(method, params);
      this.deps.announce(announcement);
      this.deps.close();
    });
  }

  private async change(method: string, params: JsonObject): Promise<void> {
    await this.chat.request(method, params);
    this.host.changed();
  }

  private async reportingErrors(work: () => Promise<void>): Promise<void> {
    this.host.tell("");
    try {
      await work();
    } catch (error) {
      this.host.tell(error instanceof Error ? error.message : String(error));
    }
  }

  private undeletable(entry: SessionEntry): string {
    if (entry.id !== this.chat.state?.session.id) return "";
    return this.deps.trans.__("This is the current conversation. Start a new session, then you can delete it.");
  }

  /** The reason why the session cannot be switched now; empty when it can. */
  private busy(): string {
    const { state } = this.chat;
    if (!state || (state.current === null && !state.waiting.length)) return "";
    return this.deps.trans.__("Claude is still working in this session. Stop it or wait until it is done, then switch to another.");
  }
}

// A text as a file that the browser saves.

export type ExportedSession = { name: string; media_type: string; text: string };

export function download({ name, media_type, text }: ExportedSession): void {
  const address = URL.createObjectURL(new Blob([text], { type: media_type }));
  element("a", { href: address, download: name }).click();
  // the browser has begun to read it by then
  setTimeout(() => { URL.revokeObjectURL(address); }, 60_000);
}
