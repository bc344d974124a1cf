/** The links of this page to kernels that hold Cellwright: opened when such a kernel is met, told what the page shows. */

import type { JupyterFrontEndPlugin } from "@jupyterlab/application";
import type { NotebookPanel } from "@jupyterlab/notebook";
import { INotebookTracker } from "@jupyterlab/notebook";
import type { Kernel } from "@jupyterlab/services";

import type { JsonObject } from "../json";
import { randomName, serverRoot } from "../page";
import type { RequestHandler } from "../transport/rpc";
import { LOADED_TARGET, RpcLink } from "../transport/rpc";
import type { SubshellComm } from "../transport/subshells";
import { INFO_TIMEOUT_MS, SUBSHELL_TIMEOUT_MS } from "../transport/subshells";
import { OpenNotebooks } from "./open_notebooks";

export const NOTEBOOK_TARGET = "cellwright.notebook";
export const NOTEBOOK_PROTOCOL = 1;

type OpenLink = { link: RpcLink; comm: Kernel.IComm; sentHello: string };
type FrontEndInfo = { frontEnd: string; root: string };

export class NotebookLinks {
  readonly notebooks = new OpenNotebooks(() => { this.sendHelloSoon(); });
  private readonly handlers = new Map<string, RequestHandler>();
  private readonly watched = new WeakSet<Kernel.IKernelConnection>();
  private readonly linked = new Map<Kernel.IKernelConnection, OpenLink>();
  private readonly opening = new Set<Kernel.IKernelConnection>();
  /** Kernels that run no notebook of this page, and work on its notebooks all the same. */
  private readonly kernelsWithoutNotebook = new WeakSet<Kernel.IKernelConnection>();
  private readonly listeners = new Set<() => void>();
  private readonly pageId = randomName();
  private drawsKeyCard = false;
  private frontEnd: FrontEndInfo = { frontEnd: "", root: "" };
  private helloScheduled = false;

  constructor() {
    this.serve("ping", () => null);
    this.serve("cells", this.notebooks.cells);
    this.serve("change", this.notebooks.change);
    this.serve("outputs", this.notebooks.outputs);
  }

  /** Answers what kernels ask by this method. */
  serve(method: string, handler: RequestHandler): void {
    this.handlers.set(method, handler);
  }

  /** Has `listener` called whenever a kernel has been linked to; gives how to stop that. */
  onLinked(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => { this.listeners.delete(listener); };
  }

  /** The link to the kernel of a notebook; undefined where it does not hold Cellwright. */
  linkFor(panel: NotebookPanel): RpcLink | undefined {
    const id = panel.context.sessionContext.session?.kernel?.id;
    return [...this.linked].find(([kernel]) => kernel.id === id)?.[1].link;
  }

  /** Set what each kernel is told first. */
  setFrontEnd(about: FrontEndInfo): void {
    this.frontEnd = about;
  }

  /** Tell kernels that this page draws the field for a key in a cell that waits for one. */
  offerKeyCard(): void {
    this.drawsKeyCard = true;
    this.sendHelloSoon();
  }

  /** Links to the kernel of each notebook that is opened, when there is something to link to. */
  add(panel: NotebookPanel): void {
    this.notebooks.add(panel);
    const { sessionContext } = panel.context;
    this.watch(sessionContext.session?.kernel ?? null);
    sessionContext.kernelChanged.connect((_, { newValue }) => { this.watch(newValue); });
    panel.content.disposed.connect(() => { this.closeUnused(); });
  }

  /** Links to a kernel that runs no notebook: it, too, works on those that are open here, and not behind their backs. */
  addKernel(kernel: Kernel.IKernelConnection): void {
    this.kernelsWithoutNotebook.add(kernel);
    this.watch(kernel);
  }

  /** The page goes away. */
  close(): void {
    for (const [kernel, { link }] of this.linked) {
      link.send({ type: "bye", page_left: true });
      this.drop(kernel);
    }
  }

  private watch(kernel: Kernel.IKernelConnection | null): void {
    if (!kernel || kernel.isDisposed || this.watched.has(kernel)) return;
    this.watched.add(kernel);
    kernel.iopubMessage.connect((_, { header, content }) => {
      if (header.msg_type !== "comm_open" || (content as { target_name?: unknown }).target_name !== LOADED_TARGET) return;
      this.drop(kernel); // what there was belongs to the process before: not every restart is told
      void this.open(kernel);
    });
    kernel.statusChanged.connect((_, status) => {
      if (status === "restarting" || status === "autorestarting" || status === "dead") this.drop(kernel);
    });
    kernel.disposed.connect(() => { this.drop(kernel); });
    void this.find(kernel);
  }

  /** Finds out whether a kernel that was there before the page holds us. */
  private async find(kernel: Kernel.IKernelConnection): Promise<void> {
    const info = kernel.requestCommInfo({ target_name: LOADED_TARGET }).then(
      ({ content }) => "comms" in content && Object.keys(content.comms).length > 0,
      () => false, // the kernel went away
    );
    const found = await Promise.race([info, delayed(INFO_TIMEOUT_MS, null)]);
    if (found ?? this.notebooks.mentionsClaude(kernel)) await this.open(kernel);
    // it may say yes when the cell has ended
    if (found === null && (await info)) await this.open(kernel);
  }

  private async open(kernel: Kernel.IKernelConnection): Promise<void> {
    if (this.linked.has(kernel) || this.opening.has(kernel) || kernel.isDisposed) return;
    this.opening.add(kernel);
    try {
      const comm: SubshellComm = kernel.createComm(NOTEBOOK_TARGET);
      // without one, messages wait for the cell that runs: better than none
      const subshell = comm.subshellStarted?.catch(() => undefined);
      if (kernel.supportsSubshells) await Promise.race([subshell, delayed(SUBSHELL_TIMEOUT_MS, null)]);
      this.connect(kernel, comm);
    } catch (error) {
      // the kernel went away, or another connection of this page to it has its comms
      console.debug("Cellwright:", error);
    } finally {
      this.opening.delete(kernel);
    }
  }

  private connect(kernel: Kernel.IKernelConnection, comm: Kernel.IComm): void {
    // said in the first message, which the kernel alone gets: what another script sends on this comm lacks it
    const secret = randomName();
    const link = new RpcLink({ send: (data) => comm.send({ ...data, secret }) }, this.handlers);
    const hello = this.hello(kernel);
    this.linked.set(kernel, { link, comm, sentHello: JSON.stringify(hello) });
    comm.onMsg = ({ content }) => { link.receive(content.data); };
    comm.onClose = () => {
      if (this.linked.get(kernel)?.comm === comm) this.drop(kernel);
    };
    comm.open({ ...hello, secret });
    for (const listener of this.listeners) listener();
  }

  private hello(kernel: Kernel.IKernelConnection): JsonObject {
    const { frontEnd, root } = this.frontEnd;
    const page = { page: this.pageId, front_end: frontEnd, root, draws_key_card: this.drawsKeyCard };
    return { protocol: NOTEBOOK_PROTOCOL, ...page, notebooks: this.notebooks.shown(kernel) };
  }

  /** Says what has changed, once for all that changes together. */
  private sendHelloSoon(): void {
    if (this.helloScheduled) return;
    this.helloScheduled = true;
    setTimeout(() => {
      this.helloScheduled = false;
      for (const [kernel, linked] of this.linked) {
        const hello = this.hello(kernel);
        const text = JSON.stringify(hello);
        if (text === linked.sentHello) continue;
        linked.sentHello = text;
        linked.link.send({ type: "hello", ...hello });
      }
    });
  }

  private closeUnused(): void {
    for (const [kernel, { link }] of this.linked) {
      if (this.notebooks.hasOwn(kernel) || this.kernelsWithoutNotebook.has(kernel)) continue;
      link.send({ type: "bye" });
      this.drop(kernel);
    }
  }

  private drop(kernel: Kernel.IKernelConnection): void {
    const linked = this.linked.get(kernel);
    this.linked.delete(kernel);
    linked?.link.end();
  }
}

/** One for the page: plugins share it. */
export const notebookLinks = new NotebookLinks();

function delayed<Value>(milliseconds: number, value: Value): Promise<Value> {
  return new Promise((resolve) => { setTimeout(() => { resolve(value); }, milliseconds); });
}

// Lets Claude work on the notebooks of this page as their user sees them.

export const notebooksPlugin: JupyterFrontEndPlugin<void> = {
  id: "cellwright:notebooks",
  description: "Lets Claude read and change the notebook as you see it, unsaved changes included.",
  autoStart: true,
  optional: [INotebookTracker],
  activate: (app, tracker: INotebookTracker | null) => {
    if (!tracker) return;
    const { name, version } = app;
    notebookLinks.setFrontEnd({ frontEnd: `${name} ${version}`, root: serverRoot() });
    tracker.forEach((panel) => { notebookLinks.add(panel); });
    tracker.widgetAdded.connect((_, panel) => { notebookLinks.add(panel); });
    window.addEventListener("pagehide", () => { notebookLinks.close(); });
  },
};
