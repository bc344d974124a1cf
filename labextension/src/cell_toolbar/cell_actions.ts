/** What Claude can be asked about a cell, as the cell that asks it: the notebook shows what was asked, and asks it again. */

import type { Cell, Kernel, NotebookModel, Panel } from "../notebook/cell_toolbar_types";

export type Action = "fix" | "explain" | "document" | "edit";

const PROMPT = /^\s*%{1,2}claude\b/;

/** Whether its last output is an error. */
export function hasFailed({ model: { outputs } }: Cell): boolean {
  return outputs !== undefined && outputs.length > 0 && outputs.get(outputs.length - 1).type === "error";
}

/** Whether `action` makes sense for a cell; none does for an empty one, or for one that asks Claude itself. */
export function applies(action: Action, cell: Cell): boolean {
  const source = cell.model.sharedModel.getSource();
  if (!source.trim() || PROMPT.test(source)) return false;
  if (action === "fix") return cell.model.type === "code" && hasFailed(cell);
  return action !== "document" || cell.model.type === "code";
}

/** Whether the kernel of the notebook speaks Python, as far as the notebook says. */
export function isPython(model: NotebookModel): boolean {
  const { language } = (model.getMetadata("kernelspec") ?? {}) as { language?: string };
  const { name } = (model.getMetadata("language_info") ?? {}) as { name?: string };
  // JupyterLab gives a notebook that has not run an empty name
  const known = [name, language].find((each) => each) ?? "python";
  return known.toLowerCase().startsWith("python");
}

/** The source of the cell that asks. */
export function sourceFor(action: Action, { model: { id, type } }: Cell, instruction = ""): string {
  const cell = `@cell:${id}`;
  switch (action) {
    case "fix":
      return `%claude fix ${cell}`;
    case "explain":
      return `%%claude\nExplain ${cell}${type === "code" ? ": what it does, and what its output shows" : ""}.`;
    case "document":
      return `%%claude\nDocument ${cell}: docstrings and comments where they help a reader. Change nothing else in it.`;
    case "edit":
      return `%%claude\nChange ${cell}: ${instruction.trim()}`;
  }
}

/** Says that something went wrong, and what to do. */
export type Tell = (message: string) => void;
/** Runs a cell as the user would. */
export type Run = (panel: Panel, cell: Cell) => Promise<unknown>;

export class CellActions {
  /** The cells that wait for their kernel: a second click asks nothing twice. */
  private readonly asking = new Set<Cell>();

  constructor(
    private readonly run: Run,
    private readonly tell: Tell,
  ) {}

  /** Asks with a cell below `cell`; the same question that stands there already is asked again. */
  async ask(panel: Panel, cell: Cell, source: string): Promise<void> {
    const { content } = panel;
    if (!content.model) return;
    const at = content.widgets.indexOf(cell) + 1;
    const isThere = content.widgets[at]?.model.sharedModel.getSource() === source;
    if (!isThere) {
      content.model.sharedModel.insertCell(at, { cell_type: "code", source, metadata: { trusted: true } });
    }
    const asks = content.widgets[at];
    if (!asks || this.asking.has(asks)) return;
    content.activeCellIndex = at;
    content.mode = "command";
    content.activate();
    this.asking.add(asks);
    try {
      const problem = await unready(panel);
      if (problem === null) await this.run(panel, asks);
      else {
        this.tell(problem);
        if (!isThere) takeBack(panel, asks, source);
      }
    } finally {
      this.asking.delete(asks);
    }
  }
}

/** What keeps the notebook's kernel from asking Claude, with what to do; null when it is ready. */
async function unready({ sessionContext }: Panel): Promise<string | null> {
  await sessionContext.ready;
  const kernel = sessionContext.session?.kernel;
  if (!kernel) return "This notebook has no kernel. Start one, then ask Claude again.";
  return await load(kernel);
}

async function load(kernel: Kernel): Promise<string | null> {
  // what is loaded already stays as it is
  const code = 'get_ipython().run_line_magic("load_ext", "cellwright")';
  const { content } = await kernel.requestExecute({ code, silent: true, store_history: false }).done;
  if (content.status === "ok") return null;
  if (content.ename === "ModuleNotFoundError") {
    return "Cellwright is not installed in this notebook's kernel. Run %pip install cellwright in a cell, then ask again.";
  }
  const reason = content.ename ? ` (${content.ename}: ${content.evalue ?? ""})` : "";
  return `Cellwright could not be loaded into this notebook's kernel${reason}. Run %load_ext cellwright to see why.`;
}

/** A question that could not be asked does not stay in the notebook, unless the user has changed it meanwhile. */
function takeBack({ content }: Panel, cell: Cell, source: string): void {
  const at = content.widgets.indexOf(cell);
  if (at < 0 || cell.model.sharedModel.getSource() !== source) return;
  content.model?.sharedModel.deleteCell(at);
  content.activeCellIndex = Math.max(at - 1, 0);
}
