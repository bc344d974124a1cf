/**
 * Claude's answers in notebooks, drawn from `TRANSCRIPT_TYPE`: while the run goes on by its transcript in this page, later from what
 * the notebook has kept of it, by the same component. When the run ends the one becomes the other in the same place, so nothing moves.
 */

import type { JupyterFrontEndPlugin } from "@jupyterlab/application";
import type { NotebookPanel } from "@jupyterlab/notebook";
import { INotebookTracker } from "@jupyterlab/notebook";
import { IRenderMimeRegistry } from "@jupyterlab/rendermime";
import type { IRenderMime } from "@jupyterlab/rendermime-interfaces";
import { Widget } from "@lumino/widgets";

import { runEntry } from "../../renderer_registry";
import { element } from "../../transcript/dom";
import type { Op } from "../../transcript/protocol";
import { TRANSCRIPT_TYPE } from "../../transcript/protocol";
import type { Transcript } from "../../transcript/transcript";
import { openPicturesBeside } from "./answer_pictures";
import { followEnd } from "./follow_end";
import { addLiveAnswer, loseAnswers } from "./live_answers";
import { liveRun, savedOps } from "./saved_transcript";

/** Below the widgets' own, which is the same transcript drawn by others. */
const RANK = -20;
/** A transcript that is in this page comes sooner. */
const FALLBACK_AFTER_MS = 1500;
/** The end of a run may come a little later than what is saved of it. */
const END_WITHIN_MS = 2000;
const MARKDOWN = "text/markdown";
/** The last line of an answer that was not over when it was saved (`saved_markdown.WORKING`). */
const WORKING = /\*Claude is working…[^*]*\*\s*$/;
const GONE: readonly string[] = ["restarting", "autorestarting", "dead"];

type Drawing = typeof import("../../transcript/transcript");

let drawing: Drawing | undefined;

/** The transcript's code: loaded with the first answer that needs it, not with JupyterLab. */
export async function loadDrawing(): Promise<Drawing> {
  drawing ??= await import("../../transcript/transcript");
  return drawing;
}

export class AnswerRenderer extends Widget implements IRenderMime.IRenderer {
  private readonly timers: ReturnType<typeof setTimeout>[] = [];
  private live: Transcript | null = null;
  private run = "";
  private unmount = (): void => undefined;
  private stopFollowing = (): void => undefined;

  /** `markdown` draws what is no answer of this version. */
  constructor(private readonly markdown: () => IRenderMime.IRenderer) {
    super();
    this.addClass("cellwright-answer");
  }

  override dispose(): void {
    this.clear();
    super.dispose();
  }

  protected override onAfterAttach(): void {
    openPicturesBeside(this.node);
    this.followGrowth();
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const data: unknown = model.data[TRANSCRIPT_TYPE];
    const found = liveRun(data);
    if (found) {
      this.follow(found, model);
      return;
    }
    const ops = savedOps(data);
    if (!ops) {
      await this.fallBack(model);
      return;
    }
    const { live } = this;
    if (!live?.begun()) {
      await this.keep(ops);
      return;
    }
    // what streamed stays as it is, with all that was unfolded in it
    if (!live.ended()) this.later(END_WITHIN_MS, () => { if (!live.ended()) void this.keep(ops); });
  }

  /** Shows the run as it goes on. */
  private follow({ run, part, count }: { run: string; part: number; count: number | null }, model: IRenderMime.IMimeModel): void {
    if (run === this.run) return;
    this.clear();
    this.run = run;
    const entry = runEntry(run);
    const mount = (transcript: Transcript): void => {
      if (this.isDisposed || this.run !== run || this.live) return;
      this.clear();
      this.run = run;
      this.live = transcript;
      const unmount = transcript.mount(this.host(), part);
      const forget = addLiveAnswer(transcript, this.node, count);
      this.unmount = () => {
        forget();
        unmount();
      };
      this.followGrowth();
    };
    if (entry.opened) {
      mount(entry.opened);
      return;
    }
    void entry.promise.then(mount);
    this.later(FALLBACK_AFTER_MS, () => { if (!this.live && this.run === run) void this.fallBack(model, run); });
  }

  /** The notebook scrolls with what grows here; again for each place that this is attached to. */
  private followGrowth(): void {
    const { live } = this;
    this.stopFollowing();
    if (live && !live.ended() && this.isAttached) this.stopFollowing = followEnd(this.node, () => live.ended());
  }

  private async keep(ops: Op[]): Promise<void> {
    const { mountSaved } = drawing ?? await loadDrawing();
    if (this.isDisposed) return;
    this.clear();
    this.unmount = mountSaved(this.host(), ops);
  }

  private async fallBack(model: IRenderMime.IMimeModel, run = ""): Promise<void> {
    this.clear();
    this.run = run;
    const left = run && isInIdleCell(this.node);
    const text = ((model.data[MARKDOWN] ?? "") as string).replace(left ? WORKING : "", "").trim();
    const renderer = this.markdown();
    if (text) this.node.append(renderer.node);
    if (left) this.node.append(element("div", {}, element("em", {}, "The kernel ended before Claude had finished.")));
    this.unmount = () => { renderer.dispose(); };
    if (text) await renderer.renderModel({ data: { [MARKDOWN]: text }, metadata: {}, trusted: model.trusted, setData: () => undefined });
  }

  private host(): HTMLElement {
    const host = document.createElement("div");
    this.node.append(host);
    return host;
  }

  private later(ms: number, call: () => void): void {
    this.timers.push(setTimeout(() => { if (!this.isDisposed) call(); }, ms));
  }

  private clear(): void {
    this.timers.splice(0).forEach(clearTimeout);
    this.stopFollowing();
    this.unmount();
    this.unmount = () => undefined;
    this.live = null;
    this.run = "";
    this.node.replaceChildren();
  }
}

/** True in a cell that does not run now: the notebook was saved while its run went on, and the kernel may be gone. */
function isInIdleCell(node: HTMLElement): boolean {
  const prompt = node.closest(".jp-Cell")?.querySelector(".jp-InputPrompt");
  return prompt != null && !prompt.textContent.includes("*");
}

/** Ends the answers of a notebook that go on when its kernel does not. */
export function endWithKernel({ content, sessionContext }: NotebookPanel): void {
  // cells that are out of sight are in no document
  const lose = (): void => { loseAnswers((node) => content.widgets.some((cell) => cell.node.contains(node))); };
  sessionContext.statusChanged.connect((_, status) => { if (GONE.includes(status)) lose(); });
  sessionContext.kernelChanged.connect((_, { oldValue, newValue }) => { if (oldValue && oldValue.id !== newValue?.id) lose(); });
}

export const answersPlugin: JupyterFrontEndPlugin<void> = {
  id: "cellwright:answers",
  description: "Draws Claude's answers in notebooks as they streamed, also without a kernel.",
  autoStart: true,
  optional: [IRenderMimeRegistry, INotebookTracker],
  activate: (_, rendermime: IRenderMimeRegistry | null, tracker: INotebookTracker | null) => {
    tracker?.forEach(endWithKernel);
    tracker?.widgetAdded.connect((_tracker, panel) => { endWithKernel(panel); });
    rendermime?.addFactory({
      // it draws no HTML, and nothing that it is given is active
      safe: true,
      mimeTypes: [TRANSCRIPT_TYPE],
      createRenderer: (options) => new AnswerRenderer(() => {
        const { resolver, linkHandler, sanitizer } = options;
        const registry = rendermime.clone({ sanitizer, ...(resolver && { resolver }), ...(linkHandler && { linkHandler }) });
        return registry.createRenderer(MARKDOWN);
      }),
    }, RANK);
  },
};
