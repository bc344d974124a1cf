/** Sending what was written: as a prompt, or to the run in progress (steering). Nothing of it is lost before the kernel has it. */

import { randomName } from "../page";
import { button, element, setText } from "../transcript/dom";
import type { SteerHow } from "../transcript/protocol";
import type { Trans } from "../translation";
import type { Chat } from "../transport/chat";
import type { PromptParams } from "../transport/chat_protocol";
import { commandName } from "./completions";
import type { ComposerDeps } from "./composer_deps";

/** The run that words can be said to; null where none goes on. */
export function currentRun(chat: Chat): string | null {
  const id = chat.state?.current ?? null;
  if (id === null || chat.connection !== "connected") return null;
  const run = chat.runs.find((shown) => shown.run.id === id)?.run;
  return run && (run.kind !== "prompt" || run.state === "waiting") ? null : id;
}

/** The reason why nothing can be sent now; "" where it can. Where there is no kernel, sending starts one. */
export function sendBlocker(chat: Chat, trans: Trans): string {
  switch (chat.connection) {
    case "lost":
      return trans.__("The kernel is not answering. What you wrote stays here.");
    case "missing":
    case "unsupported":
      return trans.__("This kernel can't be asked yet; the note above says why. What you wrote stays here.");
    case "none":
    case "connecting":
    case "connected":
      return "";
    default:
      return chat.connection satisfies never;
  }
}

/** The way `text` takes: steering the run in progress, or a prompt of its own. Only text can steer, not attachments. */
export function deliveryOf(chat: Chat, how: SteerHow, text: string, goesAlong: boolean): "steer" | "prompt" {
  return how === "steer" && currentRun(chat) !== null && !goesAlong && commandName(text) === null ? "steer" : "prompt";
}

/** Tells the run something; gives the id of the words. */
export function sendSteering(chat: Chat, run: string, text: string): string {
  const id = randomName();
  chat.send({ type: "steer", id, text, how: "steer", run });
  return id;
}

/** Sends a prompt; why that failed, for the user, or null. */
export async function sendPrompt(chat: Chat, params: PromptParams): Promise<string | null> {
  try {
    await chat.prompt(params);
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

// The line below the prompt: what the keys do; while a run goes on, how words reach it. Its height never changes.

/** `about` is said instead of the keys, where it is not empty. `goesAlong`: more than words would be sent, and words alone steer. */
export type RunBarState = {
  readonly isRunning: boolean; readonly steers: boolean; readonly goesAlong: boolean; readonly isStopping: boolean; readonly about: string;
};

export class RunBar {
  readonly node: HTMLElement;
  private readonly hint: HTMLElement;
  private readonly ways: HTMLElement;
  private readonly buttons: Record<SteerHow, HTMLButtonElement>;

  /** `choose` is called when the user wants the other way. */
  constructor(
    private readonly deps: ComposerDeps,
    choose: (how: SteerHow) => void,
  ) {
    const { trans } = deps;
    const way = (how: SteerHow, label: string, title: string): HTMLButtonElement =>
      button(label, () => { choose(how); }, { title, "aria-pressed": "false" });
    this.buttons = {
      steer: way("steer", trans.__("Steer"), trans.__("Claude reads it with its next step")),
      queue: way("queue", trans.__("Queue"), trans.__("Claude is asked once it is done with this")),
    };
    this.ways = element("span", { class: "cellwright-ways", role: "group", "aria-label": trans.__("While Claude works") });
    this.ways.append(this.buttons.steer, this.buttons.queue);
    this.hint = element("span", { class: "cellwright-hint" });
    this.node = element("div", { class: "cellwright-run-bar" }, this.ways, this.hint);
  }

  update(now: RunBarState): void {
    this.ways.hidden = !now.isRunning;
    this.buttons.steer.setAttribute("aria-pressed", String(now.steers));
    this.buttons.queue.setAttribute("aria-pressed", String(!now.steers));
    const words = this.words(now);
    setText(this.hint, words);
    this.hint.title = words;
  }

  private words({ isRunning, steers, goesAlong, isStopping, about }: RunBarState): string {
    const { trans } = this.deps;
    if (isStopping) return trans.__("Press Esc again to stop Claude");
    if (about) return about;
    if (!isRunning) {
      const newLine = this.deps.settings().sendKey === "Enter" ? "Shift+Enter" : "Enter";
      return trans.__("/ commands · @ files, cells · $ variables · ↑ history · %1 new line", newLine);
    }
    if (goesAlong) return trans.__("With a cell or files attached it is asked when this is done: words alone steer · Esc Esc stops");
    return steers
      ? trans.__("Claude reads it with its next step · Alt+Enter queues · Esc Esc stops")
      : trans.__("Claude is asked when this is done · Alt+Enter steers · Esc Esc stops");
  }
}
