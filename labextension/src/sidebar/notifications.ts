/** Tells that a turn has ended, or waits for an answer, to a user who is looking elsewhere. */

import type { Chat } from "../transport/chat";
import type { Run, RunState } from "../transport/chat_protocol";
import type { Trans } from "../composer/composer_deps";

export type News = { readonly title: string; readonly body: string; readonly run: string; readonly urgent: boolean };

export type NewsDeps = {
  readonly trans: Trans;
  /** Whether the user sees the page, and in it the panel. */
  seen(): { readonly page: boolean; readonly panel: boolean };
  tell(news: News): void;
};

const OVER: readonly RunState[] = ["done", "failed", "interrupted"];
const SHOWN_CHARS = 80;

/** Watches the runs of `chat`; gives how to stop. What had happened before is no news. */
export function watchRuns(chat: Chat, deps: NewsDeps): () => void {
  const known = new Map<string, RunState>();
  const look = (): void => {
    for (const { run } of chat.runs) {
      const before = known.get(run.id);
      known.set(run.id, run.state);
      if (before === undefined || before === run.state || OVER.includes(before)) continue;
      const news = newsOf(run, deps.trans);
      if (news && isUnseen(run, deps.seen())) deps.tell(news);
    }
    const here = new Set(chat.runs.map(({ run }) => run.id));
    for (const id of known.keys()) if (!here.has(id)) known.delete(id);
  };
  look();
  return chat.subscribe(look);
}

/** A run of a cell is seen at the cell, the others in the panel alone. */
function isUnseen(run: Run, { page, panel }: { page: boolean; panel: boolean }): boolean {
  if (!page) return true;
  return !panel && (run.background || !run.place.startsWith("["));
}

function newsOf({ state, prompt, id }: Run, trans: Trans): News | null {
  const body = prompt.length > SHOWN_CHARS ? `${prompt.slice(0, SHOWN_CHARS)}…` : prompt;
  switch (state) {
    case "asking":
      return { title: trans.__("Claude waits for your answer"), body, run: id, urgent: true };
    case "done":
      return { title: trans.__("Claude is done"), body, run: id, urgent: false };
    case "failed":
      return { title: trans.__("Claude could not finish"), body, run: id, urgent: true };
    case "waiting":
    case "running":
    case "interrupted":
      return null;
    default:
      return state satisfies never;
  }
}
