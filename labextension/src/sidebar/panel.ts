/** The panel: head, runs, and the slots that other folders fill. Framework-free; JupyterLab's part is in panel_widget.ts. */

import type { ChatStore } from "../chat/chat_store";
import type { Composer, ComposerDeps, Trans } from "../composer/deps";
import { addPageStyle } from "../page_style";
import { element, setText } from "../transcript/dom";
import { focused } from "../transcript/focus";
import { connectionNote } from "./connection_note";
import { firstWords } from "./first_words";
import { header } from "./header";
import type { MenuItem } from "./menu";
import { RunList } from "./run_list";
import type { Disposable, Mount, MountComposer, PanelDeps, PanelSettings, ViewName } from "./slots";
import css from "./style.css";

export type Parts = {
  composer(): Promise<MountComposer>;
  contextBar(): Promise<Mount>;
  view(name: ViewName): Promise<Mount>;
  transcript: ConstructorParameters<typeof RunList>[1]["draw"];
};

export type PanelHome = {
  readonly trans: Trans;
  readonly parts: Parts;
  readonly composer: Omit<ComposerDeps, "trans" | "leave">;
  /** The keys that focus the composer, to be shown; "" for none. */
  readonly shortcut: string;
  settings(): PanelSettings;
  /** The kernels that one can choose. */
  kernels(): readonly MenuItem[];
  startKernel(): void;
  /** More of the menu: what belongs to the page. */
  more(): readonly MenuItem[];
  openSettings(): void;
  showCell(place: string): void;
  /** Gives the focus back to the notebook. */
  leave(): void;
  run(command: string, args?: Record<string, unknown>): Promise<unknown>;
  tell(message: string): void;
};

/** What commands can do with a panel. */
export type Panel = Disposable & {
  focusComposer(): void;
  compose(text: string): void;
  open(view: ViewName): void;
  newSession(): void;
  show(run: string): void;
};

let styled = false;

/** Fills `host` with the panel. */
export function mountPanel(host: HTMLElement, chat: ChatStore, home: PanelHome): Panel {
  if (!styled) addPageStyle(css);
  styled = true;
  const { trans, parts } = home;
  let composer: Composer | null = null;
  let openView: { name: ViewName; mounted: Disposable | null } | null = null;
  let gone = false;
  const disposables: Disposable[] = [];

  const viewHost = element("div", { class: "cellwright-slot view", hidden: "" });
  const barHost = element("div", { class: "cellwright-slot bar" });
  const composerHost = element("div", { class: "cellwright-slot composer" });
  const announcer = element("p", { class: "unseen", role: "status", "aria-live": "polite" });
  const notices = element("ul", { class: "notices", "aria-label": trans.__("Notices"), hidden: "" });

  const focusComposer = (): void => { composer?.focus(); };
  const compose = (text: string): void => {
    composer?.insert(text);
    focusComposer();
  };
  const restart = (): void => { chat.kernel?.restart().catch((error: unknown) => { home.tell(String(error)); }); };
  const close = (): void => {
    openView?.mounted?.dispose();
    openView = null;
    viewHost.hidden = true;
    viewHost.replaceChildren();
    runs.node.hidden = false;
    focusComposer();
  };
  const deps: PanelDeps = {
    trans,
    settings: () => home.settings(),
    close,
    compose,
    show: (run) => {
      close();
      runs.show(run);
    },
    announce: (text) => { setText(announcer, text); },
    run: (command, args) => home.run(command, args),
  };
  const open = (name: ViewName): void => {
    if (openView?.name === name) {
      close();
      return;
    }
    openView?.mounted?.dispose();
    viewHost.replaceChildren();
    const opened = (openView = { name, mounted: null as Disposable | null });
    viewHost.hidden = false;
    runs.node.hidden = true;
    void parts.view(name).then((mount) => {
      if (openView === opened) opened.mounted = mount(viewHost, chat, deps);
    });
  };
  const newSession = (): void => {
    if (openView) close();
    chat.request("session_new", {}).then(focusComposer, (error: unknown) => { home.tell(messageOf(error)); });
  };
  const more = (): readonly MenuItem[] => [{ label: trans.__("Log"), choose: () => { open("log"); } }, ...home.more()];

  const head = header({
    trans, newSession, sessions: () => { open("sessions"); }, settings: () => { home.openSettings(); }, help: () => { open("help"); },
    kernels: () => home.kernels(), more,
  });
  const note = connectionNote({ trans, again: () => { chat.again(); }, startKernel: () => { home.startKernel(); }, restart });
  const first = firstWords({ trans, compose, startKernel: () => { home.startKernel(); }, shortcut: home.shortcut });
  const runs = new RunList(first.node, {
    trans, restart, draw: () => parts.transcript(), showCell: (place) => { home.showCell(place); },
    send: (message) => { chat.send(message); },
  });
  const node = element(
    "section",
    { class: "cellwright-panel", tabindex: "-1", "aria-label": trans.__("Claude") },
    head.node, note.node, runs.node, viewHost, notices, barHost, composerHost, announcer,
  );
  host.replaceChildren(node);

  let frame = 0;
  let news = "";
  let asking = 0;
  const draw = (): void => {
    frame = 0;
    node.style.setProperty("--cw-size", `${home.settings().fontSize}px`);
    head.update(chat);
    note.update(chat);
    first.update(chat);
    runs.update(chat.runs);
    drawNotices(notices, chat.state?.notices ?? []);
    const now = newsOf(chat, trans);
    if (now !== news && now) setText(announcer, now);
    news = now;
    const questions = chat.state?.asking.length ?? 0;
    if (questions > asking) focusQuestion(node, composerHost);
    asking = questions;
  };
  const drawSoon = (): void => { frame ||= requestAnimationFrame(draw); };
  const stop = chat.subscribe(drawSoon);
  draw();
  runs.toEnd();

  node.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.defaultPrevented) return;
    event.stopPropagation();
    if (openView) close();
    else home.leave();
  });
  void parts.composer().then((mount) => {
    if (gone) return;
    const had = composerHost.contains(document.activeElement) || node.dataset.focus === "composer";
    composer = mount(composerHost, chat, { ...home.composer, trans, leave: () => { home.leave(); } });
    disposables.push(composer);
    if (had) composer.focus();
  });
  void parts.contextBar().then((mount) => {
    if (!gone) disposables.push(mount(barHost, chat, deps));
  });

  return {
    focusComposer: () => {
      if (openView) close();
      // it may be on its way
      node.dataset.focus = "composer";
      focusComposer();
    },
    compose,
    open,
    newSession,
    show: deps.show,
    dispose() {
      gone = true;
      stop();
      cancelAnimationFrame(frame);
      head.dispose();
      runs.dispose();
      openView?.mounted?.dispose();
      for (const each of disposables) each.dispose();
      host.replaceChildren();
    },
  };
}

function drawNotices(list: HTMLElement, texts: readonly string[]): void {
  const shown = texts.join("\n");
  if (list.dataset.shown === shown) return;
  list.dataset.shown = shown;
  list.hidden = texts.length === 0;
  list.replaceChildren(...texts.map((text) => element("li", {}, element("span", {}, text))));
}

/** What a screen reader says of the whole when it changes; each run says its own. */
function newsOf({ connection, place, waitsForCell }: ChatStore, trans: Trans): string {
  switch (connection) {
    case "connected":
      return trans.__("Connected to the kernel of %1", place?.notebook ?? trans.__("this panel"));
    case "connecting":
      return waitsForCell ? trans.__("Waiting for the cell that runs") : "";
    case "lost":
      return trans.__("The kernel is gone");
    case "missing":
      return trans.__("This kernel has no Cellwright");
    case "unsupported":
      return trans.__("This kernel has another version of Cellwright");
    case "none":
      return "";
    default:
      return connection satisfies never;
  }
}

/** Who has just sent a prompt, and is writing nothing, can answer a question at once. */
function focusQuestion(panel: HTMLElement, composer: HTMLElement): void {
  const writing = focused();
  if (!writing || !composer.contains(document.activeElement)) return;
  const text = writing instanceof HTMLTextAreaElement || writing instanceof HTMLInputElement ? writing.value : writing.textContent;
  if (text.trim()) return;
  let tries = 60;
  const attempt = (): void => {
    if (focused() !== writing) return;
    for (const answer of panel.querySelectorAll(".answer")) {
      const card = answer.shadowRoot?.querySelector<HTMLElement>(".ask[data-ready]");
      if (!card) continue;
      card.focus({ preventScroll: true });
      card.scrollIntoView({ block: "nearest" });
      return;
    }
    if (tries--) requestAnimationFrame(attempt);
  };
  attempt();
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
