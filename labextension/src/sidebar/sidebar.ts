/** The sidebar's composition: the store, the choice of a kernel, the widget, and the panel's parts. */

import type { INotebookTracker } from "@jupyterlab/notebook";
import { NotebookActions } from "@jupyterlab/notebook";
import type { Kernel, ServiceManager } from "@jupyterlab/services";

import { marks } from "../notebook/outputs/marks";
import { serverRoot } from "../page";
import type { PanelSettings, Shortcut } from "../panel_view";
import type { Trans } from "../translation";
import type { Attachment } from "../transport/chat_protocol";
import { ChatStore } from "../transport/chat_store";
import { RequestError } from "../transport/rpc";
import { serverApi } from "../transport/server_api";
import { activeCell, goToCell, onActiveCell, promptCell } from "./active_cell";
import { KernelChoice } from "./kernel_choice";
import { notebookFacts } from "./notebook_facts";
import { OwnKernel } from "./own_kernel";
import type { MenuItem } from "./panel/header";
import type { Panel, PanelHost, PanelParts } from "./panel/panel";
import { PANEL_ID, PanelWidget } from "./panel_widget";

/** The page as the sidebar sees it. */
export type SidebarHost = {
  readonly frontEnd: string;
  readonly services: ServiceManager.IManager;
  readonly tracker: INotebookTracker | null;
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
  kernelStarted(kernel: Kernel.IKernelConnection): void;
};

export class Sidebar {
  readonly store: ChatStore;
  readonly widget: PanelWidget;
  private readonly ownKernel: OwnKernel;
  private readonly kernelChoice: KernelChoice;

  constructor(private readonly host: SidebarHost) {
    const { services, tracker, trans } = host;
    this.store = new ChatStore(host.frontEnd, () => this.ownKernel.start(host.folder()));
    this.ownKernel = new OwnKernel(services, sessionStorage, () => { this.ownChanged(); });
    this.kernelChoice = new KernelChoice(tracker, services, this.ownKernel, this.store, () => host.settings().followNotebook);
    this.widget = new PanelWidget(trans, (host) => this.mount(host), () => { this.shown(); });
  }

  get ownKernelRuns(): boolean {
    return this.ownKernel.current !== null;
  }

  /** Brings the panel into sight, with the keyboard in the composer. */
  async open(): Promise<Panel> {
    // in Notebook 7 activating what is in sight hides it
    if (!this.widget.isVisible) this.host.shell.activateById(PANEL_ID);
    const panel = await this.widget.ready;
    panel.focusComposer();
    return panel;
  }

  /** Sends a prompt to the kernel of the current notebook, and shows the answer. */
  async ask(text: string, attachments: readonly Attachment[]): Promise<void> {
    const { services } = this.host;
    const panel = await this.open();
    // what a panel that was never open does a moment later
    await services.kernelspecs.ready;
    this.kernelChoice.activate();
    panel.showEnd();
    await this.store.prompt({ text, attachments: [...attachments], context: this.host.settings().context, cell: null, options: {} });
  }

  /** Goes to the composer, and from anywhere in the panel back to the notebook. Gives the panel that it went to. */
  async toggle(): Promise<Panel | null> {
    if (!this.widget.node.contains(document.activeElement)) return this.open();
    this.returnToNotebook();
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
    if (this.kernelChoice.pinned === "own") this.kernelChoice.choose(null);
    await this.ownKernel.shutdown();
  }

  private ownChanged(): void {
    const kernel = this.ownKernel.current?.kernel;
    if (kernel) this.host.kernelStarted(kernel);
    this.kernelChoice.update();
  }

  private shown(): void {
    // specs say which kernels are Python
    void this.host.services.kernelspecs.ready.then(() => { this.kernelChoice.activate(); });
    this.ownKernel.restore().catch((error: unknown) => { console.debug("Cellwright:", error); });
  }

  private startKernel(): void {
    this.ownKernel.start(this.host.folder()).then(
      () => { this.kernelChoice.choose("own"); },
      (error: unknown) => { this.host.tell(error instanceof RequestError ? error.message : String(error)); },
    );
  }

  private async mount(host: HTMLElement): Promise<Panel> {
    const { Panel } = await import("./panel/panel");
    return new Panel(host, this.store, this.panelHost());
  }

  private panelHost(): PanelHost {
    const { host: page, kernelChoice: choice } = this;
    const { trans, tracker } = page;
    return {
      trans,
      parts: panelParts,
      composer: {
        settings: () => page.settings(),
        cell: () => activeCell(choice.notebook),
        onCell: (listener) => onActiveCell(tracker, listener),
        serverRoot: serverRoot(),
        // the tab's own: what is kept for longer could be read by the next user of the browser
        memory: sessionStorage,
        marks,
      },
      settings: () => page.settings(),
      kernels: () => this.kernels(),
      startKernel: () => { this.startKernel(); },
      server: serverApi(page.services.serverSettings),
      notebookFacts: () => notebookFacts(choice.notebook),
      more: () => this.more(),
      openSettings: () => { void page.run("settingeditor:open", { query: "Claude" }); },
      showCell: (place) => {
        if (!goToCell(choice.notebook, place)) page.tell(trans.__("Cell %1 is no longer in the notebook.", place));
      },
      runCell: (place, prompt) => {
        const { notebook } = choice;
        const cell = promptCell(notebook, place, prompt);
        if (notebook && cell) void NotebookActions.runCells(notebook.content, [cell], notebook.sessionContext);
        return cell !== null;
      },
      leave: () => { this.returnToNotebook(); },
      run: (command, args) => page.run(command, args),
      shortcuts: () => page.shortcuts(),
      tell: (message) => { page.tell(message); },
    };
  }

  private kernels(): MenuItem[] {
    const { trans } = this.host;
    const words = { own: trans.__("Own kernel"), start: trans.__("Start a separate kernel") };
    const options: MenuItem[] = this.kernelChoice.options(words, () => { this.startKernel(); });
    const { pinned } = this.kernelChoice;
    return [
      { label: trans.__("Follow the active notebook"), about: trans.__("follows you"), chosen: pinned === null, choose: () => { this.kernelChoice.choose(null); } },
      ...options.map((option) => ({ ...option, chosen: pinned !== null && option.chosen === true })),
    ];
  }

  private more(): MenuItem[] {
    const { trans } = this.host;
    const restart = { label: trans.__("Restart kernel"), choose: () => { this.store.kernel?.restart().catch((error: unknown) => { this.host.tell(String(error)); }); } };
    const shutDown = { label: trans.__("Shut down own kernel"), choose: () => { void this.shutDownOwnKernel(); } };
    return [...(this.store.kernel ? [restart] : []), ...(this.ownKernel.current ? [shutDown] : [])];
  }

  private returnToNotebook(): void {
    const panel = this.host.tracker?.currentWidget;
    if (panel) {
      this.host.shell.activateById(panel.id);
      panel.content.activate();
    } else this.host.shell.currentWidget?.activate();
  }
}

// The panel's parts: each is a chunk of its own, loaded when it is needed.

export const panelParts: PanelParts = {
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
