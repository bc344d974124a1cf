/** The panel in JupyterLab's sidebar and Notebook 7's: where its tokens come in, and all of them may be missing. */

import { ILayoutRestorer } from "@jupyterlab/application";
import { ICommandPalette, Notification } from "@jupyterlab/apputils";
import type { Kernel } from "@jupyterlab/docmanager";
import { IDocumentWidgetOpener } from "@jupyterlab/docmanager";
import { IDefaultFileBrowser } from "@jupyterlab/filebrowser";
import { ILauncher } from "@jupyterlab/launcher";
import { INotebookTracker } from "@jupyterlab/notebook";
import { ISettingRegistry } from "@jupyterlab/settingregistry";
import { IStatusBar } from "@jupyterlab/statusbar";
import { ITranslator } from "@jupyterlab/translation";
import type { Application, IPlugin } from "@lumino/application";
import type { Widget } from "@lumino/widgets";

import type { Emits } from "../transport/kernel_types";
import { tellOfDocuments } from "../documents/page_documents";
import { links } from "../notebook/notebook_links";
import type { OpenDocument } from "../documents/changed_files";
import { ChangedFiles } from "../documents/changed_files";
import { addCommands, COMMANDS } from "./commands";
import { DesktopPermission, tellNews } from "./news_channels";
import { PANEL_ID } from "./panel_widget";
import { watchRuns } from "./notifications";
import type { Registry } from "./settings";
import { panelSettings } from "./settings";
import { Sidebar } from "./sidebar";
import type { Shortcut } from "../panel_view";
import type { StatusBar } from "./status_bar";
import { addStatusItem } from "./status_bar";
import type { Translator } from "../translation";
import { transOf } from "../translation";
import type { NotebookTracker, Services } from "./jupyterlab_types";

type Shell = {
  add(widget: Widget, area: string, options: { rank: number }): void;
  activateById(id: string): void;
  readonly currentWidget: Widget | null;
};
type Contents = { get(path: string, options: { content: false }): Promise<{ last_modified: string }> };
type App = Application & { readonly name: string; readonly version: string; readonly serviceManager: Services & { readonly contents: Contents } };
type Browser = { readonly model: { readonly path: string; refresh(): Promise<void> } };
type Opener = { readonly opened: Emits<{ readonly context: OpenDocument }> };
type Palette = { addItem(item: { command: string; category: string }): unknown };
type Launcher = { add(item: { command: string; category: string; rank: number }): unknown };
type Restorer = { add(widget: Widget, name: string): void };

const TOLD_MS = 8_000;

export const sidebarPlugin: IPlugin<unknown, void> = {
  // the settings stand in the schema of this name
  id: "cellwright:panel",
  description: "A panel in which you talk with Claude in the kernel of your notebook.",
  autoStart: true,
  optional: [
    INotebookTracker, ITranslator, ISettingRegistry, IDefaultFileBrowser, ICommandPalette, ILauncher, ILayoutRestorer, IStatusBar, IDocumentWidgetOpener,
  ],
  activate: (
    given, tracker: NotebookTracker | null, translator: Translator | null, registry: Registry | null, browser: Browser | null,
    palette: Palette | null, launcher: Launcher | null, restorer: Restorer | null, statusBar: StatusBar | null, opener: Opener | null,
  ) => {
    const app = given as App | undefined;
    const shell = app?.shell as unknown as Shell | undefined;
    if (!app || !shell) return;
    const { commands, serviceManager } = app;
    const trans = transOf(translator);
    const settings = panelSettings(registry, "cellwright:panel", () => {
      permission.look();
      store.touch();
    });
    const permission = new DesktopPermission(settings);
    const run = (command: string, args?: Record<string, unknown>): Promise<unknown> =>
      commands.hasCommand(command) ? commands.execute(command, args as never) : Promise.resolve(null);
    const sidebar = new Sidebar({
      frontEnd: `${app.name} ${app.version}`,
      services: serviceManager,
      tracker, trans, settings, shell, run,
      folder: () => folderOf(browser, tracker),
      shortcuts: () => shortcutsOf(commands),
      tell: (message) => { Notification.warning(message, { autoClose: TOLD_MS }); },
      kernelStarted: (kernel) => {
        // what is open here is worked on here
        tellOfDocuments(kernel as unknown as Kernel);
        links.addKernel(kernel);
      },
    });
    const { store, widget } = sidebar;
    addCommands(commands, sidebar, trans);
    shell.add(widget, "right", { rank: 150 });
    restorer?.add(widget, PANEL_ID);
    for (const command of Object.values(COMMANDS)) palette?.addItem({ command, category: trans.__("Claude") });
    launcher?.add({ command: COMMANDS.focus, category: trans.__("Other"), rank: 0 });
    addStatusItem(statusBar, store, trans, () => { void run(COMMANDS.focus); });
    watchRuns(store, {
      trans,
      seen: () => ({ page: !document.hidden && document.hasFocus(), panel: widget.isVisible }),
      tell: (news) => { tellNews(news, settings(), trans, () => { void sidebar.open().then((panel) => { panel.show(news.run); }); }); },
    });
    const files = new ChangedFiles({
      refreshBrowser: () => browser?.model.refresh() ?? Promise.resolve(),
      lastModified: async (path) => (await serviceManager.contents.get(path, { content: false })).last_modified,
    });
    opener?.opened.connect((_, { context }) => { files.add(context); });
    links.serve("files_changed", () => {
      files.changed();
      return null;
    });
  },
};

/** The keys of our commands as the user has set them, that which focuses the composer first. */
function shortcutsOf(commands: App["commands"]): Shortcut[] {
  const ours = commands.keyBindings.filter(({ command }) => command.startsWith("cellwright:") && commands.hasCommand(command));
  const first = (command: string): number => (command === COMMANDS.focus ? 0 : 1);
  return [...ours]
    .sort((a, b) => first(a.command) - first(b.command))
    .map(({ command, keys, selector }) => ({
      label: commands.label(command), keys: keys.map((key) => key.replaceAll(" ", "+")).join(" "), inPanel: selector.includes(".cellwright-panel"),
    }));
}

/** Where a kernel of the panel's own works: the file browser's folder, else the notebook's. */
function folderOf(browser: Browser | null, tracker: NotebookTracker | null): string {
  const path = tracker?.currentWidget?.context.path ?? "";
  // a drive's name may stand before the first colon
  const folder = browser?.model.path ?? (path.includes("/") ? path.slice(0, path.lastIndexOf("/")) : "");
  return folder.slice(folder.indexOf(":") + 1);
}
