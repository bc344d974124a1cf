/** The panel in JupyterLab's sidebar and Notebook 7's: where its tokens come in, and all of them may be missing. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ILayoutRestorer } from "@jupyterlab/application";
import { ICommandPalette, Notification } from "@jupyterlab/apputils";
import { IDocumentWidgetOpener } from "@jupyterlab/docmanager";
import { IDefaultFileBrowser } from "@jupyterlab/filebrowser";
import { ILauncher } from "@jupyterlab/launcher";
import { INotebookTracker } from "@jupyterlab/notebook";
import { ISettingRegistry } from "@jupyterlab/settingregistry";
import { IStatusBar } from "@jupyterlab/statusbar";
import { ITranslator } from "@jupyterlab/translation";
import type { CommandRegistry } from "@lumino/commands";

import { ChangedFiles } from "../documents/changed_files";
import { reportUnsavedDocuments } from "../documents/unsaved_documents";
import { onAnswerEnd } from "../notebook/answers/live_answers";
import { showAnswer } from "../notebook/answers/show_answer";
import { askedAtCells, visiblePanel } from "../notebook/cell_asks/visible_panel";
import { notebookLinks } from "../notebook/notebook_links";
import { askingWays } from "../notebook/outputs/asking";
import { overviewNotices } from "../overview/overview_notices";
import type { PanelSettings, Shortcut } from "../panel_view";
import type { Trans } from "../translation";
import { transOf } from "../translation";
import { DesktopPermission, showNotification, watchRuns } from "./notifications";

import type { Way } from "./panel/key_card";
import { claudeIcon, PANEL_ID } from "./panel_widget";
import { Sidebar } from "./sidebar";
import { addStatusItem } from "./status_bar";

const SETTINGS_ID = "cellwright:panel";
const WARNING_MS = 8_000;
/** The first look at other kernels comes after the page's own start. */
const FIRST_LOOK_MS = 3_000;

/** Keeps an eye on kernels that the panel does not show, while the settings want notices. */
class Elsewhere {
  private release: (() => void) | null = null;
  private begun = false;

  constructor(
    private readonly sidebar: Sidebar,
    private readonly settings: () => PanelSettings,
    private readonly changed: () => void,
  ) {}

  begin(): void {
    setTimeout(() => {
      this.begun = true;
      this.look();
    }, FIRST_LOOK_MS);
  }

  /** The settings were read, or are others now. */
  look(): void {
    const wanted = this.begun && this.settings().notifications !== "never";
    if (wanted && !this.release) this.release = this.sidebar.overview.use(this.changed, false);
    else if (!wanted && this.release) {
      this.release();
      this.release = null;
    }
  }
}

export const sidebarPlugin: JupyterFrontEndPlugin<void> = {
  // the settings stand in the schema of this name
  id: SETTINGS_ID,
  description: "A panel in which you talk with Claude in the kernel of your notebook.",
  autoStart: true,
  optional: [
    INotebookTracker, ITranslator, ISettingRegistry, IDefaultFileBrowser, ICommandPalette, ILauncher, ILayoutRestorer, IStatusBar, IDocumentWidgetOpener,
  ],
  activate: (
    given, tracker: INotebookTracker | null, translator: ITranslator | null, registry: ISettingRegistry | null, browser: IDefaultFileBrowser | null,
    palette: ICommandPalette | null, launcher: ILauncher | null, restorer: ILayoutRestorer | null, statusBar: IStatusBar | null,
    opener: IDocumentWidgetOpener | null,
  ) => {
    const app = given as JupyterFrontEnd | undefined;
    if (!app) return;
    const { commands, serviceManager, shell } = app;
    const trans = transOf(translator);
    const settings = panelSettings(registry, SETTINGS_ID, () => {
      permission.look();
      elsewhere.look();
      store.notify();
    });
    const permission = new DesktopPermission(settings);
    const run = (command: string, args?: Record<string, unknown>): Promise<unknown> =>
      commands.hasCommand(command) ? commands.execute(command, args as never) : Promise.resolve(null);
    const sidebar = new Sidebar({
      frontEnd: `${app.name} ${app.version}`,
      services: serviceManager,
      tracker, trans, settings, shell, run,
      restored: app.restored,
      folder: () => folderOf(browser, tracker),
      shortcuts: () => shortcutsOf(commands),
      tell: (message) => { Notification.warning(message, { autoClose: WARNING_MS }); },
      setSetting: (name, value) => {
        registry?.set(SETTINGS_ID, name, value as never).catch((error: unknown) => { Notification.warning(String(error), { autoClose: WARNING_MS }); });
      },
      onServerEvent: (schema, listener) => {
        serviceManager.events.stream.connect((_, emission) => { if (emission.schema_id === schema) listener(); });
      },
      kernelStarted: (kernel) => {
        // what is open here is worked on here
        reportUnsavedDocuments(kernel);
        notebookLinks.addKernel(kernel);
      },
    });
    const { store, widget } = sidebar;
    addCommands(commands, sidebar, trans);
    askingWays.compose = async () => { await sidebar.open(); };
    shell.add(widget, "right", { rank: 150 });
    restorer?.add(widget, PANEL_ID);
    for (const command of Object.values(COMMANDS)) palette?.addItem({ command, category: trans.__("Claude") });
    // of its own: the first icon of a category is the category's, and ours is not that of JupyterLab's "Other"
    // JupyterLab ranks Notebook 0, Console 20 and Other 100; an older one does not know the property, and puts it last
    const item = { command: COMMANDS.focus, category: trans.__("Claude"), rank: 0, categoryRank: 10 };
    launcher?.add(item);
    const status = addStatusItem(statusBar, store, trans, {
      open: () => { void run(COMMANDS.focus); },
      showRun: (id) => { void sidebar.open().then((panel) => { panel.show(id); }); },
      showAnswer: (node) => { showAnswer(shell, tracker, node); },
      overview: () => { void run(COMMANDS.overview); },
    });
    visiblePanel.of = (kernelId) => {
      const isThere = widget.isVisible && store.connection === "connected" && store.kernelInfo?.kernelId === kernelId;
      return isThere ? { chat: store, follow: () => { void widget.ready.then((panel) => { panel.toEnd(); }); } } : null;
    };
    const isLookedAt = (): boolean => !document.hidden && document.hasFocus();
    const isAtCell = (kernel: string, run: string): boolean => askedAtCells.has(`${kernel} ${run}`) && sidebar.showsNotebook(kernel);
    const notices = overviewNotices(sidebar.overview, {
      trans,
      isAtCell,
      panelKernel: () => store.kernelInfo?.kernelId ?? null,
      isSeen: (kernel) => ({ page: isLookedAt(), notebook: sidebar.showsNotebook(kernel) }),
      tell: (news, row) => {
        showNotification(news, settings(), trans, () => {
          const at = [...(row.overview?.runs ?? []), ...(row.overview?.last ? [row.overview.last] : [])].find(({ id }) => id === news.run);
          void sidebar.goToKernel(row, at?.background === false && at.state !== "asking" ? "notebook" : "panel", at ?? null);
        });
      },
    });
    onAnswerEnd(({ node, count }) => {
      const panel = tracker?.find(({ content }) => content.node.contains(node));
      const kernel = panel?.sessionContext.session?.kernel;
      if (kernel && panel.isVisible && isLookedAt()) notices.sawEnd(kernel.id, count === null ? "" : `[${count}]`);
    });
    const elsewhere = new Elsewhere(sidebar, settings, () => {
      notices.look();
      // the panel and the notebook in front have an item of their own
      const front = tracker?.currentWidget?.sessionContext.session?.kernel?.id;
      status(sidebar.overview.rows.filter(({ id }) => id !== store.kernelInfo?.kernelId && id !== front));
    });
    // the page's own start comes first
    void app.restored.then(() => { elsewhere.begin(); });
    watchRuns(store, {
      trans,
      isAtCell,
      visibility: () => ({ page: isLookedAt(), panel: widget.isVisible }),
      ended: (kernel, id) => { notices.sawEnd(kernel, id); },
      tell: (news) => { showNotification(news, settings(), trans, () => { void sidebar.open().then((panel) => { panel.show(news.run); }); }); },
    });
    const files = new ChangedFiles({
      refreshBrowser: () => browser?.model.refresh() ?? Promise.resolve(),
      lastModified: async (path) => (await serviceManager.contents.get(path, { content: false })).last_modified,
    });
    opener?.opened.connect((_, { context }) => { files.add(context); });
    notebookLinks.serve("files_changed", () => {
      files.changed();
      return null;
    });
  },
};

/** The keys of our commands as the user has set them. */
function shortcutsOf(commands: CommandRegistry): Shortcut[] {
  return commands.keyBindings
    .filter(({ command }) => command.startsWith("cellwright:") && commands.hasCommand(command))
    .map(({ command, keys, selector }) => ({
      command, label: commands.label(command), keys: keys.map((key) => key.replaceAll(" ", "+")).join(" "), inPanel: selector.includes(".cellwright-panel"),
    }));
}

/** The folder for a kernel of the panel's own: the file browser's, else the notebook's. */
function folderOf(browser: IDefaultFileBrowser | null, tracker: INotebookTracker | null): string {
  const path = tracker?.currentWidget?.context.path ?? "";
  // a drive's name may stand before the first colon
  const folder = browser?.model.path ?? (path.includes("/") ? path.slice(0, path.lastIndexOf("/")) : "");
  return folder.slice(folder.indexOf(":") + 1);
}

// The panel's commands, for keys, menus, palette, launcher and other extensions.

export const COMMANDS = {
  focus: "cellwright:focus-composer",
  open: "cellwright:open-panel",
  newSession: "cellwright:new-session",
  sessions: "cellwright:show-sessions",
  overview: "cellwright:show-all-sessions",
  manage: "cellwright:manage",
  stop: "cellwright:stop",
  help: "cellwright:show-help",
  log: "cellwright:show-log",
  enterKey: "cellwright:enter-key",
  shutDown: "cellwright:shut-down-own-kernel",
} as const;

/** They make sense where the keyboard is in the panel: no menu and no palette has them. */
const REGIONS = { next: "cellwright:next-region", previous: "cellwright:previous-region" } as const;

const WAYS: Way[] = ["key", "cloud", "subscription", "demo"];

const NO_ARGS = { args: { type: "object", properties: {} } } as const;

/** Adds the commands; those that make no sense now are disabled. */
export function addCommands(commands: CommandRegistry, sidebar: Sidebar, trans: Trans): void {
  const { store } = sidebar;
  const connected = (): boolean => store.connection === "connected";
  const add = (id: string, label: string, execute: () => unknown, isEnabled: () => boolean = () => true): void => {
    commands.addCommand(id, { label, isEnabled, execute, describedBy: NO_ARGS });
  };
  commands.addCommand(COMMANDS.focus, {
    label: trans.__("Ask Claude"),
    caption: trans.__("Open the panel and write a prompt; from there, go back to the notebook"),
    icon: claudeIcon,
    describedBy: { args: { type: "object", properties: { text: { type: "string" } } } },
    execute: async ({ text }) => {
      if (typeof text === "string") (await sidebar.open()).compose(text);
      else await sidebar.toggle();
    },
  });
  add(COMMANDS.open, trans.__("Show Claude"), () => sidebar.open());
  add(COMMANDS.newSession, trans.__("New Claude Session"), async () => { (await sidebar.open()).newSession(); }, connected);
  add(COMMANDS.sessions, trans.__("Claude Sessions"), async () => { (await sidebar.open()).open("sessions"); }, connected);
  add(COMMANDS.overview, trans.__("All Claude Sessions"), async () => { (await sidebar.open()).open("overview"); });
  add(COMMANDS.manage, trans.__("Manage Claude: Rules, MCP Servers, Skills, Agents, Plugins"), async () => { (await sidebar.open()).open("manage"); });
  add(COMMANDS.stop, trans.__("Stop Claude"), () => { sidebar.stop(); }, () => store.state?.current != null);
  add(COMMANDS.help, trans.__("Claude Help"), async () => { (await sidebar.open()).open("help"); });
  add(COMMANDS.log, trans.__("Claude Log"), async () => { (await sidebar.open()).open("log"); });
  commands.addCommand(COMMANDS.enterKey, {
    label: trans.__("Enter a Key for Claude"),
    describedBy: { args: { type: "object", properties: { way: { type: "string", enum: WAYS } } } },
    execute: async ({ way }) => { (await sidebar.open()).enterKey(WAYS.find((each) => each === way)); },
  });
  add(REGIONS.next, trans.__("Next Part of the Panel"), () => sidebar.goToRegion(1));
  add(REGIONS.previous, trans.__("Previous Part of the Panel"), () => sidebar.goToRegion(-1));
  add(COMMANDS.shutDown, trans.__("Shut Down Claude's Own Kernel"), () => sidebar.shutDownOwnKernel(), () => sidebar.ownKernelRuns);
  store.subscribe(() => {
    for (const id of [COMMANDS.newSession, COMMANDS.sessions, COMMANDS.stop]) commands.notifyCommandChanged(id);
  });
}

// The panel's settings: JupyterLab's registry, or what holds without one.

const DEFAULTS: PanelSettings = {
  notifications: "away",
  desktopNotifications: false,
  followNotebook: true,
  sendKey: "Enter",
  whileRunning: "steer",
  context: "auto",
  fontSize: 13,
  density: "comfortable",
};

/** The settings of the plugin `id` as they stand at each call; `changed` is called when they are others. */
export function panelSettings(registry: ISettingRegistry | null, id: string, changed: () => void): () => PanelSettings {
  let now = DEFAULTS;
  const take = ({ composite }: ISettingRegistry.ISettings): void => {
    now = { ...DEFAULTS, ...composite };
    changed();
  };
  registry?.load(id).then(
    (loaded) => {
      take(loaded);
      loaded.changed.connect(() => { take(loaded); });
    },
    (error: unknown) => { console.warn("Cellwright: the panel's settings cannot be read.", error); },
  );
  return () => now;
}
