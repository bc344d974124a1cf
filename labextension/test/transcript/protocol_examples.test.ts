/** docs/protocol/examples.json is what both sides are held to: the Python tests read the same file. */

import { expect, it } from "vitest";

import examples from "../../../docs/protocol/examples.json";
import type { BrowserMessage, KernelMessage, Op, OpsMessage } from "../../src/transcript/protocol";
import { drawn, find, press, readyCard, scene, shadowOf, text } from "./scene";

const fromKernel = examples.kernel_to_browser as KernelMessage[];
const fromBrowser = examples.browser_to_kernel as BrowserMessage[];
const { ops } = fromKernel[0] as OpsMessage;

/** As the type checker sees them: a kind that is added there must be added here, and shown in the examples. */
const KINDS: Record<Op["op"], true> = {
  run: true, told: true, text: true, thinking: true, drop: true, tool_input: true, tool: true, output: true, display: true, tool_end: true,
  decided: true, todos: true, numbers: true, model: true, mode: true, steer: true, changes: true, ask: true, answered: true, turn: true, retry: true, notice: true, compacted: true, stuck: true, end: true,
  agent: true, agent_line: true, agent_state: true, part: true,
};
const MESSAGES: Record<BrowserMessage["type"], true> = { ready: true, answer: true, stop: true, stop_agent: true, restart: true, kept: true, steer: true, withdraw: true };

it("has one of each kind", () => {
  expect(new Set(ops.map((op) => op.op))).toEqual(new Set(Object.keys(KINDS)));
  expect(new Set(fromKernel.map((message) => message.type))).toEqual(new Set(["ops", "ack", "saved"]));
  expect(new Set(fromBrowser.map((message) => message.type))).toEqual(new Set(Object.keys(MESSAGES)));
});

it("is drawn", async () => {
  const { kernel, root, transcript } = scene();
  const below = document.createElement("div");
  transcript.mount(below, 1);
  kernel.say(...ops);
  await drawn();
  const last = shadowOf(below);
  expect([...root.querySelectorAll(".items > *")].map((node) => node.className)).toEqual([
    "thinking", "prose", "tool", "tool", "tool", "said", "tool", "tool of-agent", "told compacted", "notice info",
  ]);
  expect(text(root, ".said")).toBe("You Keep the old name as an alias.");
  expect(text(root, ".prose strong")).toBe("one line");
  expect([...root.querySelectorAll(".answered")].map((node) => node.textContent)).toEqual([
    "Answered in this cell: Parquet",
    "Plan approved, edits accepted in this cell",
  ]);
  expect(find(root, ".approved").title).toBe("Allowed once in this cell");
  expect(find(root, ".ending").hidden).toBe(true);
  expect(text(last, ".todos .count")).toBe("1 of 3 done");
  expect(text(last, ".mode")).toBe("Plan");
  expect(find(root, "img").getAttribute("alt")).toBe("<Figure size 640x480 with 1 Axes>");
  expect(text(last, ".state")).toBe("Done · 14 s");
  expect(text(last, ".facts")).toContain("1 file, 1 cell changed (/undo)");
  expect(find(root, ".transcript").dataset.drawn).toBe(`${ops.length}`);
});

it("is what the browser sends", async () => {
  const sent: BrowserMessage[] = [];
  const upTo = ops.findIndex((op) => op.op === "ask") + 1;
  const answers = fromBrowser.filter((message) => message.type === "answer");
  const [session, edited, denied, chosen, approved, planning] = answers;
  const ask = ops[upTo - 1];
  if (ask?.op !== "ask" || !edited || !denied) throw new Error("incomplete examples");
  for (const act of [
    (card: HTMLElement) => { press(card, "2"); },
    (card: HTMLElement) => {
      press(card, "e");
      find<HTMLTextAreaElement>(card, "textarea").value = edited.input?.new_string as string;
      find(card, ".editor .primary").click();
    },
    (card: HTMLElement) => {
      find<HTMLInputElement>(card, "input").value = denied.reason;
      press(card, "4");
    },
  ]) {
    const fresh = scene();
    fresh.kernel.say(...ops.slice(0, upTo));
    act(await readyCard(fresh.root));
    sent.push(...fresh.kernel.answers);
  }
  for (const [question, act] of [
    ["q_02", (card: HTMLElement) => { press(card, "1"); press(card, "Enter"); }],
    ["q_03", (card: HTMLElement) => { press(card, "2"); }],
    ["q_03", (card: HTMLElement) => {
      find<HTMLInputElement>(card, "input").value = planning?.reason ?? "";
      press(card, "4");
    }],
  ] as const) {
    const fresh = scene();
    const at = ops.findIndex((op) => op.op === "ask" && op.question === question);
    fresh.kernel.say(...ops.slice(0, at + 1));
    act(await readyCard(fresh.root));
    sent.push(...fresh.kernel.answers);
  }
  expect(sent).toEqual([session, edited, denied, chosen, approved, planning]);
  const { kernel, root } = scene();
  expect(kernel.received[0]).toEqual(fromBrowser.find((message) => message.type === "ready"));
  kernel.say(...ops.slice(0, ops.findIndex((op) => op.op === "stuck") + 1));
  await drawn();
  find(root, ".stop").click();
  expect(fromBrowser).toContainEqual(kernel.received.at(-1));
  find(root, ".stuck button").click();
  find(root, ".stuck button").click();
  expect(fromBrowser).toContainEqual(kernel.received.at(-1));
  document.addEventListener("cellwright-saved", (event) => { event.preventDefault(); }, { once: true });
  kernel.tell(fromKernel.find((message) => message.type === "saved"));
  expect(fromBrowser).toContainEqual(kernel.received.at(-1));
  expect(kernel.received.at(-1)?.type).toBe("kept");
});
