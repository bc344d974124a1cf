/** Where news are told: in the page, and on the desktop where the user wants that and the browser allows it. */

import { Notification } from "@jupyterlab/apputils";

import type { Trans } from "../composer/deps";
import type { News } from "./run_news";
import type { PanelSettings } from "./slots";

const TOLD_MS = 10_000;

type Desktop = typeof globalThis.Notification;

/** Tells `news` as the settings want it; `open` goes to the run. */
export function tellNews(news: News, settings: PanelSettings, trans: Trans, open: () => void): void {
  if (settings.notifications === "never") return;
  const message = `${news.title}: ${news.body}`;
  const actions = [{ label: trans.__("Show"), callback: open }];
  // what waits for an answer stays until it is seen
  if (news.urgent) Notification.warning(message, { autoClose: false, actions });
  else Notification.info(message, { autoClose: TOLD_MS, actions });
  const desktop = (globalThis as { Notification?: Desktop }).Notification;
  if (!settings.desktopNotifications || !desktop || document.hasFocus()) return;
  if (desktop.permission === "granted") showOnDesktop(desktop, news, open);
  else if (desktop.permission === "default") void desktop.requestPermission();
}

function showOnDesktop(desktop: Desktop, { title, body, run }: News, open: () => void): void {
  const shown = new desktop(title, { body, tag: `cellwright-${run}` });
  shown.onclick = () => {
    window.focus();
    open();
    shown.close();
  };
}
