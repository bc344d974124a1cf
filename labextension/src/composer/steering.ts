/** What becomes of what was written: a prompt, or words for the run that goes on. Nothing of it is lost before the kernel has it. */

import type { Chat } from "../transport/chat";
import type { PromptParams } from "../transport/chat_protocol";
import { randomName } from "../page";
import type { SteerHow } from "../transcript/protocol";
import type { Trans } from "./composer_deps";
import { commandName } from "./trigger";

/** The run that words can be said to; null where none goes on. */
export function currentRun(chat: Chat): string | null {
  const id = chat.state?.current ?? null;
  if (id === null || chat.connection !== "connected") return null;
  const run = chat.runs.find((shown) => shown.run.id === id)?.run;
  return run && (run.kind !== "prompt" || run.state === "waiting") ? null : id;
}

/** Why nothing can be sent now; "" where it can. Where there is no kernel, sending starts one. */
export function hindrance(chat: Chat, trans: Trans): string {
  switch (chat.connection) {
    case "lost":
      return trans.__("The kernel does not answer. What you have written stays here.");
    case "missing":
    case "unsupported":
      return trans.__("This kernel cannot be asked yet: the note above says why. What you have written stays here.");
    case "none":
    case "connecting":
    case "connected":
      return "";
    default:
      return chat.connection satisfies never;
  }
}

/** How `text` reaches Claude: told to the run that goes on ("steer"), or as a prompt of its own. Words alone can be told: not with what goes along with them. */
export function wayOf(chat: Chat, how: SteerHow, text: string, goesAlong: boolean): "steer" | "prompt" {
  return how === "steer" && currentRun(chat) !== null && !goesAlong && commandName(text) === null ? "steer" : "prompt";
}

/** Tells the run something; gives the id of the words. */
export function steer(chat: Chat, run: string, text: string): string {
  const id = randomName();
  chat.send({ type: "steer", id, text, how: "steer", run });
  return id;
}

/** Sends a prompt; why that failed, for the user, or null. */
export async function prompt(chat: Chat, params: PromptParams): Promise<string | null> {
  try {
    await chat.prompt(params);
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
