/** The connection to one kernel's conversation: made again by itself whenever it was lost. */

import type { Json, JsonObject } from "../json";
import type { Connection, Trouble } from "./chat";
import type { FailedMessage, KernelMessage } from "./chat_protocol";
import { TARGET } from "./chat_protocol";
import type { ChatComm, ChatKernel, IopubMessage } from "./kernel_types";
import { about, load, NO_TROUBLE } from "./load_extension";
import { ANNOUNCED, Link } from "./rpc";
import { createSubshell, endSubshell, isKnown, subshellOf, through, within } from "./subshells";

/** How long a kernel that can answer may take to do so. */
export const ANSWER_MS = 20_000;
/** A kernel that closed the connection is asked again after this time, and then less and less often. */
export const AGAIN_MS = 1_000;
const MOST_MS = 30_000;
/** What was sent on a comm is read by then. */
export const GRACE_MS = 1_000;

/** How often the kernel is asked whether it is there, and how long it may take: nobody tells a page that others restarted it. */
export const PING_MS = 10_000;

/** The kernel asks whether the page is there. */
const HANDLERS = new Map([["ping", () => null]]);
const RESTARTS: readonly string[] = ["restarting", "autorestarting"];
const MESSAGES: readonly unknown[] = ["welcome", "unsupported", "state", "run", "ops", "gone", "ack"] satisfies KernelMessage["type"][];

export type Events = {
  /** The data of the `comm_open`. */
  opening(): JsonObject;
  connection(connection: Connection, about: { trouble?: Trouble; waitsForCell?: boolean }): void;
  message(message: KernelMessage): void;
};

type Open = { comm: ChatComm; link: Link; subshell: string | null };
type Outcome = "welcome" | "unsupported" | "failed" | "closed" | "silent";

export class ChatLink {
  private open: Open | null = null;
  /** Rises whenever what was begun before is void. */
  private attempt = 0;
  private connecting = false;
  private closings = 0;
  /** Whether the kernel is on its way: it is connected to when it is there. */
  private awaiting = false;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private asking: ReturnType<typeof setTimeout> | undefined;

  constructor(
    readonly kernel: ChatKernel,
    private readonly events: Events,
  ) {
    kernel.statusChanged.connect(this.onStatus);
    kernel.connectionStatusChanged.connect(this.onConnection);
    kernel.disposed.connect(this.onDisposed);
    kernel.iopubMessage.connect(this.onMessage);
    this.again();
  }

  /** Connects anew, as long as there is a kernel. */
  again(): void {
    this.drop();
    const { kernel } = this;
    if (kernel.isDisposed || kernel.status === "dead") this.lose("");
    else if (kernel.connectionStatus === "disconnected") this.lose("The connection to the server is lost.");
    else {
      this.events.connection("connecting", {});
      this.awaiting = kernel.connectionStatus !== "connected" || RESTARTS.includes(kernel.status);
      if (!this.awaiting) void this.connect();
    }
  }

  /** Ends it for good. */
  end(): void {
    const { kernel } = this;
    kernel.statusChanged.disconnect(this.onStatus);
    kernel.connectionStatusChanged.disconnect(this.onConnection);
    kernel.disposed.disconnect(this.onDisposed);
    kernel.iopubMessage.disconnect(this.onMessage);
    if (this.open && kernel.connectionStatus === "connected") this.send({ type: "bye" });
    this.drop();
  }

  send(message: JsonObject): void {
    this.open?.link.send(message);
  }

  /** Asks the kernel; rejects with RequestError. Null where nobody is there to be asked. */
  request(method: string, params: JsonObject, timeout?: number): Promise<Json> | null {
    const { open } = this;
    return open && !open.comm.isDisposed ? open.link.request(method, params, timeout) : null;
  }

  private readonly onStatus = (_: unknown, status: string): void => {
    // `starting` comes of a new process, also where somebody else restarted it
    if (RESTARTS.includes(status) || status === "starting" || status === "dead") this.again();
    else if (this.awaiting && (status === "idle" || status === "busy")) this.again();
  };

  private readonly onConnection = (): void => { this.again(); };
  private readonly onDisposed = (): void => { this.again(); };
  /** A cell has loaded what was missing. */
  private readonly onMessage = (_: unknown, { header, content }: IopubMessage): void => {
    if (!this.open && !this.connecting && header.msg_type === "comm_open" && content.target_name === ANNOUNCED) this.again();
  };

  private async connect(): Promise<void> {
    const attempt = ++this.attempt;
    const isVoid = (): boolean => attempt !== this.attempt;
    this.connecting = true;
    try {
      let outcome = await this.begin(isVoid, false);
      if (outcome === "silent" && !isVoid()) outcome = await this.begin(isVoid, true);
      if (outcome === "silent" && !isVoid()) this.lose("The kernel does not answer.");
    } catch (error) {
      // the kernel went away in the middle, which its signals tell, or another connection of this page has its comms
      console.debug("Cellwright:", error);
      if (!isVoid()) this.later();
    } finally {
      if (!isVoid()) this.connecting = false;
    }
  }

  /** One try; null where it ended before anybody was asked. `own`: by a subshell that is new for sure. */
  private async begin(isVoid: () => boolean, own: boolean): Promise<Outcome | null> {
    const { kernel } = this;
    await isKnown(kernel);
    if (isVoid()) return null;
    const comm = kernel.createComm(TARGET);
    const subshell = await subshellOf(kernel, comm, own);
    const stop = (): null => {
      if (!comm.isDisposed) comm.dispose();
      return null;
    };
    if (isVoid()) return stop();
    if (subshell === null) this.events.connection("connecting", { waitsForCell: true });
    const loading = load(kernel, subshell);
    const trouble = await (subshell === null ? loading : within(ANSWER_MS, loading));
    if (isVoid()) return stop();
    if (trouble === null) return this.meet(comm, subshell, isVoid);
    stop();
    if (trouble === undefined || /subshell/i.test(trouble.message)) return "silent";
    this.events.connection("missing", { trouble });
    return null;
  }

  private async meet(comm: ChatComm, subshell: string | null, isVoid: () => boolean): Promise<Outcome> {
    const send = (data: JsonObject): void => {
      if (!comm.isDisposed) through(this.kernel, subshell, () => comm.send(data));
    };
    const link = new Link({ send }, HANDLERS);
    this.open = { comm, link, subshell };
    const outcome = await new Promise<Outcome>((resolve) => {
      comm.onMsg = ({ content }) => {
        const message = link.take(content.data);
        if (!message || isVoid()) return;
        if (message.type === "unsupported") void this.refused(subshell, message as KernelMessage, isVoid);
        if (message.type === "failed") this.failed(message as FailedMessage);
        if (message.type === "welcome" || message.type === "unsupported" || message.type === "failed") resolve(message.type);
        if (MESSAGES.includes(message.type)) this.events.message(message as KernelMessage);
      };
      comm.onClose = () => {
        resolve("closed");
        if (!isVoid() && this.open?.comm === comm) this.closed();
      };
      if (subshell !== null) setTimeout(resolve, ANSWER_MS, "silent");
      through(this.kernel, subshell, () => comm.open(this.events.opening()));
    });
    if (isVoid()) return outcome;
    if (outcome === "closed") await this.refused(subshell, null, isVoid);
    else if (outcome === "welcome") this.welcomed();
    else if (outcome === "silent") this.close();
    return outcome;
  }

  private welcomed(): void {
    this.closings = 0;
    this.keepAsking();
  }

  /** A process that took the place of another knows nothing of what was open, and so does not answer. */
  private keepAsking(): void {
    const { open } = this;
    if (!open) return;
    if (open.subshell === null) return; // busy, it would answer nobody
    const isHere = (): boolean => this.open === open;
    this.asking = setTimeout(() => {
      open.link.request("ping", {}, PING_MS).then(
        () => { if (isHere()) this.keepAsking(); },
        () => { if (isHere()) this.again(); },
      );
    }, PING_MS);
  }

  /** The kernel's package is of another time. */
  private async refused(subshell: string | null, message: KernelMessage | null, isVoid: () => boolean): Promise<void> {
    const { kernel } = this;
    this.open = null;
    // the comm's subshell goes with the comm: nobody would answer there
    const own = subshell === null ? null : await createSubshell(kernel);
    const asked = about(kernel, own);
    const { executable, version } = (subshell === null ? await asked : await within(ANSWER_MS, asked)) ?? NO_TROUBLE;
    if (own !== null) endSubshell(kernel, own);
    if (isVoid()) return;
    const protocol = message?.type === "unsupported" ? message.protocol : 0;
    this.events.connection("unsupported", { trouble: { ...NO_TROUBLE, executable, version, protocol } });
  }

  /** The kernel cannot make the conversation: its settings are broken. */
  private failed({ code, message }: FailedMessage): void {
    this.open = null;
    this.events.connection("missing", { trouble: { ...NO_TROUBLE, message: `${code}: ${message}` } });
  }

  /** The kernel closed what was open. */
  private closed(): void {
    const { open } = this;
    this.open = null;
    open?.link.end();
    if (!this.connecting) this.later();
  }

  private later(): void {
    const wait = Math.min(AGAIN_MS * 2 ** this.closings++, MOST_MS);
    this.events.connection("connecting", {});
    clearTimeout(this.timer);
    this.timer = setTimeout(() => { this.again(); }, wait);
  }

  private lose(message: string): void {
    this.events.connection("lost", { trouble: { ...NO_TROUBLE, message } });
  }

  /** Leaves what there is, and what was begun. */
  private drop(): void {
    this.attempt++;
    this.connecting = this.awaiting = false;
    clearTimeout(this.timer);
    clearTimeout(this.asking);
    this.close();
  }

  private close(): void {
    const { open } = this;
    this.open = null;
    if (!open) return;
    open.link.end();
    open.comm.onClose = () => undefined;
    open.comm.onMsg = () => undefined;
    if (open.comm.isDisposed || this.kernel.isDisposed) return;
    // its subshell goes with it, and what was just sent is to be read before
    setTimeout(() => { this.closeComm(open); }, GRACE_MS);
  }

  /** The kernel is told while it can be; else it sees that a page of the same name comes. */
  private closeComm({ comm, subshell }: Open): void {
    const { kernel } = this;
    if (comm.isDisposed || kernel.isDisposed) return;
    if (kernel.connectionStatus !== "connected" || RESTARTS.includes(kernel.status)) {
      comm.dispose();
      return;
    }
    const own = subshell !== comm.subshellId;
    through(kernel, subshell, () => comm.close());
    if (own && subshell !== null) setTimeout(endSubshell, GRACE_MS, kernel, subshell);
  }
}


