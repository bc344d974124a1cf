/** The connection to one kernel's conversation: made again by itself whenever it was lost. */

import type { Kernel, KernelMessage } from "@jupyterlab/services";

import type { Json, JsonObject } from "../json";
import { randomName } from "../page";
import type { Connection, ConnectionProblem } from "./chat";
import type { FailedMessage, ChatMessage } from "./chat_protocol";
import { CHAT_TARGET } from "./chat_protocol";
import { loadExtension, loadOnSubshell, NO_PROBLEM, packageInfo } from "./load_extension";
import { LOADED_TARGET, RpcLink } from "./rpc";
import type { SubshellComm } from "./subshells";
import { endSubshell, hasKernelInfo, subshellOf, withSubshell, withTimeout } from "./subshells";

/** The time in which a kernel that can answer has to do so. */
export const ANSWER_TIMEOUT_MS = 20_000;
/** A kernel that closed the connection is asked again after this time, and then less and less often. */
export const RETRY_MS = 1_000;
const MAX_RETRY_MS = 30_000;
/** Messages sent on a comm are read by then. */
export const CLOSE_DELAY_MS = 1_000;

/** The interval and the timeout of pings: nobody tells a page that others restarted the kernel. */
export const PING_INTERVAL_MS = 10_000;

/** The kernel asks whether the page is there. */
const HANDLERS = new Map([["ping", () => null]]);
const RESTARTS: readonly string[] = ["restarting", "autorestarting"];
const MESSAGES: readonly unknown[] = ["welcome", "unsupported", "state", "run", "ops", "gone", "ack"] satisfies ChatMessage["type"][];

export type ChatConnectionEvents = {
  /** The data of the `comm_open`. */
  opening(): JsonObject;
  connection(connection: Connection, about: { trouble?: ConnectionProblem; waitsForCell?: boolean }): void;
  message(message: ChatMessage): void;
};

type OpenComm = { comm: SubshellComm; link: RpcLink; subshell: string | null };
type Outcome = "welcome" | "unsupported" | "failed" | "closed" | "silent";

export class ChatConnection {
  private open: OpenComm | null = null;
  /** Rises whenever what was begun before is void. */
  private attempt = 0;
  private connecting = false;
  private closings = 0;
  /** True while the kernel starts: the connection follows when it is there. */
  private awaitsKernel = false;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private pingTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    readonly kernel: Kernel.IKernelConnection,
    private readonly events: ChatConnectionEvents,
  ) {
    kernel.statusChanged.connect(this.onStatus);
    kernel.connectionStatusChanged.connect(this.onConnection);
    kernel.disposed.connect(this.onDisposed);
    kernel.iopubMessage.connect(this.onMessage);
    this.reconnect();
  }

  /** Connects anew, as long as there is a kernel. */
  reconnect(): void {
    this.drop();
    const { kernel } = this;
    if (kernel.isDisposed || kernel.status === "dead") this.reportLost("");
    else if (kernel.connectionStatus === "disconnected") this.reportLost("The connection to the server is lost.");
    else {
      this.events.connection("connecting", {});
      this.awaitsKernel = kernel.connectionStatus !== "connected" || RESTARTS.includes(kernel.status);
      if (!this.awaitsKernel) void this.connect();
    }
  }

  /** Ends it for good. */
  dispose(): void {
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
    if (RESTARTS.includes(status) || status === "starting" || status === "dead") this.reconnect();
    else if (this.awaitsKernel && (status === "idle" || status === "busy")) this.reconnect();
  };

  private readonly onConnection = (): void => { this.reconnect(); };
  private readonly onDisposed = (): void => { this.reconnect(); };
  /** A cell has loaded what was missing. */
  private readonly onMessage = (_: unknown, { header, content }: KernelMessage.IIOPubMessage): void => {
    if (!this.open && !this.connecting && header.msg_type === "comm_open" && (content as { target_name?: unknown }).target_name === LOADED_TARGET) this.reconnect();
  };

  private async connect(): Promise<void> {
    const attempt = ++this.attempt;
    const isVoid = (): boolean => attempt !== this.attempt;
    this.connecting = true;
    try {
      let outcome = await this.tryToConnect(isVoid, false);
      if (outcome === "silent" && !isVoid()) outcome = await this.tryToConnect(isVoid, true);
      if (outcome === "silent" && !isVoid()) this.reportLost("The kernel does not answer.");
    } catch (error) {
      // the kernel went away in the middle, which its signals tell, or another connection of this page has its comms
      console.debug("Cellwright:", error);
      if (!isVoid()) this.reconnectLater();
    } finally {
      if (!isVoid()) this.connecting = false;
    }
  }

  /** One try; null where it ended before anybody was asked. `own`: by a subshell that is new for sure. */
  private async tryToConnect(isVoid: () => boolean, own: boolean): Promise<Outcome | null> {
    const { kernel } = this;
    await hasKernelInfo(kernel);
    if (isVoid()) return null;
    const comm = kernel.createComm(CHAT_TARGET);
    const subshell = await subshellOf(kernel, comm, own);
    const stop = (): null => {
      if (!comm.isDisposed) comm.dispose();
      return null;
    };
    if (isVoid()) return stop();
    const trouble = await this.load(subshell, isVoid);
    if (isVoid()) return stop();
    if (trouble === null) return this.openComm(comm, subshell, isVoid);
    stop();
    if (trouble === "silent") return "silent";
    this.events.connection("missing", { trouble });
    return null;
  }

  /** Has the kernel load the package; null, or what keeps it from it. */
  private async load(subshell: string | null, isVoid: () => boolean): Promise<ConnectionProblem | "silent" | null> {
    const { kernel } = this;
    if (subshell !== null) {
      const loaded = await withTimeout(ANSWER_TIMEOUT_MS, loadOnSubshell(kernel, subshell));
      if (loaded === undefined) return "silent";
      if (loaded || isVoid()) return null;
    }
    const waits = subshell === null || kernel.status !== "idle";
    if (waits) this.events.connection("connecting", { waitsForCell: true });
    const loading = loadExtension(kernel);
    const trouble = await (waits ? loading : withTimeout(ANSWER_TIMEOUT_MS, loading));
    return trouble === undefined ? "silent" : trouble;
  }

  private async openComm(comm: Kernel.IComm, subshell: string | null, isVoid: () => boolean): Promise<Outcome> {
    // said in the first message, which the kernel alone gets: what another script sends on this comm lacks it
    const secret = randomName();
    const send = (data: JsonObject): void => {
      if (!comm.isDisposed) withSubshell(this.kernel, subshell, () => comm.send({ ...data, secret }));
    };
    const link = new RpcLink({ send }, HANDLERS);
    this.open = { comm, link, subshell };
    const outcome = await new Promise<Outcome>((resolve) => {
      comm.onMsg = ({ content }) => {
        const message = link.receive(content.data);
        if (!message || isVoid()) return;
        if (message.type === "unsupported") void this.refused(message as ChatMessage, isVoid);
        if (message.type === "failed") this.failed(message as FailedMessage);
        if (message.type === "welcome" || message.type === "unsupported" || message.type === "failed") resolve(message.type);
        if (MESSAGES.includes(message.type)) this.events.message(message as ChatMessage);
      };
      comm.onClose = () => {
        resolve("closed");
        if (!isVoid() && this.open?.comm === comm) this.closed();
      };
      if (subshell !== null) setTimeout(resolve, ANSWER_TIMEOUT_MS, "silent");
      withSubshell(this.kernel, subshell, () => comm.open({ ...this.events.opening(), secret }));
    });
    if (isVoid()) return outcome;
    if (outcome === "closed") await this.refused(null, isVoid);
    else if (outcome === "welcome") this.welcomed();
    else if (outcome === "silent") this.close();
    return outcome;
  }

  private welcomed(): void {
    this.closings = 0;
    this.keepPinging();
  }

  /** A process that took the place of another knows nothing of what was open, and so does not answer. */
  private keepPinging(): void {
    const { open } = this;
    if (!open) return;
    if (open.subshell === null) return; // busy, it would answer nobody
    const isHere = (): boolean => this.open === open;
    this.pingTimer = setTimeout(() => {
      open.link.request("ping", {}, PING_INTERVAL_MS).then(
        () => { if (isHere()) this.keepPinging(); },
        () => { if (isHere()) this.reconnect(); },
      );
    }, PING_INTERVAL_MS);
  }

  /** The kernel's package is of another time; where it is, is known once no cell runs. */
  private async refused(message: ChatMessage | null, isVoid: () => boolean): Promise<void> {
    this.open = null;
    const protocol = message?.type === "unsupported" ? message.protocol : 0;
    const report = (about: Pick<ConnectionProblem, "executable" | "version">): void => { this.events.connection("unsupported", { trouble: { ...NO_PROBLEM, ...about, protocol } }); };
    if (this.kernel.status !== "idle") report(NO_PROBLEM);
    const about = await withTimeout(ANSWER_TIMEOUT_MS, packageInfo(this.kernel));
    if (!isVoid()) report(about ?? NO_PROBLEM);
  }

  /** The kernel cannot make the conversation: its settings are broken. */
  private failed({ code, message }: FailedMessage): void {
    this.open = null;
    this.events.connection("missing", { trouble: { ...NO_PROBLEM, message: `${code}: ${message}` } });
  }

  /** The kernel closed what was open. */
  private closed(): void {
    const { open } = this;
    this.open = null;
    open?.link.end();
    if (!this.connecting) this.reconnectLater();
  }

  private reconnectLater(): void {
    const wait = Math.min(RETRY_MS * 2 ** this.closings++, MAX_RETRY_MS);
    this.events.connection("connecting", {});
    clearTimeout(this.timer);
    this.timer = setTimeout(() => { this.reconnect(); }, wait);
  }

  private reportLost(message: string): void {
    this.events.connection("lost", { trouble: { ...NO_PROBLEM, message } });
  }

  /** Leaves what there is, and what was begun. */
  private drop(): void {
    this.attempt++;
    this.connecting = this.awaitsKernel = false;
    clearTimeout(this.timer);
    clearTimeout(this.pingTimer);
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
    setTimeout(() => { this.closeComm(open); }, CLOSE_DELAY_MS);
  }

  /** The kernel is told while it can be; else it sees that a page of the same name comes. */
  private closeComm({ comm, subshell }: OpenComm): void {
    const { kernel } = this;
    if (comm.isDisposed || kernel.isDisposed) return;
    if (kernel.connectionStatus !== "connected" || RESTARTS.includes(kernel.status)) {
      comm.dispose();
      return;
    }
    const own = subshell !== comm.subshellId;
    withSubshell(kernel, subshell, () => comm.close());
    if (own && subshell !== null) setTimeout(endSubshell, CLOSE_DELAY_MS, kernel, subshell);
  }
}


