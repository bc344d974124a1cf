/** Prompt cells in the notebook: their editor, inserting one, and making code of a prompt and a prompt of code. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ICommandPalette, Notification } from "@jupyterlab/apputils";
import type { Cell } from "@jupyterlab/cells";
import type { CodeMirrorEditor } from "@jupyterlab/codemirror";
import { IEditorExtensionRegistry } from "@jupyterlab/codemirror";
import type { NotebookPanel } from "@jupyterlab/notebook";
import { INotebookTracker, NotebookActions } from "@jupyterlab/notebook";
import type { Kernel } from "@jupyterlab/services";
import { ITranslator } from "@jupyterlab/translation";
import { LabIcon } from "@jupyterlab/ui-components";

import type { CompletionPeer } from "../../composer/completions";
import { addPageStyle } from "../../page";
import { svgOf } from "../../sidebar/icons";
import type { Trans } from "../../translation";
import { transOf } from "../../translation";
import { loadForCell } from "../../transport/load_extension";
import { RequestError } from "../../transport/rpc";
import { isPython } from "../cell_language";
import { notebookLinks } from "../notebook_links";
import css from "./prompt_cells.css";
import { lateExtension } from "./late_extension";
import type { PromptExtension } from "./prompt_extension";
import type { PromptListDeps } from "./prompt_list";
import { headerRange, isPrompt, PROMPT_HEADER } from "./prompt_text";

const INSERT = "cellwright:insert-prompt";
const TO_CODE = "cellwright:make-code";
const TO_PROMPT = "cellwright:make-prompt";
const COMPLETE = "cellwright:complete-prompt";

/** `of` "menu": the cell that the context menu was opened at, which need not be the active one. */
type Args = { of?: "menu" };
type Target = { readonly panel: NotebookPanel; readonly cell: Cell; readonly at: number };

export const promptCellsPlugin: JupyterFrontEndPlugin<void> = {
  // the toolbars' items and the keys stand in the schema of this name
  id: "cellwright:prompt-cells",
  description: "Turns %%claude cells into cells of prose with completions, and inserts them.",
  autoStart: true,
  optional: [INotebookTracker, IEditorExtensionRegistry, ICommandPalette, ITranslator],
  activate: (
    app, tracker: INotebookTracker | null, editors: IEditorExtensionRegistry | null, palette: ICommandPalette | null, translator: ITranslator | null,
  ) => {
    if (!tracker || !editors) return;
    const trans = transOf(translator);
    addPageStyle(css);
    const code = new PromptCode(tracker, trans);
    // with the notebook, so that it is mostly there before the first editor
    if (tracker.size > 0) void code.load();
    tracker.widgetAdded.connect(() => { void code.load(); });
    editors.addExtension({
      name: "cellwright-prompt",
      factory: ({ model }) => {
        if (!("type" in model) || model.type !== "code") return null;
        const extension = lateExtension(() => code.loaded?.of(model) ?? null, () => code.load());
        return { instance: () => extension, reconfigure: () => null };
      },
    });
    addCommands(app, tracker, palette, trans, () => { void code.load().then((there) => { there?.hasAsked(); }); });
    app.commands.addCommand(COMPLETE, {
      label: trans.__("Complete in Prompt Cell"),
      describedBy: { args: { type: "object", properties: {} } },
      execute: async () => {
        const editor = tracker.activeCell?.editor as CodeMirrorEditor | null | undefined;
        if (editor) (await code.load())?.completeOrIndent(editor.editor);
      },
    });
  },
};

type LoadedCode = PromptExtension & Pick<typeof import("./prompt_extension"), "completeOrIndent">;

/** The code that works in editors. */
class PromptCode {
  loaded: LoadedCode | null = null;
  private loading: Promise<LoadedCode | null> | null = null;

  constructor(
    private readonly tracker: INotebookTracker,
    private readonly trans: Trans,
  ) {}

  /** Gives null where it cannot be loaded; the next call tries again. */
  load(): Promise<LoadedCode | null> {
    this.loading ??= import("./prompt_extension").then(
      ({ promptExtension, completeOrIndent }) =>
        (this.loaded = { ...promptExtension(this.tracker, this.trans, promptListDeps(this.tracker)), completeOrIndent }),
      (error: unknown) => {
        console.error("Cellwright:", error);
        this.loading = null;
        return null;
      },
    );
    return this.loading;
  }
}

// What can be completed comes from the kernel of the notebook that the cell is in.

function promptListDeps(tracker: INotebookTracker): PromptListDeps {
  const panelOf = (node: HTMLElement): NotebookPanel | undefined => tracker.find((panel) => panel.content.node.contains(node));
  const asked = new WeakSet<Kernel.IKernelConnection>();
  return {
    peer: (node) => {
      const panel = panelOf(node);
      return panel?.content.model && isPython(panel.content.model) ? peerOf(panel) : null;
    },
    load: (node) => {
      const kernel = panelOf(node)?.sessionContext.session?.kernel;
      if (!kernel || asked.has(kernel)) return;
      asked.add(kernel);
      loadForCell(kernel).then(
        (problem) => { if (problem !== null) Notification.warning(problem, { autoClose: 10_000 }); },
        () => { asked.delete(kernel); }, // the kernel went away, or was restarted
      );
    },
  };
}

function peerOf(panel: NotebookPanel): CompletionPeer {
  return {
    get connection() {
      return notebookLinks.linkFor(panel) ? "connected" as const : "none" as const;
    },
    get kernelInfo() {
      const kernel = panel.sessionContext.session?.kernel;
      return kernel ? { kernelId: kernel.id, name: kernel.name, notebook: panel.context.path } : null;
    },
    subscribe: (listener) => notebookLinks.onLinked(listener),
    request: async (method, params, timeout) => {
      const link = notebookLinks.linkFor(panel);
      if (!link) throw new RequestError("gone", "The kernel has not loaded Cellwright.");
      return link.request(method, params, timeout);
    },
  };
}

// Commands: in the toolbars, the context menu and the palette.

function addCommands(app: JupyterFrontEnd, tracker: INotebookTracker, palette: ICommandPalette | null, trans: Trans, hasAsked: () => void): void {
  const { commands } = app;
  const current = (): NotebookPanel | null => {
    const panel = tracker.currentWidget;
    return panel?.content.model && isPython(panel.content.model) ? panel : null;
  };
  const targetOf = ({ of }: Args, prompt: boolean): Target | null => {
    const panel = current();
    const node = of === "menu" ? app.contextMenuHitTest(({ classList }) => classList.contains("jp-Cell")) : panel?.content.activeCell?.node;
    const at = panel?.content.widgets.findIndex((cell) => cell.node === node) ?? -1;
    const cell = panel?.content.widgets[at];
    return panel && cell && canTurn(cell, prompt) ? { panel, cell, at } : null;
  };
  const describedBy = { args: { type: "object" as const, properties: { of: { type: "string" as const, enum: ["menu"] } } } };
  commands.addCommand(INSERT, {
    label: trans.__("Insert Prompt Cell"),
    caption: trans.__("Insert a cell that asks Claude, below the active one"),
    icon: iconOf("prompt", svgOf("claude")),
    isEnabled: () => current() !== null,
    isVisible: () => current() !== null,
    describedBy: { args: { type: "object", properties: {} } },
    execute: async () => {
      const panel = current();
      if (!panel) return;
      hasAsked();
      await insertPrompt(panel);
    },
  });
  const turns: [string, boolean, { label: string; caption: string; icon: LabIcon }, (target: Target) => void][] = [
    [TO_CODE, true, { label: trans.__("Convert to Code"), caption: trans.__("Turn this prompt into code; its %1 line is removed", "%%claude"), icon: iconOf("code", CODE_SVG) }, makeCode],
    [TO_PROMPT, false, { label: trans.__("Convert to Prompt"), caption: trans.__("Turn this cell into a prompt for Claude"), icon: iconOf("prompt", svgOf("claude")) }, makePrompt],
  ];
  for (const [command, prompt, about, turn] of turns) {
    commands.addCommand(command, {
      ...about,
      isEnabled: (args) => targetOf(args, prompt) !== null,
      isVisible: (args) => targetOf(args, prompt) !== null,
      describedBy,
      execute: (args) => {
        const target = targetOf(args, prompt);
        if (!target) return;
        hasAsked();
        turn(target);
      },
    });
  }
  for (const command of [INSERT, TO_CODE, TO_PROMPT]) palette?.addItem({ command, category: "Claude" });
  followActivePrompt(tracker, () => { for (const command of [TO_CODE, TO_PROMPT]) commands.notifyCommandChanged(command); });
  tracker.currentChanged.connect(() => { commands.notifyCommandChanged(INSERT); });
}

/** True where a prompt (`prompt`) could be made code, or another cell a prompt. */
function canTurn({ model }: Cell, prompt: boolean): boolean {
  if (model.type === "raw" || model.getMetadata("editable") === false) return false;
  return (model.type === "code" && isPrompt(model.sharedModel.getSource())) === prompt;
}

/** Calls `changed` when another cell is active, and when the active one has become a prompt, or is none any more. */
function followActivePrompt(tracker: INotebookTracker, changed: () => void): void {
  let stop = (): void => undefined;
  tracker.activeCellChanged.connect((_, cell) => {
    stop();
    changed();
    if (!cell) return;
    const { contentChanged, sharedModel } = cell.model;
    let known = isPrompt(sharedModel.getSource());
    const look = (): void => {
      const now = isPrompt(sharedModel.getSource());
      if (now !== known) changed();
      known = now;
    };
    contentChanged.connect(look);
    stop = () => { contentChanged.disconnect(look); };
  });
}

/** Inserts an empty prompt below the active cell, and has the user write in it. */
async function insertPrompt({ content }: NotebookPanel): Promise<void> {
  const at = Math.min(content.activeCellIndex + 1, content.widgets.length);
  // as JupyterLab's own new cells: what is marked so is not saved
  content.model?.sharedModel.insertCell(at, { cell_type: "code", source: PROMPT_HEADER, metadata: { trusted: true } });
  content.deselectAll();
  content.activeCellIndex = at;
  await write(content, at);
}

function makeCode({ panel: { content }, cell, at }: Target): void {
  const { sharedModel } = cell.model;
  const { from, to } = headerRange(sharedModel.getSource());
  sharedModel.updateSource(from, to, "");
  content.activeCellIndex = at;
}

function makePrompt({ panel: { content }, cell, at }: Target): void {
  content.activeCellIndex = at;
  if (cell.model.type !== "code") {
    content.deselectAll();
    NotebookActions.changeCellType(content, "code");
  }
  content.widgets[at]?.model.sharedModel.updateSource(0, 0, PROMPT_HEADER);
  void write(content, at);
}

async function write(content: NotebookPanel["content"], at: number): Promise<void> {
  const cell = content.widgets[at];
  await cell?.ready;
  content.mode = "edit";
  const editor = cell?.editor;
  if (!editor) return;
  const end = editor.getPositionAt(cell.model.sharedModel.getSource().length);
  if (end) editor.setCursorPosition(end);
  editor.focus();
}

const CODE_SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24"><path class="jp-icon3" fill="#616161" d="M9.4 16.6L4.8 12l4.6-4.6L8 6l-6 6 6 6zm5.2 0l4.6-4.6-4.6-4.6L16 6l6 6-6 6z"/></svg>';

function iconOf(name: string, svgstr: string): LabIcon {
  return new LabIcon({ name: `cellwright:${name}-cell`, svgstr });
}
