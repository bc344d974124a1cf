/** What runs, waits and asks in every kernel of the server, as this page knows it. It draws nothing. */

import type { Trans } from "../translation";

/** The Jupyter event that says that something has changed. */
export const OVERVIEW_EVENT = "urn:cellwright:events:overview:v1";
/** The server watches its kernels for longer than this after a page has asked. */
export const RENEW_MS = 60_000;
/** While somebody looks on: an event that was lost is made up for. */
export const LOOK_MS = 15_000;

export type OverviewRun = {
  readonly id: string;
  readonly title: string;
  readonly place: string;
  readonly state: "waiting" | "running" | "asking" | "done" | "failed" | "interrupted";
  readonly asked: number;
  readonly ended: number | null;
  readonly background: boolean;
  readonly replayed: boolean;
};
export type OverviewQuestion = { readonly id: string; readonly kind: string; readonly title: string; readonly about: string };
export type OverviewTask = { readonly id: string; readonly kind: "command" | "agent"; readonly title: string; readonly began: number };
export type KernelOverview = {
  readonly session: { readonly id: string; readonly title: string; readonly cost_usd: number | null };
  readonly cwd: string;
  readonly runs: readonly OverviewRun[];
  readonly last: OverviewRun | null;
  readonly questions: readonly OverviewQuestion[];
  readonly tasks: readonly OverviewTask[];
};
/** `path` and `type` are those of the kernel's Jupyter session; `overview` is null until the kernel has answered. */
export type KernelRow = {
  readonly id: string;
  readonly name: string;
  readonly path: string;
  readonly type: string;
  readonly session_name: string;
  readonly state: string;
  readonly overview: KernelOverview | null;
};
export type OverviewReport = { readonly revision: number; readonly now: number; readonly kernels: readonly KernelRow[] };

export type OverviewServer = {
  /** Rejects with RequestError. */
  overview(): Promise<OverviewReport>;
  /** Rejects with RequestError. */
  stopTask(kernel: string, id: string): Promise<void>;
};

export class OverviewFeed {
  rows: readonly KernelRow[] = [];
  /** The error of the last request; empty when there was none. */
  problem = "";
  loaded = false;
  /** The server's clock less this page's, in seconds. */
  skew = 0;
  private users = 0;
  private watchers = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private asking = false;
  private askAgain = false;
  private readonly listeners = new Set<() => void>();

  /** `onNews` calls its listener at each event of the server. */
  constructor(
    private readonly server: OverviewServer,
    onNews: (listener: () => void) => void,
  ) {
    onNews(() => { if (this.users) void this.refresh(); });
  }

  /** True while somebody sees the rows. */
  get isLookedAt(): boolean {
    return this.watchers > 0;
  }

  /** Keeps the rows up to date until what it gives is called; `looks`: somebody sees them. */
  use(listener: () => void, looks: boolean): () => void {
    this.listeners.add(listener);
    this.users++;
    if (looks) this.watchers++;
    void this.refresh();
    return () => {
      if (!this.listeners.delete(listener)) return;
      this.users--;
      if (looks) this.watchers--;
      if (!this.users) clearTimeout(this.timer);
    };
  }

  /** Asks the server now; requests that come meanwhile are one. */
  async refresh(): Promise<void> {
    if (this.asking) {
      this.askAgain = true;
      return;
    }
    this.asking = true;
    clearTimeout(this.timer);
    await this.ask();
    this.asking = false;
    if (this.askAgain) {
      this.askAgain = false;
      await this.refresh();
      return;
    }
    if (this.users) this.timer = setTimeout(() => { void this.refresh(); }, this.watchers ? LOOK_MS : RENEW_MS);
  }

  async stop(kernel: string, id: string): Promise<void> {
    await this.server.stopTask(kernel, id);
    await this.refresh();
  }

  private async ask(): Promise<void> {
    try {
      const report = await this.server.overview();
      this.rows = report.kernels;
      this.skew = report.now - Date.now() / 1000;
      this.problem = "";
      this.loaded = true;
    } catch (error) {
      this.problem = error instanceof Error ? error.message : String(error);
    }
    for (const listener of [...this.listeners]) listener();
  }
}

/** Asking kernels first, then those at work, then the rest; of equals by their notebooks. */
export function inOrder(rows: readonly KernelRow[]): KernelRow[] {
  const rank = ({ overview }: KernelRow): number => (overview?.questions.length ? 0 : overview?.runs.length || overview?.tasks.length ? 1 : 2);
  return [...rows].sort((a, b) => rank(a) - rank(b) || nameOf(a).localeCompare(nameOf(b)) || a.id.localeCompare(b.id));
}

/** The notebook's name, else the session's or the kernel's. */
export function nameOf({ path, type, session_name: name, name: spec }: KernelRow): string {
  if (path && type === "notebook") return path.slice(path.lastIndexOf("/") + 1);
  return name || path || spec;
}

/** How many questions wait in these kernels, or how many of them work; empty for none. */
export function elsewhereText(rows: readonly KernelRow[], trans: Trans): string {
  const asking = rows.reduce((sum, { overview }) => sum + (overview?.questions.length ?? 0), 0);
  if (asking) return asking === 1 ? trans.__("1 question elsewhere") : trans.__("%1 questions elsewhere", asking);
  const working = rows.filter(({ overview }) => overview?.runs.length).length;
  return working ? trans.__("%1 at work elsewhere", working) : "";
}
