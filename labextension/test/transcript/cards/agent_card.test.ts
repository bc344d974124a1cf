/** The card of an agent that works for a call: how far it is, what it takes, its stream, Stop. */

import { expect, it } from "vitest";

import type { Op } from "../../../src/transcript/protocol";
import { begun, drawn, ended, find, RUN, scene, text } from "../scene";

const agent = (card: number, tool: string, more: Partial<Extract<Op, { op: "agent" }>> = {}): Op =>
  ({ op: "agent", card, tool, parent: null, agent: `agent-${card}`, type: "Explore", background: false, at: Date.now() / 1000, ...more });
const call = (card: number, id: string, title: string): Op => ({ op: "agent_line", card, kind: "call", text: title, call: id, status: "", ms: 0 });
const callEnd = (card: number, id: string): Op => ({ op: "agent_line", card, kind: "end", text: "", call: id, status: "success", ms: 1500 });
const words = (card: number, said: string): Op => ({ op: "agent_line", card, kind: "text", text: said, call: "", status: "", ms: 0 });
const state = (card: number, now: "working" | "done" | "failed" | "stopped", more: object = {}): Op =>
  ({ op: "agent_state", card, state: now, calls: 1, tokens: 12_300, cost_usd: 0.012, ms: now === "working" ? null : 4000, ...more });
const END: Op = { op: "end", stop_reason: "end_turn", cost_usd: 0.1, session_cost_usd: 0.1, ms: 1000, error: null };

it("shows what it does, what that takes and its stream, folded", async () => {
  const { kernel, root } = scene();
  kernel.say(RUN, begun("a", { name: "Agent", title: "Explore: Find retries" }), agent(0, "a"), call(0, "t1", "Grep: retry"));
  await drawn();
  expect(text(root, ".tool .status")).toBe("working");
  expect(text(root, ".agent .took")).toBe("1 tool call");
  expect(text(root, ".agent .now")).toBe("Grep: retry");
  const steps = find<HTMLButtonElement>(root, ".agent .steps");
  const stream = find(root, `#${steps.getAttribute("aria-controls")}`);
  expect([steps.getAttribute("aria-expanded"), stream.hidden]).toEqual(["false", true]);
  steps.click();
  expect([steps.getAttribute("aria-expanded"), stream.hidden]).toEqual(["true", false]);
  expect(stream.textContent).toContain("Grep: retry (running)");
  kernel.say(callEnd(0, "t1"), words(0, "It is in **a.py**."), state(0, "done"), ended("a", { result: "In a.py." }));
  await drawn();
  expect(stream.textContent).toContain("Grep: retry (done)1.5 s");
  expect(text(stream, "strong")).toBe("a.py");
  expect(text(root, ".tool .status")).toBe("done");
  expect(text(root, ".tool > .fold .time")).toBe("4.0 s");
  expect(text(root, ".agent .took")).toBe("1 tool call · $0.012 · 12k tokens");
  expect(find(root, ".agent .stop").hidden).toBe(true);
});

it("what the user stopped is no error", async () => {
  const { kernel, root } = scene();
  const error = { code: "EXECUTION_ERROR", message: "The user stopped the agent." };
  kernel.say(RUN, begun("a", { name: "Agent" }), agent(0, "a"), state(0, "stopped"), ended("a", { status: "error", error }));
  await drawn();
  expect(text(root, ".tool .status")).toBe("stopped");
  expect(root.querySelector(".output.error")).toBeNull();
});

it("agents side by side, nested ones within, each with a Stop of its own", async () => {
  const { kernel, root } = scene();
  kernel.say(
    RUN, begun("a", { name: "Agent" }), begun("b", { name: "Agent" }), agent(0, "a"), agent(1, "b"),
    call(0, "t1", "Agent: Plan: more"), agent(2, "t1", { parent: 0, type: "Plan" }), call(2, "t1", "LS: ."), callEnd(2, "t1"),
  );
  await drawn();
  expect(root.querySelectorAll(".tool > .agent").length).toBe(2);
  find<HTMLButtonElement>(root, ".tool > .agent .steps").click();
  const nested = find(root, ".stream .agent");
  expect(text(nested, ".now")).toBe("");
  expect(find(nested, ".stop").getAttribute("aria-label")).toBe("Stop the agent Plan");
  find<HTMLButtonElement>(nested, ".stop").click();
  expect(kernel.received.at(-1)).toEqual({ type: "stop_agent", agent: "agent-2" });
});

it("keeps the latest of a long stream and counts the rest", async () => {
  const { kernel, root } = scene();
  kernel.say(RUN, begun("a", { name: "Agent" }), agent(0, "a"), ...Array.from({ length: 320 }, (_, n) => call(0, `t${n}`, `Read: ${n}.py`)));
  await drawn();
  find<HTMLButtonElement>(root, ".agent .steps").click();
  expect(root.querySelectorAll(".stream > li").length).toBe(300);
  expect(text(root, ".agent .label")).toBe("20 earlier steps not shown");
  expect(text(root, ".agent .took")).toBe("320 tool calls");
});

it("what a run leaves at work goes on in the background, or ended with it", async () => {
  const { kernel, root } = scene();
  kernel.say(
    RUN, begun("a", { name: "Agent" }), agent(0, "a", { background: true }), ended("a"), begun("b", { name: "Agent" }), agent(1, "b"),
    begun("c", { name: "Agent" }), agent(2, "c"), state(2, "failed"), END,
  );
  await drawn();
  expect([...root.querySelectorAll(".tool .status")].map((node) => node.textContent)).toEqual(["in the background", "stopped", "failed"]);
  expect(text(root, ".agent .now")).toBe("continues in the background; /tasks lists it");
});

it("an agent's question is asked below what it does", async () => {
  const { kernel, root } = scene();
  kernel.say(RUN, begun("a", { name: "Agent" }), agent(0, "a"), {
    op: "ask", question: "q", tool: "a", name: "Bash", input: {}, kind: "permission", title: "Agent Explore: run it", detail: "ls", detail_kind: "command",
    path: "", warning: "", reason: "", choices: [], at: 1,
  });
  await drawn();
  expect(text(root, ".tool .status")).toBe("asks");
  expect(find(root, ".tool > .fold").hidden).toBe(false);
  expect(root.querySelector(".agent ~ .questions .ask")).not.toBeNull();
});
