/** The outputs of the page's notebooks: where each is drawn, and pictures of them for kernels that ask. */

import type { Cell } from "@jupyterlab/cells";
import type { NotebookPanel } from "@jupyterlab/notebook";
import type { OutputArea } from "@jupyterlab/outputarea";
import type { IOutputModel } from "@jupyterlab/rendermime";

import type { Json, JsonObject } from "../../json";
import { RequestError } from "../../transport/rpc";
import { pictureOf, Undrawable } from "./dom_picture";
import { isDrawn } from "./output_content";

/** An output in a cell of a notebook; `node` is what it is drawn in, null while it is not drawn. */
export type FoundOutput = {
  readonly panel: NotebookPanel;
  readonly cell: Cell;
  readonly index: number;
  readonly output: IOutputModel;
  readonly node: HTMLElement | null;
};

const MAX_PICTURES = 8;
/** The time for all pictures of a request. */
const DRAW_MS = 10_000;
/** The time that what code has displayed may take to arrive. */
const ARRIVE_MS = 3_000;
const LOOK_MS = 100;
const CHART = /^application\/vnd\.|^text\/html$/;

export function areaOf(cell: Cell): OutputArea | null {
  return "outputArea" in cell ? (cell.outputArea as OutputArea) : null;
}

/** The output of `cell` at `index`; null where there is none. */
export function outputAt(panel: NotebookPanel, cell: Cell, index: number): FoundOutput | null {
  const area = areaOf(cell);
  if (!area || index < 0 || index >= area.model.length) return null;
  const node = area.widgets[index]?.node.querySelector<HTMLElement>(".jp-OutputArea-output") ?? null;
  return { panel, cell, index, output: area.model.get(index), node };
}

/** A picture of what the page draws for an output. Throws Undrawable. */
export function drawnPicture({ node, output }: FoundOutput, deadline: number): ReturnType<typeof pictureOf> {
  if (!node) return Promise.reject(new Undrawable("hidden"));
  return pictureOf(node, Object.keys(output.data).some((mime) => CHART.test(mime)), deadline);
}

/** What a kernel asks by: a place in a notebook, or the key that a display carries in its metadata. */
type Wanted = { readonly cell?: unknown; readonly index?: unknown; readonly kinds?: unknown; readonly display?: unknown };

export class OutputPictures {
  /** `mayShow` asks for the user's consent where it has to. */
  constructor(
    private readonly panels: () => readonly NotebookPanel[],
    private readonly mayShow: () => Promise<"yes" | "refused" | "consent">,
  ) {}

  /** The answer to a kernel's request `pictures`: a picture for each output, or why there is none. */
  answer = async ({ path, outputs }: JsonObject): Promise<Json> => {
    if (!Array.isArray(outputs) || outputs.length > MAX_PICTURES) throw new RequestError("invalid", `At most ${MAX_PICTURES} outputs.`);
    const may = await this.mayShow();
    if (may !== "yes") return { pictures: outputs.map(() => ({ problem: may })) };
    const deadline = performance.now() + DRAW_MS;
    const pictures: Json[] = [];
    for (const wanted of outputs) pictures.push(await this.picture(path, wanted as Wanted, deadline));
    return { pictures };
  };

  private async picture(path: Json | undefined, wanted: Wanted, deadline: number): Promise<Json> {
    const found = typeof wanted.display === "string" ? await this.displayed(wanted.display, deadline) : this.placed(path, wanted);
    if (typeof found === "string") return { problem: found };
    try {
      return await drawnPicture(found, deadline);
    } catch (error) {
      if (error instanceof Undrawable) return { problem: error.problem };
      throw error;
    }
  }

  private placed(path: Json | undefined, { cell: id, index, kinds }: Wanted): FoundOutput | "not_shown" | "changed" {
    const shown = this.panels().filter(({ context }) => context.path === path);
    const found = shown.flatMap((panel) => {
      const cell = panel.content.widgets.find(({ model }) => model.id === id);
      const output = cell && typeof index === "number" ? outputAt(panel, cell, index) : null;
      return output ? [output] : [];
    });
    // the same notebook may be in two panels, and drawn in one of them
    const output = found.find(({ node }) => node?.isConnected) ?? found[0];
    if (!output) return shown.length > 0 ? "changed" : "not_shown";
    const now = Object.keys(output.output.data).sort().join();
    return Array.isArray(kinds) && now === (kinds as string[]).toSorted().join() && isDrawn(output.output.data) ? output : "changed";
  }

  /** The output that shows what code has displayed, when it has arrived. */
  private async displayed(key: string, deadline: number): Promise<FoundOutput | "not_shown"> {
    const until = Math.min(deadline, performance.now() + ARRIVE_MS);
    for (;;) {
      const found = this.withKey(key);
      if (found) return found;
      if (performance.now() > until) return "not_shown";
      await new Promise((resolve) => { setTimeout(resolve, LOOK_MS); });
    }
  }

  private withKey(key: string): FoundOutput | null {
    for (const panel of this.panels()) {
      // the newest stand at the end
      for (const cell of panel.content.widgets.toReversed()) {
        const length = areaOf(cell)?.model.length ?? 0;
        for (let index = length - 1; index >= 0; index--) {
          const found = outputAt(panel, cell, index);
          const place = found?.output.metadata.cellwright as { display?: unknown } | undefined;
          if (found && place?.display === key) return found;
        }
      }
    }
    return null;
  }
}
