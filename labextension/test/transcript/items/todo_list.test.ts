/** What shows how the work goes: the list of todos, the mode, why calls ran or did not. */

import { describe, expect, it } from "vitest";

import modeNames from "../../../../docs/protocol/mode-names.json";
import { MODE_NAMES } from "../../../src/transcript/items/footer";
import type { Op, Todo } from "../../../src/transcript/protocol";
import { begun, drawn, END, ended, find, RUN, scene, text } from "../scene";

function todos(...statuses: Todo["status"][]): Op {
  return { op: "todos", todos: statuses.map((status, index) => ({ content: `Do ${index}`, status, activeForm: `Doing ${index}` })) };
}

describe("todos", () => {
  it("are one list that is kept up to date in its place, above the footer", async () => {
    const { kernel, root } = scene();
    kernel.say(RUN);
    await drawn();
    expect(find(root, ".todos").hidden).toBe(true);
    kernel.say(todos("in_progress", "pending"), { op: "text", block: 0, text: "Begin." });
    await drawn();
    const lines = [...root.querySelectorAll(".todos li")];
    expect(lines.map((line) => line.textContent)).toEqual(["▸Doing 0 (in progress)", "○Do 1 (to do)"]);
    expect(text(root, ".count")).toBe("0 of 2 done");
    kernel.say(todos("completed", "in_progress", "pending"));
    await drawn();
    const now = [...root.querySelectorAll(".todos li")];
    expect(now.slice(0, 2)).toEqual(lines);
    expect(now.map((line) => line.textContent)).toEqual(["✓Do 0 (done)", "▸Doing 1 (in progress)", "○Do 2 (to do)"]);
    expect(root.querySelectorAll(".todos")).toHaveLength(1);
    const order = [...root.querySelectorAll(".items, .todos, footer")];
    expect(order.indexOf(find(root, ".items"))).toBeLessThan(order.indexOf(find(root, ".todos")));
    expect(order.indexOf(find(root, ".todos"))).toBeLessThan(order.indexOf(find(root, "footer")));
    kernel.say(todos());
    await drawn();
    expect(find(root, ".todos").hidden).toBe(true);
  });

  it("are told to a screen reader when the work goes on", async () => {
    const { kernel, root } = scene();
    kernel.say(RUN, todos("in_progress", "pending"));
    await drawn();
    kernel.say(todos("completed", "in_progress"));
    await drawn();
    expect(text(root, ".unseen[role=status]")).toBe("Claude: Doing 1, 1 of 2 done");
  });

  it("take the place of their calls' cards, but not of one that failed", async () => {
    const { kernel, root } = scene();
    kernel.say(RUN, { op: "tool_input", id: "t", name: "TodoWrite", chars: 3 });
    await drawn();
    expect(find(root, ".tool").hidden).toBe(true);
    kernel.say(begun("t", { name: "TodoWrite" }), ended("t", { status: "error", error: { code: "X", message: "no list" } }));
    await drawn();
    expect(find(root, ".tool").hidden).toBe(false);
    expect(text(root, ".tool")).toContain("no list");
  });
});

it("the mode is a chip that follows the session", async () => {
  const { kernel, root } = scene();
  kernel.say(RUN);
  await drawn();
  expect(find(root, ".mode").hidden).toBe(true);
  kernel.say({ op: "mode", mode: "plan" });
  await drawn();
  expect([text(root, ".mode"), find(root, ".mode").hidden]).toEqual(["Plan", false]);
  kernel.say({ op: "mode", mode: "acceptEdits" }, END);
  await drawn();
  expect(text(root, ".mode")).toBe("Accept edits");
});

it("the chip calls modes what the menu calls them", () => {
  expect(MODE_NAMES).toEqual(modeNames);
});

it("a run that changed nothing says nothing of undo", async () => {
  const { kernel, root } = scene();
  kernel.say(RUN, { op: "changes", turn: 1, files: [], cells: [], effects: [], not_kept: [] }, END);
  await drawn();
  expect(text(root, ".facts")).not.toContain("undo");
});

describe("a decision", () => {
  const decided = (changes: object): Op => ({ op: "decided", tool: "t", behavior: "allow", by: "policy", reason: "It only reads.", rule: "", ...changes });

  it.each([
    [{}, "Allowed: It only reads."],
    [{ rule: "Bash(git log *)", reason: "The rule `Bash(git log *)` allows it." }, "Allowed: by the rule Bash(git log *)"],
    [{ behavior: "ask", reason: "It writes outside the project: /etc\u202E." }, "Asked: It writes outside the project: /etc⟦U+202E⟧."],
  ])("that is no news is in the fold: %j", async (changes, shown) => {
    const { kernel, root } = scene();
    kernel.say(RUN, begun("t"), decided(changes), ended("t"));
    await drawn();
    expect(root.querySelector(".decided")).toBeNull();
    const fold = find<HTMLDetailsElement>(root, "details");
    fold.open = true;
    fold.dispatchEvent(new Event("toggle"));
    expect(text(fold, ".decided")).toBe(shown);
  });

  it.each([
    [{ behavior: "deny", reason: "Bash is denied by the rule `Bash(rm *)`.", rule: "Bash(rm *)" }, "Denied: Bash is denied by the rule Bash(rm *)."],
    [{ by: "hook", reason: "checked" }, "Allowed by a hook: checked"],
    [{ by: "hook", behavior: "deny", reason: "not on Fridays" }, "Denied by a hook: not on Fridays"],
  ])("that refuses, or is a hook's, is seen: %j", async (changes, shown) => {
    const { kernel, root } = scene();
    kernel.say(RUN, begun("t"), decided(changes), ended("t", { status: "denied" }));
    await drawn();
    expect([...root.querySelectorAll(".decided")].map((line) => line.textContent)).toEqual([shown]);
  });
});
