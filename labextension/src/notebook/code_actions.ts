/** Puts code of Claude's answers into the notebook or a console, by buttons in each block of code. */

import type { YCellType } from "@jupyter/ydoc";
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from "@jupyterlab/application";
import { Notification } from "@jupyterlab/apputils";
import type { ConsolePanel } from "@jupyterlab/console";
import type { Notebook } from "@jupyterlab/notebook";
import { INotebookTracker } from "@jupyterlab/notebook";
import { ITranslator } from "@jupyterlab/translation";

import { addPageStyle, randomName } from "../page";
import { button, setText } from "../transcript/dom";
import type { CodeActions, CodeInBlock } from "../transcript/markdown/code_block";
import { codeBlocks } from "../transcript/markdown/code_block";
import type { Trans } from "../translation";
import type { CellForCode } from "./cell_language";
import { cellForCode, languageOf } from "./cell_language";
import type { CellChange, SharedNotebook } from "./change_cells";
import { changeCells } from "./change_cells";
import css from "./code_actions.css";


const OPEN_CONSOLE = "console:open";

export const codeActionsPlugin: JupyterFrontEndPlugin<void> = {
  id: "cellwright:code-actions",
  description: "Puts code of Claude's answers into the notebook or a console.",
  autoStart: true,
  optional: [INotebookTracker, ITranslator],
  activate: (app: JupyterFrontEnd, tracker: INotebookTracker | null, translator: ITranslator | null) => {
    if (!tracker) return;
    const trans: Trans = translator?.load("cellwright") ?? { __: (text) => text };
    const words: Record<ReturnType<typeof replaceProblem>, string> = {
      "": "",
      "no notebook": trans.__("Open a notebook first."),
      "read-only": trans.__("The notebook is open read-only."),
      "no cell": trans.__("The notebook has no active cell."),
      locked: trans.__("The active cell can't be edited."),
    };
    const content = (): Notebook | null => tracker.currentWidget?.content ?? null;
    /** Has the notebook in front, for what is changed must be seen. */
    const inFront = (change: (content: Notebook) => void): void => {
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

// The buttons in the head of a block of code: into the notebook, in the place of a cell, into a console.

/** The page's ways to use code. A problem says why it cannot now, empty when it can. */
export type CodeTargets = {
  readonly trans: Trans;
  /** The language of the kernel. */
  language(): string;
  insertProblem(): string;
  insert(language: string, text: string): void;
  replaceProblem(): string;
  replace(language: string, text: string): void;
  /** Null where the page has no consoles. */
  consoleProblem(): string | null;
  runInConsole(code: string): Promise<unknown>;
  tell(message: string): void;
};

const FEEDBACK_MS = 1500;

type CodeAction = { label: string; title: string; done: string; panelOnly: boolean; problem(): string | null; run(): unknown };

export class CodeButtons {
  /** Weak: a block that is thrown away takes its buttons along. */
  private readonly shown = new Set<WeakRef<() => void>>();

  constructor(private readonly home: CodeTargets) {}

  /** The buttons of one block. */
  readonly of = (code: CodeInBlock): CodeActions => {
    const made = this.actions(code).map((action) => this.actionButton(action, code));
    return { nodes: made.map(({ node }) => node), update: () => { made.forEach((each) => { each.update(); }); } };
  };

  /** Another notebook, or none, is the current one: what can be done is something else. */
  refresh(): void {
    for (const reference of this.shown) {
      const update = reference.deref();
      if (update) update();
      else this.shown.delete(reference);
    }
  }

  private actions({ language, text }: CodeInBlock): CodeAction[] {
    const { home } = this;
    const { trans } = home;
    const isCode = cellForCode(language, "", home.language()).cell_type === "code";
    return [
      {
        label: trans.__("Insert"),
        title: trans.__("Insert below the active cell of the notebook"),
        done: trans.__("Inserted"),
        panelOnly: false,
        problem: () => home.insertProblem(),
        run: () => { home.insert(language, text()); },
      },
      {
        label: trans.__("Replace"),
        title: trans.__("Replace the active cell's text with it"),
        done: trans.__("Replaced"),
        panelOnly: true,
        problem: () => home.replaceProblem(),
        run: () => { home.replace(language, text()); },
      },
      {
        label: trans.__("Console"),
        title: trans.__("Run it in a console of the kernel"),
        done: trans.__("Sent"),
        panelOnly: true,
        problem: () => (isCode ? home.consoleProblem() : null),
        run: () => home.runInConsole(cellForCode(language, text(), home.language()).source),
      },
    ];
  }

  private actionButton(action: CodeAction, code: CodeInBlock): { node: HTMLElement; update: () => void } {
    const { trans } = this.home;
    const problemNow = (): string | null => {
      const problem = action.problem();
      return problem === "" && !code.isComplete() ? trans.__("Wait until the code is complete.") : problem;
    };
    const node = button(action.label, () => { void this.run(action, problemNow(), node); }, { class: action.panelOnly ? "copy panel-only" : "copy" });
    const update = (): void => {
      const problem = problemNow();
      node.hidden = problem === null;
      // not `disabled`: why it cannot be done must be found by keyboard, too
      node.setAttribute("aria-disabled", `${Boolean(problem)}`);
      node.title = problem ? `${action.title}. ${problem}` : action.title;
    };
    update();
    node.addEventListener("pointerenter", update);
    node.addEventListener("focus", update);
    // the button's listeners keep it as long as there is the button
    this.shown.add(new WeakRef(update));
    return { node, update };
  }

  private async run(action: CodeAction, problem: string | null, node: HTMLElement): Promise<void> {
    if (problem) {
      this.home.tell(problem);
      return;
    }
    try {
      await action.run();
      setText(node, action.done);
      setTimeout(() => { setText(node, action.label); }, FEEDBACK_MS);
    } catch (error) {
      this.home.tell(error instanceof Error ? error.message : String(error));
    }
  }
}

// Code that is put into the notebook that the user was at, as one step that Ctrl-Z takes back.

/** The reason why nothing can be put into the notebook; empty when it can. */
export function insertProblem(notebook: Notebook | null): "" | "no notebook" | "read-only" {
  if (!notebook?.model) return "no notebook";
  return notebook.model.readOnly ? "read-only" : "";
}

/** The same for the active cell. */
export function replaceProblem(notebook: Notebook | null): ReturnType<typeof insertProblem> | "no cell" | "locked" {
  const problem = insertProblem(notebook);
  if (problem) return problem;
  const cell = activeCell(notebook);
  if (!cell) return "no cell";
  return cell.metadata.editable === false ? "locked" : "";
}

/** Puts the code below the active cell, and makes it the active one. */
export function insertBelow(notebook: Notebook, language: string, text: string): void {
  const { model } = notebook;
  if (!model) return;
  const cell = cellForCode(language, text, languageOf(model));
  const active = activeCell(notebook);
  const where = active ? { where: "after" as const, beside: active.id } : { where: "end" as const, beside: "" };
  const [made] = changeCells(model.sharedModel as unknown as SharedNotebook, [{ type: "insert", ...where, ...newCell(cell) }]);
  if (made) show(notebook, made.position);
}

/** Puts the code in the place of the active cell's. Throws RequestError where that cell is running. */
export function replaceActive(notebook: Notebook, language: string, text: string): void {
  const { model } = notebook;
  const active = activeCell(notebook);
  if (!model || !active) return;
  const { cell_type, source } = cellForCode(language, text, languageOf(model));
  const replace: CellChange = {
    type: "replace",
    id: active.id,
    expect: active.getSource(),
    source,
    cell_type,
    outputs: null,
    execution_count: null,
    attachments: null,
  };
  const [changed] = changeCells(model.sharedModel as unknown as SharedNotebook, [replace]);
  if (changed) show(notebook, changed.position);
}

function activeCell(notebook: Notebook | null): YCellType | undefined {
  return (notebook?.model?.sharedModel as unknown as SharedNotebook | undefined)?.cells[notebook?.activeCellIndex ?? -1];
}

function newCell({ cell_type, source }: CellForCode): Omit<Extract<CellChange, { type: "insert" }>, "type" | "where" | "beside"> {
  return { id: randomName().slice(0, 8), cell_type, source, metadata: {}, outputs: [], execution_count: null, attachments: {} };
}

/** The notebook has the keyboard then, with its own undo on Ctrl-Z. */
function show(notebook: Notebook, position: number): void {
  notebook.activeCellIndex = position;
  notebook.mode = "command";
  notebook.activate();
  void notebook.scrollToItem(position);
}
