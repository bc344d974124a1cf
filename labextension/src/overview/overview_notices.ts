/** Notices of runs in kernels that the panel does not show: they wait for an answer, or have ended. */

import type { RunNotification } from "../sidebar/notifications";
import { notificationFor } from "../sidebar/notifications";
import type { Trans } from "../translation";
import type { KernelRow, OverviewFeed, OverviewRun } from "./overview_feed";
import { nameOf } from "./overview_feed";

/** The time that a report takes to come is counted into the clocks' difference. */
const SKEW_ERROR_S = 2;

export type OverviewNoticeDeps = {
  readonly trans: Trans;
  /** The kernel whose runs the panel itself gives notice of. */
  panelKernel(): string | null;
  /** True if the user sees the page, and in it the notebook of that kernel. */
  isSeen(kernel: string): { readonly page: boolean; readonly notebook: boolean };
  /** True if the run was asked for at a cell of this page whose notebook is in sight. */
  isAtCell(kernel: string, run: string): boolean;
  tell(news: RunNotification, row: KernelRow): void;
};

export type OverviewNotices = {
  /** To be called after each change of the rows. */
  look(): void;
  /** The user has seen a run end, or was given notice of it: `run` is its id or its place, "" any in a cell of that kernel. */
  sawEnd(kernel: string, run: string): void;
};

/** Calls `tell` for each question and end from now on. */
export function overviewNotices(feed: OverviewFeed, deps: OverviewNoticeDeps): OverviewNotices {
  const known = new Map<string, OverviewRun["state"]>();
  const seenEnds = new SeenEnds();
  let since: number | null = null;
  const look = (): void => {
    if (!feed.loaded) return;
    since ??= Date.now() / 1000 + feed.skew;
    const here = new Set<string>();
    for (const row of feed.rows) {
      for (const run of runsOf(row)) {
        const key = `${row.id} ${run.id}`;
        const before = known.get(key);
        here.add(key);
        known.set(key, run.state);
        // what began before this page looked is known from the first look on
        const isNew = before === undefined ? run.asked >= since : before !== run.state;
        if (isNew && !seenEnds.has(row.id, run, feed.skew) && !isSeen(row, run, feed, deps)) tellOf(row, run, deps);
      }
    }
    keepOnly(known, here);
    seenEnds.keepOf(feed.rows);
  };
  return { look, sawEnd: (kernel, run) => { seenEnds.add(kernel, run); } };
}

/** Forgets what is not in `here`. */
function keepOnly(known: Map<string, unknown>, here: ReadonlySet<string>): void {
  for (const key of known.keys()) if (!here.has(key)) known.delete(key);
}

/**
 * The latest end that this page has seen of each run and place. The server's news of it comes later, when what showed it may be
 * closed; what has the same name after a restart of the kernel ends later.
 */
class SeenEnds {
  /** By kernel, then by run; the times are this page's, in seconds. */
  private readonly times = new Map<string, Map<string, number>>();

  add(kernel: string, run: string): void {
    const times = this.times.get(kernel) ?? new Map<string, number>();
    this.times.set(kernel, times.set(run, Date.now() / 1000));
  }

  has(kernel: string, { id, place, ended, background }: OverviewRun, skew: number): boolean {
    const times = this.times.get(kernel);
    if (!times || ended === null) return false;
    const isCell = place.startsWith("[") && !background;
    const names = isCell ? [id, place, ""] : [id];
    return names.some((name) => ended <= (times.get(name) ?? -Infinity) + skew + SKEW_ERROR_S);
  }

  keepOf(rows: readonly KernelRow[]): void {
    const kernels = new Set(rows.map(({ id }) => id));
    for (const kernel of this.times.keys()) if (!kernels.has(kernel)) this.times.delete(kernel);
  }
}

function tellOf(row: KernelRow, run: OverviewRun, deps: OverviewNoticeDeps): void {
  const question = run.state === "asking" ? row.overview?.questions[0] : undefined;
  const title = question?.title ?? run.title;
  // the title may name the notebook, or what it is about
  const parts = [nameOf(row), title, question?.about ?? ""].filter((part) => part && (part === title || !title.includes(part)));
  const news = notificationFor(run.state, parts.join(": "), run.id, row.id, deps.trans);
  if (news) deps.tell(news, row);
}

/** The panel gives notice of its own kernel; a run is seen at its cell and on the screen of all sessions; a replay is no news. */
function isSeen(row: KernelRow, run: OverviewRun, feed: OverviewFeed, deps: OverviewNoticeDeps): boolean {
  if (run.replayed || row.id === deps.panelKernel()) return true;
  const { page, notebook } = deps.isSeen(row.id);
  const inCell = !run.background && run.place.startsWith("[");
  return page && (feed.isLookedAt || (notebook && inCell) || deps.isAtCell(row.id, run.id));
}

function runsOf({ overview }: KernelRow): readonly OverviewRun[] {
  return overview ? [...(overview.last ? [overview.last] : []), ...overview.runs] : [];
}
