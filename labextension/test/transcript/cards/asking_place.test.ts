import { expect, it, vi } from "vitest";

import { proposalCard } from "../../../src/transcript/cards/proposal_card";
import type { AnswerMessage } from "../../../src/transcript/protocol";
import { TranscriptStore } from "../../../src/transcript/store";
import { view } from "../../../src/transcript/view";
import { ask, find, press, RUN, scene, shadowOf, text } from "../scene";

const revealed: string[] = [];

/** A question that a cell, the panel and the cell that it is about show at once. */
function everywhere(): { cell: ShadowRoot; panel: ShadowRoot; proposal: ShadowRoot; sent: AnswerMessage[] } {
  const { kernel, root } = scene();
  const question = ask("q", { name: "NotebookEdit", input: { cell_id: "c", new_source: "x = 2" } });
  const panel = document.createElement("div");
  panel.className = "cellwright-panel";
  panel.tabIndex = -1;
  const answer = document.createElement("div");
  panel.append(answer);
  const beside = document.createElement("div");
  find(document, ".jp-Notebook").append(beside);
  document.body.append(panel);
  const store = new TranscriptStore();
  const sent: AnswerMessage[] = [];
  const send = (message: { type: string }): void => { if (message.type === "answer") sent.push(message as AnswerMessage); };
  kernel.say(RUN, question);
  store.receive({ type: "ops", first: 0, now: Date.now() / 1000, ops: [RUN, question] });
  view(answer, store, send);
  proposalCard(beside, question, send, { reveal: () => revealed.push("q"), askKeys: () => () => undefined, answerAll: () => undefined });
  return { cell: root, panel: shadowOf(answer), proposal: shadowOf(beside), sent };
}

async function asks(here: ShadowRoot, ...elsewhere: ShadowRoot[]): Promise<void> {
  await vi.waitFor(() => {
    expect(here.querySelectorAll(".ask[data-ready]:not(.aside)")).toHaveLength(1);
    for (const root of elsewhere) expect(root.querySelectorAll(".ask.aside:not([data-ready])")).toHaveLength(1);
  });
}

it("one card asks, where the user is: the others are a line that brings it there", async () => {
  const { cell, panel, proposal, sent } = everywhere();
  await asks(proposal, cell, panel);
  const lines = [...find(panel, ".elsewhere").querySelectorAll("button")];
  expect(lines.map((node) => node.textContent)).toEqual(["Review it at the cell", "Review here"]);
  lines[0]?.click();
  expect(revealed).toEqual(["q"]);
  press(find(panel, ".ask"), "1");
  expect(sent).toEqual([]);
  // it was chosen; who answers in another place chooses that
  lines[1]?.click();
  await asks(panel, cell, proposal);
  find(document, ".cellwright-panel").dispatchEvent(new Event("pointerdown", { bubbles: true, composed: true }));
  await asks(panel, cell, proposal);
  expect(text(cell, ".elsewhere span")).toBe("Waiting for your answer in Claude's panel.");
  find(cell, ".elsewhere button").click();
  await asks(cell, panel, proposal);
  find(document, ".cellwright-panel").remove();
});
