/** What the panel is made of in a page: the store, the choice of a kernel, the widget, and what looks on beside it. */

import { serverRoot } from "../page";
import type { PanelSettings, Shortcut } from "../panel_view";
import type { Trans } from "../translation";
import { ChatStore } from "../transport/chat_store";
import type { ChatKernel } from "../transport/kernel_types";
import { RequestError } from "../transport/rpc";
import { cellHere, goToCell, onCellHere } from "./active_cell";
import type { NotebookTracker, Services } from "./jupyterlab_types";
import { KernelChoice } from "./kernel_choice";
import { OwnKernel } from "./own_kernel";
import type { MenuItem } from "./panel/header";
import type { Panel, PanelHome, Parts } from "./panel/panel";
import { PANEL_ID, PanelWidget } from "./panel_widget";

/** What the page gives. */
export type Page = {
  readonly frontEnd: string;
  readonly services: Services;
  readonly tracker: NotebookTracker | null;
  readonly trans: Trans;
  settings(): PanelSettings;
  /** The file browser's folder, as it names it. */
  folder(): string;
  readonly shell: { activateById(id: string): void; readonly currentWidget: { activate(): void } | null };
  /** The keys of our commands, that which focuses the composer first. */
  shortcuts(): readonly Shortcut[];
  run(command: string, args?: Record<string, unknown>): Promise<unknown>;
  tell(message: string): void;
  /** A kernel that runs no notebook works for Claude. */
  kernelStarted(kernel: ChatKernel): void;
};

export class Sidebar {
  readonly store: ChatStore;
  readonly widget: PanelWidget;
  private readonly own: OwnKernel;
  private readonly choice: KernelChoice;

  constructor(private readonly page: Page) {
    const { services, tracker, trans } = page;
    this.store = new ChatStore(page.frontEnd, () => this.own.start(page.folder()));
    this.own = new OwnKernel(services, sessionStorage, () => { this.ownChanged(); });
    this.choice = new KernelChoice(tracker, services, this.own, this.store, () => page.settings().followNotebook);
    this.widget = new PanelWidget(trans, (host) => this.mount(host), () => { this.shown(); });
  }

  get ownKernelRuns(): boolean {
    return this.own.current !== null;
  }

  /** Brings the panel into sight, with the keyboard in the composer. */
  async open(): Promise<Panel> {
    // in Notebook 7 activating what is in sight hides it
    if (!this.widget.isVisible) this.page.shell.activateById(PANEL_ID);
    const panel = await this.widget.ready;
    panel.focusComposer();
    return panel;
  }

  /** Goes to the composer, and from anywhere in the panel back to the notebook. Gives the panel that it went to. */
  async toggle(): Promise<Panel | null> {
    if (!this.widget.node.contains(document.activeElement)) return this.open();
    this.leave();
    return null;
  }

  /** From one part of the panel to the next. */
  async goToRegion(step: 1 | -1): Promise<void> {
    (await this.widget.ready).goToRegion(step);
  }

  /** Interrupts what runs. */
  stop(): void {
    const current = this.store.state?.current;
    if (current) this.store.send({ type: "stop", run: current });
  }

  async shutDownOwnKernel(): Promise<void> {
    if (this.choice.pinned === "own") this.choice.choose(null);
    await this.own.shutdown();
  }

  private ownChanged(): void {
    const kernel = this.own.current?.kernel;
    if (kernel) this.page.kernelStarted(kernel);
    this.choice.look();
  }

  private shown(): void {
    // specs say which kernels are Python
    void this.page.services.kernelspecs.ready.then(() => { this.choice.want(); });
    this.own.find().catch((error: unknown) => { console.debug("Cellwright:", error); });
  }

  private startKernel(): void {
    this.own.start(this.page.folder()).then(
      () => { this.choice.choose("own"); },
      (error: unknown) => { this.page.tell(error instanceof RequestError ? error.message : String(error)); },
    );
  }

  private async mount(host: HTMLElement): Promise<Panel> {
    const { Panel } = await import("./panel/panel");
    return new Panel(host, this.store, this.home());
  }

  private home(): PanelHome {
    const { page, choice } = this;
    const { trans, tracker } = page;
    return {
      trans,
      parts,
      composer: {
        settings: () => page.settings(),
        cell: () => cellHere(choice.notebook),
        onCell: (listener) => onCellHere(tracker, listener),
        serverRoot: serverRoot(),
        // the tab's own: what is kept for longer could be read by the next user of the browser
        memory: sessionStorage,
      },
      settings: () => page.settings(),
      kernels: () => this.kernels(),
      startKernel: () => { this.startKernel(); },
      more: () => this.more(),
      openSettings: () => { void page.run("settingeditor:open", { query: "Claude" }); },
      showCell: (place) => {
        if (!goToCell(choice.notebook, place)) page.tell(trans.__("The cell %1 is not in the notebook any more.", place));
      },
      leave: () => { this.leave(); },
      run: (command, args) => page.run(command, args),
      shortcuts: () => page.shortcuts(),
      tell: (message) => { page.tell(message); },
    };
  }

  private kernels(): MenuItem[] {
    const { trans } = this.page;
    const words = { own: trans.__("Own kernel"), start: trans.__("Start a kernel of its own") };
    const options: MenuItem[] = this.choice.options(words, () => { this.startKernel(); });
    const { pinned } = this.choice;
    return [
      { label: trans.__("The current notebook's"), about: trans.__("goes along with you"), chosen: pinned === null, choose: () => { this.choice.choose(null); } },
      ...options.map((option) => ({ ...option, chosen: pinned !== null && option.chosen === true })),
    ];
  }

  private more(): MenuItem[] {
    const { trans } = this.page;
    const restart = { label: trans.__("Restart kernel"), choose: () => { this.store.kernel?.restart().catch((error: unknown) => { this.page.tell(String(error)); }); } };
    const shutDown = { label: trans.__("Shut down own kernel"), choose: () => { void this.shutDownOwnKernel(); } };
    return [...(this.store.kernel ? [restart] : []), ...(this.own.current ? [shutDown] : [])];
  }

  private leave(): void {
    const panel = this.page.tracker?.currentWidget;
    if (panel) {
      this.page.shell.activateById(panel.id);
      panel.content.activate();
    } else this.page.shell.currentWidget?.activate();
  }
}

// Where the panel's parts are: each is a chunk of its own, loaded when it is needed.

export const parts: Parts = {
  composer: async () => (await import("../composer/composer")).mountComposer,
  contextBar: async () => (await import("./views/context_bar")).mountContextBar,
  view: async (name) => {
    switch (name) {
      case "sessions":
        return (await import("../sessions/sessions")).mountSessions;
      case "help":
        return (await import("./views/help")).mountHelp;
      case "log":
        return (await import("./views/log_view")).mountLogView;
    }
  },
  transcript: async () => (await import("../transcript/view")).view,
};
