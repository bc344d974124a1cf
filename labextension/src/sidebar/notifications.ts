/** Notifications for a user who is looking elsewhere: a turn has ended, or waits for an answer. */

import { Notification } from "@jupyterlab/apputils";

import type { PanelSettings } from "../panel_view";
import type { Trans } from "../translation";
import type { Chat } from "../transport/chat";
import type { Run, RunState } from "../transport/chat_protocol";

/** `kernel` and `run` say what it is about: other pages of this browser know the run by them, too. */
export type RunNotification = { readonly title: string; readonly body: string; readonly run: string; readonly kernel: string; readonly urgent: boolean };

export type RunNotificationDeps = {
  readonly trans: Trans;
  /** Tells whether the user sees the page, and in it the panel. */
  visibility(): { readonly page: boolean; readonly panel: boolean };
  /** True if the run was asked for at a cell of this page whose notebook is in sight. */
  isAtCell(kernel: string, run: string): boolean;
  tell(news: RunNotification): void;
  /** A run has ended: it was seen, or `tell` was called. */
  ended?(kernel: string, run: string): void;
};

const ENDED_STATES: readonly RunState[] = ["done", "failed", "interrupted"];
const SHOWN_CHARS = 80;

/** Watches the runs of `chat`; gives how to stop. What had happened before is no news. */
export function watchRuns(chat: Chat, deps: RunNotificationDeps): () => void {
  const known = new Map<string, RunState>();
  const look = (): void => {
    for (const { run } of chat.runs) {
      const before = known.get(run.id);
      known.set(run.id, run.state);
      if (isNews(run, before)) tellOf(run, chat.kernelInfo?.kernelId ?? "", deps);
    }
    const here = new Set(chat.runs.map(({ run }) => run.id));
    for (const id of known.keys()) if (!here.has(id)) known.delete(id);
  };
  look();
  return chat.subscribe(look);
}

function tellOf(run: Run, kernel: string, deps: RunNotificationDeps): void {
  const news = notificationFor(run.state, run.prompt, run.id, kernel, deps.trans);
  if (ENDED_STATES.includes(run.state)) deps.ended?.(kernel, run.id);
  if (news && isUnseen(run, deps.visibility(), deps.isAtCell(kernel, run.id))) deps.tell(news);
}

/** A replay is none, nor is what was over when it was seen first. */
function isNews({ state, replayed }: Run, before: RunState | undefined): boolean {
  return before !== undefined && before !== state && !ENDED_STATES.includes(before) && replayed !== true;
}

/** A run of a cell is seen at the cell, the others in the panel alone. */
function isUnseen(run: Run, { page, panel }: { page: boolean; panel: boolean }, atCell: boolean): boolean {
  if (!page) return true;
  return !panel && !atCell && (run.background || !run.place.startsWith("["));
}

/** Gives the words for a run that asks or has ended; null for any other. */
export function notificationFor(state: RunState, words: string, run: string, kernel: string, trans: Trans): RunNotification | null {
  const plain = words.replaceAll("`", "");
  const body = plain.length > SHOWN_CHARS ? `${plain.slice(0, SHOWN_CHARS)}…` : plain;
  switch (state) {
    case "asking":
      return { title: trans.__("Claude waits for your answer"), body, run, kernel, urgent: true };
    case "done":
      return { title: trans.__("Claude is done"), body, run, kernel, urgent: false };
    case "failed":
      return { title: trans.__("Claude could not finish"), body, run, kernel, urgent: true };
    case "waiting":
    case "running":
    case "interrupted":
      return null;
    default:
      return state satisfies never;
  }
}

// Notifications in the page, and on the desktop where the user wants that and the browser allows it.

const NOTIFICATION_MS = 10_000;

type Desktop = typeof globalThis.Notification;

/** Tells `news` as the settings want it, in one place: on the desktop, else in the page. `open` goes to the run. */
export function showNotification(news: RunNotification, settings: PanelSettings, trans: Trans, open: () => void): void {
  if (settings.notifications === "never") return;
  const desktop = browserNotifications();
  const isInFront = document.hasFocus() && !document.hidden;
  if (wantsDesktop(settings) && desktop?.permission === "granted" && !isInFront) {
    inOnePage(news, () => { showOnDesktop(desktop, news, open); });
    return;
  }
  const message = `${news.title}: ${news.body}`;
  const actions = [{ label: trans.__("Show"), callback: open }];
  // what waits for an answer stays until it is seen
  if (news.urgent) Notification.warning(message, { autoClose: false, actions });
  else Notification.info(message, { autoClose: NOTIFICATION_MS, actions });
}

/** Several pages of a browser may know of the same run: the first that comes shows it. */
function inOnePage({ kernel, run, title }: RunNotification, show: () => void): void {
  // pages that are not served safely have neither notifications nor locks
  const locks = (navigator as { locks?: LockManager }).locks;
  if (!locks) {
    show();
    return;
  }
  void locks.request(`cellwright ${kernel} ${run} ${title}`, { ifAvailable: true }, async (lock) => {
    if (!lock) return;
    show();
    await new Promise((resolve) => setTimeout(resolve, NOTIFICATION_MS));
  });
}

/** Asks for the browser's permission where the settings want what needs it: once for each time that it is switched on. */
export class DesktopPermission {
  private asked = false;
  private awaitsClick = false;

  constructor(private readonly settings: () => PanelSettings) {}

  /** The settings were read, or are others now. */
  look(): void {
    if (!wantsDesktop(this.settings())) this.asked = false;
    else if (!this.asked && browserNotifications()?.permission === "default") {
      this.asked = true;
      // browsers hear such a question only when the user has just done something
      if (navigator.userActivation.isActive) this.ask();
      else this.askAtClick();
    }
  }

  private askAtClick(): void {
    if (this.awaitsClick) return;
    this.awaitsClick = true;
    const clicked = (): void => {
      this.awaitsClick = false;
      this.ask();
    };
    document.addEventListener("click", clicked, { capture: true, once: true });
  }

  private ask(): void {
    const desktop = browserNotifications();
    if (!wantsDesktop(this.settings()) || desktop?.permission !== "default") return;
    desktop.requestPermission().catch((error: unknown) => { console.debug("Cellwright:", error); });
  }
}

/** Pages that are not served safely have none. */
function browserNotifications(): Desktop | undefined {
  return (globalThis as { Notification?: Desktop }).Notification;
}

function wantsDesktop({ notifications, desktopNotifications }: PanelSettings): boolean {
  return desktopNotifications && notifications !== "never";
}

function showOnDesktop(desktop: Desktop, { title, body, run, kernel }: RunNotification, open: () => void): void {
  // the newest of a run takes the place of the one before, and is heard like that one
  const options: NotificationOptions & { renotify: boolean } = { body, tag: `cellwright-${kernel}-${run}`, renotify: true };
  const shown = new desktop(title, options);
  shown.onclick = () => {
    window.focus();
    open();
    shown.close();
  };
}
