/** The messages of docs/protocol/transcript.md, as types. */

import type { Json, JsonObject } from "../json";

export const PROTOCOL = 1;
/** On the document, with a `SavedMessage`: the page that can put the answer into its notebook cancels it. */
export const SAVED_EVENT = "cellwright-saved";
/** A part of an answer in a notebook: the transcript as data, or while the run goes on where it is found. */
export const TRANSCRIPT_TYPE = "application/vnd.cellwright.transcript+json";
export const TRANSCRIPT_VERSION = 1;

export type ToolStatus = "success" | "error" | "timeout" | "denied" | "interrupted";
export type Scope = "once" | "session" | "always";
export type DetailKind = "text" | "command" | "code" | "diff";
export type Level = "info" | "warning" | "error";
export type ErrorInfo = { code: string; message: string };
export type Behavior = "allow" | "ask" | "deny";
export type QuestionKind = "permission" | "question" | "plan" | "trust";
export type Choice = {
  key: string;
  action: "allow" | "deny";
  scope: Scope;
  label: string;
  rules: string[];
  input: JsonObject | null;
};
export type Todo = { content: string; status: "pending" | "in_progress" | "completed"; activeForm: string };

export type RunOp = { op: "run"; model: string; mode: string; session: string; started: number };
export type ContextPart = { title: string; kind: string; text: string; chars: number; tokens: number };
export type ContextOp = { op: "told"; tokens: number; parts: ContextPart[] };
export type TextOp = { op: "text"; block: number; text: string };
export type ThinkingOp = { op: "thinking"; block: number; text: string; at: number };
export type DropOp = { op: "drop"; blocks: number[]; tools: string[] };
export type ToolInputOp = { op: "tool_input"; id: string; name: string; chars: number };
export type ToolOp = {
  op: "tool";
  id: string;
  name: string;
  title: string;
  input: Json;
  parallel: boolean;
  /** The seconds that it may take, as earlier calls did; null where that is not known. */
  estimate: number | null;
  at: number;
};
export type OutputOp = { op: "output"; id: string; text: string };
export type DisplayOp = { op: "display"; id: string; data: Record<string, string> };
export type ToolEndOp = {
  op: "tool_end";
  id: string;
  status: ToolStatus;
  ms: number;
  result: string;
  diff: string | null;
  error: ErrorInfo | null;
  /** Its title now that it is over. A kernel of an earlier version does not say it, nor the lines. */
  title?: string;
  /** Of the whole diff, which may be cut. */
  lines?: ChangedLines | null;
};
export type ChangedLines = { added: number; removed: number };
export type DecidedOp = {
  op: "decided";
  tool: string;
  behavior: Behavior;
  by: "policy" | "hook";
  reason: string;
  rule: string;
};
/** An agent begins to work for the call `tool`; `parent` is the card of the agent whose call it is, null for Claude's. */
export type AgentOp = {
  op: "agent";
  card: number;
  tool: string;
  parent: number | null;
  agent: string;
  type: string;
  background: boolean;
  at: number;
};
/** A line of its stream; "end" is the end of the call `call`, whose line came before. */
export type AgentLineOp = {
  op: "agent_line";
  card: number;
  kind: "call" | "end" | "text" | "note";
  text: string;
  call: string;
  status: ToolStatus | "";
  ms: number;
};
export type AgentState = "working" | "done" | "failed" | "stopped";
/** The state of its work, and what that took so far; `ms` is null while it works. */
export type AgentStateOp = {
  op: "agent_state";
  card: number;
  state: AgentState;
  calls: number;
  tokens: number;
  cost_usd: number | null;
  ms: number | null;
};
export type NumberVerdict = "seen" | "derived" | "weak" | "not_found";
/** The place of a number: the line, and the call, the cell or the file that has it, or "". */
export type NumberPlace = { quote: string; call: string; cell: string; path: string };
/** A number of the answer; `from_end` counts equal texts behind it. */
export type NumberSaid = { text: string; from_end: number; verdict: NumberVerdict; words: string; marked: boolean; source: NumberPlace | null };
/** A marked number of an earlier answer, counted from 1, that was computed since. */
export type CheckedNumber = { number: number; agrees: boolean; words: string; source: NumberPlace };
export type CheckedNumbers = { answer: string; numbers: CheckedNumber[] };
/** `answer` names the answer; `check` is the prompt that asks to compute the marked ones; `names` is left out if there is none. */
/** A name that the answer states and nothing has: a piece of inline code if `code`, else words. `from_end` counts equal ones behind it. */
export type UnknownName = { text: string; from_end: number; words: string; code: boolean };
export type NumbersOp = { op: "numbers"; answer: string; check: string; numbers: NumberSaid[]; checked: CheckedNumbers | null; names?: UnknownName[] };
export type TodosOp = { op: "todos"; todos: Todo[] };
export type SteerHow = "steer" | "queue";
export type SteerOp = {
  op: "steer";
  id: string;
  text: string;
  state: "waiting" | "delivered" | "withdrawn";
  how: SteerHow;
  at: number;
};
/** Another model than the one of `run` answers from here on. */
export type ModelOp = { op: "model"; model: string };
export type ModeOp = { op: "mode"; mode: string };
/** A call of the same message that will be asked about as well, as it stands now. */
export type NextCall = { tool: string; title: string; detail: string; detail_kind: DetailKind; path: string; warning: string };
export type AskOp = {
  op: "ask";
  question: string;
  tool: string;
  name: string;
  input: JsonObject | null;
  kind: QuestionKind;
  title: string;
  detail: string;
  detail_kind: DetailKind;
  path: string;
  warning: string;
  reason: string;
  choices: Choice[];
  /** A kernel of an earlier version does not say it. */
  next?: NextCall[];
  at: number;
};
export type AnsweredOp = {
  op: "answered";
  question: string;
  tool: string;
  behavior: "allow" | "deny";
  scope: Scope;
  by: string;
  reason: string;
  rules: string[];
  edited: boolean;
  input: JsonObject | null;
};
export type TurnOp = {
  op: "turn";
  cost_usd: number | null;
  context_tokens: number;
  context_window: number | null;
  input_tokens: number;
  output_tokens: number;
  cache_read_tokens: number;
};
export type RetryOp = {
  op: "retry";
  attempt: number;
  of: number;
  wait: number;
  code: string;
  message: string;
  at: number;
};
/** The conversation so far was summed up; tokens and cost say how much that took. */
export type CompactedOp = {
  op: "compacted";
  state: "started" | "done" | "failed";
  trigger: "auto" | "manual";
  before: number;
  after: number;
  cost_usd: number | null;
  summary: string;
  reason: string;
};
/** `waits`: it holds only until the run begins. */
export type NoticeOp = { op: "notice"; level: Level; text: string; waits?: boolean };
/** What follows stands in the next part of the answer, below what code has displayed. */
export type PartOp = { op: "part"; part: number };
export type StuckOp = { op: "stuck"; id: string; text: string };
/** A file or a cell; lines are null where they were not counted. */
export type Changed = {
  where: string;
  kind: "created" | "changed" | "deleted";
  added: number | null;
  removed: number | null;
};
export type ChangesOp = {
  op: "changes";
  turn: number;
  files: Changed[];
  cells: Changed[];
  effects: string[];
  not_kept: string[];
};
export type EndOp = {
  op: "end";
  stop_reason: string;
  cost_usd: number | null;
  session_cost_usd: number | null;
  ms: number;
  error: ErrorInfo | null;
};

export type Op =
  | RunOp
  | ContextOp
  | TextOp
  | ThinkingOp
  | DropOp
  | ToolInputOp
  | ToolOp
  | OutputOp
  | DisplayOp
  | ToolEndOp
  | DecidedOp
  | AgentOp
  | AgentLineOp
  | AgentStateOp
  | TodosOp
  | NumbersOp
  | ModelOp
  | ModeOp
  | SteerOp
  | ChangesOp
  | AskOp
  | AnsweredOp
  | TurnOp
  | RetryOp
  | NoticeOp
  | CompactedOp
  | PartOp
  | StuckOp
  | EndOp;

export type OpsMessage = { type: "ops"; first: number; now: number; ops: Op[] };
export type AckMessage = { type: "ack"; question: string };
/** One of the outputs that a cell holds of a run. */
export type SavedCellOutput = { data: JsonObject; metadata: JsonObject };
/** `writer`: the kernel connection of the page that writes into a notebook that several share, "" where none has to. */
export type SavedMessage = { type: "saved"; run: string; cell: string | null; count: number | null; writer: string; outputs: SavedCellOutput[] };
export type KernelMessage = OpsMessage | AckMessage | SavedMessage;

export type ReadyMessage = { type: "ready"; have: number; protocol: number };
export type AnswerMessage = {
  type: "answer";
  question: string;
  behavior: "allow" | "deny";
  scope: Scope;
  reason: string;
  input: JsonObject | null;
  /** Allow what `next` lists as well; absent: no. */
  next?: boolean;
};
export type StopMessage = { type: "stop" };
export type StopAgentMessage = { type: "stop_agent"; agent: string };
export type RestartMessage = { type: "restart" };
export type KeptMessage = { type: "kept"; writer: string };
export type SteerMessage = { type: "steer"; id: string; text: string; how: SteerHow };
export type WithdrawMessage = { type: "withdraw"; id: string };
export type BrowserMessage = ReadyMessage | AnswerMessage | StopMessage | StopAgentMessage | RestartMessage | KeptMessage | SteerMessage | WithdrawMessage;

const KERNEL_MESSAGES: readonly unknown[] = ["ops", "ack", "saved"] satisfies KernelMessage["type"][];

/** A message of the kernel, or null for one that this version does not know. */
export function kernelMessage(content: unknown): KernelMessage | null {
  if (typeof content !== "object" || content === null || !("type" in content)) return null;
  return KERNEL_MESSAGES.includes(content.type) ? (content as KernelMessage) : null;
}
