/** The transcript's state: operations in, items out. It draws nothing and knows no channel. */

import type { Json } from "../json";
import type { AgentLineOp, AgentOp, AgentState, AgentStateOp, AnsweredOp, AskOp, ChangedLines, ChangesOp, CompactedOp, DecidedOp, EndOp, ErrorInfo, Level, NoticeOp, NumbersOp, Op, OpsMessage, RetryOp, RunOp, SteerOp, Todo, ContextOp, ToolEndOp, ToolStatus, TurnOp } from "./protocol";

/** Live output is for looking at; the whole of it is the kernel's. */
const MAX_OUTPUT_CHARS = 64_000;

/** Of an agent's stream, the latest. */
const MAX_AGENT_LINES = 300;

export type Totals = { cost: number | null; input: number; output: number; context: number; window: number | null };

export class TranscriptStore {
  /** The number of operations of the kernel's log that are in here. */
  have = 0;
  /** The last part of the answer: what comes now stands there. */
  part = 0;
  /** How often items were taken out. */
  drops = 0;
  /** What the last `drop` took away, for a `retry` behind it; and what of it is shown meanwhile. */
  private dropped: TextItem[] = [];
  private stale: TextItem[] = [];
  private caughtUp = 0;
  run: RunOp | null = null;
  retry: RetryOp | null = null;
  end: EndOp | null = null;
  /** The permission mode that is in force. */
  mode = "";
  todos: readonly Todo[] = [];
  /** The answer's numbers with their sources, once it is finished. */
  numbers: NumbersOp | null = null;
  /** The context that was sent with the prompt. */
  readonly context: ContextOp[] = [];
  /** The run's changes, told when it is about to end. */
  changes: ChangesOp | null = null;
  /** The user's messages that wait to be delivered, by their ids; at the end: those that were not. */
  readonly pendingMessages = new Map<string, SteerOp>();
  /** All messages that the kernel has mentioned. */
  readonly knownMessages = new Set<string>();
  /** Messages that were taken back, or came too late. */
  readonly withdrawnMessages = new Set<string>();
  readonly items: Item[] = [];
  readonly totals: Totals = { cost: 0, input: 0, output: 0, context: 0, window: null };

  private readonly parts = new WeakMap<Item, number>();
  private readonly blocks = new Map<number, TextItem | ThinkingItem>();
  private readonly tools = new Map<string, ToolItem>();
  private readonly agents = new Map<number, AgentItem>();
  private readonly questions = new Map<string, Question>();
  private readonly listeners = new Set<() => void>();
  private skew = 0;

  /** `clock`: seconds since the epoch, in the browser. */
  constructor(private readonly clock: () => number = () => Date.now() / 1000) {}

  /** The time by the kernel's clock, which all times in operations are of. */
  now(): number {
    return this.clock() + this.skew;
  }

  /** Takes what is new in `message`; false when operations before it are missing (then nothing is taken). */
  receive(message: OpsMessage): boolean {
    this.skew = message.now - this.clock();
    if (message.first > this.have) return false;
    const fresh = message.ops.slice(this.have - message.first);
    for (const op of fresh) this.apply(op);
    this.have += fresh.length;
    if (fresh.length > 0) this.changed();
    return true;
  }

  /** The kernel is gone, and with it the run: nothing comes of it any more. */
  loseKernel(): void {
    if (!this.run || this.end) return;
    const message = "What Claude had finished is kept: %claude /sessions lists the conversation, and /resume continues it.";
    const ms = Math.max(0, (this.now() - this.run.started) * 1000);
    this.apply({ op: "end", stop_reason: "error", cost_usd: null, session_cost_usd: null, ms, error: { code: "KERNEL_ENDED", message } });
    this.changed();
  }

  /** The kernel has taken the answer to `question`. */
  acknowledge(question: string): void {
    const known = this.questions.get(question);
    if (!known || known.taken) return;
    known.taken = true;
    this.touchTool(known.ask.tool);
    this.changed();
  }

  /** The questions that wait for an answer, oldest first. */
  pending(): Question[] {
    return this.end ? [] : [...this.questions.values()].filter((question) => question.answer === null);
  }

  /** Calls `listener` after each change; returns how to stop that. */
  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  private changed(): void {
    for (const listener of this.listeners) listener();
  }

  private apply(op: Op): void {
    switch (op.op) {
      case "run":
        this.run = op;
        this.mode = op.mode;
        this.dropWaiting();
        return;
      case "part":
        this.part = op.part;
        return;
      case "told":
        this.context.push(op);
        return;
      case "model":
        if (this.run) this.run = { ...this.run, model: op.model };
        return;
      case "mode":
        this.mode = op.mode;
        return;
      case "todos":
        this.todos = op.todos;
        return;
      case "numbers":
        this.numbers = op;
        return;
      case "text":
      case "thinking":
        this.retry = null;
        this.appendText(op.op, op.block, op.text, op.op === "thinking" ? op.at : 0);
        if (op.op === "text") this.catchUp(op.text.length);
        return;
      case "drop":
        this.drop(op.blocks, op.tools);
        return;
      case "retry":
        this.retry = op;
        this.bringBack();
        return;
      case "turn":
        this.endTurn(op);
        return;
      case "steer":
        this.steer(op);
        return;
      case "changes":
        this.changes = op;
        return;
      case "notice":
        this.notice(op);
        return;
      case "compacted":
        this.compact(op);
        return;
      case "agent":
        this.beginAgent(op);
        return;
      case "agent_line":
      case "agent_state":
        this.applyToAgent(op);
        return;
      case "end":
        this.endRun(op);
        return;
      default:
        this.applyToCall(op);
    }
  }

  /** What is being summed up is one item from its beginning to its end. */
  private compact(op: CompactedOp): void {
    const open = this.items.find((item) => item.kind === "compacted" && item.op.state === "started");
    if (open?.kind !== "compacted") {
      this.push({ kind: "compacted", op, revision: 0 });
      return;
    }
    open.op = op;
    open.revision += 1;
  }

  private applyToCall(
    op: Extract<Op, { op: "tool_input" | "tool" | "output" | "display" | "tool_end" | "decided" | "ask" | "answered" | "stuck" }>,
  ): void {
    switch (op.op) {
      case "tool_input":
        this.retry = null;
        this.tool(op.id, op.name).chars = op.chars;
        return;
      case "tool":
        Object.assign(this.tool(op.id, op.name), {
          title: op.title,
          input: op.input,
          parallel: op.parallel,
          estimate: op.estimate,
          at: op.at,
          status: "running",
        });
        return;
      case "output": {
        const tool = this.tool(op.id);
        tool.output = (tool.output + op.text).slice(-MAX_OUTPUT_CHARS);
        return;
      }
      case "display":
        this.tool(op.id).displays.push(op.data);
        return;
      case "tool_end":
        this.endTool(op);
        return;
      case "decided":
        this.tool(op.tool).decided = op;
        return;
      case "ask": {
        const question: Question = { ask: op, answer: null, taken: false };
        this.questions.set(op.question, question);
        const tool = this.tool(op.tool, op.name);
        tool.title ||= op.title;
        // what is asked about is complete
        if (tool.status === "writing") tool.status = "waiting";
        tool.questions.push(question);
        return;
      }
      case "answered": {
        const question = this.questions.get(op.question);
        if (question) question.answer = op;
        // the time that the user took is not the call's; of what was answered before the page came nobody knows when
        if (this.have > 0) this.tool(op.tool).at = this.now();
        this.touchTool(op.tool);
        if (question?.ask.kind === "trust") this.tool(op.tool).status = op.behavior === "allow" ? "success" : "denied";
        return;
      }
      case "stuck":
        this.tool(op.id).stuck = op.text;
        return;
      default: {
        // an operation of a later protocol: counted, not drawn
        op satisfies never;
      }
    }
  }

  private beginAgent(op: AgentOp): void {
    const parent = op.parent === null ? undefined : this.agents.get(op.parent);
    const { card, agent, type, background, at } = op;
    const root = parent?.root ?? op.tool;
    const made: AgentItem = { card, root, agent, type, background, at, state: "working", calls: 0, tokens: 0, cost: 0, ms: null, lines: [], dropped: 0 };
    this.agents.set(card, made);
    const line = parent?.lines.findLast((each) => each.call === op.tool);
    if (line) line.agent = made;
    const tool = this.tool(root);
    if (op.parent === null) tool.agents.push(made);
  }

  private applyToAgent(op: AgentLineOp | AgentStateOp): void {
    const agent = this.agents.get(op.card);
    if (!agent) return;
    this.touchTool(agent.root);
    if (op.op === "agent_state") {
      Object.assign(agent, { state: op.state, calls: op.calls, tokens: op.tokens, cost: op.cost_usd, ms: op.ms });
      return;
    }
    const { kind, call, status, ms } = op;
    if (kind === "end") {
      const line = agent.lines.findLast((each) => each.call === call);
      if (line) Object.assign(line, { status, ms, text: op.text || line.text });
      return;
    }
    if (kind === "call") agent.calls++;
    agent.lines.push({ kind, text: op.text, call, status, ms, agent: null });
    const over = agent.lines.length - MAX_AGENT_LINES;
    if (over <= 0) return;
    agent.lines.splice(0, over);
    agent.dropped += over;
  }

  private steer(op: SteerOp): void {
    this.knownMessages.add(op.id);
    if (op.state === "waiting") this.pendingMessages.set(op.id, op);
    else this.pendingMessages.delete(op.id);
    if (op.state === "withdrawn") this.withdrawnMessages.add(op.id);
    if (op.state === "delivered") this.push({ kind: "said", text: op.text, revision: 0 });
  }

  private appendText(kind: "text" | "thinking", block: number, text: string, at: number): void {
    let item = this.blocks.get(block);
    if (!item) {
      item =
        kind === "text"
          ? { kind, block, text: "", open: true, revision: 0 }
          : { kind, block, text: "", from: at, to: at, open: true, revision: 0 };
      this.blocks.set(block, item);
      this.push(item);
    }
    item.text += text;
    if (item.kind === "thinking") item.to = at;
    item.revision++;
  }

  /** The card of the call `id`, made where there is none; its revision rises. */
  private tool(id: string, name = ""): ToolItem {
    let tool = this.tools.get(id);
    if (!tool) {
      tool = newTool(id, name);
      this.tools.set(id, tool);
      this.push(tool);
    }
    tool.revision++;
    return tool;
  }

  private touchTool(id: string): void {
    const tool = this.tools.get(id);
    if (tool) tool.revision++;
  }

  /** What is said again in the run stands where it was said first, with how often. */
  private notice({ level, text, waits = false }: NoticeOp): void {
    const said = this.items.find((item): item is NoticeItem => item.kind === "notice" && item.level === level && item.text === text);
    if (said) {
      said.times++;
      said.revision++;
    } else this.push({ kind: "notice", level, text, waits, times: 1, revision: 0 });
  }

  /** The part of the answer that an item stands in. */
  partOf(item: Item): number {
    return this.parts.get(item) ?? 0;
  }

  private push(item: Item): void {
    this.closeLast();
    this.parts.set(item, this.part);
    this.items.push(item);
  }

  private closeLast(): void {
    const last = this.items.at(-1);
    if (last && (last.kind === "text" || last.kind === "thinking") && last.open) {
      last.open = false;
      last.revision++;
    }
  }

  private endTool(op: ToolEndOp): void {
    const { status, ms, result, diff, error, title, lines = null } = op;
    const tool = this.tool(op.id);
    Object.assign(tool, { status, ms, result, diff, error, lines, title: title === undefined || title === "" ? tool.title : title, stuck: "" });
  }

  private drop(blocks: number[], tools: string[]): void {
    const void_ = new Set<Item | undefined>([
      ...blocks.map((block) => this.blocks.get(block)),
      ...tools.map((id) => this.tools.get(id)),
    ]);
    for (const block of blocks) this.blocks.delete(block);
    for (const id of tools) this.tools.delete(id);
    this.remove(void_);
    this.dropped = [...void_].filter((item): item is TextItem => item?.kind === "text");
  }

  private remove(items: ReadonlySet<Item | undefined>): void {
    this.drops++;
    this.items.splice(0, this.items.length, ...this.items.filter((item) => !items.has(item)));
  }

  /** What streamed of a request that is sent again stays to be read, greyed, until as much came of the new answer. */
  private bringBack(): void {
    const dropped = this.dropped;
    this.dropped = [];
    this.caughtUp = 0;
    if (lengthOf(dropped) < lengthOf(this.stale)) return; // what came before it was more
    this.dropStale();
    this.stale = dropped.map(({ block, text }) => ({ kind: "text", block, text, open: false, stale: true, revision: 0 }));
    for (const item of this.stale) this.push(item);
  }

  private catchUp(length: number): void {
    if (this.stale.length === 0) return;
    this.caughtUp += length;
    if (this.caughtUp >= lengthOf(this.stale)) this.dropStale();
  }

  /** The run's turn has come: that it waited is no part of its answer. */
  private dropWaiting(): void {
    const waiting = this.items.filter((item) => item.kind === "notice" && item.waits);
    if (waiting.length > 0) this.remove(new Set<Item | undefined>(waiting));
  }

  private dropStale(): void {
    this.caughtUp = 0;
    if (this.stale.length === 0) return;
    this.remove(new Set<Item | undefined>(this.stale));
    this.stale = [];
  }

  private endTurn(op: TurnOp): void {
    const { totals } = this;
    this.retry = null;
    this.dropStale();
    this.closeLast();
    totals.cost = totals.cost === null || op.cost_usd === null ? null : totals.cost + op.cost_usd;
    totals.input += op.input_tokens + op.cache_read_tokens;
    totals.output += op.output_tokens;
    totals.context = op.context_tokens;
    totals.window = op.context_window;
    this.setStatus((tool) => tool.status === "writing", "waiting");
  }

  private endRun(op: EndOp): void {
    this.end = op;
    this.retry = null;
    if (!op.error) this.dropStale();
    this.closeLast();
    this.setStatus((tool) => tool.status === "running", "interrupted");
    this.setStatus((tool) => !isOver(tool.status), "untold");
    for (const agent of this.agents.values()) this.touchTool(agent.root);
  }

  private setStatus(which: (tool: ToolItem) => boolean, status: ToolItem["status"]): void {
    for (const tool of this.tools.values()) {
      if (!which(tool)) continue;
      tool.status = status;
      tool.revision++;
    }
  }
}

function lengthOf(items: readonly TextItem[]): number {
  return items.reduce((length, item) => length + item.text.length, 0);
}

// The items of a transcript, in the order in which they appeared.

/** `revision` rises with every change, so that a view can tell in one comparison whether to draw again. */
type Revised = { revision: number };

/** `open`: more of it may come. */
/** `stale`: of a request that failed and is sent again. */
export type TextItem = Revised & { kind: "text"; block: number; text: string; open: boolean; stale?: true };
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
  estimate: number | null;
  at: number;
  ms: number;
  output: string;
  displays: Record<string, string>[];
  result: string;
  diff: string | null;
  /** The lines that the change added and removed, of which `diff` may hold the first alone; null where that was not said. */
  lines: ChangedLines | null;
  error: ErrorInfo | null;
  stuck: string;
  decided: DecidedOp | null;
  questions: Question[];
  /** The agents that work for it: one, or none. */
  agents: AgentItem[];
};
/** An agent at work for the call `root` of Claude's, or for a call of an agent that does. `ms`: null while it works. */
export type AgentItem = {
  card: number;
  root: string;
  agent: string;
  type: string;
  background: boolean;
  at: number;
  state: AgentState;
  calls: number;
  tokens: number;
  cost: number | null;
  ms: number | null;
  lines: AgentLine[];
  /** Lines that came before and are not kept. */
  dropped: number;
};
/** A call of the agent ("" while it runs), what it said, or a note; `agent` is the one that works for its call. */
export type AgentLine = { kind: "call" | "text" | "note"; text: string; call: string; status: ToolStatus | ""; ms: number; agent: AgentItem | null };
/** Words of the user that Claude was given here. */
export type UserMessageItem = Revised & { kind: "said"; text: string };
export type NoticeItem = Revised & { kind: "notice"; level: Level; text: string; waits: boolean; times: number };
/** The conversation so far was summed up here, or is being. */
export type CompactedItem = Revised & { kind: "compacted"; op: CompactedOp };
export type Item = CompactedItem | TextItem | ThinkingItem | ToolItem | UserMessageItem | NoticeItem;

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
    estimate: null,
    at: 0,
    ms: 0,
    output: "",
    displays: [],
    result: "",
    diff: null,
    lines: null,
    error: null,
    stuck: "",
    decided: null,
    questions: [],
    agents: [],
    revision: 0,
  };
}

export function isOver(status: CallStatus): status is ToolStatus | "untold" {
  return status !== "writing" && status !== "waiting" && status !== "running";
}
