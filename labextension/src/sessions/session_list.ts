/** The sessions that a search finds, loaded page by page. It draws nothing. */

import type { SessionEntry } from "../transport/chat_protocol";

export const PAGE = 30;
/** So long after the last key a search begins. */
export const DEBOUNCE_MS = 150;

export type Ask = (method: string, params: { query: string; limit: number; offset: number }) => Promise<unknown>;
type Answer = { sessions: SessionEntry[]; more: boolean };

export class SessionList {
  entries: SessionEntry[] = [];
  more = false;
  loading = false;
  /** Why the last request failed; empty when it did not. */
  problem = "";
  query = "";

  /** Answers to earlier questions are passed over. */
  private asked = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;

  /** `changed` is called after each change of what is above. */
  constructor(
    private readonly ask: Ask,
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
    return this.request(0, Math.max(PAGE, this.entries.length));
  }

  /** Loads the next page, if there is one and nothing is on its way. */
  async loadMore(): Promise<void> {
    if (this.more && !this.loading && !this.problem) await this.request(this.entries.length, PAGE);
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
      const { sessions, more } = (await this.ask("sessions", { query: this.query, limit, offset })) as Answer;
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
