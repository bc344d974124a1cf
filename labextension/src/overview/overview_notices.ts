/** Notices of runs in kernels that the panel does not show: they wait for an answer, or have ended. */

import type { RunNotification } from "../sidebar/notifications";
import { notificationFor } from "../sidebar/notifications";
import type { Trans } from "../translation";
import type { KernelRow, OverviewFeed, OverviewRun } from "./overview_feed";
import { nameOf } from "./overview_feed";

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

/** Calls `tell` for each question and end from now on; gives what to call after each change of the rows. */
export function overviewNotices(feed: OverviewFeed, deps: OverviewNoticeDeps): () => void {
  const known = new Map<string, OverviewRun["state"]>();
  let since: number | null = null;
  return () => {
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
        if (isNew && !isSeen(row, run, feed, deps)) tellOf(row, run, deps);
      }
    }
    for (const key of known.keys()) if (!here.has(key)) known.delete(key);
  };
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
