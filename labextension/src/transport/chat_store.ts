/** The panel's one store: the conversation of the kernel that it is at, and of those that it was at before. */

import type { Kernel } from "@jupyterlab/services";

import type { Json, JsonObject } from "../json";
import { randomName } from "../page";
import type { Op } from "../transcript/protocol";
import { TranscriptStore } from "../transcript/store";
import type { Chat, Connection, KernelInfo, RunTranscript, ConnectionProblem } from "./chat";
import { ChatConnection } from "./chat_connection";
import type { ResendMessage, ChatState, ChatMessage, PanelMessage, PromptParams, Run, RunOpsMessage } from "./chat_protocol";
import { CHAT_PROTOCOL } from "./chat_protocol";
import type { LastSession } from "./last_sessions";
import { keepLastSession, lastSession } from "./last_sessions";
import { NO_PROBLEM } from "./load_extension";
import { RequestError } from "./rpc";

/** The time that a prompt waits for a connection, and then for the kernel to have taken it. */
export const PROMPT_TIMEOUT_MS = 60_000;
/** Conversations of kernels that were left are shown at once when one comes back to them. */
const MAX_CONVERSATIONS = 5;

export class ChatStore implements Chat {
  connection: Connection = "none";
  kernelInfo: KernelInfo | null = null;
  problem: ConnectionProblem | null = null;
  waitsForCell = false;
  /** The version of the package in the kernel. */
  version = "";
  isRestoring = false;
  notRestored = "";
  needsKey = false;
  private link: ChatConnection | null = null;
  private conversation = new Conversation();
  private readonly conversations = new Map<string, Conversation>();
  private readonly listeners = new Set<() => void>();
  private readonly pageId = randomName();

  /** `client`: this page's program and version. `start` finds a kernel where there is none, and connects to it. */
  constructor(
    private readonly client: string,
    private readonly start: () => Promise<void>,
  ) {}

  get state(): ChatState | null {
    return this.conversation.state;
  }

  get runs(): readonly RunTranscript[] {
    return this.conversation.runs;
  }

  get kernel(): Kernel.IKernelConnection | null {
    return this.link?.kernel ?? null;
  }

  /** Goes to another kernel's conversation, or to none; the one that it is at stays as it is. */
  connect(kernel: Kernel.IKernelConnection | null, place: KernelInfo | null): void {
    const same = kernel === this.kernel;
    this.kernelInfo = place;
    if (same) {
      this.changed();
      return;
    }
    this.link?.dispose();
    this.link = null;
    this.isRestoring = false;
    this.notRestored = "";
    this.conversation = this.conversationOf(kernel);
    this.setConnection("none", {});
    if (kernel) this.link = this.linkTo(kernel, this.conversation);
  }

  /** Connects anew: the package may have been installed meanwhile. */
  reconnect(): void {
    this.link?.reconnect();
  }

  /** Has all listeners look again: something beside the conversation has changed. */
  notify(): void {
    this.changed();
  }

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  async prompt(params: PromptParams): Promise<string> {
    if (this.connection === "none") await this.start();
    await this.connected();
    await this.resumeAfterRestart();
    const taken = await this.request("prompt", params, PROMPT_TIMEOUT_MS);
    return (taken as { run: string }).run;
  }

  /** What stands on the screen from before a restart is the conversation that a prompt goes on with. */
  private async resumeAfterRestart(): Promise<void> {
    const { conversation } = this;
    const session = conversation.takeResumable();
    if (session === null) return;
    try {
      await this.request("session_resume", { id: session });
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      throw new RequestError("not_resumed", `The conversation could not be resumed: ${why} Send again to start a new one.`);
    }
  }

  request(method: string, params: JsonObject, timeout?: number): Promise<Json> {
    const asked = this.connection === "connected" ? this.link?.request(method, params, timeout) : null;
    return asked ?? Promise.reject(new RequestError("not_connected", "There is no connection to a kernel."));
  }

  send(message: PanelMessage): void {
    // a kernel's questions are on the screen while the page connects to it anew
    if (message.type === "answer" && this.connection !== "connected") this.conversation.keepAnswer(message);
    else this.link?.send(message);
  }

  /** A conversation that was left is kept, the oldest of many is not. */
  private conversationOf(kernel: Kernel.IKernelConnection | null): Conversation {
    if (!kernel) return new Conversation();
    const conversation = this.conversations.get(kernel.id) ?? new Conversation();
    this.conversations.delete(kernel.id);
    this.conversations.set(kernel.id, conversation);
    for (const id of [...this.conversations.keys()].slice(0, -MAX_CONVERSATIONS)) this.conversations.delete(id);
    return conversation;
  }

  private linkTo(kernel: Kernel.IKernelConnection, conversation: Conversation): ChatConnection {
    // what a link says when it has been left is about another kernel
    const isHere = (): boolean => this.conversation === conversation;
    return new ChatConnection(kernel, {
      opening: () => ({ protocol: CHAT_PROTOCOL, client: this.client, page: this.pageId, view: "ops", ...conversation.held() }),
      connection: (connection, about) => {
        if (isHere()) this.setConnection(connection, about);
      },
      message: (message) => {
        if (isHere()) this.receive(message);
      },
    });
  }

  private receive(message: ChatMessage): void {
    const changed = this.conversation.receive(message, (again) => { this.send(again); });
    if (message.type === "welcome") {
      this.version = message.version;
      this.setConnection("connected", {});
      for (const answer of this.conversation.takeAnswers()) this.send(answer);
    } else if (changed) {
      if (message.type === "state") this.keepSession();
      this.changed();
    }
  }

  /** Remembers what is on the screen; in a page that was loaded after a restart of the kernel, shows it again. */
  private keepSession(): void {
    const { conversation, kernel } = this;
    if (!kernel) return;
    const kept = lastSession(kernel.id);
    const now = conversation.shownSession(kept);
    if (now === "restore" && kept) void this.restore(kernel.id, kept.session);
    else if (now !== "restore") keepLastSession(kernel.id, now);
  }

  private async restore(kernelId: string, session: string): Promise<void> {
    const { conversation } = this;
    this.isRestoring = true;
    const problem = await this.request("session_resume", { id: session }).then(() => "", (error: unknown) => (error instanceof Error ? error.message : String(error)));
    if (problem) keepLastSession(kernelId, null);
    if (this.conversation !== conversation) return;
    this.isRestoring = false;
    this.notRestored = problem;
    this.changed();
  }

  private setConnection(connection: Connection, { trouble, waitsForCell }: { trouble?: ConnectionProblem; waitsForCell?: boolean }): void {
    this.connection = connection;
    this.problem = trouble ?? null;
    this.waitsForCell = waitsForCell ?? false;
    this.changed();
  }

  private connected(): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = (work: () => void): void => {
        clearTimeout(timer);
        stop();
        work();
      };
      const look = (): void => {
        if (this.connection === "connected") settle(resolve);
        else if (this.connection !== "connecting") settle(() => { reject(this.refusal()); });
      };
      const timer = setTimeout(() => { settle(() => { reject(this.refusal()); }); }, PROMPT_TIMEOUT_MS);
      const stop = this.subscribe(look);
      look();
    });
  }

  private refusal(): RequestError {
    const { message } = this.problem ?? NO_PROBLEM;
    return new RequestError("not_connected", message || "There is no connection to Claude in this kernel.");
  }

  private changed(): void {
    for (const listener of [...this.listeners]) listener();
  }
}

// One kernel's conversation as this page holds it: messages in, state and runs out.

type AnswerMessage = Extract<PanelMessage, { type: "answer" }>;

/** Missing operations are asked for again after this time. */
const RESEND_AFTER_MS = 2_000;

export class Conversation {
  state: ChatState | null = null;
  /** Those from before a restart of the kernel, then this process's. */
  runs: readonly RunTranscript[] = [];
  private log = "";
  private own: readonly RunTranscript[] = [];
  private earlier: readonly RunTranscript[] = [];
  /** The session that is on the screen from before a restart, and the empty one that the new process has. */
  private resumable: { readonly session: string; into: string | null } | null = null;
  /** The session of the process before this one that this page has asked for; empty: none. */
  private restarted = "";
  /** The session that the process had when this page came. */
  private firstSession = "";
  private answers: readonly AnswerMessage[] = [];
  private readonly resendRequests = new Map<string, { have: number; at: number }>();

  /** The state that the kernel needs to send the rest. */
  held(): { log: string; have: Record<string, number> } {
    return { log: this.log, have: Object.fromEntries(this.own.map(({ run, transcript }) => [run.id, transcript.have])) };
  }

  /** Keeps an answer until the kernel can be reached; the newest one to each question. */
  keepAnswer(answer: AnswerMessage): void {
    this.answers = [...this.answers.filter(({ question }) => question !== answer.question), answer];
  }

  /** The answers that were kept, once. */
  takeAnswers(): readonly AnswerMessage[] {
    const { answers } = this;
    this.answers = [];
    return answers;
  }

  /** Takes a message; `again` is called where operations before it are missing. Whether what is above has changed. */
  receive(message: ChatMessage, again: (message: ResendMessage) => void): boolean {
    switch (message.type) {
      case "welcome":
        return this.begin(message.log);
      case "state":
        this.state = message;
        this.leaveEarlier(message);
        return true;
      case "run":
        this.put(message.run);
        return true;
      case "ops":
        this.receiveOps(message, again);
        return false;
      case "gone":
        this.remove(message.runs);
        return true;
      case "ack":
        for (const { transcript } of this.own) transcript.acknowledge(message.question);
        return false;
      default:
        return false;
    }
  }

  /** Another log is another process: nothing of the one before is in it. */
  private begin(log: string): boolean {
    const [before, other] = [this.log, this.log !== log];
    this.log = log;
    this.resendRequests.clear();
    if (!other) return false;
    // each process counts its runs from 1
    const kept = this.runs.slice(this.earlier.length).map((shown) => ended({ ...shown, run: { ...shown.run, id: `${before}/${shown.run.id}` } }));
    this.earlier = [...this.earlier, ...kept];
    const last = this.earlier.at(-1);
    if (last) this.earlier = this.earlier.with(-1, { ...last, restarted: true });
    if (this.state && this.earlier.length > 0) this.resumable = { session: this.resumable?.session ?? this.state.session.id, into: null };
    this.state = null;
    this.answers = [];
    this.own = [];
    this.firstSession = "";
    this.restarted = "";
    this.arrange();
    return true;
  }

  /**
   * The session to remember for a page that is loaded anew; null: none. "restore": the page shows nothing yet, and the kernel was
   * restarted since `kept` was remembered and has begun nothing.
   */
  shownSession(kept: LastSession | null): LastSession | null | "restore" {
    const { state, log } = this;
    if (!state) return kept;
    const { id, turns } = state.session;
    this.firstSession ||= id;
    if (turns > 0) return { log, session: id };
    if (state.current !== null || !kept || kept.log === log || this.firstSession !== id) return null;
    if (this.runs.length > 0 || this.restarted !== "") return kept;
    this.restarted = kept.session;
    return "restore";
  }

  /** The session to resume before the next prompt, once; null where the new process has begun a conversation, or nothing was said before. */
  takeResumable(): string | null {
    const { resumable, state } = this;
    if (!resumable || !state) return null;
    this.resumable = { ...resumable, session: "" };
    return resumable.session && state.session.id === resumable.into && state.session.turns === 0 && state.current === null ? resumable.session : null;
  }

  /** Another conversation than the one on the screen, or its sequel, takes its place. */
  private leaveEarlier({ session }: ChatState): void {
    if (!this.resumable) return;
    this.resumable.into ??= session.id;
    if (session.id === this.resumable.into || this.earlier.some(({ run }) => run.session === session.id)) return;
    this.resumable = null;
    this.earlier = [];
    this.arrange();
  }

  private put(run: Run): void {
    const at = this.own.findIndex((known) => known.run.id === run.id);
    const shown = { run, transcript: this.own[at]?.transcript ?? new TranscriptStore() };
    this.own = at < 0 ? [...this.own, shown] : this.own.with(at, shown);
    this.arrange();
  }

  private remove(ids: readonly string[]): void {
    const gone = this.own.filter(({ run }) => ids.includes(run.id)).map(({ run }) => turnOf(run));
    this.own = this.own.filter(({ run }) => !ids.includes(run.id));
    this.earlier = this.earlier.filter(({ run }) => run.turn === null || !gone.includes(turnOf(run)));
    this.arrange();
  }

  /** A turn that is on the screen stays as it is when the new process draws it from the transcript. */
  private arrange(): void {
    const shown = new Set(this.earlier.filter(({ run }) => run.turn !== null).map(({ run }) => turnOf(run)));
    this.runs = this.withRestart([...this.earlier, ...this.own.filter(({ run }) => run.kind !== "past" || !shown.has(turnOf(run)))]);
  }

  /** Marks the last turn that is shown again after a restart: its variables are gone. */
  private withRestart(runs: readonly RunTranscript[]): readonly RunTranscript[] {
    const at = this.restarted === "" ? -1 : runs.findLastIndex(({ run }) => run.kind === "past" && run.session === this.restarted);
    const last = runs[at];
    return last ? runs.with(at, { ...last, restarted: true }) : runs;
  }

  private receiveOps(message: RunOpsMessage, again: (message: ResendMessage) => void): void {
    const transcript = this.own.find(({ run }) => run.id === message.run)?.transcript;
    if (!transcript || transcript.receive({ ...message, type: "ops" })) return;
    // messages go on arriving until the kernel has answered: one question for each gap
    const asked = this.resendRequests.get(message.run);
    if (asked?.have === transcript.have && Date.now() - asked.at < RESEND_AFTER_MS) return;
    this.resendRequests.set(message.run, { have: transcript.have, at: Date.now() });
    again({ type: "again", run: message.run, have: transcript.have });
  }
}

function turnOf({ session, turn }: Run): string {
  return `${session} ${turn}`;
}

/** A run of a process that is gone: nothing more comes of it. */
function ended({ run, transcript }: RunTranscript): RunTranscript {
  if (["done", "failed", "interrupted"].includes(run.state)) return { run, transcript };
  const end: Op = { op: "end", stop_reason: "interrupted", cost_usd: transcript.totals.cost, session_cost_usd: null, ms: 0, error: null };
  if (transcript.end === null) transcript.receive({ type: "ops", first: transcript.have, now: transcript.now(), ops: [end] });
  return { run: { ...run, state: "interrupted" }, transcript };
}
