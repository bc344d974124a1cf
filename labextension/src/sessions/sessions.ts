/**
 * The session picker: what was said before, found by its words, and gone on with.
 *
 * The list is a listbox, whose options hold nothing that takes the focus; menus and forms stand beside it and are laid over
 * the row that they are about.
 */

import type { Disposable, Mount, PanelDeps } from "../panel_view";
import { button, element, freshId, setText } from "../transcript/dom";
import type { Chat } from "../transport/chat";
import type { SessionEntry } from "../transport/chat_protocol";
import type { RowForm } from "./row_menu";
import { openRowMenu, openRowForm } from "./row_menu";
import { SessionActions } from "./session_actions";
import { sessionRow, titleOf } from "./session_row";
import css from "./style.css";

/** The distance from the end at which the next page is loaded. */
const NEAR_END_PX = 200;
const NEAR_END_ROWS = 5;
const PAGE_ROWS = 8;

export const mountSessions: Mount = (host, chat, deps) => new SessionPicker(host, chat, deps);

class SessionPicker implements Disposable {
  private readonly id = freshId();
  private readonly input: HTMLInputElement;
  private readonly rows: HTMLElement;
  private readonly over = element("div", { class: "over" });
  private readonly scroller: HTMLElement;
  private readonly status = element("p", { class: "status", role: "status" });
  private readonly notice = element("p", { class: "problem", role: "alert", hidden: "" });
  private readonly retry: HTMLButtonElement;
  private readonly list: SessionList;
  private readonly actions: SessionActions;
  private readonly unsubscribe: () => void;
  private active = 0;
  private shown: readonly SessionEntry[] = [];
  private about = "";
  private closeOverlay: () => void = () => undefined;

  constructor(
    private readonly host: HTMLElement,
    private readonly chat: Chat,
    private readonly deps: PanelDeps,
  ) {
    const { trans } = deps;
    this.list = new SessionList((method, params) => chat.request(method, params), () => { this.draw(); });
    this.actions = new SessionActions(chat, deps, {
      form: (entry, form) => { this.openForm(entry, form); },
      changed: () => { void this.list.load(); },
      tell: (text) => { this.tell(text); },
    });
    this.input = element("input", { type: "search", class: "search", "aria-label": trans.__("Search in all sessions"), placeholder: trans.__("Search in all sessions"), "aria-controls": this.id, autocomplete: "off", spellcheck: "false" });
    this.rows = element("div", { id: this.id, role: "listbox", tabindex: "0", class: "rows", "aria-label": trans.__("Sessions") });
    this.scroller = element("div", { class: "found" }, this.rows, this.over);
    this.retry = button(trans.__("Try again"), () => { void this.list.load(); }, { hidden: "" });
    const close = button("×", () => { deps.close(); }, { class: "close", "aria-label": trans.__("Close the list of sessions") });
    const hint = element("p", { class: "hint keys" }, trans.__("Enter resumes · F2 renames · Delete deletes · Shift+F10 for more"));
    host.append(
      element(
        "section",
        { class: "cw-sessions", "aria-label": trans.__("Sessions") },
        element("style", {}, css),
        element("div", { class: "top" }, element("h2", {}, trans.__("Sessions")), close),
        this.input,
        this.notice,
        this.status,
        this.retry,
        this.scroller,
        hint,
      ),
    );
    this.listen();
    this.unsubscribe = chat.subscribe(() => { this.chatChanged(); });
    this.chatChanged();
    this.input.focus();
  }

  dispose(): void {
    this.unsubscribe();
    this.closeOverlay();
    this.list.dispose();
    this.host.replaceChildren();
  }

  private listen(): void {
    const { input, rows, scroller } = this;
    input.addEventListener("input", () => { this.list.search(input.value.trim()); });
    input.addEventListener("keydown", (event) => {
      if (event.isComposing || (event.key !== "ArrowDown" && event.key !== "Enter") || !this.shown.length) return;
      consume(event);
      rows.focus();
    });
    rows.addEventListener("keydown", (event) => { this.key(event); });
    rows.addEventListener("focus", () => { this.markActive(); });
    rows.addEventListener("click", (event) => {
      const at = this.indexOf(event.target);
      if (at < 0) return;
      this.setActive(at);
      if ((event.target as Element).closest(".more")) this.openMenu(at);
      else this.resume(at);
    });
    rows.addEventListener("contextmenu", (event) => {
      const at = this.indexOf(event.target);
      if (at < 0) return;
      consume(event);
      this.setActive(at);
      this.openMenu(at);
    });
    scroller.addEventListener("scroll", () => {
      if (scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < NEAR_END_PX) void this.list.loadMore();
    });
  }

  /** Another session, or another kernel: what is marked, or the whole list, is another. */
  private chatChanged(): void {
    const { connection, kernelInfo, state } = this.chat;
    const about = [connection, kernelInfo?.kernelId, state?.session.id, state?.session.title].join("\n");
    if (about === this.about) return;
    this.about = about;
    if (connection === "connected") void this.list.load();
    else this.draw();
  }

  private draw(): void {
    const { trans } = this.deps;
    const { entries } = this.list;
    const was = this.shown[this.active]?.id;
    const current = this.chat.state?.session.id;
    const now = Date.now() / 1000;
    if (entries !== this.shown || !this.rows.childElementCount) {
      this.shown = entries;
      this.rows.replaceChildren(
        ...entries.map((entry, index) =>
          sessionRow(entry, trans, { id: `${this.id}-${index}`, position: index + 1, current: entry.id === current, now }),
        ),
      );
      // the same session stays the active one while the list grows or changes around it
      this.active = Math.max(0, entries.findIndex(({ id }) => id === was));
      this.markActive();
    }
    this.rows.setAttribute("aria-busy", `${this.list.loading}`);
    this.scroller.hidden = entries.length === 0;
    this.retry.hidden = !this.list.problem;
    setText(this.status, this.statusText());
  }

  private statusText(): string {
    const { trans } = this.deps;
    const { entries, loading, more, problem, query } = this.list;
    if (this.chat.connection !== "connected") return trans.__("Sessions are listed once the panel is connected to a kernel.");
    if (problem) return trans.__("The sessions could not be listed: %1", problem);
    if (loading && !entries.length) return trans.__("Looking for sessions…");
    if (!entries.length) {
      return query ? trans.__("Nothing was found for “%1”.", query) : trans.__("No sessions yet. Your conversations with Claude are kept here.");
    }
    if (more) return trans.__("More than %1 sessions", entries.length);
    return entries.length === 1 ? trans.__("1 session") : trans.__("%1 sessions", entries.length);
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = this.act(event.shiftKey && event.key === "F10" ? "ContextMenu" : event.key);
    if (act) {
      consume(event);
      act();
    } else if (event.key === "Backspace" || (event.key.length === 1 && event.key !== " ")) {
      this.input.focus(); // where the key is typed then
    }
  }

  /** The action of a key in the list. */
  private act(key: string): (() => void) | null {
    const to = this.moved(key);
    if (to !== null) return () => { if (to < 0) this.input.focus(); else this.setActive(to); };
    const entry = this.shown[this.active];
    if (!entry) return null;
    switch (key) {
      case "Enter":
        return () => { this.resume(this.active); };
      case "F2":
        return () => { this.actions.rename(entry); };
      case "Delete":
        return () => { this.actions.remove(entry); };
      case "ContextMenu":
      case "ArrowRight":
        return () => { this.openMenu(this.active); };
      default:
        return null;
    }
  }

  /** The row that a key leads to, -1 for the search above them; null for other keys. */
  private moved(key: string): number | null {
    const last = this.shown.length - 1;
    switch (key) {
      case "ArrowDown":
        return Math.min(last, this.active + 1);
      case "ArrowUp":
        return this.active - 1;
      case "Home":
        return 0;
      case "End":
        return last;
      case "PageDown":
        return Math.min(last, this.active + PAGE_ROWS);
      case "PageUp":
        return Math.max(0, this.active - PAGE_ROWS);
      default:
        return null;
    }
  }

  private setActive(index: number): void {
    this.active = index;
    this.markActive();
    this.rows.children[index]?.scrollIntoView({ block: "nearest" });
    if (index >= this.shown.length - NEAR_END_ROWS) void this.list.loadMore();
  }

  private markActive(): void {
    [...this.rows.children].forEach((row, index) => { row.setAttribute("aria-selected", `${index === this.active}`); });
    const row = this.rows.children[this.active];
    if (row) this.rows.setAttribute("aria-activedescendant", row.id);
    else this.rows.removeAttribute("aria-activedescendant");
  }

  private indexOf(target: EventTarget | null): number {
    const row = (target as Element).closest("[role=option]");
    return row ? [...this.rows.children].indexOf(row) : -1;
  }

  private resume(index: number): void {
    const entry = this.shown[index];
    if (entry) void this.actions.resume(entry);
  }

  private openMenu(index: number): void {
    const entry = this.shown[index];
    if (!entry) return;
    this.placeOver(index);
    const label = this.deps.trans.__("Actions on “%1”", titleOf(entry, this.deps.trans));
    this.closeOverlay = openRowMenu(this.over, label, this.actions.items(entry), () => { this.rows.focus(); });
  }

  private openForm(entry: SessionEntry, form: RowForm): void {
    this.placeOver(this.shown.findIndex(({ id }) => id === entry.id));
    this.closeOverlay = openRowForm(this.over, form, () => { this.rows.focus(); });
  }

  /** Move the overlay to the row. */
  private placeOver(index: number): void {
    this.closeOverlay();
    this.tell("");
    const row = this.rows.children[index] as HTMLElement | undefined;
    this.over.style.top = `${row?.offsetTop ?? 0}px`;
  }

  private tell(text: string): void {
    this.notice.hidden = !text;
    setText(this.notice, text);
  }
}

function consume(event: Event): void {
  event.preventDefault();
  event.stopPropagation();
}

// The sessions that a search finds, loaded page by page. It draws nothing.

export const PAGE_SIZE = 30;
/** The pause after the last key before a search begins. */
export const DEBOUNCE_MS = 150;

export type SessionRequest = (method: string, params: { query: string; limit: number; offset: number }) => Promise<unknown>;
type SessionPage = { sessions: SessionEntry[]; more: boolean };

export class SessionList {
  entries: SessionEntry[] = [];
  more = false;
  loading = false;
  /** The error of the last request; empty when there was none. */
  problem = "";
  query = "";

  /** Answers to earlier questions are passed over. */
  private asked = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;

  /** `changed` is called after each change of what is above. */
  constructor(
    private readonly ask: SessionRequest,
    private readonly changed: () => void,
  ) {}

  /** Searches, when the user has stopped typing for a moment. */
  search(query: string): void {
    this.query = query;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => { void this.load(); }, DEBOUNCE_MS);
  }

  /** Loads the list anew, as much of it as there was. */
  load(): Promise<void> {
    clearTimeout(this.timer);
    return this.request(0, Math.max(PAGE_SIZE, this.entries.length));
  }

  /** Loads the next page, if there is one and nothing is on its way. */
  async loadMore(): Promise<void> {
    if (this.more && !this.loading && !this.problem) await this.request(this.entries.length, PAGE_SIZE);
  }

  dispose(): void {
    clearTimeout(this.timer);
    this.asked++;
  }

  private async request(offset: number, limit: number): Promise<void> {
    const asked = ++this.asked;
    this.loading = true;
    this.problem = "";
    this.changed();
    try {
      const { sessions, more } = (await this.ask("sessions", { query: this.query, limit, offset })) as SessionPage;
      if (asked !== this.asked) return;
      const known = new Set(offset ? this.entries.map(({ id }) => id) : []);
      // a session that was begun meanwhile moves the pages: none is shown twice
      this.entries = [...(offset ? this.entries : []), ...sessions.filter(({ id }) => !known.has(id))];
      this.more = more && sessions.length > 0;
    } catch (error) {
      if (asked !== this.asked) return;
      this.problem = error instanceof Error ? error.message : String(error);
    }
    this.loading = false;
    this.changed();
  }
}
