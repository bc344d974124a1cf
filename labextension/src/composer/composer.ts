/** The panel's composer: the prompt's field and everything around it. */

import { addPageStyle } from "../page";
import { icon } from "../sidebar/icons";
import { button, element, setText } from "../transcript/dom";
import { revealed, sentence } from "../transcript/visible_text";
import type { Chat } from "../transport/chat";
import type { AttachedCell, Completion } from "../transport/chat_protocol";
import type { AttachedFile } from "./attachments";
import { Attachments, AttachmentBar, handleDrops, wordsOfRemarks } from "./attachments";
import { beginsWith, commandName, fileMention, insertion, kernelPath, CompletionSource, triggerAt } from "./completions";
import type { Composer, ComposerDeps } from "./composer_deps";
import { handleKey, otherWay, watchTab } from "./keys";
import { Palette } from "./palette";
import { OptionsMenu } from "./options/options_menu";
import { RunOptionFields } from "./options/run_options";
import { PendingMessages } from "./pending_messages";
import { Pickers } from "./pickers";
import { CompletionUse, Drafts } from "./prompt_history";
import { currentRun, sendBlocker, sendPrompt, RunBar, sendSteering, deliveryName, deliveryOf } from "./steering";
import css from "./style.css";
import { fitHeight, replaceText, TypeAheadBuffer } from "./text_field";

/** Attachments and cell of a prompt. */
type PromptExtras = { readonly attached: readonly AttachedFile[]; readonly cell: AttachedCell | null };

const NO_EXTRAS: PromptExtras = { attached: [], cell: null };

let styled = false;

/** Fills `host` with the composer of `chat`. */
export function mountComposer(host: HTMLElement, chat: Chat, deps: ComposerDeps): Composer {
  if (!styled) addPageStyle(css);
  styled = true;
  const composer = new PanelComposer(chat, deps);
  host.replaceChildren(composer.node);
  composer.update();
  return {
    aside: composer.aside,
    focus: () => { composer.area.focus(); },
    get hasText() { return composer.area.value !== ""; },
    insert: (text) => { composer.insert(text); },
    attach: (files) => { composer.attach(files); },
    dispose: () => {
      composer.dispose();
      host.replaceChildren();
    },
  };
}

/** Below this width the placeholder is short. */
const TIGHT_PX = 300;

class PanelComposer {
  readonly node: HTMLElement;
  readonly area: HTMLTextAreaElement;
  readonly aside = element("div", { class: "cellwright-aside" });
  private readonly palette: Palette;
  private readonly suggestions: CompletionSource;
  private readonly attachments: Attachments;
  private readonly attachmentBar: AttachmentBar;
  private readonly pickers: Pickers;
  private readonly options: RunOptionFields;
  private readonly menu: OptionsMenu;
  private readonly waiting: PendingMessages;
  private readonly runBar: RunBar;
  private readonly drafts: Drafts;
  private readonly used: CompletionUse;
  private readonly problem: HTMLElement;
  private readonly sendButton: HTMLButtonElement;
  private readonly sendWords = element("span", { class: "cellwright-unseen" });
  private readonly stopButton: HTMLButtonElement;
  private readonly unsubscribe: () => void;
  private readonly stopCell: () => void;
  private readonly stopMarks: () => void;
  private readonly typeAhead = new TypeAheadBuffer();
  private readonly cameByTab: () => boolean;
  private way: "steer" | "queue" | null = null;
  private isSending = false;
  private isTight = false;
  /** The run that the next Esc stops. */
  private stopping: string | null = null;
  /** The start of the word for which the list was closed. */
  private dismissed = -1;

  constructor(
    private readonly chat: Chat,
    private readonly deps: ComposerDeps,
  ) {
    const { trans } = deps;
    const focus = (): void => { this.area.focus(); };
    const tell = (why: string): void => { this.tell(why); };
    this.area = element("textarea", {
      rows: "1", class: "cellwright-prompt", autocomplete: "off", spellcheck: "true", "aria-label": trans.__("Prompt for Claude"),
      "aria-description": trans.__("Shift+Tab changes the permission mode, and goes back if a key brought you here. F6 goes to the next part of the panel."),
    });
    this.cameByTab = watchTab(this.area);
    this.palette = new Palette(this.area, trans, (item) => { this.take(item); });
    this.suggestions = new CompletionSource(chat, (found) => {
      const trigger = triggerAt(this.area.value, this.area.selectionStart);
      if (trigger && trigger.start !== this.dismissed) this.palette.show({ ...found, items: this.used.sorted(found.items, (item) => beginsWith(item, trigger)) }, trigger.kind, trigger.text);
    });
    this.attachments = new Attachments(trans, deps.marks, () => { this.update(); }, tell);
    this.attachmentBar = new AttachmentBar(deps, this.attachments, (files) => { this.attach(files); }, () => { this.update(); }, focus);
    this.pickers = new Pickers(chat, trans, deps.settings().context, tell);
    this.waiting = new PendingMessages(chat, trans, (text, late) => { this.restoreText(text, late); }, focus);
    this.runBar = new RunBar(deps, (how) => {
      this.way = how;
      this.update();
      focus();
    });
    this.drafts = new Drafts(deps.memory, chat);
    this.used = new CompletionUse(deps.memory);
    this.problem = element("p", { class: "cellwright-problem", role: "alert", hidden: "" });
    this.sendButton = button(icon("send"), () => { void this.send(false); }, { class: "cellwright-send" });
    this.sendButton.append(this.sendWords);
    const stopWords = trans.__("Stop Claude (Esc Esc)");
    this.stopButton = button(icon("stop"), () => { this.stop(); }, { class: "cellwright-stop", title: stopWords, "aria-label": trans.__("Stop"), hidden: "" });
    this.node = element("div", { class: "cellwright-composer", role: "form", "aria-label": trans.__("Composer") });
    this.options = new RunOptionFields(trans, () => { this.update(); });
    this.menu = new OptionsMenu(trans, this.node, this.pickers.node, () => this.options.draw(), (width) => { this.resized(width); });
    this.layOut();
    this.listen();
    this.unsubscribe = chat.subscribe(() => { this.update(); });
    this.stopMarks = deps.marks.subscribe(() => { this.update(); });
    this.stopCell = deps.onCell(() => { this.cellChanged(); });
    this.area.value = this.drafts.text();
    fitHeight(this.area);
  }

  dispose(): void {
    this.drafts.keep(this.area.value);
    this.unsubscribe();
    this.suggestions.dispose();
    this.stopCell();
    this.stopMarks();
    this.waiting.dispose();
    this.menu.dispose();
  }

  insert(text: string): void {
    const { area } = this;
    const { selectionStart: start, selectionEnd: end } = area;
    const before = area.value[start - 1];
    const own = text.includes("\n") && before !== undefined && before !== "\n";
    area.focus();
    replaceText(area, start, end, own ? `\n${text}` : text);
  }

  attach(files: readonly File[]): void {
    this.tell("");
    void this.attachments.add(files);
  }

  update(): void {
    this.changeConversation();
    const run = currentRun(this.chat);
    if (run !== this.stopping) this.stopping = null;
    const attached = this.attachments.list.length > 0;
    const goesAlong = hasExtras(this.promptExtras);
    const steers = run !== null && deliveryOf(this.chat, this.how, this.area.value, goesAlong) === "steer";
    const blocked = sendBlocker(this.chat, this.deps.trans);
    this.sendButton.disabled = this.isSending || blocked !== "" || (!this.area.value.trim() && !attached);
    this.area.readOnly = this.isSending;
    this.node.classList.toggle("cellwright-mod-sending", this.isSending);
    this.node.classList.toggle("cellwright-mod-running", run !== null);
    this.node.classList.toggle("cellwright-mod-asking", this.isAskedOnly && !attached);
    this.node.classList.toggle("cellwright-mod-steers", steers);
    this.node.dataset.mode = this.chat.state?.mode ?? "";
    this.showRun(run !== null, steers);
    this.runBar.update({ isRunning: run !== null, steers, goesAlong, isStopping: this.stopping !== null, about: blocked || this.commandHint() });
    this.attachmentBar.update();
    this.pickers.update();
    this.menu.update({ ...this.pickers.names, set: Object.keys(this.options.values).length });
    this.waiting.update();
  }

  /** Claude asks, and nothing is written: the card needs the room. */
  private get isAskedOnly(): boolean {
    return Boolean(this.chat.state?.asking.length) && this.area.value === "";
  }

  private showRun(isRunning: boolean, steers: boolean): void {
    const { trans } = this.deps;
    const sends = isRunning ? deliveryName(steers ? "steer" : "queue", trans) : trans.__("Send");
    setText(this.sendWords, sends);
    this.sendButton.title = `${sends} (${this.deps.settings().sendKey})`;
    this.stopButton.hidden = !isRunning;
    this.area.placeholder = isRunning ? trans.__("Add a message…") : this.chat.needsKey ? trans.__("Add a key first") : this.isTight ? trans.__("Ask Claude…") : trans.__("Ask Claude…  / commands, @ files");
  }

  /** The composer has this width: the placeholder is as long as it can be read whole. */
  private resized(width: number): void {
    const isTight = width > 0 && width < TIGHT_PX;
    if (isTight === this.isTight) return;
    this.isTight = isTight;
    this.update();
  }

  private get how(): "steer" | "queue" {
    return this.way ?? this.deps.settings().whileRunning;
  }

  /** With every key in a cell: only while a run goes on does more depend on it than the chip. */
  private cellChanged(): void {
    if (currentRun(this.chat) === null) this.attachmentBar.update();
    else this.update();
  }

  private get promptExtras(): PromptExtras {
    return { attached: this.attachments.list, cell: this.attachmentBar.cell };
  }

  private layOut(): void {
    // what comes while a run goes on stands at the end, where it moves nothing
    const end = element("span", { class: "cellwright-end" }, this.runBar.ways, this.stopButton, this.sendButton);
    const bar = element("div", { class: "cellwright-bar" }, this.attachmentBar.node, this.menu.node, this.aside, end);
    const box = element("div", { class: "cellwright-box" }, this.attachmentBar.list, this.area, bar);
    this.node.append(this.palette.node, this.waiting.node, this.problem, this.pickers.confirm, this.runBar.hint, box, this.menu.popover, this.pickers.status);
  }

  private listen(): void {
    const { area } = this;
    area.addEventListener("input", () => { this.changed(); });
    area.addEventListener("blur", () => {
      this.closeList();
      this.disarm();
    });
    area.addEventListener("click", () => { this.followCaret(); });
    area.addEventListener("keyup", (event) => {
      if (["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) this.followCaret();
    });
    area.addEventListener("keydown", (event) => {
      if (!this.key(event)) return;
      event.preventDefault();
      event.stopPropagation();
    });
    const taken = {
      files: (files: readonly File[]) => { this.attach(files); },
      paths: (paths: readonly string[]) => { this.mention(paths); },
    };
    handleDrops(this.node, area, taken, (over) => { this.node.classList.toggle("cellwright-mod-dragging", over); });
  }

  private key(event: KeyboardEvent): boolean {
    if (this.isSending && this.typeAhead.key(event)) return true;
    return handleKey(event, {
      area: this.area,
      palette: this.palette,
      sendKey: () => this.deps.settings().sendKey,
      send: (other) => { void this.send(other); },
      take: () => { if (this.palette.chosen) this.take(this.palette.chosen); },
      dismiss: () => {
        this.dismissed = triggerAt(this.area.value, this.area.selectionStart)?.start ?? -1;
        this.closeList();
      },
      historyBefore: () => this.goTo(this.drafts.before(this.area.value), true),
      historyAfter: () => this.goTo(this.drafts.after(), false),
      nextMode: () => { this.pickers.nextMode(); },
      cameByTab: this.cameByTab,
      escape: () => { this.escape(); },
      otherKey: () => { this.disarm(); },
    });
  }

  /** The text was changed, by whomever. */
  private changed(): void {
    fitHeight(this.area);
    this.drafts.written(this.area.value);
    const trigger = triggerAt(this.area.value, this.area.selectionStart);
    if (trigger?.start !== this.dismissed) this.dismissed = -1;
    if (trigger && this.dismissed < 0 && this.area.selectionStart === this.area.selectionEnd) this.suggestions.look(trigger);
    else this.closeList();
    this.update();
  }

  /** The caret was moved: what is listed belongs to the word that it is in. */
  private followCaret(): void {
    if (!this.palette.isOpen) return;
    const trigger = triggerAt(this.area.value, this.area.selectionStart);
    if (trigger) this.suggestions.look(trigger);
    else this.closeList();
  }

  private closeList(): void {
    this.suggestions.rest();
    this.palette.close();
  }

  private take(item: Completion): void {
    const trigger = triggerAt(this.area.value, this.area.selectionStart);
    if (!trigger) return;
    this.used.add(item.insert);
    const { text, end } = insertion(item, trigger, this.area.value.slice(trigger.end));
    this.closeList();
    this.area.focus();
    replaceText(this.area, trigger.start, end, text);
  }

  private commandIn(text: string): Completion | undefined {
    return this.suggestions.command(commandName(text) ?? "");
  }

  /** The usage of the command in the field; "" where there is none. */
  private commandHint(): string {
    const command = this.commandIn(this.area.value);
    return command && !this.palette.isOpen ? `${revealed(command.label)} · ${revealed(command.about)}` : "";
  }

  private goTo(text: string | null, isBefore: boolean): boolean {
    if (text === null) return false;
    this.drafts.browsing = true;
    replaceText(this.area, 0, this.area.value.length, text);
    this.drafts.browsing = false;
    const end = isBefore ? text.indexOf("\n") : -1;
    const caret = end < 0 ? text.length : end;
    this.area.setSelectionRange(caret, caret);
    this.closeList();
    return true;
  }

  private mention(paths: readonly string[]): void {
    const cwd = this.chat.state?.cwd ?? "";
    const words = paths.map((path) => fileMention(kernelPath(path, this.deps.serverRoot, cwd)));
    const { value, selectionStart, selectionEnd } = this.area;
    const before = /\S$/.test(value.slice(0, selectionStart)) ? " " : "";
    const after = /^\s/.test(value.slice(selectionEnd)) ? "" : " ";
    this.insert(`${before}${words.join(" ")}${after}`);
    this.closeList();
  }

  /** Back to the notebook; while a run goes on a second Esc stops it. */
  private escape(): void {
    const run = currentRun(this.chat);
    if (run === null) this.deps.leave();
    else if (this.stopping === run) this.stop();
    else this.stopping = run;
    this.update();
  }

  private disarm(): void {
    if (this.stopping === null) return;
    this.stopping = null;
    this.update();
  }

  private stop(): void {
    const run = currentRun(this.chat);
    this.stopping = null;
    if (run !== null) this.chat.send({ type: "stop", run });
    this.area.focus();
  }

  private async send(other: boolean): Promise<void> {
    const text = this.area.value;
    // a command takes words alone: what goes along stays for the prompt
    const { attached, cell } = this.commandIn(text) === undefined ? this.promptExtras : NO_EXTRAS;
    if (this.isSending || (!text.trim() && attached.length === 0)) return;
    if (this.isHindered()) return;
    this.closeList();
    const run = currentRun(this.chat);
    const how = other ? otherWay(this.how) : this.how;
    if (run !== null && deliveryOf(this.chat, how, text, hasExtras({ attached, cell })) === "steer") {
      this.waiting.add(sendSteering(this.chat, run, text), run, text);
      this.taken(text);
      return;
    }
    await this.ask(text, attached, cell);
  }

  /** True when nothing can be sent now: the reason is shown then. */
  private isHindered(): boolean {
    const why = sendBlocker(this.chat, this.deps.trans);
    this.tell(why);
    return why !== "";
  }

  private async ask(text: string, attached: readonly AttachedFile[], cell: AttachedCell | null): Promise<void> {
    this.isSending = true;
    this.update();
    const attachments = attached.map((one) => one.attachment);
    const said = text.trim() ? text : wordsOfRemarks(attached);
    const why = await sendPrompt(this.chat, { text: said, attachments, context: this.pickers.context, cell, options: this.options.values });
    this.isSending = false;
    this.area.readOnly = false;
    if (why === null) {
      this.taken(text);
      this.attachments.sent(attached);
    } else {
      this.tell(why);
      this.update();
    }
    const { value } = this.area;
    const typed = this.typeAhead.take();
    replaceText(this.area, value.length, value.length, typed && value ? `\n\n${typed}` : typed);
  }

  /** The kernel has `text`. */
  private taken(text: string): void {
    this.drafts.sent(text);
    replaceText(this.area, 0, this.area.value.length, "");
    this.closeList();
  }

  /** Words that were not delivered stand before what was written since. */
  private restoreText(text: string, late: boolean): void {
    const { area } = this;
    replaceText(area, 0, 0, area.value.trim() ? `${text}\n\n` : text);
    if (late) this.tell(this.deps.trans.__("Claude finished before it could read this, so it is back in the prompt."));
  }

  /** Another kernel's conversation has what was being written there. */
  private changeConversation(): void {
    if (this.isSending) return;
    const draft = this.drafts.change(this.area.value);
    if (draft === null) return;
    this.area.value = draft;
    fitHeight(this.area);
    this.closeList();
  }

  private tell(why: string): void {
    if (this.problem.textContent !== why.replaceAll("`", "")) this.problem.replaceChildren(...sentence(why));
    this.problem.hidden = why === "";
  }
}

function hasExtras({ attached, cell }: PromptExtras): boolean {
  return attached.length > 0 || cell !== null;
}
