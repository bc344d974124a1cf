/** Model, mode, effort and context of the next prompts; what the kernel does not list is not offered. */

import { button, element, setText } from "../transcript/dom";
import type { Trans } from "../translation";
import type { Chat } from "../transport/chat";
import type { ChatState, NamedOption, PromptParams } from "../transport/chat_protocol";

export const BYPASS = "bypassPermissions";
/** A mode that a key has chosen is in sight for so long. */
const SAID_MS = 3_000;

export type ContextChoice = PromptParams["context"];
type PickerOption = { id: string; name: string; about: string };

/** The settings of the conversation that the user may change. */
type ConversationSetting = "model" | "mode" | "effort";

export class Pickers {
  readonly node: HTMLElement;
  /** Asks whether all questions shall be left out. */
  readonly confirm: HTMLElement;
  context: ContextChoice;
  private readonly selects: Record<ConversationSetting | "context", HTMLSelectElement>;
  /** Says which mode a key has chosen; outside of what may be folded away, where nothing would be read out. */
  readonly status: HTMLElement;
  /** Requested values that the kernel's state has not confirmed yet. */
  private hiding: ReturnType<typeof setTimeout> | undefined;
  private pending: Partial<Record<ConversationSetting, string>> = {};

  /** `failed` is called with why a choice did not come about. */
  constructor(
    private readonly chat: Chat,
    private readonly trans: Trans,
    context: ContextChoice,
    private readonly failed: (why: string) => void,
  ) {
    this.context = context;
    this.status = element("span", { class: "cellwright-unseen", role: "status" });
    this.selects = {
      model: this.select("model", trans.__("Model")),
      mode: this.select("mode", trans.__("Permission mode (Shift+Tab)")),
      effort: this.select("effort", trans.__("Effort: how hard the model thinks")),
      context: this.select("context", trans.__("What is sent with a prompt")),
    };
    this.confirm = this.bypassQuestion();
    const names: Record<ConversationSetting | "context", string> = { model: trans.__("Model"), mode: trans.__("Mode"), effort: trans.__("Effort"), context: trans.__("Context") };
    const labelled = Object.entries(this.selects).map(([setting, select]) => element("label", { class: "cellwright-picker" }, element("span", {}, names[setting as keyof typeof names]), select));
    this.node = element("div", { class: "cellwright-pickers" }, ...labelled);
    this.fillContext();
  }

  update(): void {
    const { state } = this.chat;
    this.node.classList.toggle("cellwright-mod-unknown", state === null);
    for (const setting of ["model", "mode", "effort"] as const) {
      const known = state !== null && this.chat.connection === "connected";
      this.selects[setting].disabled = !known;
      if (state) this.fill(setting, state);
    }
  }

  /** The next of the modes, but for the one that leaves out all questions: that has to be chosen. */
  nextMode(): void {
    const { state } = this.chat;
    if (!state || this.chat.connection !== "connected") return;
    const modes = state.modes.filter(({ id }) => id !== BYPASS);
    const at = modes.findIndex(({ id }) => id === this.now("mode", state));
    const next = modes[(at + 1) % modes.length];
    if (!next || next.id === this.now("mode", state)) return;
    this.set("mode", next.id, next.name);
    // for the eye as well: a key may have been meant for something else
    this.status.className = "cellwright-hint";
    clearTimeout(this.hiding);
    this.hiding = setTimeout(() => { this.status.className = "cellwright-unseen"; }, SAID_MS);
  }

  /** The names of what is in force. */
  get names(): { mode: string; modeId: string; model: string } {
    const { state } = this.chat;
    const name = (setting: ConversationSetting): string => this.selects[setting].selectedOptions[0]?.textContent ?? "";
    return { mode: state ? name("mode") : "", modeId: state ? this.now("mode", state) : "", model: state ? name("model") : "" };
  }

  private now(setting: ConversationSetting, state: ChatState): string {
    return this.pending[setting] ?? state[setting];
  }

  private set(setting: ConversationSetting, value: string, name: string): void {
    this.confirm.hidden = true;
    this.pending = { ...this.pending, [setting]: value };
    this.update();
    if (setting === "mode") setText(this.status, this.trans.__("Mode: %1", name));
    this.chat.request("set", { [setting]: value }).then(
      () => { this.settle(setting, value); },
      (error: unknown) => {
        this.settle(setting, value);
        this.failed(error instanceof Error ? error.message : String(error));
      },
    );
  }

  /** The kernel has answered: from now on its state says what is. */
  private settle(setting: ConversationSetting, value: string): void {
    if (this.pending[setting] !== value) return;
    this.pending = Object.fromEntries(Object.entries(this.pending).filter(([key]) => key !== setting));
    this.update();
  }

  private select(setting: ConversationSetting | "context", words: string): HTMLSelectElement {
    const select = element("select", { "aria-label": words, title: words, "data-setting": setting });
    select.addEventListener("change", () => { this.chosen(setting, select); });
    return select;
  }

  private chosen(setting: ConversationSetting | "context", select: HTMLSelectElement): void {
    const { value } = select;
    if (setting === "context") {
      this.context = value as ContextChoice;
      return;
    }
    if (setting === "mode" && value === BYPASS && this.chat.state?.mode !== BYPASS) {
      this.update(); // it is the mode only when the user has said so again
      this.confirm.hidden = false;
      this.confirm.querySelector("button")?.focus();
      return;
    }
    this.set(setting, value, select.selectedOptions[0]?.textContent ?? value);
  }

  private fill(setting: ConversationSetting, state: ChatState): void {
    const select = this.selects[setting];
    const choices = this.choices(setting, state);
    select.hidden = choices.length === 0;
    if (select.parentElement) select.parentElement.hidden = select.hidden;
    const now = this.now(setting, state);
    // what is in force is shown even where it could not be chosen
    const shown = choices.some(({ id }) => id === now) ? choices : [{ id: now, name: now || this.trans.__("default"), about: "" }, ...choices];
    fillSelect(select, shown, now);
    select.dataset.value = now;
  }

  private choices(setting: ConversationSetting, state: ChatState): PickerOption[] {
    const named = (entries: NamedOption[]): PickerOption[] => entries.map(({ id, name, about }) => ({ id, name, about: about ?? "" }));
    if (setting === "model") return named(state.models);
    if (setting === "mode") return named(state.modes);
    if (state.efforts.length === 0) return [];
    const byItself = { id: "", name: this.trans.__("default"), about: this.trans.__("the model's default") };
    return [byItself, ...state.efforts.map((id) => ({ id, name: id, about: "" }))];
  }

  private fillContext(): void {
    const { trans } = this;
    const choices = [
      { id: "auto", name: trans.__("Auto"), about: trans.__("what changed in the notebook since the last prompt") },
      { id: "none", name: trans.__("None"), about: trans.__("nothing from the notebook") },
      { id: "code", name: trans.__("Code"), about: trans.__("what changed, and project code that fits the prompt") },
      { id: "cells", name: trans.__("Cells"), about: trans.__("the code of all cells") },
      { id: "full", name: trans.__("Full"), about: trans.__("all cells with their outputs") },
    ];
    fillSelect(this.selects.context, choices, this.context);
  }

  private bypassQuestion(): HTMLElement {
    const { trans } = this;
    const back = (): void => {
      this.confirm.hidden = true;
      this.selects.mode.focus();
    };
    const yes = (): void => {
      const name = this.chat.state?.modes.find(({ id }) => id === BYPASS)?.name ?? BYPASS;
      this.set("mode", BYPASS, name);
      this.selects.mode.focus();
    };
    const words = trans.__("Claude will then run anything without asking: commands, code, file changes.");
    const node = element(
      "div",
      { class: "cellwright-confirm", role: "alertdialog", "aria-label": trans.__("Turn off all permission questions?"), hidden: "" },
      element("span", {}, words),
      button(trans.__("Keep asking"), back),
      button(trans.__("Turn off all questions"), yes, { class: "cellwright-mod-danger" }),
    );
    node.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      back();
    });
    return node;
  }
}

/** Makes `choices` the select's, and `now` the one that is chosen; a select that is open in the browser stays as it is. */
function fillSelect(select: HTMLSelectElement, choices: readonly PickerOption[], now: string): void {
  const shown = choices.map(({ id, name }) => `${id}\n${name}`).join("\n\n");
  if (select.dataset.choices !== shown) {
    select.dataset.choices = shown;
    select.replaceChildren(...choices.map(({ id, name, about }) => element("option", { value: id, title: about || false }, name)));
  }
  if (select.value !== now) select.value = now;
}
