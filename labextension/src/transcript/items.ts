/** What the store holds: the parts of a transcript in the order in which they appeared. */

import type { AnsweredOp, AskOp, DecidedOp, ErrorInfo, Json, Level, ToldPart, ToolStatus } from "./protocol";

/** `revision` rises with every change, so that a view can tell in one comparison whether to draw again. */
type Revised = { revision: number };

/** `open`: more of it may come. */
export type TextItem = Revised & { kind: "text"; block: number; text: string; open: boolean };
/** `from` and `to` are the times of the first and the latest piece. */
export type ThinkingItem = Revised & {
  kind: "thinking";
  block: number;
  text: string;
  from: number;
  to: number;
  open: boolean;
};
/** `taken`: the kernel has the answer that was given here. */
export type Question = { ask: AskOp; answer: AnsweredOp | null; taken: boolean };
/**
 * "writing": the model writes the input; "waiting": the call is complete and has not begun; "untold": the run ended and
 * nothing was told of a call but its question, as in a quiet cell.
 */
export type CallStatus = "writing" | "waiting" | "running" | "untold" | ToolStatus;
export type ToolItem = Revised & {
  kind: "tool";
  id: string;
  name: string;
  title: string;
  input: Json;
  chars: number;
  status: CallStatus;
  parallel: boolean;
  at: number;
  ms: number;
  output: string;
  displays: Record<string, string>[];
  result: string;
  diff: string | null;
  error: ErrorInfo | null;
  stuck: string;
  decided: DecidedOp | null;
  questions: Question[];
};
/** Words of the user that Claude was given here. */
export type SaidItem = Revised & { kind: "said"; text: string };
export type NoticeItem = Revised & { kind: "notice"; level: Level; text: string };
/** What Claude was told besides the user's words. */
export type ToldItem = Revised & { kind: "told"; tokens: number; parts: ToldPart[] };
export type Item = ToldItem | TextItem | ThinkingItem | ToolItem | SaidItem | NoticeItem;

export function newTool(id: string, name: string): ToolItem {
  return {
    kind: "tool",
    id,
    name,
    title: "",
    input: null,
    chars: 0,
    status: "writing",
    parallel: false,
    at: 0,
    ms: 0,
    output: "",
    displays: [],
    result: "",
    diff: null,
    error: null,
    stuck: "",
    decided: null,
    questions: [],
    revision: 0,
  };
}

export function isOver(status: CallStatus): status is ToolStatus | "untold" {
  return status !== "writing" && status !== "waiting" && status !== "running";
}
