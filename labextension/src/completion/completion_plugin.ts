/** Ghost text by Claude in cells of code; off until its user switches it on, for it is paid for. */

import { ICommandPalette, Notification } from "@jupyterlab/apputils";
import { ICompletionProviderManager } from "@jupyterlab/completer";
import { INotebookTracker } from "@jupyterlab/notebook";
import { ISettingRegistry } from "@jupyterlab/settingregistry";
import type { Application, IPlugin } from "@lumino/application";

import { links } from "../notebooks/links";
import { isForcedOff } from "../page_config";
import type { Choices } from "./claude_completion";
import { ClaudeCompletion } from "./claude_completion";
import { gapIn } from "./notebook_gap";
import type { CodeTracker, CompletionManager, SettingRegistry, Settings } from "./types";

type Palette = { addItem(item: { command: string; category: string }): unknown };

const ID = "cellwright:completion";
const TOGGLE = "cellwright:toggle-inline-completion";
/** JupyterLab shows 140 characters. */
const FIRST_WORDS =
  "Claude gets the cells nearby and your variables' names at each pause and suggests code (Tab takes it): about 0.05¢ each, $1 a day at most.";

export const completionPlugin: IPlugin<unknown, void> = {
  // its settings stand in the schema of this name
  id: ID,
  description: "Suggests code as you type, where you have switched that on.",
  autoStart: true,
  optional: [ICompletionProviderManager, INotebookTracker, ISettingRegistry, ICommandPalette],
  activate: (
    app, manager: CompletionManager | null, tracker: CodeTracker | null, registry: SettingRegistry | null, palette: Palette | null,
  ) => {
    if (!manager || !tracker || !registry || isForcedOff("inline_completion")) return;
    const { commands } = app as Application;
    let settings: Settings | null = null;
    const choices = (): Choices => ({ enabled: settings?.composite.enabled === true, delay: Number(settings?.composite.delay) });
    const completion = new ClaudeCompletion(
      choices,
      (request, context) => gapIn(tracker, (panel) => links.of(panel), request, context),
      (message) => { Notification.warning(message, { autoClose: 15_000 }); },
    );
    manager.registerInlineProvider(completion);
    commands.addCommand(TOGGLE, {
      label: "Inline Completion by Claude",
      caption: "Suggest code as you type; each suggestion is paid for",
      isToggleable: true,
      isToggled: () => choices().enabled,
      describedBy: { args: { type: "object", properties: {} } },
      execute: async () => {
        const on = !choices().enabled;
        await registry.set(ID, "enabled", on);
        if (on) Notification.info(FIRST_WORDS, { autoClose: false });
      },
    });
    palette?.addItem({ command: TOGGLE, category: "Claude" });
    const load = async (): Promise<void> => {
      settings = await registry.load(ID);
      settings.changed.connect(() => {
        completion.begin();
        commands.notifyCommandChanged(TOGGLE);
      });
      commands.notifyCommandChanged(TOGGLE);
    };
    load().catch((error: unknown) => { console.error("Cellwright:", error); });
  },
};
