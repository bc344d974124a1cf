/** The panel: head, runs, and the slots that other folders fill. Framework-free; JupyterLab's part is in panel_widget.ts. */

import type { Composer, ComposerDeps } from "../../composer/composer_deps";
import { addPageStyle } from "../../page";
import type { Disposable, Mount, MountComposer, PanelDeps, PanelSettings, Shortcut, ViewName } from "../../panel_view";
import { element, setText } from "../../transcript/dom";
import { keepKeyboard } from "../../transcript/focus";
import type { Trans } from "../../translation";
import type { Chat } from "../../transport/chat";
import type { ChatStore } from "../../transport/chat_store";
import { whenLoaded } from "../stale_bundle";
import type { ConnectionNote, FirstWords } from "./empty_state";
import { connectionNote, firstWords } from "./empty_state";
import type { Region } from "./f6_navigation";
import { focusQuestion, goToRegion, readyCard, regionOf } from "./f6_navigation";
import type { Header, MenuItem } from "./header";
import { header } from "./header";
import css from "./panel.css";
import { RunList } from "./run_list";
import type { DrawTranscript } from "./run_view";

/** The panel's parts, loaded when they are needed. */
export type Parts = {
  composer(): Promise<MountComposer>;
  contextBar(): Promise<Mount>;
  view(name: ViewName): Promise<Mount>;
  transcript(): Promise<DrawTranscript>;
};

/** What the page around the panel does for it. */
export type PanelHome = {
  readonly trans: Trans;
  readonly parts: Parts;
  readonly composer: Omit<ComposerDeps, "trans" | "leave">;
  settings(): PanelSettings;
  /** The kernels that one can choose. */
  kernels(): readonly MenuItem[];
  startKernel(): void;
  /** What else the menu has: what belongs to the page. */
  more(): readonly MenuItem[];
  openSettings(): void;
  showCell(place: string): void;
  /** Gives the focus back to the notebook. */
  leave(): void;
  run(command: string, args?: Record<string, unknown>): Promise<unknown>;
  shortcuts(): readonly Shortcut[];
  tell(message: string): void;
};

let styled = false;

export class Panel implements Disposable {
  private readonly node: HTMLElement;
  private readonly head: Header;
  private readonly note: ConnectionNote;
  private readonly first: FirstWords;
  private readonly runs: RunList;
  private readonly view: HTMLElement;
  private readonly bar = element("div", { class: "cellwright-slot bar" });
  private readonly below = element("div", { class: "cellwright-slot composer" });
  private readonly announcer = element("p", { class: "unseen", role: "status", "aria-live": "polite" });
  private readonly notices: HTMLElement;
  private readonly disposables: Disposable[] = [];
  private readonly deps: PanelDeps;
  private composer: Composer | null = null;
  /** What is to be put into the composer when it is there; null: nobody has asked for it yet. */
  private early: string | null = null;
  private opened: { readonly name: ViewName; mounted: Disposable | null } | null = null;
  private gone = false;
  private frame = 0;
  private news = "";
  private asking = 0;

  /** Fills `host` with the panel. */
  constructor(
    private readonly host: HTMLElement,
    private readonly chat: ChatStore,
    private readonly home: PanelHome,
  ) {
    if (!styled) addPageStyle(css);
    styled = true;
    const { trans } = home;
    this.deps = this.slotDeps();
    const restart = (): void => { this.restart(); };
    const startKernel = (): void => { home.startKernel(); };
    this.head = header({
      trans,
      newSession: () => { this.newSession(); },
      sessions: () => { this.open("sessions"); },
      settings: () => { home.openSettings(); },
      help: () => { this.open("help"); },
      kernels: () => home.kernels(),
      more: () => [{ label: trans.__("Log"), choose: () => { this.open("log"); } }, ...home.more()],
    });
    this.note = connectionNote({ trans, again: () => { chat.again(); }, startKernel, restart });
    this.first = firstWords({ trans, compose: (text) => { this.compose(text); }, startKernel, shortcut: home.shortcuts()[0]?.keys ?? "" });
    this.runs = new RunList(this.first.node, {
      trans, restart,
      draw: () => home.parts.transcript(),
      showCell: (place) => { home.showCell(place); },
      send: (message) => { chat.send(message); },
    });
    this.view = element("div", { class: "cellwright-slot view", hidden: "" });
    this.notices = element("ul", { class: "notices", "aria-label": trans.__("Notices"), hidden: "" });
    this.node = element(
      "section",
      { class: "cellwright-panel", tabindex: "-1", "aria-label": trans.__("Claude") },
      this.head.node, this.note.node, this.runs.node, this.view, this.notices, this.bar, this.below, this.announcer,
    );
    host.replaceChildren(this.node);
    this.begin();
  }

  /** Brings the keyboard to the composer, now or when it is there. */
  focusComposer(): void {
    const { composer } = this;
    if (this.opened) this.close();
    else if (composer) composer.focus();
    else this.early ??= "";
  }

  /** Puts text into the composer, for the user to go on with. */
  compose(text: string): void {
    this.focusComposer();
    if (this.composer) this.composer.insert(text);
    else this.early = (this.early ?? "") + text;
  }

  /** Opens a view in the place of the runs; the one that is open is closed. */
  open(name: ViewName): void {
    const again = this.opened?.name === name;
    this.close();
    if (again) return;
    const opened = (this.opened = { name, mounted: null as Disposable | null });
    this.view.hidden = false;
    this.runs.node.hidden = true;
    whenLoaded(this.home.parts.view(name), this.view, this.home.trans, (mount) => {
      if (this.opened === opened) opened.mounted = mount(this.view, this.chat, this.deps);
    });
  }

  newSession(): void {
    this.close();
    this.chat.request("session_new", {}).catch((error: unknown) => {
      this.home.tell(error instanceof Error ? error.message : String(error));
    });
  }

  /** Scrolls to a run and gives it the focus. */
  show(run: string): void {
    this.close();
    this.runs.show(run);
  }

  /** Gives the focus to the next part of the panel, or to the one before. */
  goToRegion(step: 1 | -1): void {
    goToRegion(this.regions(), step);
  }

  dispose(): void {
    this.gone = true;
    cancelAnimationFrame(this.frame);
    this.opened?.mounted?.dispose();
    for (const each of this.disposables) each.dispose();
    this.host.replaceChildren();
  }

  private begin(): void {
    const { chat, home } = this;
    const stop = chat.subscribe(() => { this.frame ||= requestAnimationFrame(() => { this.draw(); }); });
    this.disposables.push({ dispose: stop }, { dispose: keepKeyboard(this.node) }, this.head, this.runs);
    this.node.addEventListener("keydown", (event) => { this.leaveByEscape(event); });
    this.draw();
    this.runs.toEnd();
    whenLoaded(home.parts.composer(), this.below, home.trans, (mount) => { this.mountComposer(mount); });
    whenLoaded(home.parts.contextBar(), this.bar, home.trans, (mount) => {
      if (!this.gone) this.disposables.push(mount(this.bar, chat, this.deps));
    });
  }

  /** From top to bottom, without those that are not there now. */
  private regions(): Region[] {
    const { composer } = this;
    const card = this.opened ? null : readyCard(this.node);
    const question: Region | null = card && { node: card, focus: () => { card.focus(); } };
    return [
      regionOf(this.head.node),
      regionOf(this.note.node),
      regionOf(this.opened ? this.view : this.runs.node),
      question,
      regionOf(this.bar),
      composer && { node: this.below, focus: () => { composer.focus(); } },
    ].filter((region) => region != null);
  }

  private slotDeps(): PanelDeps {
    const { home } = this;
    return {
      trans: home.trans,
      settings: () => home.settings(),
      close: () => { this.close(); },
      compose: (text) => { this.compose(text); },
      show: (run) => { this.show(run); },
      announce: (text) => { setText(this.announcer, text); },
      run: (command, args) => home.run(command, args),
      shortcuts: () => home.shortcuts(),
    };
  }

  private draw(): void {
    const { chat, home } = this;
    this.frame = 0;
    this.node.style.setProperty("--cw-size", `${home.settings().fontSize}px`);
    this.head.update(chat);
    this.note.update(chat);
    this.first.update(chat);
    this.runs.update(chat.runs);
    drawNotices(this.notices, chat.state?.notices ?? []);
    const news = panelNews(chat, home.trans);
    if (news && news !== this.news) setText(this.announcer, news);
    this.news = news;
    const asking = chat.state?.asking.length ?? 0;
    if (asking > this.asking) focusQuestion(this.node, this.below);
    this.asking = asking;
  }

  private mountComposer(mount: MountComposer): void {
    if (this.gone) return;
    const { home } = this;
    const composer = mount(this.below, this.chat, { ...home.composer, trans: home.trans, leave: () => { home.leave(); } });
    this.composer = composer;
    this.disposables.push(composer);
    if (this.early === null) return;
    composer.focus();
    if (this.early) composer.insert(this.early);
  }

  /** Closes the view that is open, and goes back to the composer. */
  private close(): void {
    if (!this.opened) return;
    this.opened.mounted?.dispose();
    this.opened = null;
    this.view.hidden = true;
    this.view.replaceChildren();
    this.runs.node.hidden = false;
    this.composer?.focus();
  }

  private leaveByEscape(event: KeyboardEvent): void {
    if (event.key !== "Escape" || event.defaultPrevented) return;
    event.stopPropagation();
    if (this.opened) this.close();
    else this.home.leave();
  }

  private restart(): void {
    this.chat.kernel?.restart().catch((error: unknown) => { this.home.tell(String(error)); });
  }
}

function drawNotices(list: HTMLElement, texts: readonly string[]): void {
  const shown = texts.join("\n");
  if (list.dataset.shown === shown) return;
  list.dataset.shown = shown;
  list.hidden = texts.length === 0;
  list.replaceChildren(...texts.map((text) => element("li", {}, text)));
}

// What a screen reader says of the panel as a whole when it changes; each run says its own.

export function panelNews({ connection, place, waitsForCell }: Chat, trans: Trans): string {
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
