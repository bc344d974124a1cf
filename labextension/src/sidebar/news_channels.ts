/** Where news are told: in the page, and on the desktop where the user wants that and the browser allows it. */

import { Notification } from "@jupyterlab/apputils";

import type { Trans } from "../composer/composer_deps";
import type { News } from "./notifications";
import type { PanelSettings } from "../panel_view";

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
  const desktop = ofBrowser();
  const isInFront = document.hasFocus() && !document.hidden;
  if (isWanted(settings) && desktop?.permission === "granted" && !isInFront) showOnDesktop(desktop, news, open);
}

/** Asks for the browser's permission where the settings want what needs it: once for each time that it is switched on. */
export class DesktopPermission {
  private asked = false;
  private awaitsClick = false;

  constructor(private readonly settings: () => PanelSettings) {}

  /** The settings were read, or are others now. */
  look(): void {
    if (!isWanted(this.settings())) this.asked = false;
    else if (!this.asked && ofBrowser()?.permission === "default") {
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
    const desktop = ofBrowser();
    if (!isWanted(this.settings()) || desktop?.permission !== "default") return;
    desktop.requestPermission().catch((error: unknown) => { console.debug("Cellwright:", error); });
  }
}

/** Pages that are not served safely have none. */
function ofBrowser(): Desktop | undefined {
  return (globalThis as { Notification?: Desktop }).Notification;
}

function isWanted({ notifications, desktopNotifications }: PanelSettings): boolean {
  return desktopNotifications && notifications !== "never";
}

function showOnDesktop(desktop: Desktop, { title, body, run }: News, open: () => void): void {
  // the newest of a run takes the place of the one before, and is heard like that one
  const options: NotificationOptions & { renotify: boolean } = { body, tag: `cellwright-${run}`, renotify: true };
  const shown = new desktop(title, options);
  shown.onclick = () => {
    window.focus();
    open();
    shown.close();
  };
}
