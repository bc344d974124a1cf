/** The notebooks that this page shows, and what kernels may ask of them. */

import type { YCellType } from "@jupyter/ydoc";
import type { DocumentRegistry } from "@jupyterlab/docregistry";
import type { IOutput } from "@jupyterlab/nbformat";
import type { INotebookModel, NotebookPanel } from "@jupyterlab/notebook";
import type { Kernel } from "@jupyterlab/services";

import type { Json, JsonObject } from "../json";
import { RequestError } from "../transport/rpc";
import type { CellModel } from "./cell_language";
import type { CellChange, SharedNotebook } from "./change_cells";
import { cellJson, changeCells } from "./change_cells";

export class OpenNotebooks {
  private readonly contexts = new Map<DocumentRegistry.IContext<INotebookModel>, number>();

  /** `changed` is called when what `shown` gives may be another. */
  constructor(private readonly changed: () => void) {}

  /** Adds a panel's notebook; the same one may be in several panels. */
  add({ context, content }: NotebookPanel): void {
    const known = this.contexts.get(context) ?? 0;
    this.contexts.set(context, known + 1);
    content.disposed.connect(() => {
      const left = (this.contexts.get(context) ?? 1) - 1;
      if (left) this.contexts.set(context, left);
      else this.contexts.delete(context);
      this.changed();
    });
    if (known) return;
    context.pathChanged.connect(this.changed);
    context.sessionContext.kernelChanged.connect(this.changed);
    context.model.stateChanged.connect(this.changed);
    void context.ready.then(this.changed);
  }

  /** The notebooks as a kernel is told of them; `own` are those that it runs. */
  shown(kernel: Kernel.IKernelConnection): JsonObject[] {
    return this.ready().map(({ path, model, sessionContext }) => {
      const its = sessionContext.session?.kernel;
      return {
        path,
        own: its?.id === kernel.id,
        session: its?.clientId ?? "",
        trusted: [...model.cells].every(({ type, trusted }) => type !== "code" || trusted),
        unsaved: model.dirty,
        shared: model.collaborative === true,
      };
    });
  }

  /** True if a notebook of `kernel` is among them. */
  hasOwn(kernel: Kernel.IKernelConnection): boolean {
    return [...this.contexts.keys()].some(({ sessionContext }) => sessionContext.session?.kernel?.id === kernel.id);
  }

  /** True if code in a notebook of `kernel` mentions Claude. */
  mentionsClaude(kernel: Kernel.IKernelConnection): boolean {
    return this.ready()
      .filter(({ sessionContext }) => sessionContext.session?.kernel?.id === kernel.id)
      .some(({ model }) => model.sharedModel.cells.some((cell) => cell.cell_type === "code" && MENTIONS_CLAUDE.test(cell.getSource())));
  }

  /** The notebook that a kernel names by its path. Throws RequestError. */
  find(path: Json | undefined): DocumentRegistry.IContext<INotebookModel> {
    const found = this.ready().find((context) => context.path === path);
    if (!found) throw new RequestError("not_open", `${JSON.stringify(path)} is not open in this page any more.`);
    return found;
  }

  cells = ({ path, outputs }: JsonObject): Json => {
    const { model } = this.find(path);
    return { cells: model.sharedModel.cells.map((cell) => cellJson(cell as YCellType, outputs === true)), unsaved: model.dirty };
  };

  change = ({ path, changes, provenance }: JsonObject): Json => {
    const { model } = this.writable(path);
    const notebook = model.sharedModel as unknown as SharedNotebook;
    return { changed: changeCells(notebook, changes as unknown as CellChange[], (provenance ?? null) as JsonObject | null) };
  };

  outputs = ({ path, ...put }: JsonObject): Json => {
    putOutputs(this.writable(path).model, put as unknown as PutOutputs);
    return null;
  };

  private writable(path: Json | undefined): DocumentRegistry.IContext<INotebookModel> {
    const found = this.find(path);
    if (found.model.readOnly) throw new RequestError("read_only", `${found.path} is open read-only.`);
    return found;
  }

  /** The notebooks whose file has been read. */
  private ready(): DocumentRegistry.IContext<INotebookModel>[] {
    return [...this.contexts.keys()].filter(({ isReady }) => isReady);
  }
}

const MENTIONS_CLAUDE = /claude|cellwright/i;

// Outputs that the kernel has for a cell which it ran itself.

export type PutOutputs = {
  id: string;
  expect: string | null;
  outputs: JsonObject[];
  execution_count: number | null;
  clear: boolean;
  running: boolean;
};

/** Puts outputs into a cell as JupyterLab does when it runs one. Throws RequestError. */
export function putOutputs(model: INotebookModel, put: PutOutputs): void {
  const cell: CellModel | undefined = [...model.cells].find(({ id }) => id === put.id);
  const shared = model.sharedModel.cells.find(({ id }) => id === put.id);
  if (!cell || !shared) throw new RequestError("no_cell", `There is no cell ${put.id}.`);
  if (!cell.outputs) throw new RequestError("not_code", `Cell ${put.id} is not a code cell: it has no outputs.`);
  const source = shared.getSource();
  if (put.expect !== null && source !== put.expect) {
    throw new RequestError("conflict", "The cell has changed.", { conflicts: [{ id: put.id, now: source }] });
  }
  if (put.clear) cell.outputs.clear();
  for (const output of put.outputs) cell.outputs.add(output as unknown as IOutput);
  cell.executionState = put.running ? "running" : "idle";
  cell.executionCount = put.running ? null : put.execution_count;
}
