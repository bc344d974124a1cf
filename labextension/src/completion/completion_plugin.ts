/** Ghost text by Claude in cells of code; off until its user switches it on, for it is paid for. */

import type { JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ICommandPalette, Notification } from "@jupyterlab/apputils";
import { ICompletionProviderManager } from "@jupyterlab/completer";
import type { NotebookPanel } from "@jupyterlab/notebook";
import { INotebookTracker } from "@jupyterlab/notebook";
import type { Kernel } from "@jupyterlab/services";
import { ISettingRegistry } from "@jupyterlab/settingregistry";
import { ITranslator } from "@jupyterlab/translation";

import { isPython } from "../notebook/cell_language";
import { notebookLinks } from "../notebook/notebook_links";
import { isForcedOff } from "../page";
import type { Trans } from "../translation";
import { transOf } from "../translation";
import { loadExtension } from "../transport/load_extension";
import type { CompletionSettings } from "./claude_completion";
import { ClaudeCompletion } from "./claude_completion";
import { completionContext } from "./completion_context";

const ID = "cellwright:completion";
const TOGGLE = "cellwright:toggle-inline-completion";

export const completionPlugin: JupyterFrontEndPlugin<void> = {
  // its settings stand in the schema of this name
  id: ID,
  description: "Suggests code as you type, where you have switched that on.",
  autoStart: true,
  optional: [ICompletionProviderManager, INotebookTracker, ISettingRegistry, ICommandPalette, ITranslator],
  activate: (
    app,
    manager: ICompletionProviderManager | null,
    tracker: INotebookTracker | null,
    registry: ISettingRegistry | null,
    palette: ICommandPalette | null,
    translator: ITranslator | null,
  ) => {
    // what the administrator switched off is in no menu
    if (!manager || !tracker || !registry || isForcedOff("inline_completion")) return;
    const { commands } = app;
    const trans = transOf(translator);
    let settings: ISettingRegistry.ISettings | null = null;
    const choices = (): CompletionSettings => ({ enabled: settings?.composite.enabled === true, delay: Number(settings?.composite.delay) });
    const loading = new ExtensionLoader(loadExtension);
    const completion = new ClaudeCompletion(
      choices,
      (request, context) => completionContext(tracker, (panel) => {
        const link = notebookLinks.linkFor(panel);
        if (!link && settings?.composite.loadExtension === true) loading.begin(panel);
        return link;
      }, request, context),
      (message) => { Notification.warning(message, { autoClose: 15_000 }); },
    );
    manager.registerInlineProvider(completion);
    commands.addCommand(TOGGLE, {
      label: trans.__("Inline Completion by Claude"),
      caption: trans.__("Suggest code as you type; each suggestion costs money"),
      isToggleable: true,
      isToggled: () => choices().enabled,
      describedBy: { args: { type: "object", properties: {} } },
      execute: async () => {
        const on = !choices().enabled;
        await registry.set(ID, "enabled", on);
        if (on) Notification.info(costNotice(trans), { autoClose: false });
      },
    });
    palette?.addItem({ command: TOGGLE, category: "Claude" });
    const follow = async (): Promise<void> => {
      settings = await registry.load(ID);
      settings.changed.connect(() => {
        completion.reset();
        commands.notifyCommandChanged(TOGGLE);
      });
      commands.notifyCommandChanged(TOGGLE);
    };
    follow().catch((error: unknown) => { console.error("Cellwright:", error); });
  },
};

/** The notice when it is switched on; JupyterLab shows 140 characters. */
function costNotice(trans: Trans): string {
  return trans.__(
    "Claude gets the cells nearby and your variables' names at each pause and suggests code (Tab takes it): about 0.05¢ each, $1 a day at most.",
  );
}

// Has a notebook's kernel load Cellwright, where its user said that this may be done.

export class ExtensionLoader {
  /** Each kernel is asked once: where it lacks the package, it lacks it at the next key as well. */
  private readonly tried = new WeakSet();

  /** `load` gives null, or what kept the kernel from it. */
  constructor(private readonly load: (kernel: Kernel.IKernelConnection) => Promise<unknown>) {}

  /** Begins it for the kernel of a Python notebook; the page connects when the kernel says that it holds us. */
  begin({ context, content }: NotebookPanel): void {
    const kernel = context.sessionContext.session?.kernel;
    if (!kernel || this.tried.has(kernel) || !content.model || !isPython(content.model)) return;
    this.tried.add(kernel);
    this.load(kernel).catch(() => undefined); // the kernel went away
  }
}
