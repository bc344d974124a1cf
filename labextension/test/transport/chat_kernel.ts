/** The browser's end of a kernel that holds a conversation, in the test's hand. */

import type { JsonObject } from "../../src/json";
import type { Op } from "../../src/transcript/protocol";
import type { ChatState, Run } from "../../src/transport/chat_protocol";
import { CHAT_TARGET } from "../../src/transport/chat_protocol";
import type { ChatComm, ChatKernel, ExecuteReply, IopubMessage, Slot } from "../support/kernel_shapes";

export class Emitter<Value = unknown> {
  private slots: Slot<Value>[] = [];

  connect(slot: Slot<Value>): boolean {
    this.slots.push(slot);
    return true;
  }

  disconnect(slot: Slot<Value>): boolean {
    this.slots = this.slots.filter((each) => each !== slot);
    return true;
  }

  emit(value: Value): void {
    for (const slot of [...this.slots]) slot(this, value);
  }

  get listeners(): number {
    return this.slots.length;
  }
}

export type Sent = { message: JsonObject; subshell: string | null };

export class OneComm implements ChatComm {
  opened: Sent | null = null;
  readonly sent: Sent[] = [];
  isDisposed = false;
  isClosed = false;
  /** Whether the process that it was opened in is there. */
  answers = true;
  commsOverSubshells = "perCommTarget";
  onMsg: ChatComm["onMsg"] = () => undefined;
  onClose = (): void => undefined;

  constructor(
    private readonly kernel: OneKernel,
    private readonly own: string | null,
  ) {}

  get subshellId(): string | null {
    return this.commsOverSubshells === "disabled" ? null : this.own;
  }

  readonly subshellStarted = Promise.resolve();

  /** Said in the first message; what comes without it is another script's. */
  private secret: unknown;

  open({ secret, ...message }: JsonObject): void {
    this.secret = secret;
    this.opened = { message, subshell: this.subshellId ?? this.kernel.subshellId };
    this.kernel.opened(this);
  }

  send({ secret, ...message }: JsonObject): void {
    if (this.isDisposed) throw new Error("Cannot send");
    if (typeof secret !== "string" || secret.length < 16 || secret !== this.secret) throw new Error("not the page's secret");
    if (message.method === "ping") {
      if (this.answers) queueMicrotask(() => { this.tell({ type: "reply", id: message.id ?? null, result: null }); });
      return;
    }
    this.sent.push({ message, subshell: this.subshellId ?? this.kernel.subshellId });
  }

  close(): void {
    if (this.isDisposed) throw new Error("Cannot close");
    this.isClosed = true;
    this.onClose();
    this.isDisposed = true;
  }

  dispose(): void {
    this.isDisposed = true;
  }

  tell(...messages: JsonObject[]): void {
    for (const data of messages) this.onMsg({ content: { data } });
  }
}

type Execution = { code: string; expressions: Record<string, string>; subshell: string | null };

export class OneKernel implements ChatKernel {
  readonly clientId = "this page";
  readonly name = "python3";
  isDisposed = false;
  status = "idle";
  connectionStatus = "connected";
  supportsSubshells = true;
  subshellId: string | null = null;
  info: Promise<unknown> = Promise.resolve({});
  /** Has `info` settle, where a test has it wait. */
  setInfo: (info: unknown) => void = () => undefined;
  restarts = 0;
  readonly disposed = new Emitter();
  readonly statusChanged = new Emitter<string>();
  readonly connectionStatusChanged = new Emitter<string>();
  readonly iopubMessage = new Emitter<IopubMessage>();
  readonly comms: OneComm[] = [];
  readonly executed: Execution[] = [];
  /** Subshells that were asked for by hand. */
  subshells = 0;
  readonly ended: string[] = [];
  /** When the first of them are there; a promise that does not settle: the request was lost. */
  lateSubshells: Promise<void>[] = [];
  /** Of itself; a promise that does not settle: it does not answer. */
  about: Promise<void> = Promise.resolve();
  readonly completed: { code: string; subshell: string | null }[] = [];
  /** What loading the package gives, by a completion or by code; a promise that does not settle: the kernel does not answer. */
  loading: Promise<ExecuteReply> | ExecuteReply = { status: "ok" };
  expressions: Record<string, string> = { executable: "'/env/bin/python'", version: "'0.1.0'" };
  /** What the kernel says to a comm that was opened. */
  greeting: JsonObject[] = [{ type: "welcome", protocol: 1, version: "0.1.0", log: "log-1", executable: "/env/bin/python" }];
  /** Whether it closes a comm at once, as one that knows no such target does. */
  refuses = false;

  constructor(readonly id = "kernel-1") {}

  createComm(target: string): OneComm {
    if (target !== CHAT_TARGET) throw new Error(target);
    const comm = new OneComm(this, this.supportsSubshells ? "subshell-of-the-target" : null);
    this.comms.push(comm);
    return comm;
  }

  opened(comm: OneComm): void {
    queueMicrotask(() => {
      comm.tell(...this.greeting);
      if (this.refuses) comm.onClose();
    });
  }

  requestCommInfo(): Promise<{ content: object }> {
    return Promise.resolve({ content: {} });
  }

  requestExecute(content: JsonObject): { done: Promise<{ content: ExecuteReply }> } {
    const code = content.code as string;
    const asked = content.user_expressions as Record<string, string>;
    this.executed.push({ code, expressions: asked, subshell: this.subshellId });
    const values = Object.entries(this.expressions).filter(([name]) => name in asked);
    const found = Object.fromEntries(values.map(([name, text]) => [name, { status: "ok", data: { "text/plain": text } }]));
    const reply = code === "" ? this.about.then(() => ({ status: "ok", user_expressions: found })) : this.loading;
    return { done: Promise.resolve(reply).then((content) => ({ content })) };
  }

  requestComplete({ code }: JsonObject): Promise<{ content: JsonObject }> {
    this.completed.push({ code: code as string, subshell: this.subshellId });
    return Promise.resolve(this.loading).then(({ status }) => ({ content: { status: "ok", matches: status === "ok" ? ["LOADED"] : [] } }));
  }

  sendControlMessage(message: { header: { msg_type: string }; content: JsonObject }): { done: Promise<{ content: { status: string; subshell_id: string } }> } {
    if (message.header.msg_type === "create_subshell_request") {
      this.subshells++;
      const late = this.lateSubshells.shift();
      if (late) return { done: late.then(() => ({ content: { status: "ok", subshell_id: "late" } })) };
    } else this.ended.push(message.content.subshell_id as string);
    return { done: Promise.resolve({ content: { status: "ok", subshell_id: `own-${this.subshells}` } }) };
  }

  restart(): Promise<void> {
    this.restarts++;
    return Promise.resolve();
  }

  /** The comm that is open now. */
  get comm(): OneComm {
    const comm = this.comms.at(-1);
    if (!comm?.opened) throw new Error("nothing is open");
    return comm;
  }

  tell(...messages: JsonObject[]): void {
    this.comm.tell(...messages);
  }

  setStatus(status: string): void {
    this.status = status;
    this.statusChanged.emit(status);
  }

  setConnection(status: string): void {
    this.connectionStatus = status;
    this.connectionStatusChanged.emit(status);
  }
}

export function runOf(id: string, changes: Partial<Run> = {}): Run {
  return {
    id, prompt: `prompt of ${id}`, place: "sidebar", kind: "prompt", state: "running", session: "s", turn: 1, asked: 1, background: true, ...changes,
  };
}

export function run(id: string, changes: Partial<Run> = {}): JsonObject {
  return { type: "run", run: runOf(id, changes) };
}

export function ops(id: string, first: number, ...list: Op[]): JsonObject {
  return { type: "ops", run: id, first, now: Date.now() / 1000, ops: list };
}

export function text(words: string, block = 0): Op {
  return { op: "text", block, text: words };
}

export function stateOf(changes: Partial<ChatState> = {}): ChatState {
  return {
    session: { id: "s", title: "Tides", cost_usd: 0.12, context_tokens: 1000, context_window: 200_000, turns: 1 },
    cwd: "/home/ada/tides",
    kernel: { executable: "/env/bin/python", python: "3.11", busy: false },
    model: "claude-opus-5-5",
    models: [{ id: "claude-opus-5-5", name: "Opus 5.5" }],
    mode: "default",
    modes: [{ id: "default", name: "Ask", about: "" }],
    effort: "default",
    efforts: ["default"],
    current: null, waiting: [], asking: [], notices: [], scripted: false,
    ...changes,
  };
}

export function state(changes: Partial<ChatState> = {}): JsonObject {
  return { type: "state", ...stateOf(changes) };
}
