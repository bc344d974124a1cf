/** The sidebar's composition: the store, the choice of a kernel, the widget, and the panel's parts. */

import type { INotebookTracker, NotebookPanel } from "@jupyterlab/notebook";
import { NotebookActions } from "@jupyterlab/notebook";
import type { Kernel, ServiceManager } from "@jupyterlab/services";

import { marks } from "../notebook/outputs/marks";
import { serverRoot } from "../page";
import type { KernelRow, OverviewRun } from "../overview/overview_feed";
import { OVERVIEW_EVENT, OverviewFeed } from "../overview/overview_feed";
import type { PanelSettings, Shortcut } from "../panel_view";
import type { Trans } from "../translation";
import { ChatStore } from "../transport/chat_store";
import { RequestError } from "../transport/rpc";
import type { ServerApi } from "../transport/server_api";
import { serverApi } from "../transport/server_api";
import { activeCell, goToCell, onActiveCell, promptCell } from "./active_cell";
import { KernelChoice } from "./kernel_choice";
import { notebookFacts } from "./notebook_facts";
import { OwnKernel } from "./own_kernel";
import type { MenuItem } from "./panel/header";
import type { Panel, PanelHost, PanelParts } from "./panel/panel";
import { PANEL_ID, PanelWidget } from "./panel_widget";

/** The time that a run's card may take to come when the panel goes to another kernel. */
const RUN_TIMEOUT_MS = 20_000;

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
  /** Settles when the page has opened what it had open before. */
  readonly restored: Promise<void>;
  setSetting(name: string, value: unknown): void;
  /** Calls `listener` at each event of the server with this schema. */
  onServerEvent(schema: string, listener: () => void): void;
  /** A kernel that runs no notebook works for Claude. */
  kernelStarted(kernel: Kernel.IKernelConnection): void;
};

export class Sidebar {
  readonly store: ChatStore;
  readonly widget: PanelWidget;
  readonly overview: OverviewFeed;
  private readonly server: ServerApi;
  private readonly ownKernel: OwnKernel;
  private readonly kernelChoice: KernelChoice;
  /** True once it is known which kernels this page has. */
  private settled = false;

  constructor(private readonly host: SidebarHost) {
    this.server = serverApi(host.services.serverSettings);
    this.overview = new OverviewFeed(this.server, (listener) => { host.onServerEvent(OVERVIEW_EVENT, listener); });
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

  /** Goes to the notebook of a kernel, at the run's cell, or to the panel with that kernel's conversation. */
  async goToKernel(row: KernelRow, where: "notebook" | "panel", run: OverviewRun | null): Promise<void> {
    const path = row.type === "notebook" && row.path ? row.path : null;
    if (where === "notebook" && path !== null) {
      await this.host.run("docmanager:open", { path: this.openPath(row.id) ?? path });
      if (run) goToCell(this.openPanel(row.id), run.place);
      return;
    }
    this.kernelChoice.chooseKernel(row.id, row.name, path);
    const panel = await this.open();
    if (run && (await this.hasRun(row.id, run.id))) panel.show(run.id);
  }

  /** Waits until the panel has that run of the kernel that it goes to; false when it does not come. */
  private hasRun(kernel: string, run: string): Promise<boolean> {
    const { store } = this;
    const isThere = (): boolean => store.kernelInfo?.kernelId === kernel && store.runs.some((each) => each.run.id === run);
    return new Promise((resolve) => {
      const settle = (found: boolean): void => {
        clearTimeout(timer);
        stop();
        resolve(found);
      };
      const timer = setTimeout(() => { settle(false); }, RUN_TIMEOUT_MS);
      const stop = store.subscribe(() => { if (isThere()) settle(true); });
      if (isThere()) settle(true);
    });
  }

  private openPanel(kernel: string): NotebookPanel | null {
    return this.host.tracker?.find((panel) => panel.sessionContext.session?.kernel?.id === kernel) ?? null;
  }

  private openPath(kernel: string): string | undefined {
    return this.openPanel(kernel)?.context.path;
  }

  /** True if the notebook of that kernel is in sight. */
  showsNotebook(kernel: string): boolean {
    return this.openPanel(kernel)?.isVisible === true;
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
    const specs = this.host.services.kernelspecs.ready.then(() => { this.kernelChoice.activate(); });
    const own = this.ownKernel.restore().catch((error: unknown) => { console.debug("Cellwright:", error); });
    void Promise.allSettled([specs, own, this.host.restored]).then(() => {
      this.settled = true;
      this.store.notify();
    });
  }

  /** True if no kernel is about to come by itself. */
  private get isSettled(): boolean {
    const { notebook } = this.kernelChoice;
    const context = notebook && !notebook.isDisposed ? notebook.sessionContext : null;
    if (!context || context.isReady) return this.settled;
    void context.ready.then(() => { this.store.notify(); });
    return false;
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
      server: this.server,
      isSettled: () => this.isSettled,
      notebookFacts: () => notebookFacts(choice.notebook),
      more: () => this.more(),
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
      forViews: {
        setSetting: (name, value) => { page.setSetting(name, value); },
        overview: () => this.overview,
        goToKernel: (row, where, run) => this.goToKernel(row, where, run),
      },
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
      case "overview":
        return (await import("../overview/overview_view")).mountOverview;
      case "manage":
        return (await import("../manage/manage_view")).mountManage;
      case "settings":
        return (await import("../manage/manage_view")).mountSettings;
    }
  },
  transcript: async () => (await import("../transcript/view")).view,
};
