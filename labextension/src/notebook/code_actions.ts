/** Puts code of Claude's answers into the notebook or a console, by buttons in each block of code. */

import { Notification } from "@jupyterlab/apputils";
import { INotebookTracker } from "@jupyterlab/notebook";
import { ITranslator } from "@jupyterlab/translation";
import type { Application, IPlugin } from "@lumino/application";

import type { Trans } from "../composer/composer_deps";
import { addPageStyle } from "../page_style";
import { codeBlocks } from "../transcript/markdown/code_block";
import { CodeButtons } from "../code_actions/code_buttons";
import { languageOf } from "./cell_language";
import { insertBelow, insertProblem, replaceActive, replaceProblem } from "../code_actions/notebook_edits";
import css from "./code_actions.css";
import type { ConsolePanel, Panel, Tracker } from "./code_actions_types";

type App = Application & { readonly name: string; readonly shell: { activateById(id: string): void } };
type Translator = { load(domain: string): Trans };

const OPEN_CONSOLE = "console:open";

export const codeActionsPlugin: IPlugin<unknown, void> = {
  id: "cellwright:code-actions",
  description: "Puts code of Claude's answers into the notebook or a console.",
  autoStart: true,
  optional: [INotebookTracker, ITranslator],
  activate: (application, tracker: Tracker | null, translator: Translator | null) => {
    if (!tracker) return;
    const app = application as App;
    const trans: Trans = translator?.load("cellwright") ?? { __: (text) => text };
    const words: Record<ReturnType<typeof replaceProblem>, string> = {
      "": "",
      "no notebook": trans.__("Open a notebook first."),
      "read-only": trans.__("The notebook is open read-only."),
      "no cell": trans.__("The notebook has no active cell."),
      locked: trans.__("The active cell is locked against changes."),
    };
    const content = (): Panel["content"] | null => tracker.currentWidget?.content ?? null;
    /** Has the notebook in front, for what is changed must be seen. */
    const inFront = (change: (content: Panel["content"]) => void): void => {
      const panel = tracker.currentWidget;
      if (!panel) return;
      app.shell.activateById(panel.id);
      change(panel.content);
    };
    const buttons = new CodeButtons({
      trans,
      language: () => {
        const model = content()?.model;
        return model ? languageOf(model) : "python";
      },
      insertProblem: () => words[insertProblem(content())],
      insert: (language, text) => { inFront((notebook) => { insertBelow(notebook, language, text); }); },
      replaceProblem: () => words[replaceProblem(content())],
      replace: (language, text) => { inFront((notebook) => { replaceActive(notebook, language, text); }); },
      consoleProblem: () => {
        // Jupyter Notebook opens a console in a page of its own, where nothing can be sent to it
        if (app.name === "Jupyter Notebook" || !app.commands.hasCommand(OPEN_CONSOLE)) return null;
        return content() ? "" : words["no notebook"];
      },
      runInConsole: async (code) => {
        const panel = tracker.currentWidget;
        if (!panel) return;
        const place = { path: panel.context.path, activate: false, insertMode: "split-bottom", ref: panel.id };
        const opened = (await app.commands.execute(OPEN_CONSOLE, place)) as ConsolePanel;
        // `console:inject` would find no console whose session is still on its way
        await opened.sessionContext.ready;
        void opened.console.inject(code);
      },
      tell: (message) => { Notification.warning(message, { autoClose: 10_000 }); },
    });
    addPageStyle(css);
    codeBlocks.actions = buttons.of;
    const refresh = (): void => { buttons.refresh(); };
    tracker.currentChanged.connect(refresh);
    tracker.activeCellChanged.connect(refresh);
  },
};
