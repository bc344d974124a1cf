/** Pictures of outputs as the page draws them, for prompts and for kernels that ask. */

import type { NotebookPanel } from "@jupyterlab/notebook";

import type { Json, JsonObject } from "../../json";
import { RequestError } from "../../transport/rpc";
import type { DrawnPicture, Problem } from "./dom_picture";
import { pictureOf, settled, Undrawable } from "./dom_picture";
import type { FoundOutput } from "./notebook_outputs";
import { areaOf, outputAt } from "./notebook_outputs";
import { isAnswer } from "./output_content";

/** What a request asks for, and what it gets. */
const MAX_OUTPUTS = 24;
const MAX_PICTURES = 8;
/** The time in which what is in the page should have been drawn, and that for all pictures of a request. */
const SETTLE_MS = 3_000;
const DRAW_MS = 10_000;
/** The time that what code has displayed may take to arrive. */
const ARRIVE_MS = 3_000;
const LOOK_MS = 100;
const CHART = /^application\/vnd\.|^text\/html$/;

/** A picture of what the page draws for an output. Throws Undrawable. */
export async function drawnPicture(found: FoundOutput): Promise<DrawnPicture> {
  return pictureOf(await drawnNode(found), performance.now() + DRAW_MS);
}

/** The node of an output, when it has been drawn. Throws Undrawable. */
async function drawnNode({ node, output }: FoundOutput): Promise<HTMLElement> {
  if (!node) throw new Undrawable("hidden");
  await settled(node, Object.keys(output.data).some((mime) => CHART.test(mime)), performance.now() + SETTLE_MS);
  return node;
}

/** What comes of `work`, or the reason why nothing does. */
export async function orProblem<Value>(work: Promise<Value>): Promise<Value | { readonly problem: Problem }> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof Undrawable) return { problem: error.problem };
    throw error;
  }
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
    if (!Array.isArray(outputs) || outputs.length > MAX_OUTPUTS) throw new RequestError("invalid", `At most ${MAX_OUTPUTS} outputs.`);
    const may = await this.mayShow();
    if (may !== "yes") return { pictures: outputs.map(() => ({ problem: may })) };
    const nodes = await Promise.all(outputs.map((wanted) => orProblem(this.drawn(path, wanted as Wanted))));
    const deadline = performance.now() + DRAW_MS;
    const pictures: JsonObject[] = [];
    // one after another: drawing takes the page's own time
    for (const node of nodes) {
      const room = pictures.filter((picture) => "data" in picture).length < MAX_PICTURES;
      if ("problem" in node) pictures.push(node);
      else pictures.push(room ? await orProblem(pictureOf(node, deadline)) : { problem: "too_many" });
    }
    return { pictures };
  };

  private async drawn(path: Json | undefined, wanted: Wanted): Promise<HTMLElement> {
    return drawnNode(typeof wanted.display === "string" ? await this.displayed(wanted.display) : this.placed(path, wanted));
  }

  private placed(path: Json | undefined, { cell: id, index, kinds }: Wanted): FoundOutput {
    const shown = this.panels().filter(({ context }) => context.path === path);
    const found = shown.flatMap((panel) => {
      const cell = panel.content.widgets.find(({ model }) => model.id === id);
      const output = cell && typeof index === "number" ? outputAt(panel, cell, index) : null;
      return output ? [output] : [];
    });
    // the same notebook may be in two panels, and drawn in one of them
    const output = found.find(({ node }) => node?.isConnected) ?? found[0];
    if (!output) throw new Undrawable(shown.length > 0 ? "changed" : "not_shown");
    const { data } = output.output;
    // the page may have added to it: JupyterLab adds a picture of a chart of Vega's
    if (Array.isArray(kinds) && kinds.every((kind) => String(kind) in data) && !isAnswer(data)) return output;
    throw new Undrawable("changed");
  }

  /** The output that shows what code has displayed, when it has arrived. */
  private async displayed(key: string): Promise<FoundOutput> {
    const until = performance.now() + ARRIVE_MS;
    for (;;) {
      const found = this.withKey(key);
      if (found) return found;
      if (performance.now() > until) throw new Undrawable("not_shown");
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
