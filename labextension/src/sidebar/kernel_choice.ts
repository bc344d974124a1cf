/** The kernel that the panel talks to: the current notebook's, unless the user has chosen another. */

import type { INotebookTracker, NotebookPanel } from "@jupyterlab/notebook";
import type { Kernel, ServiceManager } from "@jupyterlab/services";

import type { KernelInfo } from "../transport/chat";
import type { OwnKernel } from "./own_kernel";

/** `own`: the kernel of the panel's own; a path: that notebook's; null: whichever notebook is the current one. */
export type PinnedKernel = "own" | { readonly notebook: string } | OtherKernel | null;
/** A kernel of the server that this page shows no notebook of, and the connection that was made to it. */
export type OtherKernel = { readonly kernel: Kernel.IKernelConnection; readonly path: string | null };
export type KernelOption = { readonly label: string; readonly about: string; readonly chosen: boolean; choose(): void };
type Store = { connect(kernel: Kernel.IKernelConnection | null, place: KernelInfo | null): void };
type ChosenKernel = { kernel: Kernel.IKernelConnection; place: KernelInfo };

export class KernelChoice {
  pinned: PinnedKernel = null;
  /** The notebook that was the current one last, while it is open. */
  private lastNotebook: NotebookPanel | null = null;
  private active = false;
  private connected = false;
  private readonly watched = new WeakSet<NotebookPanel>();

  constructor(
    private readonly tracker: INotebookTracker | null,
    private readonly services: ServiceManager.IManager,
    private readonly own: OwnKernel,
    private readonly store: Store,
    /** True if the panel follows when another notebook becomes the current one. */
    private readonly follows: () => boolean,
  ) {
    tracker?.forEach((panel) => { this.watch(panel); });
    tracker?.widgetAdded.connect((_, panel) => { this.watch(panel); });
    tracker?.currentChanged.connect(() => { this.update(); });
  }

  /** From now on there is somebody who wants to talk: no kernel is touched before, but for the demo's. */
  activate(): void {
    this.active = true;
    this.update();
  }

  /** The notebook that the conversation is about; null where it is about none that is open. */
  get notebook(): NotebookPanel | null {
    const { pinned } = this;
    if (pinned) return this.pinnedNotebook(pinned);
    const current = this.tracker?.currentWidget ?? null;
    if (!this.lastNotebook || this.lastNotebook.isDisposed || (this.follows() && current)) this.lastNotebook = current;
    return this.lastNotebook;
  }

  private pinnedNotebook(pinned: NonNullable<PinnedKernel>): NotebookPanel | null {
    if (pinned === "own" || "kernel" in pinned) return null;
    return this.panels().find(({ context }) => context.path === pinned.notebook) ?? null;
  }

  /** Finds the kernel that is meant now, and goes to it. */
  update(): void {
    const wanted = this.active || isDemo(this.notebook);
    if (!wanted && !this.connected) return;
    this.connected = wanted;
    const currentKernel = wanted ? this.found() : null;
    this.store.connect(currentKernel?.kernel ?? null, currentKernel?.place ?? null);
  }

  choose(pinned: PinnedKernel): void {
    this.leaveOther();
    this.pinned = pinned;
    this.lastNotebook = null;
    this.update();
  }

  /** Goes to a kernel of the server: by its notebook where that is open here, else by a connection of its own. */
  chooseKernel(id: string, name: string, path: string | null): void {
    const panel = this.panels().find((each) => this.kernelOf(each)?.id === id);
    if (panel) this.choose({ notebook: panel.context.path });
    else if (this.own.current?.kernel?.id === id) this.choose("own");
    else {
      const kernel = this.services.kernels.connectTo({ model: { id, name } });
      this.choose({ kernel, path });
      kernel.statusChanged.connect((_, status) => {
        if (status === "dead" && otherKernel(this.pinned)?.kernel === kernel) this.choose(null);
      });
    }
  }

  /** The kernels to choose from, for a menu. `start` starts the panel's own kernel. */
  options(words: { own: string; start: string }, start: () => void): KernelOption[] {
    const here = this.found();
    const notebooks = this.panels().flatMap((panel) => {
      const kernel = this.kernelOf(panel);
      if (!kernel) return [];
      const { path } = panel.context;
      const chosen = here?.place.notebook === path;
      return [{ label: baseName(path), about: this.display(kernel), chosen, choose: () => { this.choose({ notebook: path }); } }];
    });
    const own: KernelOption = {
      label: this.own.current ? words.own : words.start,
      about: this.own.current ? `/${this.own.folder}` : "",
      chosen: here !== null && here.kernel === this.own.current?.kernel,
      choose: start,
    };
    const other = otherKernel(this.pinned);
    return [...notebooks, ...(other ? [this.optionOf(other)] : []), own];
  }

  private optionOf({ kernel, path }: OtherKernel): KernelOption {
    return { label: path === null ? this.display(kernel) : baseName(path), about: this.display(kernel), chosen: true, choose: () => undefined };
  }

  /** The connection was made for the panel alone. */
  private leaveOther(): void {
    const other = otherKernel(this.pinned);
    if (!other) return;
    this.pinned = null;
    this.update();
    other.kernel.dispose();
  }

  private found(): ChosenKernel | null {
    const other = otherKernel(this.pinned);
    if (other) {
      const { kernel, path } = other;
      return { kernel, place: { kernelId: kernel.id, name: this.display(kernel), notebook: path } };
    }
    const panel = this.notebook;
    const kernel = panel && this.kernelOf(panel);
    if (panel && kernel) return { kernel, place: { kernelId: kernel.id, name: this.display(kernel), notebook: panel.context.path } };
    const own = this.own.current?.kernel;
    return own ? { kernel: own, place: { kernelId: own.id, name: this.display(own), notebook: null } } : null;
  }

  /** The kernel of a notebook, where it speaks Python. */
  private kernelOf(panel: NotebookPanel): Kernel.IKernelConnection | null {
    const kernel = panel.sessionContext.session?.kernel ?? null;
    const language = kernel && this.services.kernelspecs.specs?.kernelspecs[kernel.name]?.language;
    return (language ?? "python").toLowerCase() === "python" ? kernel : null;
  }

  private display(kernel: Kernel.IKernelConnection): string {
    return this.services.kernelspecs.specs?.kernelspecs[kernel.name]?.display_name ?? kernel.name;
  }

  private panels(): NotebookPanel[] {
    const panels: NotebookPanel[] = [];
    this.tracker?.forEach((panel) => { panels.push(panel); });
    return panels;
  }

  private watch(panel: NotebookPanel): void {
    if (this.watched.has(panel)) return;
    this.watched.add(panel);
    const look = (): void => { this.update(); };
    panel.sessionContext.kernelChanged.connect(look);
    panel.context.pathChanged.connect(() => { this.renamed(); });
  }

  /** A notebook that was chosen and is of another name now is not there under the old one. */
  private renamed(): void {
    if (this.pinned && this.pinned !== "own" && !otherKernel(this.pinned) && !this.notebook) this.pinned = null;
    this.update();
  }
}

function otherKernel(pinned: PinnedKernel): OtherKernel | null {
  return pinned && pinned !== "own" && "kernel" in pinned ? pinned : null;
}

/** The demo's notebook says so of itself: who opens it is told from the start that its model is scripted. */
function isDemo(notebook: NotebookPanel | null): boolean {
  return (notebook?.context.model.getMetadata("cellwright") as { demo?: unknown } | undefined)?.demo === true;
}

export function baseName(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}
