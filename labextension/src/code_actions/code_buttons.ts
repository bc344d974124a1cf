/** The buttons in the head of a block of code: into the notebook, in the place of a cell, into a console. */

import type { Trans } from "../composer/composer_deps";
import { button, setText } from "../transcript/dom";
import { cellOf } from "../notebook/cell_language";

/** What the page can do with code. A problem says why it cannot now, empty when it can. */
export type CodeHome = {
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

const SAID_MS = 1500;

type Action = { label: string; title: string; done: string; panelOnly: boolean; problem(): string | null; run(): unknown };

export class CodeButtons {
  /** Weak: a block that is thrown away takes its buttons along. */
  private readonly shown = new Set<WeakRef<() => void>>();

  constructor(private readonly home: CodeHome) {}

  /** The buttons of one block. */
  readonly of = (language: string, text: () => string): Node[] => this.actions(language, text).map((action) => this.node(action));

  /** Another notebook, or none, is the current one: what can be done is something else. */
  refresh(): void {
    for (const reference of this.shown) {
      const update = reference.deref();
      if (update) update();
      else this.shown.delete(reference);
    }
  }

  private actions(language: string, text: () => string): Action[] {
    const { home } = this;
    const { trans } = home;
    const isCode = cellOf(language, "", home.language()).cell_type === "code";
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
        title: trans.__("Put it in the place of the active cell's text"),
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
        run: () => home.runInConsole(cellOf(language, text(), home.language()).source),
      },
    ];
  }

  private node(action: Action): HTMLElement {
    const node = button(action.label, () => { void this.run(action, node); }, { class: action.panelOnly ? "copy panel-only" : "copy" });
    const update = (): void => {
      const problem = action.problem();
      node.hidden = problem === null;
      // not `disabled`: why it cannot be done must be found by keyboard, too
      node.setAttribute("aria-disabled", `${Boolean(problem)}`);
      node.title = problem ? `${action.title}. ${problem}` : action.title;
      node.setAttribute("aria-label", `${action.label}: ${node.title}`);
    };
    update();
    node.addEventListener("pointerenter", update);
    node.addEventListener("focus", update);
    // the button's listeners keep it as long as there is the button
    this.shown.add(new WeakRef(update));
    return node;
  }

  private async run(action: Action, node: HTMLElement): Promise<void> {
    const problem = action.problem();
    if (problem) {
      this.home.tell(problem);
      return;
    }
    try {
      await action.run();
      setText(node, action.done);
      setTimeout(() => { setText(node, action.label); }, SAID_MS);
    } catch (error) {
      this.home.tell(error instanceof Error ? error.message : String(error));
    }
  }
}
