/** The answer to what was asked about a cell, below that cell. It is no part of the notebook until it is kept. */

import type { DrawTranscript } from "../../sidebar/panel/run_view";
import { whenLoaded } from "../../sidebar/stale_bundle";
import { button, element, freshId, setText } from "../../transcript/dom";
import { guardFocus } from "../../transcript/focus";
import type { PageAction } from "../../transcript/items/page_actions";
import { ACTION_EVENT } from "../../transcript/items/page_actions";
import type { BrowserMessage } from "../../transcript/protocol";
import type { Trans } from "../../translation";
import type { RunTranscript } from "../../transport/chat";
import type { ChatStore } from "../../transport/chat_store";
import { addLiveAnswer } from "../answers/live_answers";

export const STRIP_CLASS = "cellwright-strip";

const PROPOSAL = ".cellwright-proposal";
/** The time in which a proposal is at its cell, if its notebook is open in this page. */
const PROPOSAL_MS = 1_500;
const OVER: readonly string[] = ["done", "failed", "interrupted"];

export type StripDeps = {
  readonly trans: Trans;
  readonly chat: ChatStore;
  /** The request in a few words: `Explain cell [3]`. */
  readonly title: string;
  /** The number of the cell that it is about; null for none. */
  readonly count: number | null;
  /** True if the run is there for a change: once that is made, nothing of it stays. */
  readonly changes: boolean;
  draw(): Promise<DrawTranscript>;
  /** Sends the request; gives the run's id. */
  send(): Promise<string>;
  /** Makes a cell of the run's answer. */
  keep(run: string): Promise<void>;
  /** Gives the focus back to the notebook. */
  leave(): void;
  /** Has a screen reader say it. */
  announce(text: string): void;
  /** The strip goes. */
  closed(): void;
};

export class AnswerStrip {
  readonly node: HTMLElement;
  private readonly host = element("div");
  // the host of a transcript is as wide as what it stands in, and takes no padding
  private readonly answer = element("div", { class: "cellwright-strip-answer", id: freshId() }, this.host);
  private readonly status = element("span", { class: "cellwright-strip-status" });
  private readonly problem = element("p", { class: "cellwright-strip-problem", role: "alert", hidden: "" });
  private readonly details: HTMLButtonElement;
  private readonly again: HTMLButtonElement;
  private readonly stop: HTMLButtonElement;
  private readonly keep: HTMLButtonElement;
  private readonly dismiss: HTMLButtonElement;
  private readonly stops: (() => void)[];
  private run: string | null = null;
  private shown: RunTranscript | null = null;
  private undraw: (() => void) | null = null;
  private unwatch = (): void => undefined;
  /** Takes the run out of the status bar. */
  private unlist = (): void => undefined;
  private failed = "";
  private cancelled = false;
  private announced = "";
  /** The user's choice; null: the transcript is there when it is needed. */
  private wantsDetails: boolean | null = null;
  private proposalTimer: ReturnType<typeof setTimeout> | undefined;
  private isClosed = false;

  constructor(private readonly deps: StripDeps) {
    const { trans, title, chat } = deps;
    this.details = button(trans.__("Details"), () => {
      this.wantsDetails = this.answer.hidden;
      this.update();
    }, { "aria-controls": this.answer.id });
    this.again = button(trans.__("Try again"), () => { this.ask(); });
    this.stop = button(trans.__("Stop"), () => { this.interrupt(); });
    this.keep = button(trans.__("Keep as cell"), () => { void this.keepAnswer(); });
    this.dismiss = button(trans.__("Dismiss"), () => { this.close(); }, { "aria-keyshortcuts": "Escape" });
    const head = element(
      "header", {},
      element("b", { dir: "auto" }, title), this.status, element("span", { class: "cellwright-strip-buttons" }, this.details, this.again, this.stop, this.keep, this.dismiss),
    );
    this.node = element("section", { class: STRIP_CLASS, tabindex: "-1", "aria-label": trans.__("Claude: %1", title) }, head, this.problem, this.answer);
    this.node.addEventListener("keydown", (event) => { this.keyPressed(event); });
    this.node.addEventListener(ACTION_EVENT, (event) => {
      if ((event as CustomEvent<PageAction>).detail.action !== "again") return;
      event.preventDefault();
      this.ask();
    });
    this.stops = [chat.subscribe(() => { this.update(); }), guardFocus(this.node)];
    this.ask();
  }

  /** True until the run has ended, or could not begin. */
  get isOpen(): boolean {
    return !this.isOver && this.failed === "";
  }

  focus(): void {
    this.node.scrollIntoView({ block: "nearest" });
    this.node.focus({ preventScroll: true });
  }

  /** True if the keyboard is in the strip. */
  get hasFocus(): boolean {
    return this.node.contains(document.activeElement);
  }

  /** Takes it out of the page. A run that goes on is not stopped. */
  close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    const hadFocus = this.hasFocus;
    for (const stop of this.stops) stop();
    clearTimeout(this.proposalTimer);
    this.forget();
    this.node.remove();
    this.deps.closed();
    if (hadFocus) this.deps.leave();
  }

  private get isOver(): boolean {
    const { shown } = this;
    // its operations come by themselves: the state may be told before the last words
    return shown !== null && OVER.includes(shown.run.state) && shown.transcript.end !== null;
  }

  private ask(): void {
    this.forget();
    this.failed = "";
    this.cancelled = false;
    this.wantsDetails = null;
    this.say(this.deps.trans.__("Claude is working: %1", this.deps.title));
    this.deps.send().then(
      (run) => {
        this.run = run;
        if (this.cancelled) this.deps.chat.send({ type: "stop", run });
        this.update();
      },
      (error: unknown) => {
        if (this.cancelled || this.isClosed) return;
        this.failed = this.problemText(error);
        this.update();
      },
    );
    this.update();
  }

  /** Leaves the run that it shows. */
  private forget(): void {
    this.unwatch();
    this.unlist();
    this.unwatch = this.unlist = () => undefined;
    this.undraw?.();
    this.undraw = null;
    this.run = this.shown = null;
  }

  private problemText(error: unknown): string {
    const { chat, trans } = this.deps;
    if (chat.connection === "missing" && chat.problem?.message === "") {
      return trans.__("Cellwright is not installed in this notebook's kernel. Run %pip install cellwright in a cell, then try again.");
    }
    if (chat.connection === "unsupported") return trans.__("This kernel runs another version of Cellwright. Restart it, then try again.");
    return error instanceof Error ? error.message : String(error);
  }

  private interrupt(): void {
    const { chat } = this.deps;
    this.cancelled = true;
    if (this.run !== null) chat.send({ type: "stop", run: this.run });
    // while there is no connection nothing was sent; else it is stopped as soon as it is known
    else if (chat.connection !== "connected") this.close();
    else this.update();
  }

  private update(): void {
    if (this.isClosed) return;
    this.find();
    this.drawIfThere();
    const ended = !this.isOpen;
    this.answer.hidden = !this.showsDetails(ended);
    setText(this.status, ended ? "" : this.statusText());
    setText(this.problem, this.failed);
    this.problem.hidden = this.failed === "";
    this.showButtons(ended);
    this.node.setAttribute("aria-busy", `${!ended}`);
    if (this.shown?.run.state === "asking") this.say(this.statusText());
    if (this.isOver) this.ended();
  }

  /** Takes the run as the kernel tells it now. */
  private find(): void {
    const found = this.deps.chat.runs.find(({ run }) => run.id === this.run);
    if (found) {
      if (found.transcript !== this.shown?.transcript) {
        this.unwatch();
        this.unwatch = found.transcript.subscribe(() => { this.update(); });
        this.list(found.transcript);
      }
      this.shown = found;
    } else if (this.shown && this.isOpen) this.failed = this.deps.trans.__("The kernel restarted: this answer is not complete.");
  }

  /** In the status bar it is as an answer in a cell. */
  private list(transcript: RunTranscript["transcript"]): void {
    this.unlist();
    this.unlist = addLiveAnswer({
      progress: () => (transcript.end ? "over" : transcript.pending().length > 0 ? "asking" : transcript.run ? "working" : "starting"),
      watch: (listener) => transcript.subscribe(listener),
      stop: () => { this.interrupt(); },
    }, this.answer, this.deps.count);
  }

  private showButtons(ended: boolean): void {
    this.details.setAttribute("aria-expanded", `${!this.answer.hidden}`);
    this.show(this.details, this.deps.changes && this.undraw !== null && !ended);
    this.show(this.again, this.failed !== "");
    this.show(this.stop, !ended);
    this.show(this.keep, this.isOver && this.hasAnswer);
    this.show(this.dismiss, ended);
    // the card at the cell is the place to look at: a second bar below it says nothing more
    this.node.classList.toggle("cellwright-mod-waits", this.waitsAtCell(ended));
  }

  /** True while the change waits in a card at its cell. */
  private waitsAtCell(ended: boolean): boolean {
    const isAsking = !ended && !this.cancelled && this.shown?.run.state === "asking";
    return isAsking && this.answer.hidden && document.querySelector(PROPOSAL) !== null;
  }

  /** A change is looked at at its cell: the transcript is needed for what cannot be answered there, and once it has ended without a change. */
  private showsDetails(ended: boolean): boolean {
    if (!this.deps.changes || ended) return true;
    if (this.wantsDetails !== null) return this.wantsDetails;
    const asked = this.shown?.transcript.pending() ?? [];
    if (asked.length === 0) return false;
    if (asked.some(({ ask }) => !this.isProposal(ask.tool))) return true;
    if (document.querySelector(PROPOSAL)) return false;
    // its card is on its way, or its notebook is not open in this page
    this.proposalTimer ??= setTimeout(() => {
      this.proposalTimer = undefined;
      this.wantsDetails ??= document.querySelector(PROPOSAL) === null ? true : null;
      this.update();
    }, PROPOSAL_MS);
    return false;
  }

  private isProposal(tool: string): boolean {
    return this.shown?.transcript.items.some((item) => item.kind === "tool" && item.id === tool && item.name === "NotebookEdit") ?? false;
  }

  /** Has a screen reader say what is new. */
  private say(text: string): void {
    if (text === "" || text === this.announced) return;
    this.announced = text;
    this.deps.announce(text);
  }

  /** A button that goes while it has the focus gives it to the strip. */
  private show(node: HTMLButtonElement, visible: boolean): void {
    if (!visible && document.activeElement === node) this.node.focus({ preventScroll: true });
    node.hidden = !visible;
  }

  private get hasAnswer(): boolean {
    return this.shown?.transcript.items.some((item) => item.kind === "text" && item.text.trim() !== "") ?? false;
  }

  private ended(): void {
    const { trans, title, changes } = this.deps;
    const made = this.shown?.transcript.changes;
    if (changes && this.shown?.run.state === "done" && made && made.cells.length + made.files.length > 0) {
      this.say(trans.__("Done: %1", title));
      this.close();
    } else this.say(trans.__("Claude's answer is below the cell: %1", title));
  }

  private statusText(): string {
    const { trans, chat } = this.deps;
    if (this.cancelled) return trans.__("Stopping…");
    if (!this.shown) return chat.waitsForCell ? trans.__("Waiting for your cell to finish.") : trans.__("Connecting…");
    switch (this.shown.run.state) {
      case "waiting":
        return trans.__("Waiting for the answer before this one.");
      case "asking":
        return this.answer.hidden ? trans.__("Review the change at the cell.") : trans.__("Claude needs your answer.");
      default:
        return trans.__("Claude is working…");
    }
  }

  private drawIfThere(): void {
    const { shown } = this;
    if (!shown || this.undraw || shown.run.state === "waiting") return;
    this.undraw = () => undefined;
    const { deps } = this;
    whenLoaded(deps.draw(), this.host, deps.trans, (drawTranscript) => {
      if (this.isClosed || this.shown?.transcript !== shown.transcript) return;
      this.undraw = drawTranscript(this.host, shown.transcript, (message) => { this.send(shown.run.id, message); });
    });
  }

  private send(run: string, message: BrowserMessage): void {
    const { chat } = this.deps;
    switch (message.type) {
      case "answer":
      case "withdraw":
      case "stop_agent":
        chat.send(message);
        return;
      case "steer":
        chat.send({ ...message, run });
        return;
      case "stop":
        chat.send({ type: "stop", run });
        return;
      case "restart":
        void chat.kernel?.restart();
        return;
      case "ready":
      case "kept":
        // the connection has the whole of every run
        return;
      default:
        message satisfies never;
    }
  }

  private async keepAnswer(): Promise<void> {
    if (this.run === null) return;
    this.keep.disabled = true;
    try {
      await this.deps.keep(this.run);
      this.close();
    } catch (error) {
      setText(this.problem, error instanceof Error ? error.message : String(error));
      this.problem.hidden = false;
    } finally {
      this.keep.disabled = false;
    }
  }

  private keyPressed(event: KeyboardEvent): void {
    const { key, ctrlKey, metaKey, altKey } = event;
    // the notebook would take plain keys as commands: `d d` deletes a cell
    if (!ctrlKey && !metaKey && !altKey && !/^F\d+$/.test(key)) event.stopPropagation();
    if (key !== "Escape" || event.defaultPrevented) return;
    if (this.isOpen) this.deps.leave();
    else this.close();
  }
}
