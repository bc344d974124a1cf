/** The conversation as the panel's parts see it: one kernel's, whichever that is now. */

import type { Json, JsonObject } from "../json";
import type { TranscriptStore } from "../transcript/store";
import type { ChatState, PanelMessage, PromptParams, Run } from "./chat_protocol";

/** `missing`: the kernel lacks the package; `unsupported`: it holds another version; `lost`: it was there, and does not answer. */
export type Connection = "none" | "connecting" | "connected" | "missing" | "unsupported" | "lost";

/** A run with what was said in it; `restarted`: the kernel was restarted after it. */
export type RunTranscript = { readonly run: Run; readonly transcript: TranscriptStore; readonly restarted?: boolean };

/** The notebook that the conversation's kernel belongs to; null for a kernel of the panel's own. */
export type KernelInfo = { readonly kernelId: string; readonly name: string; readonly notebook: string | null };

/** The reason why there is no conversation; each field is empty where it is not known. */
export type ConnectionProblem = {
  /** The Python of the kernel. */
  readonly executable: string;
  /** The version of the package that the kernel holds. */
  readonly version: string;
  /** The protocol that it speaks; 0: none that the panel knows. */
  readonly protocol: number;
  /** The error, in the kernel's words. */
  readonly message: string;
};

export type Chat = {
  readonly connection: Connection;
  readonly kernelInfo: KernelInfo | null;
  /** With `missing`, `unsupported` and `lost`. */
  readonly problem: ConnectionProblem | null;
  /** True while a kernel without subshells has to end its cell before it can answer. */
  readonly waitsForCell: boolean;
  /** Null until the kernel has said it. */
  readonly state: ChatState | null;
  /** True while the conversation from before a restart of the kernel is brought back; then why it could not be, if it could not. */
  readonly isRestoring: boolean;
  readonly notRestored: string;
  /** Nothing gives a key, and the panel's card says so. */
  readonly needsKey: boolean;
  /** In the order in which they were asked for. */
  readonly runs: readonly RunTranscript[];
  /** Calls `listener` after each change of what is above; a run's text tells its own store's listeners. Gives how to stop that. */
  subscribe(listener: () => void): () => void;
  /** Sends a prompt, or a slash command; gives the run's id. Starts a kernel where there is none. Rejects with RequestError. */
  prompt(params: PromptParams): Promise<string>;
  /** Asks the kernel for something, see the table in chat.md. Rejects with RequestError. */
  request(method: string, params: JsonObject, timeout?: number): Promise<Json>;
  send(message: PanelMessage): void;
};
