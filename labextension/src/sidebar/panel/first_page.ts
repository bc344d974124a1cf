/** What stands in the panel while nothing is said: the card for who has no key, else the start page; and when each is asked for. */

import type { JsonObject } from "../../json";
import type { Disposable } from "../../panel_view";
import { element } from "../../transcript/dom";
import type { Trans } from "../../translation";
import type { ChatStore } from "../../transport/chat_store";
import type { KeyReport, ServerApi } from "../../transport/server_api";
import type { NotebookFacts } from "../notebook_facts";
import type { KeyCard, KeyCardReason, Way } from "./key_card";
import { keyCard } from "./key_card";
import type { KernelStart, StartPage } from "./start_page";
import { kernelStart, startPage } from "./start_page";

export type FirstPageDeps = {
  readonly trans: Trans;
  readonly shortcut: string;
  readonly server: ServerApi;
  facts(): NotebookFacts | null;
  /** False while the page still finds out which kernel there is. */
  isSettled(): boolean;
  compose(text: string): void;
  focusComposer(): void;
  /** The card came because nothing gives a key: a prompt cannot be answered before. */
  keyNeeded(): void;
  startKernel(): void;
  openNotebook(path: string): Promise<unknown>;
  announce(text: string): void;
  tell(message: string): void;
};

/** What is not known by then is taken for nothing. */
const LOADING_MS = 10_000;
/** The demo was chosen in this page: each kernel's card stays away until it is asked for, the demo's own one first of all. */
let demoChosen = false;

export class FirstPage implements Disposable {
  readonly node: HTMLElement;
  /** The card stands on its own, above whatever is there. */
  readonly card: KeyCard;
  private readonly page: StartPage;
  private readonly done = element("p", { class: "key-done", role: "status", hidden: "" });
  private readonly loading: HTMLElement;
  private start: KernelStart | null = null;
  private key: KeyReport | null = null;
  /** The conversation before which the key was accepted: what is said of it gives way to the next. */
  private doneOf = "";
  private asked = false;
  /** The kernel that has said what the page shows. */
  private knownOf: string | null = null;
  /** The kernel that is waited for, until when. */
  private loadingOf: string | null = null;
  private loadingTimer: ReturnType<typeof setTimeout> | undefined;
  private of = "";
  private disposed = false;

  constructor(private readonly chat: ChatStore, private readonly deps: FirstPageDeps) {
    const { trans, server } = deps;
    this.page = startPage({
      trans, shortcut: deps.shortcut,
      compose: (text) => { deps.compose(text); },
      startKernel: () => { deps.startKernel(); },
      resume: (id) => { this.resume(id); },
    });
    this.card = keyCard({
      trans, server,
      source: () => this.source(),
      openNotebook: (path) => deps.openNotebook(path),
      demoOpened: () => {
        this.asked = false;
        demoChosen = true;
        this.draw();
        deps.announce(trans.__("The demo is open. Run its cells from top to bottom."));
      },
      done: (words) => { this.accepted(words); },
      close: () => {
        this.asked = false;
        this.draw();
        deps.focusComposer();
      },
    });
    this.loading = element("p", { class: "loading", role: "status" }, trans.__("Loading…"));
    this.node = element("div", { class: "first-page" }, this.done, this.loading, this.page.node);
  }

  /** Looks whether something is another than when the page was drawn last, and asks for what it does not know. */
  update(): void {
    const { chat } = this;
    const of = JSON.stringify([chat.connection, chat.kernelInfo?.kernelId, chat.state?.session.id, chat.state?.kernel.busy, chat.state?.current, chat.state?.scripted]);
    if (of !== this.of && this.isNeeded) {
      this.of = of;
      void this.refresh();
    }
    this.draw();
  }

  /** Nothing gives a key, and the card says so. */
  get needsKey(): boolean {
    return !this.card.node.hidden && this.card.node.dataset.reason !== "asked";
  }

  /** Shows the card, whatever there is, with one of its ways open. */
  askForKey(way: Way): void {
    this.asked = true;
    this.draw();
    this.card.take(way);
  }

  dispose(): void {
    this.disposed = true;
    clearTimeout(this.loadingTimer);
  }

  /** The start page is there, or it is not known whether there is a key; who has one is not asked about it again and again. */
  private get isNeeded(): boolean {
    return this.isReachable && (this.isFirst || typeof this.key?.source !== "string");
  }

  /** Nothing keeps one from saying something. */
  private get isReachable(): boolean {
    return this.chat.connection === "connected" || this.chat.connection === "none";
  }

  /** Nothing was said yet. */
  private get isFirst(): boolean {
    return this.isReachable && this.chat.runs.length === 0;
  }

  private get conversation(): string {
    const { chat } = this;
    return JSON.stringify([chat.kernelInfo?.kernelId, chat.state?.session.id, chat.runs.length === 0]);
  }

  private get place(): string {
    return JSON.stringify([this.chat.connection, this.chat.kernelInfo?.kernelId]);
  }

  /** True while it is not known whether there is a key, and whether anything was said: nothing of the first page is right then. */
  private get isLoading(): boolean {
    const { chat } = this;
    if (chat.runs.length > 0) return false;
    if (chat.connection === "connecting") return !chat.waitsForCell;
    if (!this.isReachable) return false;
    if (this.knownOf !== this.place) return true;
    if (chat.connection === "none") return !this.deps.isSettled();
    // its turns are drawn from the transcript, or a run is about to be shown
    return chat.isRestoring || chat.state === null || chat.state.session.turns > 0 || chat.state.current !== null;
  }

  /** As `isLoading`, but not for ever: a conversation that cannot be drawn is none to wait for. */
  private get showsLoading(): boolean {
    const loads = this.isLoading;
    const { place } = this;
    if (!loads || this.loadingOf !== place) {
      clearTimeout(this.loadingTimer);
      this.loadingTimer = undefined;
      this.loadingOf = loads ? place : null;
      if (loads && this.chat.connection !== "connecting") {
        this.loadingTimer = setTimeout(() => {
          this.loadingTimer = undefined;
          this.draw();
        }, LOADING_MS);
      }
      return loads;
    }
    return this.chat.connection === "connecting" || this.loadingTimer !== undefined;
  }

  private async refresh(): Promise<void> {
    const { place } = this;
    if (this.chat.connection === "connected") {
      const answer = await this.chat.request("start", {}).catch(() => null);
      this.start = kernelStart(answer as JsonObject | null);
      this.key = this.start?.key ?? null;
    } else {
      this.start = null;
      this.key = await this.deps.server.key();
    }
    this.knownOf = place;
    if (!this.disposed) this.draw();
  }

  private async source(): Promise<string | null | undefined> {
    await this.refresh();
    return this.chat.connection === "connected" ? this.start?.key.source : undefined;
  }

  private draw(): void {
    if (this.doneOf !== this.conversation) this.done.hidden = true;
    const reason = this.cardReason();
    const comes = reason === "needed" && this.card.node.hidden;
    if (reason) this.card.show(reason);
    else this.card.hide();
    if (comes) this.deps.keyNeeded();
    if (this.chat.needsKey !== this.needsKey) {
      this.chat.needsKey = this.needsKey;
      this.chat.notify();
    }
    const loading = this.showsLoading;
    this.loading.hidden = !loading;
    this.page.node.hidden = loading;
    this.node.hidden = (!this.isFirst && !loading) || reason !== null;
    if (!this.node.hidden && !loading) this.page.update(this.chat, this.start, this.deps.facts());
  }

  /** Why the card is there now; null: it is not. */
  private cardReason(): KeyCardReason | null {
    const { key } = this;
    const lacking = this.isReachable && this.knownOf === this.place && key?.source === null && !demoChosen;
    if (!lacking && !this.asked) return null;
    if (key?.own_credentials === false) return "refused";
    return lacking ? "needed" : "asked";
  }

  private accepted(words: string): void {
    this.asked = false;
    this.done.textContent = words;
    this.done.hidden = false;
    this.doneOf = this.conversation;
    this.draw();
    if (this.node.hidden) this.deps.announce(words);
    this.deps.focusComposer();
  }

  private resume(id: string): void {
    this.chat.request("session_resume", { id }).catch((error: unknown) => { this.deps.tell(error instanceof Error ? error.message : String(error)); });
  }
}
