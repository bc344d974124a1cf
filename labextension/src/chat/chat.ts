/** What the panel's parts know of the conversation: one kernel's, whichever that is now. */

import type { Json, JsonObject } from "../notebooks/types";
import type { TranscriptStore } from "../transcript/store";
import type { ChatState, PanelMessage, PromptParams, Run } from "./protocol";

/** `missing`: the kernel lacks the package; `unsupported`: it holds another version; `lost`: it was there, and does not answer. */
export type Connection = "none" | "connecting" | "connected" | "missing" | "unsupported" | "lost";

/** A run with what was said in it. */
export type ShownRun = { readonly run: Run; readonly transcript: TranscriptStore };

/** The notebook that the conversation's kernel belongs to; null for a kernel of the panel's own. */
export type KernelPlace = { readonly kernelId: string; readonly name: string; readonly notebook: string | null };

export type Chat = {
  readonly connection: Connection;
  readonly place: KernelPlace | null;
  /** Null until the kernel has said it. */
  readonly state: ChatState | null;
  /** In the order in which they were asked for. */
  readonly runs: readonly ShownRun[];
  /** Calls `listener` after each change of what is above; a run's text tells its own store's listeners. Gives how to stop that. */
  subscribe(listener: () => void): () => void;
  /** Sends a prompt, or a slash command; gives the run's id. Rejects with RequestError. */
  prompt(params: PromptParams): Promise<string>;
  /** Asks the kernel for something, see the table in chat.md. Rejects with RequestError. */
  request(method: string, params: JsonObject, timeout?: number): Promise<Json>;
  send(message: PanelMessage): void;
};
