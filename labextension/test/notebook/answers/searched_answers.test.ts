/** JupyterLab's search in an answer: it reads the text that stands beside the answer's root. */

import { expect, it, vi } from "vitest";

import { searchAnswers } from "../../../src/notebook/answers/searched_answers";
import { element } from "../../../src/transcript/dom";
import { begun, drawn, END, ended, find, RUN, scene } from "../../transcript/scene";

// jsdom has no layout
const scrolled = vi.fn();
Object.assign(Range.prototype, { getBoundingClientRect: () => document.body.getBoundingClientRect() });
Object.assign(Element.prototype, { scrollIntoView: scrolled });

it("finds what folds hold that were never opened, and opens them for it", async () => {
  const { kernel, root, host } = scene("jp-Cell cellwright-answer");
  const call = { name: "Bash", input: { command: "cat gauge.txt" } };
  kernel.say(RUN, begun("a", call), ended("a", { result: "the gauge froze" }), begun("b", call), ended("b", { result: "six" }), END);
  await drawn();
  const fold = find<HTMLDetailsElement>(root, ".fold");
  expect([root.querySelectorAll(".turn-steps").length, fold.open, root.textContent.includes("froze")]).toEqual([1, false, false]);

  const overlay = element("div", { class: "jp-DocumentSearch-overlay" });
  document.body.append(element("div", { class: "jp-NotebookPanel" }, overlay, find(document, ".jp-Notebook")));
  searchAnswers(overlay);
  const line = [...host.querySelectorAll<HTMLElement>(".cellwright-searched > div")].find(({ textContent }) => textContent === "the gauge froze");
  // as JupyterLab marks the hit that it is at
  line?.replaceChildren("the ", element("mark", { class: "jp-current-match" }, "gauge"), " froze");
  await expect.poll(() => scrolled.mock.calls.length).toBe(1);
  expect(fold.open).toBe(true);
  expect(find<HTMLDetailsElement>(root, ".turn-steps").open).toBe(true);
  expect([...root.querySelectorAll<HTMLDetailsElement>(".fold")].map(({ open }) => open)).toEqual([true, false]);
});
