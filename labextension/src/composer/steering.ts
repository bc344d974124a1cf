/** Sending what was written: as a prompt, or to the run in progress (steering). Nothing of it is lost before the kernel has it. */

import { randomName } from "../page";
import { element, setText } from "../transcript/dom";
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

// What is said above the prompt when there is a reason, and while a run goes on how words reach it. Neither moves anything.

/** `about` is said if it is not empty. `goesAlong`: more than words would be sent, and only words can be sent to a run at once. */
export type RunBarState = {
  readonly isRunning: boolean; readonly steers: boolean; readonly goesAlong: boolean; readonly isStopping: boolean; readonly about: string;
};

export class RunBar {
  readonly hint: HTMLElement;
  /** The choice of how words reach the run. */
  readonly ways: HTMLSelectElement;

  /** `choose` is called when the user wants the other way. */
  constructor(
    private readonly deps: ComposerDeps,
    choose: (how: SteerHow) => void,
  ) {
    const { trans } = deps;
    const way = (how: SteerHow, about: string): HTMLOptionElement => element("option", { value: how, title: about }, deliveryName(how, trans));
    this.ways = element(
      "select",
      { class: "cellwright-ways", "aria-label": trans.__("While Claude works"), hidden: "" },
      way("steer", trans.__("Claude receives it with its next step")),
      way("queue", trans.__("Claude receives it when it is done with this")),
    );
    this.ways.addEventListener("change", () => { choose(this.ways.value === "queue" ? "queue" : "steer"); });
    this.hint = element("p", { class: "cellwright-hint", role: "status" });
  }

  update(now: RunBarState): void {
    const { trans } = this.deps;
    this.ways.hidden = !now.isRunning;
    this.ways.value = now.steers ? "steer" : "queue";
    this.ways.title = now.steers
      ? trans.__("Claude receives it with its next step. Alt+Enter sends it when Claude is done.")
      : trans.__("Claude receives it when it is done. Alt+Enter sends it now.");
    setText(this.hint, this.words(now));
  }

  private words({ isRunning, goesAlong, isStopping, about }: RunBarState): string {
    const { trans } = this.deps;
    if (isStopping) return trans.__("Press Esc again to stop Claude");
    if (about) return about;
    return isRunning && goesAlong ? trans.__("With a cell or files it is sent when Claude is done.") : "";
  }
}

export function deliveryName(how: SteerHow, trans: Trans): string {
  return how === "steer" ? trans.__("Send now") : trans.__("Send when done");
}
