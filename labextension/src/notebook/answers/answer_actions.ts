/** What can be done with an answer and needs the page: ask again, open a file at its line, go to a cell. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from "@jupyterlab/application";
import type { Cell } from "@jupyterlab/cells";
import type { NotebookPanel } from "@jupyterlab/notebook";
import { INotebookTracker, NotebookActions } from "@jupyterlab/notebook";
import { ITranslator } from "@jupyterlab/translation";

import { serverRoot } from "../../page";
import { whenLoaded } from "../../sidebar/stale_bundle";
import type { PageAction, WrittenPrompt } from "../../transcript/items/page_actions";
import { ACTION_EVENT, lendKeyForm, offerPageActions } from "../../transcript/items/page_actions";
import { transOf } from "../../translation";
import { serverApi } from "../../transport/server_api";
import { notebookLinks } from "../notebook_links";
import { PROMPT_HEADER } from "../prompt_cells/prompt_text";

/** An editor of JupyterLab, as far as going to a line needs it. */
type Opened = {
  readonly context?: { readonly ready: Promise<void> };
  readonly content?: { readonly editor?: { setCursorPosition(at: Position): void; revealPosition(at: Position): void; focus(): void } };
};
type Position = { line: number; column: number };

export const answerActionsPlugin: JupyterFrontEndPlugin<void> = {
  id: "cellwright:answer-actions",
  description: "Opens the files and cells that Claude's answers name, and asks a cell's prompt again.",
  autoStart: true,
  optional: [INotebookTracker, ITranslator],
  activate: (given, tracker: INotebookTracker | null, translator: ITranslator | null) => {
    const app = given as JupyterFrontEnd | undefined;
    if (!app) return;
    const actions = new AnswerActions(app, tracker);
    offerPageActions();
    lendKeyForm((host) => {
      const trans = transOf(translator);
      whenLoaded(import("../../sidebar/panel/key_field"), host, trans, ({ drawCellKey }) => {
        drawCellKey(host, {
          trans, server: serverApi(app.serviceManager.serverSettings),
          way: (way) => { void app.commands.execute("cellwright:enter-key", { way }); },
          later: (from) => { void actions.leaveKey(hostOf(from)); },
        });
      });
    });
    notebookLinks.offerKeyCard();
    document.addEventListener(ACTION_EVENT, (event) => {
      const target = event.composedPath().find((node) => node instanceof Element);
      if (!event.defaultPrevented && target) void actions.act((event as CustomEvent<PageAction>).detail, hostOf(target));
    });
  },
};

/** The element of the page that holds the transcript of `node`. */
function hostOf(node: Element): Element {
  const root = node.getRootNode();
  return root instanceof ShadowRoot ? hostOf(root.host) : node;
}

export class AnswerActions {
  constructor(
    private readonly app: Pick<JupyterFrontEnd, "commands" | "serviceManager" | "shell">,
    private readonly tracker: INotebookTracker | null,
  ) {}

  async act(wanted: PageAction, host: Element): Promise<void> {
    switch (wanted.action) {
      case "again":
        await this.runAgain(host);
        return;
      case "ask":
        await this.ask(wanted.prompt, host);
        return;
      case "refresh":
        await this.refresh(wanted.answer, wanted.prompt, host);
        return;
      case "open":
        await this.open(wanted.path, wanted.line, host);
        return;
      case "cell":
        this.showCell(wanted.path, wanted.cell);
        return;
      case "command":
        await this.run("cellwright:focus-composer", { text: wanted.command });
        return;
      case "key":
        await this.run("cellwright:enter-key", { way: wanted.way });
        return;
      default:
        wanted satisfies never;
    }
  }

  /** The kernel of the cell that waits for a key at `host` need not wait: the user wants none now. */
  async leaveKey(host: Element): Promise<void> {
    const panel = this.panels().find(({ node }) => node.contains(host));
    if (panel) await notebookLinks.linkFor(panel)?.request("key_later", {}).catch(() => panel.sessionContext.session?.kernel?.interrupt());
  }

  private async runAgain(host: Element): Promise<void> {
    const panel = this.atCell(host);
    const cell = panel?.content.activeCell;
    if (panel && cell) await NotebookActions.runCells(panel.content, [cell], panel.sessionContext);
  }

  /** Writes the answer anew in its cell, wherever its mark was pressed; asks below it if it stands in no prompt's cell. */
  private async refresh(answer: string, prompt: WrittenPrompt, host: Element): Promise<void> {
    const { askWritten, refreshAnswer } = await import("../outputs/stale_numbers");
    if (await refreshAnswer(this.panels(), answer, prompt, host)) return;
    const below = this.promptBelow(prompt.title, host);
    if (below) await askWritten(below.panel, below.cell, prompt);
  }

  /** Asks in a cell below. */
  private async ask(prompt: string, host: Element): Promise<void> {
    const below = this.promptBelow(prompt, host);
    if (below) await NotebookActions.runCells(below.panel.content, [below.cell], below.panel.sessionContext);
  }

  private promptBelow(prompt: string, host: Element): { panel: NotebookPanel; cell: Cell } | null {
    const panel = this.atCell(host);
    if (!panel) return null;
    NotebookActions.insertBelow(panel.content);
    const cell = panel.content.activeCell;
    if (!cell) return null;
    cell.model.sharedModel.setSource(PROMPT_HEADER + prompt);
    return { panel, cell };
  }

  /** The notebook of `host`, its cell active: the button that was pressed may go with the output. */
  private atCell(host: Element): NotebookPanel | undefined {
    const node = host.closest(".jp-Cell");
    const panel = this.panels().find(({ content }) => content.widgets.some((widget) => widget.node === node));
    if (panel) {
      panel.content.activeCellIndex = panel.content.widgets.findIndex((widget) => widget.node === node);
      panel.content.activate();
    }
    return panel;
  }

  private async open(path: string, line: number | null, host: Element): Promise<void> {
    const there = await this.find(pathsFor(path, this.folderOf(host), serverRoot()));
    if (there === null) return;
    const opened = (await this.run("docmanager:open", there.endsWith(".ipynb") ? { path: there } : { path: there, factory: "Editor" })) as Opened | undefined;
    await opened?.context?.ready;
    const editor = opened?.content?.editor;
    if (!editor || line === null) return;
    const at = { line: line - 1, column: 0 };
    editor.setCursorPosition(at);
    editor.revealPosition(at);
    editor.focus();
  }

  /** The first of `paths` that the server has; null where none is there. */
  private async find(paths: readonly string[]): Promise<string | null> {
    for (const path of paths) {
      try {
        await this.app.serviceManager.contents.get(path, { content: false });
        return path;
      } catch {
        // not this one
      }
    }
    return null;
  }

  private showCell(path: string, id: string): void {
    const found = this.panels().map((panel) => ({ panel, at: panel.content.widgets.findIndex(({ model }) => model.id === id) }));
    const shown = found.filter(({ at }) => at >= 0);
    const best = shown.find(({ panel }) => panel.context.path.endsWith(path)) ?? shown[0];
    if (!best) return;
    const { panel, at } = best;
    this.app.shell.activateById(panel.id);
    panel.content.activeCellIndex = at;
    panel.content.widgets[at]?.node.scrollIntoView({ block: "center" });
    panel.content.activate();
  }

  /** The folder that a relative path starts at: the notebook's. */
  private folderOf(host: Element): string {
    const own = this.panels().find(({ node }) => node.contains(host)) ?? this.tracker?.currentWidget;
    const path = own?.context.path ?? "";
    return path.includes("/") ? path.slice(0, path.lastIndexOf("/")) : "";
  }

  private panels(): NotebookPanel[] {
    const found: NotebookPanel[] = [];
    this.tracker?.forEach((panel) => { found.push(panel); });
    return found;
  }

  private async run(command: string, args: Record<string, unknown> = {}): Promise<unknown> {
    const { commands } = this.app;
    return commands.hasCommand(command) ? await commands.execute(command, args as never) : undefined;
  }
}

/** The paths of the server's that Claude may mean by `path`, the likeliest first. */
export function pathsFor(path: string, folder: string, root: string): string[] {
  const slashes = path.replaceAll("\\", "/");
  const top = root.replace(/\/$/, "");
  if (top && slashes.startsWith(`${top}/`)) return [slashes.slice(top.length + 1)];
  if (slashes.startsWith("/") || slashes.startsWith("~") || /^[A-Za-z]:/.test(slashes)) return [];
  const relative = slashes.replace(/^\.\//, "");
  return [...new Set([normalised(folder ? `${folder}/${relative}` : relative), normalised(relative)])].filter((each) => each !== "");
}

/** `path` without `..`; empty where it leads out of the server's folder. */
function normalised(path: string): string {
  const parts: string[] = [];
  for (const part of path.split("/")) {
    if (part === "..") {
      if (parts.pop() === undefined) return "";
    } else if (part !== "." && part !== "") parts.push(part);
  }
  return parts.join("/");
}
