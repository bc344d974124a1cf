/** The panel: head, runs, and the slots that other folders fill. Framework-free; JupyterLab's part is in panel_widget.ts. */

import type { Composer, ComposerDeps } from "../../composer/composer_deps";
import type { UndoableTurns } from "../../notebook/undo";
import { undoableTurns } from "../../notebook/undo";
import { addPageStyle } from "../../page";
import type { Disposable, Mount, MountComposer, PanelDeps, PanelSettings, Shortcut, ViewName } from "../../panel_view";
import { element, setText } from "../../transcript/dom";
import { guardFocus } from "../../transcript/focus";
import { sentence } from "../../transcript/visible_text";
import type { Trans } from "../../translation";
import type { Chat } from "../../transport/chat";
import type { Run } from "../../transport/chat_protocol";
import type { ChatStore } from "../../transport/chat_store";
import type { ServerApi } from "../../transport/server_api";
import { openAtPrompt } from "../demo_notebook";
import type { NotebookFacts } from "../notebook_facts";
import { whenLoaded } from "../stale_bundle";
import type { Branches } from "./branch_switch";
import type { ConnectionNote } from "./connection_note";
import { connectionNote } from "./connection_note";
import densityCss from "./density.css";
import type { PanelRegion } from "./f6_navigation";
import { focusQuestion, goToRegion, answerableCard, regionOf } from "./f6_navigation";
import { FirstPage } from "./first_page";
import firstPageCss from "./first_page.css";
import type { Header, MenuItem } from "./header";
import { header } from "./header";
import type { Way } from "./key_card";
import css from "./panel.css";
import { RunList } from "./run_list";
import type { DrawTranscript } from "./run_view";

/** The panel's parts, loaded when they are needed. */
export type PanelParts = {
  composer(): Promise<MountComposer>;
  contextBar(): Promise<Mount>;
  view(name: ViewName): Promise<Mount>;
  transcript(): Promise<DrawTranscript>;
};

/** The page as the panel sees it. */
export type PanelHost = {
  readonly trans: Trans;
  readonly parts: PanelParts;
  readonly composer: Omit<ComposerDeps, "trans" | "leave">;
  settings(): PanelSettings;
  /** The kernels that one can choose. */
  kernels(): readonly MenuItem[];
  startKernel(): void;
  readonly server: ServerApi;
  /** False while the page still finds out which kernel there is. */
  isSettled(): boolean;
  /** Of the notebook that the conversation is about. */
  notebookFacts(): NotebookFacts | null;
  /** The page's own items of the menu. */
  more(): readonly MenuItem[];
  showCell(place: string): void;
  /** Runs the cell at `place` anew if it still asks `prompt`; false where there is no such cell. */
  runCell(place: string, prompt: string): boolean;
  /** Gives the focus back to the notebook. */
  leave(): void;
  run(command: string, args?: Record<string, unknown>): Promise<unknown>;
  shortcuts(): readonly Shortcut[];
  tell(message: string): void;
  readonly forViews: Pick<PanelDeps, "setSetting" | "overview" | "goToKernel">;
};

/** Taking back a turn with many files may take a while. */
const UNDO_TIMEOUT_MS = 60_000;
/** Views that are read or filled in: nothing is asked there, and they need the height. */
const WITHOUT_COMPOSER: ReadonlySet<ViewName> = new Set(["manage", "settings", "help"]);

let styled = false;

export class Panel implements Disposable {
  private readonly node: HTMLElement;
  private readonly head: Header;
  private readonly note: ConnectionNote;
  private readonly first: FirstPage;
  private readonly runs: RunList;
  private readonly view: HTMLElement;
  private readonly contextBarSlot = element("div", { class: "cellwright-slot bar" });
  private readonly composerSlot = element("div", { class: "cellwright-slot composer" });
  private readonly announcer = element("p", { class: "unseen", role: "status", "aria-live": "polite" });
  private readonly notices: HTMLElement;
  private readonly disposables: Disposable[] = [];
  private readonly deps: PanelDeps;
  private composer: Composer | null = null;
  /** The text for the composer when it is there; null: nobody has asked for it yet. */
  private pendingText: string | null = null;
  private opened: { readonly name: ViewName; mounted: Disposable | null } | null = null;
  private disposed = false;
  private frame = 0;
  private announced = "";
  private undoable: Promise<UndoableTurns | null> | null = null;
  private asking = 0;
  private branches: Branches = {};
  private branchesOf = "";
  /** The turn at whose prompt the user has gone to another branch. */
  private branchTurn: number | null = null;

  /** Fills `host` with the panel. */
  constructor(
    private readonly host: HTMLElement,
    private readonly chat: ChatStore,
    private readonly page: PanelHost,
  ) {
    if (!styled) addPageStyle(css + firstPageCss + densityCss);
    styled = true;
    const { trans } = page;
    this.deps = this.slotDeps();
    const restart = (): void => { this.restart(); };
    const startKernel = (): void => { page.startKernel(); };
    this.head = header({
      trans,
      newSession: () => { this.newSession(); },
      sessions: () => { this.open("sessions"); },
      settings: () => { this.open("settings"); },
      help: () => { this.open("help"); },
      kernels: () => page.kernels(),
      more: () => [
        { label: trans.__("All sessions"), choose: () => { this.open("overview"); } },
        { label: trans.__("Manage…"), choose: () => { this.open("manage"); } },
        { label: trans.__("Log"), choose: () => { this.open("log"); } },
        ...page.more(),
      ],
    });
    this.note = connectionNote({ trans, again: () => { chat.reconnect(); }, startKernel, restart });
    this.first = new FirstPage(chat, {
      trans, startKernel,
      server: page.server,
      shortcut: page.shortcuts().find(({ command }) => command === "cellwright:focus-composer")?.keys ?? "",
      facts: () => page.notebookFacts(),
      isSettled: () => page.isSettled(),
      compose: (text) => { this.compose(text); },
      focusComposer: () => { this.focusComposer(); },
      keyNeeded: () => { if (this.isPromptEmpty) this.first.card.focus(); },
      openNotebook: (path) => openAtPrompt(path, (command, args) => page.run(command, args)),
      announce: (text) => { setText(this.announcer, text); },
      tell: (message) => { page.tell(message); },
    });
    this.runs = new RunList(this.first.node, {
      trans, restart,
      draw: () => page.parts.transcript(),
      showCell: (kernelInfo) => { page.showCell(kernelInfo); },
      send: (message) => { chat.send(message); },
      again: (run) => {
        if (run.action) this.askAction(run.action);
        // as a cell asks it: with the budget, the mode and the model of its first line
        else if (!page.runCell(run.place, run.prompt)) this.ask(run.prompt);
      },
      ask: (prompt) => { this.ask(prompt); },
      edit: (run, text) => { void this.askAnew(run, (like) => { this.ask(text, like); }); },
      retry: (run) => {
        void this.askAnew(run, (like) => { if (!page.runCell(run.place, run.prompt)) this.ask(run.prompt, like); });
      },
      openBranch: (session, turn) => {
        this.branchTurn = turn;
        chat.request("session_resume", { id: session }).catch((error: unknown) => {
          this.branchTurn = null;
          this.tell(error);
        });
      },
      sendKey: () => page.settings().sendKey,
      request: (method, params) => chat.request(method, params, UNDO_TIMEOUT_MS),
      canUndo: (session, turn) => {
        // all turns of a conversation that is drawn ask at once
        this.undoable ??= undoableTurns((method, params) => chat.request(method, params)).finally(() => { this.undoable = null; });
        return this.undoable.then((there) => there?.session === session && there.turns.includes(turn));
      },
    });
    this.view = element("div", { class: "cellwright-slot view", hidden: "" });
    this.notices = element("ul", { class: "notices", "aria-label": trans.__("Notices"), hidden: "" });
    this.node = element(
      "section",
      { class: "cellwright-panel", tabindex: "-1", "aria-label": trans.__("Claude") },
      this.head.node, this.note.node, this.first.card.node, this.runs.node, this.view, this.notices, this.composerSlot, this.announcer,
    );
    host.replaceChildren(this.node);
    this.begin();
  }

  /** Brings the keyboard to the composer, now or when it is there; to the field for a key while Claude needs one. */
  focusComposer(): void {
    if (this.opened) this.close();
    else this.focusWriting();
  }

  private focusWriting(): void {
    // a key that is pasted at once should not become a prompt
    if (!this.composer?.hasText && this.first.card.focus()) return;
    if (this.composer) this.composer.focus();
    else this.pendingText ??= "";
  }

  /** The keyboard is in the composer, or about to be, and nothing is written there. */
  private get isPromptEmpty(): boolean {
    const { composer } = this;
    return composer ? !composer.hasText && this.composerSlot.contains(document.activeElement) : this.pendingText === "";
  }

  /** Shows the end of the conversation, where the answer to what is sent comes. */
  showEnd(): void {
    this.runs.toEnd();
  }

  /** Puts text into the composer, for the user to go on with. */
  compose(text: string): void {
    if (this.opened) this.close();
    if (this.composer) {
      this.composer.focus();
      this.composer.insert(text);
    } else this.pendingText = (this.pendingText ?? "") + text;
  }

  /** Opens a view in the place of the runs; the one that is open is closed. */
  open(name: ViewName): void {
    const again = this.opened?.name === name;
    this.close();
    if (again) return;
    const opened = (this.opened = { name, mounted: null as Disposable | null });
    this.view.hidden = false;
    this.runs.node.hidden = true;
    this.composerSlot.hidden = WITHOUT_COMPOSER.has(name);
    // the view has the keyboard, also where the composer comes later
    if (this.pendingText === "") this.pendingText = null;
    whenLoaded(this.page.parts.view(name), this.view, this.page.trans, (mount) => {
      if (this.opened === opened) opened.mounted = mount(this.view, this.chat, this.deps);
    });
  }

  /** Shows the card in which a key is entered, with one of its ways open. */
  enterKey(way: Way = "key"): void {
    this.close();
    this.first.askForKey(way);
  }

  newSession(): void {
    this.close();
    this.chat.request("session_new", {}).catch((error: unknown) => {
      this.page.tell(error instanceof Error ? error.message : String(error));
    });
  }

  /** Scrolls to a run and gives it the focus. */
  show(run: string): void {
    this.close();
    this.runs.show(run);
  }

  /** Scrolls to the newest words, and stays there. */
  toEnd(): void {
    this.runs.toEnd();
  }

  /** Gives the focus to the next part of the panel, or to the one before. */
  goToRegion(step: 1 | -1): void {
    goToRegion(this.regions(), step);
  }

  dispose(): void {
    this.disposed = true;
    cancelAnimationFrame(this.frame);
    this.opened?.mounted?.dispose();
    for (const each of this.disposables) each.dispose();
    this.host.replaceChildren();
  }

  private begin(): void {
    const { chat, page: home } = this;
    const stop = chat.subscribe(() => { this.frame ||= requestAnimationFrame(() => { this.draw(); }); });
    this.disposables.push({ dispose: stop }, { dispose: guardFocus(this.node) }, this.head, this.runs, this.first);
    this.node.addEventListener("keydown", (event) => { this.leaveByEscape(event); });
    this.draw();
    this.runs.toEnd();
    whenLoaded(home.parts.composer(), this.composerSlot, home.trans, (mount) => { this.mountComposer(mount); });
    whenLoaded(home.parts.contextBar(), this.contextBarSlot, home.trans, (mount) => {
      if (!this.disposed) this.disposables.push(mount(this.contextBarSlot, chat, this.deps));
    });
  }

  /** From top to bottom, without those that are not there now. */
  private regions(): PanelRegion[] {
    const { composer } = this;
    const card = this.opened ? null : answerableCard(this.node);
    const question: PanelRegion | null = card && { node: card, focus: () => { card.focus(); } };
    return [
      regionOf(this.head.node),
      regionOf(this.note.node),
      regionOf(this.first.card.node),
      regionOf(this.opened ? this.view : this.runs.node),
      question,
      regionOf(this.contextBarSlot),
      composer && !this.composerSlot.hidden && { node: this.composerSlot, focus: () => { composer.focus(); } },
    ].filter((region) => !!region);
  }

  private slotDeps(): PanelDeps {
    const { page: home } = this;
    return {
      trans: home.trans,
      settings: () => home.settings(),
      startKernel: () => { home.startKernel(); },
      close: () => { this.close(); },
      compose: (text) => { this.compose(text); },
      show: (run) => { this.show(run); },
      announce: (text) => { setText(this.announcer, text); },
      run: (command, args) => home.run(command, args),
      shortcuts: () => home.shortcuts(),
      ...home.forViews,
    };
  }

  /** Sends a prompt that was said before, or other words in its place; with what was sent with the run `like`. */
  private ask(text: string, like?: string): void {
    const { context } = this.page.settings();
    this.runs.toEnd();
    this.chat.prompt({ text, attachments: [], context, cell: null, options: {}, ...(like ? { like } : {}) }).catch((error: unknown) => { this.tell(error); });
  }

  /** Asks for an action on a cell again. */
  private askAction({ path, id, ...action }: NonNullable<Run["action"]>): void {
    this.runs.toEnd();
    const cell = { path, id, selection: "" };
    const { context } = this.page.settings();
    this.chat.prompt({ text: "", attachments: [], context, cell, options: {}, action }).catch((error: unknown) => { this.tell(error); });
  }

  /** Has `ask` take the place of a turn's prompt, in a copy of the session up to there: the session itself stays as it is. */
  private async askAnew(run: Run, ask: (like: string) => void): Promise<void> {
    const { chat } = this;
    const before = (run.turn ?? 1) - 1;
    try {
      await chat.request("session_fork", { id: run.session, turn: before });
      ask(run.id);
    } catch (error) {
      this.tell(error);
    }
  }

  private drawBranches(): void {
    const { chat, runs } = this;
    const session = chat.connection === "connected" ? (chat.state?.session ?? null) : null;
    this.lookForBranches(session && session.turns > 0 ? `${session.id} ${session.turns}` : "");
    runs.showBranches(chat.runs, session?.id ?? "", this.branches);
    if (session && this.branchTurn !== null) this.focusBranches(session.id, this.branchTurn);
  }

  /** The kernel is asked whenever the session, or the number of its turns, is another. */
  private lookForBranches(of: string): void {
    if (of === this.branchesOf) return;
    this.branchesOf = of;
    this.branches = {};
    if (of) void this.askForBranches(of);
  }

  /** The user went to `session` at its turn `turn`, whose prompt may not be there yet. */
  private focusBranches(session: string, turn: number): void {
    const found = this.chat.runs.find(({ run }) => run.session === session && run.turn === turn);
    if (!found || !this.branches[turn]) return;
    this.branchTurn = null;
    // who has gone on meanwhile keeps the focus
    if (document.activeElement === document.body || this.node.contains(document.activeElement)) this.runs.focusBranches(found.run.id);
  }

  private async askForBranches(of: string): Promise<void> {
    const answer = (await this.chat.request("session_branches", {}).catch(() => null)) as { turns?: Branches } | null;
    if (this.disposed || of !== this.branchesOf) return;
    this.branches = answer?.turns ?? {};
    this.drawBranches();
  }

  private tell(error: unknown): void {
    this.page.tell(error instanceof Error ? error.message : String(error));
  }

  private draw(): void {
    const { chat, page: home } = this;
    this.frame = 0;
    this.node.style.setProperty("--cw-size", `${home.settings().fontSize}px`);
    this.node.dataset.density = home.settings().density;
    this.head.update(chat);
    this.note.update(chat);
    this.first.update();
    this.node.classList.toggle("no-key", this.first.needsKey);
    this.runs.update(chat.runs);
    this.drawBranches();
    drawNotices(this.notices, chat.state?.notices ?? []);
    const news = ariaLiveText(chat, home.trans);
    if (news && news !== this.announced) setText(this.announcer, news);
    this.announced = news;
    const asking = chat.state?.asking.length ?? 0;
    if (asking > this.asking) focusQuestion(this.node, this.composerSlot);
    this.asking = asking;
  }

  private mountComposer(mount: MountComposer): void {
    if (this.disposed) return;
    const { page: home } = this;
    const composer = mount(this.composerSlot, this.chat, { ...home.composer, trans: home.trans, leave: () => { home.leave(); } });
    this.composer = composer;
    composer.aside.append(this.contextBarSlot);
    this.disposables.push(composer);
    if (this.pendingText === null) return;
    this.focusWriting();
    if (this.pendingText) composer.insert(this.pendingText);
  }

  /** Closes the view that is open, and goes back to the composer. */
  private close(): void {
    if (!this.opened) return;
    this.opened.mounted?.dispose();
    this.opened = null;
    this.view.hidden = true;
    this.view.replaceChildren();
    this.runs.node.hidden = false;
    this.composerSlot.hidden = false;
    this.focusWriting();
  }

  private leaveByEscape(event: KeyboardEvent): void {
    if (event.key !== "Escape" || event.defaultPrevented) return;
    event.stopPropagation();
    if (this.opened) this.close();
    else this.page.leave();
  }

  private restart(): void {
    this.chat.kernel?.restart().catch((error: unknown) => { this.page.tell(String(error)); });
  }
}

function drawNotices(list: HTMLElement, texts: readonly string[]): void {
  const shown = texts.join("\n");
  if (list.dataset.shown === shown) return;
  list.dataset.shown = shown;
  list.hidden = texts.length === 0;
  list.replaceChildren(...texts.map((text) => element("li", {}, ...sentence(text))));
}

// The text that a screen reader says of the panel as a whole when it changes; each run says its own.

export function ariaLiveText({ connection, kernelInfo, waitsForCell, runs }: Chat, trans: Trans): string {
  switch (connection) {
    case "connected":
      if (runs.at(-1)?.restarted) return trans.__("The kernel restarted; its variables are gone.");
      return trans.__("Connected to the kernel of %1", kernelInfo?.notebook ?? trans.__("this panel"));
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
