/** Explain, Ask About This and Fix at an output; marks at cells and outputs; and pictures of outputs for kernels that ask. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ICommandPalette, Notification } from "@jupyterlab/apputils";
import type { Cell } from "@jupyterlab/cells";
import type { NotebookPanel } from "@jupyterlab/notebook";
import { INotebookTracker } from "@jupyterlab/notebook";
import { ISettingRegistry } from "@jupyterlab/settingregistry";
import { ITranslator } from "@jupyterlab/translation";
import { LabIcon } from "@jupyterlab/ui-components";

import { addPageStyle, randomName } from "../../page";
import type { Trans } from "../../translation";
import { transOf } from "../../translation";
import type { MarkedAttachment } from "../../transport/chat_protocol";
import type { CellModel } from "../cell_language";
import { labelOf } from "../cell_toolbar";
import { notebookLinks } from "../notebook_links";
import { askingWays } from "./asking";
import { CellMarks } from "./cell_marks";
import type { Problem } from "./dom_picture";
import { marks } from "./marks";
import type { FoundOutput } from "./notebook_outputs";
import { areaOf, outputAt } from "./notebook_outputs";
import css from "./output_actions.css";
import { bounded, isAnswer, isDrawn, outputText, pictureIn } from "./output_content";
import { OutputTools } from "./output_tools";
import { PictureConsent } from "./picture_consent";

/** `of` "menu": the output or cell that the context menu was opened at. */
type Args = { of?: "menu" };

const COMMANDS = {
  explain: "cellwright:explain-output",
  ask: "cellwright:ask-about-output",
  mark: "cellwright:mark-output",
  markCell: "cellwright:mark-cell",
} as const;
const FIX_CELL = "cellwright:fix-cell";

const ARGS = { args: { type: "object", properties: { of: { type: "string", enum: ["menu"] } } } } as const;

const PLUGIN = "cellwright:outputs";

export const outputActionsPlugin: JupyterFrontEndPlugin<void> = {
  // the menu's items, the keys and the settings stand in the schema of this name
  id: PLUGIN,
  description: "Asks Claude about outputs, and lets Claude see those that only the page draws.",
  autoStart: true,
  optional: [INotebookTracker, ICommandPalette, ISettingRegistry, ITranslator],
  activate: (app, tracker: INotebookTracker | null, palette: ICommandPalette | null, registry: ISettingRegistry | null, translator: ITranslator | null) => {
    if (!tracker) return;
    addPageStyle(css);
    const trans = transOf(translator);
    const { commands } = app;
    const consent = new PictureConsent(registry, PLUGIN, trans);
    const panels = (): NotebookPanel[] => {
      const found: NotebookPanel[] = [];
      tracker.forEach((panel) => { found.push(panel); });
      return found;
    };
    notebookLinks.serve("pictures", async (params) => {
      const { OutputPictures } = await import("./output_pictures");
      return new OutputPictures(panels, () => consent.byKernel()).answer(params);
    });
    const cellMarks = new CellMarks(tracker, marks, trans);
    const contents = new MarkedContents(trans, () => consent.byUser());
    const tell = (error: unknown): void => { Notification.warning(error instanceof Error ? error.message : String(error), { autoClose: 10_000 }); };

    const mark = async (found: FoundOutput): Promise<string> => {
      const { panel, cell, index } = found;
      const id = randomName();
      marks.add({ id, notebook: panel.context.path, cell: cell.model.id, index, attachment: await contents.ofOutput(found) });
      return id;
    };
    const actions = {
      explain: async (found: FoundOutput): Promise<void> => {
        const { panel, cell, output } = found;
        const label = `${output.type === "error" ? "the error in" : "the output of"} ${labelOf(cell)}`;
        const attachments = [await contents.ofOutput(found)];
        await askingWays.ask?.({ panel, cell, action: { name: "explain", label, error: "", words: "" }, selection: "", attachments });
      },
      ask: async (found: FoundOutput): Promise<void> => {
        await mark(found);
        await askingWays.compose?.();
      },
      mark: async (found: FoundOutput): Promise<void> => { cellMarks.focus(await mark(found)); },
    };
    const outputFor = ({ of }: Args): FoundOutput | null => {
      const found = targetOutput(app, tracker, of === "menu");
      return found && isOffered(found) ? found : null;
    };
    const add = (id: string, label: string, caption: string, run: (found: FoundOutput) => Promise<void>): void => {
      commands.addCommand(id, {
        label, caption, describedBy: ARGS,
        isEnabled: (args) => outputFor(args) !== null,
        isVisible: (args) => outputFor(args) !== null,
        execute: (args) => {
          const found = outputFor(args);
          if (found) return run(found).catch(tell);
        },
      });
      palette?.addItem({ command: id, category: "Claude" });
    };
    add(COMMANDS.explain, trans.__("Explain Output"), trans.__("Have Claude explain this output"), actions.explain);
    add(COMMANDS.ask, trans.__("Ask About Output…"), trans.__("Attach this output to the next prompt"), actions.ask);
    add(COMMANDS.mark, trans.__("Mark Output for Claude"), trans.__("Mark this output, with a remark, for the next prompt"), actions.mark);
    const cellFor = ({ of }: Args): { panel: NotebookPanel; cell: Cell } | null => targetCell(app, tracker, of === "menu");
    commands.addCommand(COMMANDS.markCell, {
      label: trans.__("Mark Cell for Claude"),
      caption: trans.__("Mark this cell, with a remark, for the next prompt"),
      describedBy: ARGS,
      isEnabled: (args) => cellFor(args) !== null,
      execute: (args) => {
        const target = cellFor(args);
        if (!target) return;
        const id = randomName();
        const { panel, cell } = target;
        marks.add({ id, notebook: panel.context.path, cell: cell.model.id, index: null, attachment: contents.ofCell(panel, cell) });
        cellMarks.focus(id);
      },
    });
    palette?.addItem({ command: COMMANDS.markCell, category: "Claude" });
    const tool = (run: (found: FoundOutput) => Promise<void>) => (found: FoundOutput): void => { run(found).catch(tell); };
    new OutputTools(tracker, [
      { name: "explain", label: trans.__("Explain this output"), icon: ICONS.explain, appliesTo: () => true, run: tool(actions.explain) },
      { name: "ask", label: trans.__("Ask about this output"), icon: ICONS.ask, appliesTo: () => true, run: tool(actions.ask) },
      {
        name: "mark", label: trans.__("Mark this output, with a remark"), icon: ICONS.mark,
        appliesTo: ({ output }) => output.type !== "error", run: tool(actions.mark),
      },
      {
        name: "fix", label: trans.__("Fix this error"), icon: ICONS.fix,
        appliesTo: ({ output }) => output.type === "error" && commands.hasCommand(FIX_CELL),
        run: tool(async ({ panel, cell }) => {
          panel.content.activeCellIndex = panel.content.widgets.indexOf(cell);
          await commands.execute(FIX_CELL);
        }),
      },
    ], isOffered);
    tracker.activeCellChanged.connect(() => { for (const id of Object.values(COMMANDS)) commands.notifyCommandChanged(id); });
  },
};

/** An answer of Claude's is no output that one asks about. */
function isOffered({ output }: FoundOutput): boolean {
  return !isAnswer(output.data);
}

/** The output that is meant: at the context menu; with the keyboard; else the last one of the active cell that is none of ours. */
function targetOutput(app: JupyterFrontEnd, tracker: INotebookTracker, isMenu: boolean): FoundOutput | null {
  const target = targetCell(app, tracker, isMenu);
  if (!target) return null;
  const { panel, cell } = target;
  const at = isMenu ? app.contextMenuHitTest(isOutput) : document.activeElement?.closest<HTMLElement>(OUTPUT);
  if (at && cell.node.contains(at)) return outputAt(panel, cell, areaOf(cell)?.widgets.findIndex(({ node }) => node === at) ?? -1);
  return isMenu ? null : lastOutput(panel, cell);
}

const OUTPUT = ".jp-OutputArea-child";

function isOutput(node: HTMLElement): boolean {
  return node.matches(OUTPUT);
}

function lastOutput(panel: NotebookPanel, cell: Cell): FoundOutput | null {
  for (let index = (areaOf(cell)?.model.length ?? 0) - 1; index >= 0; index--) {
    const found = outputAt(panel, cell, index);
    if (found && isOffered(found)) return found;
  }
  return null;
}

function targetCell(app: JupyterFrontEnd, tracker: INotebookTracker, isMenu: boolean): { panel: NotebookPanel; cell: Cell } | null {
  const panel = tracker.currentWidget;
  const node = isMenu ? app.contextMenuHitTest(({ classList }) => classList.contains("jp-Cell")) : null;
  const cell = isMenu ? panel?.content.widgets.find((each) => each.node === node) : panel?.content.activeCell;
  return panel && cell ? { panel, cell } : null;
}

/** A cell as users see it: by its execution count, else by where it stands. */
function cellName(panel: NotebookPanel, cell: Cell, trans: Trans): string {
  const count = (cell.model as CellModel).executionCount;
  return count == null ? trans.__("cell %1", panel.content.widgets.indexOf(cell) + 1) : trans.__("cell [%1]", count);
}

// What goes along with a prompt: the output, its picture, and the cell's source.

class MarkedContents {
  /** `mayDraw` asks the user whether Claude may see what only the page draws. */
  constructor(
    private readonly trans: Trans,
    private readonly mayDraw: () => Promise<boolean>,
  ) {}

  ofCell(panel: NotebookPanel, cell: Cell): MarkedAttachment {
    const name = cellName(panel, cell, this.trans);
    return { ...this.place(panel, cell), name: name.charAt(0).toUpperCase() + name.slice(1), output: "", note: "", picture: null };
  }

  async ofOutput(found: FoundOutput): Promise<MarkedAttachment> {
    const { panel, cell, output, node } = found;
    const { trans } = this;
    const name = cellName(panel, cell, trans);
    const of = output.type === "error" ? trans.__("Error in %1", name) : trans.__("Output of %1", name);
    const { picture, note } = await this.pictureOf(found);
    return { ...this.place(panel, cell), name: of, output: outputText(output, node), note, picture };
  }

  private place(panel: NotebookPanel, cell: Cell): Pick<MarkedAttachment, "kind" | "cell" | "notebook" | "source" | "remark"> {
    return {
      kind: "marked", cell: cell.model.id, notebook: panel.context.path, source: bounded(cell.model.sharedModel.getSource()), remark: "",
    };
  }

  private async pictureOf(found: FoundOutput): Promise<{ picture: string | null; note: string }> {
    const { data } = found.output;
    const own = pictureIn(data);
    if (own) return { picture: own.data, note: "" };
    if (!isDrawn(data)) return { picture: null, note: "" };
    if (!(await this.mayDraw())) return { picture: null, note: "No picture: the user's settings do not let you see rendered outputs." };
    const { drawnPicture, orProblem } = await import("./output_pictures");
    const drawn = await orProblem(drawnPicture(found));
    if ("problem" in drawn) return { picture: null, note: WITHOUT_PICTURE[drawn.problem] };
    return { picture: drawn.data, note: drawn.cut ? "The picture shows the upper part." : "" };
  }
}

/** For Claude. */
const WITHOUT_PICTURE: Readonly<Record<Problem, string>> = {
  not_shown: "No picture: the output is not in view.",
  changed: "No picture: the output has changed.",
  hidden: "No picture: the output is not in view.",
  frame: "No picture: the output is a frame of another site.",
  foreign: "No picture: the output holds pictures of another site.",
  too_large: "No picture: the output has too many parts.",
  late: "No picture: the page did not finish drawing it in time.",
  failed: "No picture: the page could not make one.",
  empty: "",
};

// The icons, drawn as JupyterLab draws its own: `jp-icon3` follows the theme.

function icon(name: string, path: string): LabIcon {
  const svgstr = `<svg xmlns="http://www.w3.org/2000/svg" width="14" height="14" viewBox="0 0 24 24" aria-hidden="true"><path class="jp-icon3" fill="#616161" d="${path}"/></svg>`;
  return new LabIcon({ name: `cellwright:${name}`, svgstr });
}

const ICONS = {
  explain: icon("explain-output", "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zm0 16.2a7.2 7.2 0 1 1 0-14.4 7.2 7.2 0 0 1 0 14.4zM11.1 15.6h1.8v1.8h-1.8zM12 6.6a3.3 3.3 0 0 0-3.3 3.3h1.8a1.5 1.5 0 1 1 3 0c0 1.4-2.4 1.4-2.4 4.2h1.8c0-1.9 2.4-2.2 2.4-4.2A3.3 3.3 0 0 0 12 6.6z"),
  ask: icon("ask-about-output", "M4 3h16a2 2 0 0 1 2 2v11a2 2 0 0 1-2 2H9l-5 4v-4a2 2 0 0 1-2-2V5a2 2 0 0 1 2-2zm0 2v11h2v1.8L8.3 16H20V5zm3 3h10v1.7H7zm0 3.6h7v1.7H7z"),
  mark: icon("mark-output", "M6 2h12a2 2 0 0 1 2 2v18l-8-4-8 4V4a2 2 0 0 1 2-2zm0 2v14.8l6-3 6 3V4z"),
  fix: icon("fix-output", "M22.7 19l-9.1-9.1c.9-2.3.4-5-1.5-6.9-2-2-5-2.4-7.4-1.3L9 6 6 9 1.6 4.7C.4 7.1.9 10.1 2.9 12.1c1.9 1.9 4.6 2.4 6.9 1.5l9.1 9.1c.4.4 1 .4 1.4 0l2.3-2.3c.5-.4.5-1.1.1-1.4z"),
};
