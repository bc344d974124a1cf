/**
 * What a notebook says that a run was, checked: it may come from anybody. Operations and fields that are not known are dropped,
 * with everything that has another type than it should; what is drawn of the rest is text.
 */

import type { Json } from "../../json";
import type { Op } from "../../transcript/protocol";
import { TRANSCRIPT_VERSION } from "../../transcript/protocol";

/** Of one part. The kernel saves less; what is more is somebody else's. */
const MAX_OPS = 5_000;
const MAX_CHARS = 2_000_000;
const MAX_TEXT = 250_000;
const MAX_ITEMS = 1_000;
const MAX_DEPTH = 8;

/** The rest of the characters that are taken. */
type Room = { left: number };
/** Gives the value as it is drawn; undefined: it is not what it should be. */
type Check = (value: unknown, room: Room) => Json | undefined;
type Fields = Record<string, Check>;

const text: Check = (value, room) => {
  if (typeof value !== "string") return undefined;
  const kept = value.slice(0, Math.min(MAX_TEXT, Math.max(room.left, 0)));
  room.left -= kept.length;
  return kept;
};
const number: Check = (value) => (typeof value === "number" && Number.isFinite(value) ? value : undefined);
const flag: Check = (value) => (typeof value === "boolean" ? value : undefined);
const orNull = (check: Check): Check => (value, room) => (value === null ? null : check(value, room));
const oneOf = (...words: string[]): Check => (value) => (typeof value === "string" && words.includes(value) ? value : undefined);
const list = (check: Check): Check => (value, room) => {
  if (!Array.isArray(value)) return undefined;
  return value.slice(0, MAX_ITEMS).flatMap((item): Json[] => {
    const checked = check(item, room);
    return checked === undefined ? [] : [checked];
  });
};
const record = (fields: Fields): Check => (value, room) => {
  if (!isObject(value)) return undefined;
  const checked: Record<string, Json> = {};
  for (const [name, check] of Object.entries(fields)) {
    const field = Object.hasOwn(value, name) ? check(value[name], room) : undefined;
    if (field === undefined) return undefined;
    checked[name] = field;
  }
  return checked;
};
const json = (depth = 0): Check => (value, room) => {
  if (value === null) return null;
  if (typeof value !== "object") return flag(value, room) ?? number(value, room) ?? text(value, room);
  if (depth >= MAX_DEPTH) return undefined;
  return Array.isArray(value) ? list(json(depth + 1))(value, room) : members(value, depth, room);
};

function members(value: object, depth: number, room: Room): Json {
  const checked: [string, Json][] = [];
  for (const [name, item] of Object.entries(value).slice(0, MAX_ITEMS)) {
    const [key, field] = [text(name, room), json(depth + 1)(item, room)];
    if (typeof key === "string" && field !== undefined) checked.push([key, field]);
  }
  // its own fields alone, whatever they are called
  return Object.fromEntries(checked);
}

const object: Check = (value, room) => (isObject(value) ? json()(value, room) : undefined);

const STATUS = ["success", "error", "timeout", "denied", "interrupted"];
const BEHAVIORS = ["allow", "ask", "deny"];
const failure = orNull(record({ code: text, message: text }));
const place = record({ quote: text, call: text, cell: text, path: text });
const verdict = oneOf("seen", "derived", "weak", "not_found");
const changed = list(record({ where: text, kind: oneOf("created", "changed", "deleted"), added: orNull(number), removed: orNull(number) }));

/** The operations that a notebook may hold. */
const OPS: Record<string, Fields> = {
  run: { model: text, mode: text, session: text, started: number },
  told: { tokens: number, parts: list(record({ title: text, kind: text, text, chars: number, tokens: number })) },
  text: { block: number, text },
  thinking: { block: number, text, at: number },
  tool: { id: text, name: text, title: text, input: json(), parallel: flag, estimate: orNull(number), at: number },
  output: { id: text, text },
  tool_end: { id: text, status: oneOf(...STATUS), ms: number, result: text, diff: orNull(text), error: failure },
  decided: { tool: text, behavior: oneOf(...BEHAVIORS), by: oneOf("policy", "hook"), reason: text, rule: text },
  agent: { card: number, tool: text, parent: orNull(number), agent: text, type: text, background: flag, at: number },
  agent_line: { card: number, kind: oneOf("call", "end", "text", "note"), text, call: text, status: oneOf("", ...STATUS), ms: number },
  agent_state: { card: number, state: oneOf("working", "done", "failed", "stopped"), calls: number, tokens: number, cost_usd: orNull(number), ms: orNull(number) },
  todos: { todos: list(record({ content: text, status: oneOf("pending", "in_progress", "completed"), activeForm: text })) },
  mode: { mode: text },
  steer: { id: text, text, state: oneOf("waiting", "delivered"), how: oneOf("steer", "queue"), at: number },
  ask: {
    question: text, tool: text, name: text, input: orNull(object), kind: oneOf("permission", "question", "plan", "trust"), title: text,
    // nobody is asked by a file
    detail: text, detail_kind: oneOf("text", "command", "code", "diff"), path: text, warning: text, reason: text, choices: () => [], at: number,
  },
  answered: {
    question: text, tool: text, behavior: oneOf("allow", "deny"), scope: oneOf("once", "session", "always"), by: text, reason: text,
    rules: list(text), edited: flag, input: orNull(object),
  },
  turn: { cost_usd: orNull(number), context_tokens: number, context_window: orNull(number), input_tokens: number, output_tokens: number, cache_read_tokens: number },
  // what a request that broke off had said stays to be read where the run ended in an error
  drop: { blocks: list(number), tools: list(text) },
  retry: { attempt: number, of: number, wait: number, code: text, message: text, at: number },
  notice: { level: oneOf("info", "warning", "error"), text },
  compacted: {
    state: oneOf("done", "failed"), trigger: oneOf("auto", "manual"), before: number, after: number, cost_usd: orNull(number),
    summary: text, reason: text,
  },
  numbers: {
    answer: text,
    // nothing is asked that a file says
    check: () => "",
    numbers: list(record({ text, from_end: number, verdict, words: text, marked: flag, source: orNull(place) })),
    checked: orNull(record({ answer: text, numbers: list(record({ number, agrees: flag, words: text, source: place })) })),
  },
  changes: { turn: number, files: changed, cells: changed, effects: list(text), not_kept: list(text) },
};
/** Fields that notebooks of earlier versions lack. */
const LATER: Record<string, Fields> = {
  numbers: { names: list(record({ text, from_end: number, words: text, code: flag })) },
  tool_end: { title: text, lines: orNull(record({ added: number, removed: number })) },
};
const END = record({ stop_reason: text, cost_usd: orNull(number), session_cost_usd: orNull(number), ms: number, error: failure });
const NO_END = { stop_reason: "", cost_usd: null, session_cost_usd: null, ms: 0, error: null };

/** What a part of an answer is drawn from; null for what is no part of one, or of a later version. */
export function savedOps(data: unknown): Op[] | null {
  if (!isObject(data) || data.version !== TRANSCRIPT_VERSION || !Array.isArray(data.ops)) return null;
  const room: Room = { left: MAX_CHARS };
  const ops: Op[] = [];
  let end: unknown = NO_END;
  for (const op of data.ops.slice(0, MAX_OPS) as unknown[]) {
    if (isObject(op) && op.op === "end") end = END(op, room) ?? NO_END;
    else ops.push(...known(op, room));
  }
  // another part follows, and below that stands how it ended
  if (data.last === false) ops.push({ op: "part", part: 1 });
  // whatever it says, it is over: nothing of it moves or asks
  return [...ops, { op: "end", ...(end as object) } as Op];
}

/** The operation as it is drawn; nothing of what is none. */
function known(op: unknown, room: Room): Op[] {
  if (!isObject(op) || typeof op.op !== "string") return [];
  const fields = Object.hasOwn(OPS, op.op) ? OPS[op.op] : undefined;
  const later = Object.entries(LATER[op.op] ?? {}).filter(([name]) => Object.hasOwn(op, name));
  const checked = fields && record({ ...fields, ...Object.fromEntries(later) })(op, room);
  return checked ? [{ op: op.op, ...(checked as object) } as Op] : [];
}

/** Where a part is found while its run goes on: the run's name and the number of the part. */
export function liveRun(data: unknown): { run: string; part: number; count: number | null } | null {
  if (!isObject(data) || data.version !== TRANSCRIPT_VERSION) return null;
  const { run, part, count } = data;
  return typeof run === "string" && typeof part === "number" ? { run, part, count: typeof count === "number" ? count : null } : null;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
