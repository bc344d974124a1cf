/** One run in the panel: what the user said and where, and what came of it. */

import { button, element, setText } from "../../transcript/dom";
import type { BrowserMessage } from "../../transcript/protocol";
import type { TranscriptStore } from "../../transcript/store";
import { revealed } from "../../transcript/visible_text";
import type { JsonObject } from "../../json";
import { undoButton } from "../../notebook/undo";
import { ACTION_EVENT, request } from "../../transcript/items/page_actions";
import type { PageAction } from "../../transcript/items/page_actions";
import type { Trans } from "../../translation";
import type { BranchChoice, BranchSwitch } from "./branch_switch";
import { branchSwitch } from "./branch_switch";
import { promptEditor } from "./prompt_editor";
import type { RunTranscript } from "../../transport/chat";
import type { PanelMessage, Run } from "../../transport/chat_protocol";
import { whenLoaded } from "../stale_bundle";

/** Longer prompts are folded. */
const FOLDED_CHARS = 700;
/** The height of a transcript that is not drawn yet, and of one that was never laid out: by its characters, in a narrow panel. */
const GUESSED_HEIGHT = 120;
const PX_PER_CHAR = 0.8;

/** Draws a transcript into `host`; gives how to take it away. */
export type DrawTranscript = (host: HTMLElement, store: TranscriptStore, send: (message: BrowserMessage) => void) => () => void;

export type RunDeps = {
  readonly trans: Trans;
  draw(): Promise<DrawTranscript>;
  send(message: PanelMessage): void;
  /** Ends the kernel's process: offered where user code does not stop. */
  restart(): void;
  /** Goes to the cell that a prompt was said in. */
  showCell(place: string): void;
  /** Asks the same again. */
  again(run: Run): void;
  /** Asks something else, as the next prompt. */
  ask(prompt: string): void;
  /** Asks other words in the place of those of a turn; what came after it is kept in a branch. */
  edit(run: Run, text: string): void;
  /** Asks the prompt of a turn again, in a branch. */
  retry(run: Run): void;
  /** Goes to another branch at the prompt of this turn. */
  openBranch(session: string, turn: number): void;
  sendKey(): "Enter" | "Shift+Enter";
  /** The way to the kernel, to take back what a turn has changed. */
  request(method: string, params: JsonObject): Promise<unknown>;
  /** Whether a turn that ended before this panel came can be taken back still. */
  canUndo(session: string, turn: number): Promise<boolean>;
};

/** A prompt's words are cut here by the kernel: what is longer is not whole, and cannot be asked again. */
const WHOLE_PROMPT_CHARS = 20_000;

export class RunView {
  readonly node: HTMLElement;
  private readonly host = element("div", { class: "answer" });
  private readonly words = element("div", { class: "words", dir: "auto", role: "heading", "aria-level": "3" });
  private readonly place: HTMLButtonElement;
  private readonly fold: HTMLButtonElement;
  private readonly waits = element("p", { class: "waits" });
  private readonly restarted = element("p", { class: "restarted", hidden: "" });
  private readonly branches: BranchSwitch;
  private readonly retry: HTMLButtonElement;
  private readonly tools = element("div", { class: "prompt-actions" });
  private undoSettled = false;
  private readonly endedBefore: boolean;
  private editor: HTMLElement | null = null;
  private undraw: (() => void) | null = null;
  private wanted = false;
  private gone = false;
  private shown: RunTranscript;

  constructor(shown: RunTranscript, private readonly deps: RunDeps) {
    const { trans } = deps;
    this.shown = shown;
    this.endedBefore = isOver(shown.run);
    this.place = button("", () => { this.showPlace(); }, { class: "place" });
    this.fold = button(trans.__("Show all"), () => { this.unfold(); }, { class: "plain fold" });
    const takeBack = button(trans.__("Cancel"), () => { deps.send({ type: "stop", run: this.shown.run.id }); }, { class: "plain" });
    this.waits.append(element("span", {}, trans.__("Queued")), " ", takeBack);
    const edit = button(trans.__("Edit"), () => { this.edit(); }, { class: "plain edit", title: trans.__("Edit this prompt and ask again") });
    this.retry = button(trans.__("Retry"), () => { deps.retry(this.shown.run); }, { class: "plain retry", title: trans.__("Ask again in a new branch") });
    this.branches = branchSwitch(trans, (session) => { deps.openBranch(session, this.shown.run.turn ?? 0); });
    this.tools.append(edit, this.retry);
    const said = element("div", { class: "said" }, this.place, this.branches.node, this.words, this.fold, this.tools);
    this.host.style.minHeight = `${GUESSED_HEIGHT}px`;
    this.node = element("li", { class: "run", tabindex: "-1", "data-run": shown.run.id }, said, this.waits, this.host, this.restarted);
    setText(this.restarted, trans.__("The kernel restarted; its variables are gone."));
    this.node.addEventListener(ACTION_EVENT, (event) => {
      const wanted = (event as CustomEvent<PageAction>).detail;
      if (wanted.action !== "again" && wanted.action !== "ask") return;
      event.preventDefault();
      if (wanted.action === "ask") deps.ask(wanted.prompt);
      else deps.again(this.shown.run);
    });
    this.update(shown);
  }

  /** Something about the run has changed; its text draws itself. */
  update(shown: RunTranscript): void {
    this.shown = shown;
    const { run } = shown;
    this.node.dataset.state = run.state;
    this.node.dataset.kind = run.kind;
    const words = revealed(run.prompt);
    if (this.words.textContent !== words) {
      setText(this.words, words);
      const long = run.prompt.length > FOLDED_CHARS || run.prompt.split("\n").length > 9;
      this.words.classList.toggle("folded", long);
      this.fold.hidden = !long;
    }
    this.updatePlace(run);
    const over = isOver(run);
    this.tools.hidden = !over || run.kind === "command" || run.turn === null || run.action != null || run.prompt.length >= WHOLE_PROMPT_CHARS;
    this.retry.hidden = run.state !== "done";
    if (over) this.offerUndo(shown);
    this.restarted.hidden = shown.restarted !== true;
    this.waits.hidden = run.state !== "waiting";
    this.host.hidden = run.state === "waiting";
    this.drawIfWanted();
  }

  /** The branches at its prompt; null: there is no other. */
  showBranches(choice: BranchChoice | null): void {
    this.branches.update(choice);
  }

  focusBranches(): void {
    this.branches.focus();
  }

  /** True if its transcript is drawn, or will be as soon as there is one. */
  get drawn(): boolean {
    return this.wanted;
  }

  /** Draws its transcript, which then stays. */
  draw(): void {
    this.wanted = true;
    this.drawIfWanted();
  }

  dispose(): void {
    this.gone = true;
    this.undraw?.();
    this.node.remove();
  }

  private updatePlace(run: Run): void {
    const { trans } = this.deps;
    const isCell = run.place.startsWith("[");
    const place = revealed(run.place);
    setText(this.place, isCell && run.background ? trans.__("%1 in the background", place) : place);
    this.place.disabled = !isCell;
    this.place.title = isCell ? trans.__("Go to the cell") : "";
    this.place.hidden = run.place === "sidebar" || place === "";
  }

  private drawIfWanted(): void {
    if (!this.wanted || this.undraw || this.shown.run.state === "waiting") return;
    this.undraw = () => undefined;
    whenLoaded(this.deps.draw(), this.host, this.deps.trans, (draw) => {
      if (this.gone) return;
      this.undraw = draw(this.host, this.shown.transcript, (message) => { this.say(message); });
      this.host.style.minHeight = "";
      const chars = this.host.shadowRoot?.textContent.length ?? 0;
      this.host.style.containIntrinsicHeight = `auto ${Math.max(GUESSED_HEIGHT, Math.round(chars * PX_PER_CHAR))}px`;
    });
  }

  private offerUndo({ run, transcript: { changes } }: RunTranscript): void {
    if (this.undoSettled || !changes) return;
    this.undoSettled = true;
    const variables = changes.files.length + changes.cells.length === 0;
    const turn = { session: run.session, turn: changes.turn, variables };
    const offer = (): void => {
      this.restarted.before(undoButton(turn, (method, params) => this.deps.request(method, params), this.host));
    };
    if (!this.endedBefore && !variables) offer();
    else void this.deps.canUndo(turn.session, turn.turn).then((can) => { if (can && !this.gone) offer(); });
  }

  private edit(): void {
    if (this.editor) return;
    const { run } = this.shown;
    const close = (): void => {
      this.editor?.remove();
      this.editor = null;
      this.words.hidden = false;
      this.tools.querySelector("button")?.focus();
    };
    this.editor = promptEditor(this.deps.trans, run.prompt, this.deps.sendKey(), (text) => { close(); this.deps.edit(run, text); }, close);
    this.words.hidden = true;
    this.words.after(this.editor);
  }

  private say(message: BrowserMessage): void {
    switch (message.type) {
      case "answer":
      case "withdraw":
      case "stop_agent":
        this.deps.send(message);
        return;
      case "steer":
        this.deps.send({ ...message, run: this.shown.run.id });
        return;
      case "stop":
        this.deps.send({ type: "stop", run: this.shown.run.id });
        return;
      case "restart":
        this.deps.restart();
        return;
      case "ready":
      case "kept":
        // the panel's own connection has the whole of every run
        return;
      default:
        message satisfies never;
    }
  }

  /** A cell that an action was about may have run again since, as another number. */
  private showPlace(): void {
    const { action, place } = this.shown.run;
    if (action) request(this.node, { action: "cell", path: action.path, cell: action.id });
    else this.deps.showCell(place);
  }

  private unfold(): void {
    this.words.classList.remove("folded");
    this.fold.hidden = true;
    this.node.focus({ preventScroll: true });
  }
}

function isOver(run: Run): boolean {
  return ["done", "failed", "interrupted"].includes(run.state);
}
