import type { IRenderMime } from "@jupyterlab/rendermime-interfaces";
import { Widget } from "@lumino/widgets";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { AnswerRenderer } from "../../../src/notebook/answers/answer_renderer";
import { liveAnswers, loseAnswers } from "../../../src/notebook/answers/live_answers";
import { savedOps } from "../../../src/notebook/answers/saved_transcript";
import { runEntry } from "../../../src/renderer_registry";
import type { Op } from "../../../src/transcript/protocol";
import { TRANSCRIPT_TYPE } from "../../../src/transcript/protocol";
import { mountSaved, open } from "../../../src/transcript/transcript";
import { standIn } from "../../support/stand_in";
import { begun, END, ended, find, Kernel, RUN, shadowOf, text } from "../../transcript/scene";

class Plain extends Widget implements IRenderMime.IRenderer {
  renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    this.node.textContent = model.data["text/markdown"] as string;
    return Promise.resolve();
  }
}

const model = (transcript: object): IRenderMime.IMimeModel =>
  standIn({ data: { [TRANSCRIPT_TYPE]: transcript, "text/markdown": "its Markdown" } });

const SAVED = { version: 1, part: 0, last: true, ops: [RUN, { op: "text", block: 0, text: "kept" }, END] };

let renderer: AnswerRenderer;

beforeEach(() => {
  renderer = new AnswerRenderer(() => new Plain());
  document.body.replaceChildren(renderer.node);
});
afterEach(() => {
  renderer.dispose();
  vi.useRealTimers();
});

const root = (): ShadowRoot => shadowOf(renderer.node.firstElementChild as HTMLElement);

describe("an answer in a notebook", () => {
  it("is drawn from what was kept, and asks nobody", async () => {
    const ask = { op: "ask", question: "q", tool: "t", name: "Bash", input: { command: "rm" }, kind: "permission", title: "Run rm", detail: "rm", detail_kind: "command", path: "", warning: "", reason: "", choices: [{ key: "1" }], at: 0 };
    await renderer.renderModel(model({ ...SAVED, ops: [...SAVED.ops.slice(0, 2), ask] }));
    expect(text(root(), ".prose")).toBe("kept");
    expect(text(root(), ".answered")).toBe("Not answered");
    expect(root().querySelector(".ask")).toBeNull();
    expect(find(root(), "footer .stop").hidden).toBe(true);
  });

  it("stays what streamed when the run is over, with what was unfolded in it", async () => {
    const kernel = new Kernel();
    const run = runEntry("a-run");
    await renderer.renderModel(model({ version: 1, run: "a-run", part: 0 }));
    open(kernel.channel, run);
    kernel.say(RUN, begun("t"), ended("t", { result: "streamed" }));
    await vi.waitFor(() => { find(root(), "details.fold"); });
    const fold = find<HTMLDetailsElement>(root(), "details.fold");
    fold.open = true;
    kernel.say(END);
    await renderer.renderModel(model(SAVED));
    await vi.waitFor(() => { expect(find(root(), "footer").dataset.state).toBe("done"); });
    expect(find(root(), "details.fold")).toBe(fold);
    expect(fold.open).toBe(true);
  });

  it("is what was kept where the end did not arrive, or the cell was skipped", async () => {
    await renderer.renderModel(model(SAVED));  // the code is there
    vi.useFakeTimers();
    for (const ops of [[RUN], []] as Op[][]) {
      const kernel = new Kernel();
      const name = `cut-off-${ops.length}`;
      open(kernel.channel, runEntry(name));
      kernel.say(...ops);
      await renderer.renderModel(model({ version: 1, run: name, part: 0 }));
      await renderer.renderModel(model(SAVED));
      await vi.advanceTimersByTimeAsync(3_000);
      expect(text(root(), ".prose")).toBe("kept");
    }
  });

  it("ends with its kernel, and keeps what was said", async () => {
    const kernel = new Kernel();
    open(kernel.channel, runEntry("lost"));
    const ask = { op: "ask", question: "q", tool: "t", name: "Bash", input: { command: "rm" }, kind: "permission", title: "Run rm", detail: "rm", detail_kind: "command", path: "", warning: "", reason: "", choices: [{ key: "1" }], at: 0 } as unknown as Op;
    kernel.say(RUN, { op: "text", block: 0, text: "so far" }, begun("t"), ask);
    await renderer.renderModel(model({ version: 1, run: "lost", part: 0 }));
    await vi.waitFor(() => { find(root(), ".ask"); });
    loseAnswers((node) => node !== renderer.node);
    expect(liveAnswers()).toHaveLength(1);
    loseAnswers((node) => node === renderer.node);
    expect(liveAnswers()).toEqual([]);
    await vi.waitFor(() => { expect(find(root(), "footer").dataset.state).toBe("failed"); });
    expect(text(root(), ".prose")).toBe("so far");
    expect(text(root(), ".failure")).toContain("The kernel ended while Claude worked");
    expect(root().querySelector(".ask")).toBeNull();
    expect(find(root(), "footer .stop").hidden).toBe(true);
  });

  it("is its Markdown where its version is another, and where its run is not in this page", async () => {
    await renderer.renderModel(model({ ...SAVED, version: 2 }));
    expect(renderer.node.textContent).toBe("its Markdown");
    vi.useFakeTimers();
    await renderer.renderModel(model({ version: 1, run: "gone", part: 0 }));
    await vi.advanceTimersByTimeAsync(2_000);
    expect(renderer.node.textContent).toBe("its Markdown");
  });

  it.each([["[ ]:", "its MarkdownThe kernel ended before Claude had finished."], ["[*]:", "its Markdown"]])(
    "does not say that Claude works where a cell %s saved while it did runs no more",
    async (shown, expected) => {
      const prompt = document.createElement("div");
      prompt.className = "jp-InputPrompt";
      prompt.textContent = shown;
      const cell = document.createElement("div");
      cell.className = "jp-Cell";
      cell.append(prompt, renderer.node);
      document.body.replaceChildren(cell);
      vi.useFakeTimers();
      await renderer.renderModel(model({ version: 1, run: `saved ${shown}`, part: 0 }));
      await vi.advanceTimersByTimeAsync(2_000);
      expect(renderer.node.textContent).toBe(expected);
      // the kernel is still there after all
      const kernel = new Kernel();
      open(kernel.channel, runEntry(`saved ${shown}`));
      kernel.say(RUN);
      await vi.advanceTimersByTimeAsync(100);
      expect(renderer.node.textContent).toBe("");
      expect(root().querySelector(".transcript")).not.toBeNull();
    },
  );
});

describe("what a notebook says that a run was", () => {
  const ops = (...given: unknown[]): Op[] => savedOps({ version: 1, part: 0, last: true, ops: given }) ?? [];

  it("is taken as far as it is known, and is over", () => {
    expect(ops(RUN, { op: "restart" }, { op: "__proto__" }, "text", null, { op: "text", block: "0", text: "x" }, { op: "text", block: 1 })).toEqual([
      RUN,
      { op: "end", stop_reason: "", cost_usd: null, session_cost_usd: null, ms: 0, error: null },
    ]);
    expect(ops({ ...END, more: 1 }, { op: "text", block: 1, text: "y", html: "<b>" })).toEqual([{ op: "text", block: 1, text: "y" }, END]);
    expect(ops({ op: "stuck", id: "t", text: "x" }, { op: "retry" }, { op: "part", part: 3 })).toHaveLength(1);
  });

  it("has no field that nobody wrote there", () => {
    const input = JSON.parse('{"__proto__": {"polluted": 1}, "code": "x"}') as object;
    const [tool] = ops({ op: "tool", id: "t", name: "Python", title: "x", input, parallel: false, estimate: null, at: 0 });
    expect(tool?.op === "tool" && Object.keys(tool.input as object)).toEqual(["__proto__", "code"]);
    expect(({} as { polluted?: number }).polluted).toBeUndefined();
  });

  it("is bounded", () => {
    const long = ops(...Array.from({ length: 9_000 }, (_, block) => ({ op: "text", block, text: "x".repeat(1_000) })));
    expect(long.length).toBeLessThanOrEqual(5_001);
    expect(long.reduce((chars, op) => chars + (op.op === "text" ? op.text.length : 0), 0)).toBeLessThanOrEqual(2_000_000);
    let nested: unknown = "deep";
    for (let depth = 0; depth < 10_000; depth++) nested = [nested];
    expect(JSON.stringify(ops({ op: "tool", id: "t", name: "x", title: "x", input: nested, parallel: false, estimate: null, at: 0 }))).not.toContain("deep");
  });

  it("is nothing where it is none", () => {
    for (const other of [null, [], "x", {}, { version: 1 }, { version: 1, ops: {} }, { version: "1", ops: [] }]) expect(savedOps(other)).toBeNull();
  });
});

it("shows what a request that broke off had said where the run ended in an error", () => {
  const retry = { op: "retry", attempt: 1, of: 1, wait: 0, code: "API_NETWORK_ERROR", message: "Gone.", at: 0 };
  const end = { op: "end", stop_reason: "error", cost_usd: null, session_cost_usd: null, ms: 0, error: { code: "API_NETWORK_ERROR", message: "Gone." } };
  const ops = savedOps({ version: 1, part: 0, last: true, ops: [RUN, { op: "text", block: 0, text: "So far" }, { op: "drop", blocks: [0], tools: [] }, retry, end] }) ?? [];
  const host = document.createElement("div");
  document.body.append(host);
  mountSaved(host, ops);
  expect(text(shadowOf(host), ".prose.stale")).toContain("So far");
});
