/** The messages of docs/protocol/chat.md, as types. Operations and answers are the transcript's. */

import type { JsonObject } from "../json";
import type { BrowserMessage, Op, SteerMessage } from "../transcript/protocol";

export const CHAT_TARGET = "cellwright.chat";
export const CHAT_PROTOCOL = 1;

export type RunState = "waiting" | "running" | "asking" | "done" | "failed" | "interrupted";

/** One run of the conversation, wherever it was asked for. */
export type Run = {
  id: string;
  prompt: string;
  /** In words: `[3]` is a cell. */
  place: string;
  kind: "prompt" | "command" | "past";
  state: RunState;
  session: string;
  turn: number | null;
  asked: number;
  background: boolean;
  /** So far all of it comes from a recording. */
  replayed?: boolean;
  /** The action on a cell that was asked for; absent in runs of another kind of kernel. */
  action?: (CellActionRequest & { path: string; id: string }) | null;
};

export type CellActionName = "fix" | "edit" | "explain" | "document";

/** An action on the cell that goes with a prompt; the kernel writes the prompt. */
export type CellActionRequest = {
  name: CellActionName;
  /** The cell in words: `cell [3]`. */
  label: string;
  /** The kind of error in its output; empty: none. */
  error: string;
  /** The user's words besides. */
  words: string;
};

export type CurrentSession = {
  id: string;
  title: string;
  cost_usd: number | null;
  context_tokens: number;
  context_window: number | null;
  turns: number;
};

export type NamedOption = { id: string; name: string; about?: string };

export type ChatState = {
  session: CurrentSession;
  cwd: string;
  kernel: { executable: string; python: string; busy: boolean };
  model: string;
  models: NamedOption[];
  mode: string;
  modes: NamedOption[];
  effort: string;
  efforts: string[];
  current: string | null;
  waiting: string[];
  asking: string[];
  notices: string[];
  /** The answers are a script's: there is no model. */
  scripted: boolean;
};

/** A session as the list shows it; times in seconds since the epoch, `size` in bytes. Hits stand between ⟪ and ⟫ in `snippet`. */
export type SessionEntry = {
  id: string;
  title: string;
  tags: string[];
  cwd: string;
  created: number;
  updated: number;
  turns: number;
  cost_usd: number | null;
  model: string;
  size: number;
  in_use: boolean;
  snippet: string;
  forked_from: string;
  /** Steps below the session that it was forked from, in a list that is a tree. */
  depth: number;
};

export type Completion = { insert: string; label: string; about: string; kind: string };

export type Attachment =
  | { kind: "image"; media_type: string; data: string; name: string }
  | { kind: "text"; name: string; text: string }
  | MarkedAttachment;

/** A cell, or an output of it, that the user marked: its source, what it shows, and what the user remarked. `picture` is base64. */
export type MarkedAttachment = {
  kind: "marked";
  name: string;
  notebook: string;
  cell: string;
  remark: string;
  source: string;
  output: string;
  /** For Claude: what the picture lacks. */
  note: string;
  picture: string | null;
};

/** The cell that goes with a prompt. */
export type AttachedCell = { path: string; id: string; selection: string };

export type PromptParams = {
  text: string;
  attachments: Attachment[];
  context: "none" | "auto" | "code" | "cells" | "full";
  cell: AttachedCell | null;
  /** The run options of docs/settings.md, by their names in the panel's column. */
  options: JsonObject;
  /** Instead of a text. */
  action?: CellActionRequest | null;
  /** The run whose attachments, context, cell and options are sent instead of these. */
  like?: string;
};

export type WelcomeMessage = { type: "welcome"; protocol: number; version: string; log: string; executable: string };
export type UnsupportedMessage = { type: "unsupported"; protocol: number; version: string };
export type FailedMessage = { type: "failed"; code: string; message: string };
export type StateMessage = { type: "state" } & ChatState;
export type RunMessage = { type: "run"; run: Run };
export type RunOpsMessage = { type: "ops"; run: string; first: number; now: number; ops: Op[] };
export type GoneMessage = { type: "gone"; runs: string[] };
export type ChatAckMessage = { type: "ack"; question: string };
export type ChatMessage =
  | WelcomeMessage
  | UnsupportedMessage
  | StateMessage
  | RunMessage
  | RunOpsMessage
  | GoneMessage
  | ChatAckMessage;

export type StopRunMessage = { type: "stop"; run: string };
export type ResendMessage = { type: "again"; run: string; have: number };
/** Words for this run and no other: it may end while they are on their way. */
export type SteerRunMessage = SteerMessage & { run: string };
export type PanelMessage = Extract<BrowserMessage, { type: "answer" | "withdraw" | "stop_agent" }> | SteerRunMessage | StopRunMessage | ResendMessage | { type: "bye" };
