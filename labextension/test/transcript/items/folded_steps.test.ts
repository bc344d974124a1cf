/** What folds when an answer is over, and what stays in sight. */

import { expect, it } from "vitest";

import type { Op } from "../../../src/transcript/protocol";
import { mountSaved } from "../../../src/transcript/transcript";
import { answered, ask, begun, drawn, END, ended, find, RUN, scene, shadowOf, text } from "../scene";

const DIFF = "--- a/tides.py\n+++ b/tides.py\n@@ -15,5 +15,5 @@\n \n same\n-old\n+new\n same\n  \n";
const said = (block: number, words: string): Op => ({ op: "text", block, text: words });
const call = (id: string, end: object = {}, begin: object = {}): Op[] => [begun(id, begin), ended(id, { ms: 40, ...end })];
const edit = (id: string, path: string): Op[] => call(id, { diff: DIFF.replaceAll("tides.py", path) }, { name: "Edit", title: `Edit ${path}`, input: { file_path: path } });

const shape = (root: ParentNode): string[] => [...root.querySelectorAll(".items > *")].map((node) => node.className.split(" ")[0] ?? "");

it("steps and the remarks between them are one line, the answer stays; saved it is the same", async () => {
  const { kernel, root } = scene();
  const ops: Op[] = [
    RUN, said(0, "I read first."), ...call("a", {}, { name: "Read", title: "Read a.py" }), ...call("b", {}, { name: "Grep", title: "Grep x" }),
    said(1, "Now the change."), ...edit("c", "tides.py"), ...edit("d", "check.py"), said(2, "Done."),
  ];
  kernel.say(...ops);
  await drawn();
  expect(shape(root)).toEqual(["prose", "group", "prose", "tool", "tool", "prose"]);
  const card = find(root, ".items > .tool");
  kernel.say(END);
  await drawn();
  expect(shape(root)).toEqual(["turn-steps", "prose"]);
  const fold = find<HTMLDetailsElement>(root, ".turn-steps");
  expect([text(fold, "summary"), fold.open]).toEqual(["4 steps · 2 files +2 −2", false]);
  expect([...find(fold, ".turn-steps-items").children].map((node) => node.className.split(" ")[0])).toEqual(["prose", "group", "prose", "tool", "tool"]);
  expect(fold.contains(card)).toBe(true);
  const host = document.createElement("div");
  mountSaved(host, [...ops, END]);
  expect(find(shadowOf(host), ".items").textContent).toBe(find(root, ".items").textContent);
});

it("counts files and cells as the last line does, and nothing of what a preview changed in its copies", async () => {
  const cell = (id: string, name: string): Op[] => call(id, { diff: DIFF.replaceAll("tides.py", `analysis.ipynb#${name}`) }, { name: "NotebookEdit", title: "Edit a cell" });
  const where = (name: string): object => ({ where: name, kind: "changed", added: 1, removed: 1 });
  const steps = [...edit("a", "tides.py"), ...cell("b", "c1"), ...cell("c", "c2"), ...cell("d", "c2")];
  const accept: Op[] = [begun("tool-p", { name: "AcceptPreview" }), ask("p", { kind: "question", name: "AcceptPreview", title: "What do you accept?" }), answered("p"), ended("tool-p")];
  const rows: [string, Op[], string, string][] = [
    ["open in the page", [...steps, { op: "changes", turn: 1, files: [where("tides.py")], cells: [where("cell [1] in analysis.ipynb"), where("cell [2] in analysis.ipynb")], effects: [], not_kept: [] } as never], "4 steps · 1 file, 2 cells +4 −4", "1 file, 2 cells changed"],
    ["a notebook that is open nowhere", [...steps, { op: "changes", turn: 1, files: [where("tides.py"), where("analysis.ipynb")], cells: [], effects: [], not_kept: [] } as never], "4 steps · 2 files +4 −4", "2 files changed"],
    ["a preview, one of its files accepted", [...steps, ...accept, { op: "changes", turn: 1, files: [where("tides.py")], cells: [], effects: [], not_kept: [] } as never], "4 steps", "1 file changed"],
  ];
  for (const [what, ops, title, last] of rows) {
    const { kernel, root } = scene();
    kernel.say(RUN, ...ops, END);
    await drawn();
    expect([what, text(root, ".turn-steps > summary")]).toEqual([what, title]);
    expect([what, text(root, "footer")]).toEqual([what, expect.stringContaining(last) as string]);
  }
});

it("of a run whose last step failed they stay open, and say so", async () => {
  const { kernel, root } = scene();
  kernel.say(RUN, ...call("a"), ...call("b", { status: "error", error: { code: "X", message: "no" } }), said(0, "It failed."), END);
  await drawn();
  expect([find<HTMLDetailsElement>(root, ".turn-steps").open, text(root, ".turn-steps > summary")]).toEqual([true, "2 steps · 1 failed"]);
});

it("one step is a line already", async () => {
  const { kernel, root } = scene();
  kernel.say(RUN, said(0, "I look."), ...call("a"), said(1, "Done."), END);
  await drawn();
  expect(shape(root)).toEqual(["prose", "tool", "prose"]);
});

it("what people read stays in sight: pictures and the words below them, answers, warnings, long texts, the last words", async () => {
  const { kernel, root } = scene();
  const picture: Op = { op: "display", id: "b", data: { "text/plain": "<Figure>" } };
  kernel.say(
    RUN, ...call("a"), begun("b"), picture, ended("b"), said(0, "The plot shows a gap."), ...call("c"), ...call("d"),
    begun("tool-q", { name: "AskUserQuestion" }), ask("q", { kind: "question", name: "AskUserQuestion", title: "Which?" }), answered("q"), ended("tool-q"),
    ...call("e"), ...call("f"), said(1, "# Report\n\nAll of it."), ...call("g"), ...call("h"), { op: "notice", level: "warning", text: "Careful." },
    said(2, "Saved."), ...call("i"), ...call("j"), END,
  );
  await drawn();
  expect(shape(root)).toEqual(["tool", "tool", "prose", "turn-steps", "tool", "turn-steps", "prose", "turn-steps", "notice", "prose", "turn-steps"]);
});

it("a change that was accepted is the line of its call, and unfolds without the blank lines around it", async () => {
  const { kernel, root } = scene();
  kernel.say(
    RUN, begun("tool-q", { name: "Edit", title: "Edit tides.py" }), ask("q", { name: "Edit", title: "Edit tides.py", detail_kind: "diff" }), answered("q"),
    ended("tool-q", { diff: DIFF, lines: { added: 7, removed: 1 } }), END,
  );
  await drawn();
  expect([text(root, ".call"), text(root, ".lines"), root.querySelector(".diff")]).toEqual(["Edit tides.py", "+7 −1", null]);
  const fold = find<HTMLDetailsElement>(root, ".fold");
  fold.open = true;
  fold.dispatchEvent(new Event("toggle"));
  expect([...fold.querySelectorAll(".diff .text")].map((line) => line.textContent.trim())).toEqual(["same", "old", "new", "same"]);
});

it("calls behind a question are one line", async () => {
  const { kernel, root } = scene();
  kernel.say(RUN, ...["a", "b", "c"].map((id) => ask(id)));
  await drawn();
  expect([shape(root), text(root, ".waiting-calls > summary")]).toEqual([["tool", "group"], "2 more wait"]);
  kernel.say(answered("a"), begun("tool-a"), ended("tool-a"));
  await drawn();
  expect([shape(root), text(root, ".waiting-calls > summary")]).toEqual([["tool", "tool", "group"], "1 more waits"]);
});
