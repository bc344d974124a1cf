/** The panel's one store: the conversation of the kernel that it is at, and of those that it was at before. */

import { RequestError } from "./rpc";
import type { Json, JsonObject } from "../notebook/jupyterlab_types";
import { randomName } from "../page";
import type { Chat, Connection, KernelPlace, ShownRun, Trouble } from "./chat";
import { ChatLink } from "./chat_connection";
import { Conversation } from "../chat/conversation";
import type { ChatKernel } from "./kernel_types";
import { NO_TROUBLE } from "./load_extension";
import type { ChatState, KernelMessage, PanelMessage, PromptParams } from "./chat_protocol";
import { PROTOCOL } from "./chat_protocol";

/** How long a prompt waits for a kernel that is being connected to, and then for the kernel to have taken it. */
export const PROMPT_MS = 60_000;
/** Conversations of kernels that were left are shown at once when one comes back to them. */
const KEPT = 5;

export class ChatStore implements Chat {
  connection: Connection = "none";
  place: KernelPlace | null = null;
  trouble: Trouble | null = null;
  waitsForCell = false;
  /** The version of the package in the kernel. */
  version = "";
  private link: ChatLink | null = null;
  private conversation = new Conversation();
  private readonly kept = new Map<string, Conversation>();
  private readonly listeners = new Set<() => void>();
  private readonly page = randomName();

  /** `client`: this page's program and version. `start` finds a kernel where there is none, and connects to it. */
  constructor(
    private readonly client: string,
    private readonly start: () => Promise<void>,
  ) {}

  get state(): ChatState | null {
    return this.conversation.state;
  }

  get runs(): readonly ShownRun[] {
    return this.conversation.runs;
  }

  get kernel(): ChatKernel | null {
    return this.link?.kernel ?? null;
  }

  /** Goes to another kernel's conversation, or to none; the one that it is at stays as it is. */
  connect(kernel: ChatKernel | null, place: KernelPlace | null): void {
    const same = kernel === this.kernel;
    this.place = place;
    if (same) {
      this.changed();
      return;
    }
    this.link?.end();
    this.link = null;
    this.conversation = this.conversationOf(kernel);
    this.told("none", {});
    if (kernel) this.link = this.linkTo(kernel, this.conversation);
  }

  /** Connects anew: the package may have been installed meanwhile. */
  again(): void {
    this.link?.again();
  }

  /** Has all listeners look again: something beside the conversation has changed. */
  touch(): void {
    this.changed();
  }

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  async prompt(params: PromptParams): Promise<string> {
    if (this.connection === "none") await this.start();
    await this.connected();
    const taken = await this.request("prompt", params, PROMPT_MS);
    return (taken as { run: string }).run;
  }

  request(method: string, params: JsonObject, timeout?: number): Promise<Json> {
    const asked = this.connection === "connected" ? this.link?.request(method, params, timeout) : null;
    return asked ?? Promise.reject(new RequestError("not_connected", "There is no connection to a kernel."));
  }

  send(message: PanelMessage): void {
    this.link?.send(message);
  }

  /** A conversation that was left is kept, the oldest of many is not. */
  private conversationOf(kernel: ChatKernel | null): Conversation {
    if (!kernel) return new Conversation();
    const conversation = this.kept.get(kernel.id) ?? new Conversation();
    this.kept.delete(kernel.id);
    this.kept.set(kernel.id, conversation);
    for (const id of [...this.kept.keys()].slice(0, -KEPT)) this.kept.delete(id);
    return conversation;
  }

  private linkTo(kernel: ChatKernel, conversation: Conversation): ChatLink {
    // what a link says when it has been left is about another kernel
    const isHere = (): boolean => this.conversation === conversation;
    return new ChatLink(kernel, {
      opening: () => ({ protocol: PROTOCOL, client: this.client, page: this.page, view: "ops", ...conversation.held() }),
      connection: (connection, about) => {
        if (isHere()) this.told(connection, about);
      },
      message: (message) => {
        if (isHere()) this.take(message);
      },
    });
  }

  private take(message: KernelMessage): void {
    const changed = this.conversation.take(message, (again) => { this.send(again); });
    if (message.type === "welcome") {
      this.version = message.version;
      this.told("connected", {});
    } else if (changed) this.changed();
  }

  private told(connection: Connection, { trouble, waitsForCell }: { trouble?: Trouble; waitsForCell?: boolean }): void {
    this.connection = connection;
    this.trouble = trouble ?? null;
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
      const timer = setTimeout(() => { settle(() => { reject(this.refusal()); }); }, PROMPT_MS);
      const stop = this.subscribe(look);
      look();
    });
  }

  private refusal(): RequestError {
    const { message } = this.trouble ?? NO_TROUBLE;
    return new RequestError("not_connected", message || "There is no connection to Claude in this kernel.");
  }

  private changed(): void {
    for (const listener of [...this.listeners]) listener();
  }
}
