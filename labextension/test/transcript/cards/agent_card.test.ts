/** The card of a call that an agent works for: its steps while they come, and beside the result when it is there. */

import { expect, it } from "vitest";

import { begun, drawn, ended, find, RUN, scene, text } from "../scene";

it("an agent's steps are on its card, and stay beside its result", async () => {
  const { kernel, root } = scene();
  kernel.say(RUN, begun("a", { name: "Agent" }), { op: "output", id: "a", text: "Grep: retry\n" }, { op: "output", id: "a", text: "Read: a.py\n" });
  await drawn();
  expect(text(root, ".tool .live")).toBe("Grep: retry\nRead: a.py\n");
  kernel.say(ended("a", { result: "It is in a.py." }));
  await drawn();
  expect(root.querySelector(".tool .live")).toBeNull();
  const fold = find<HTMLDetailsElement>(root, ".tool details");
  expect(fold.open).toBe(false);
  fold.open = true;
  fold.dispatchEvent(new Event("toggle"));
  expect(text(root, '[aria-label="What it did"]')).toContain("Read: a.py");
  expect(text(root, '[aria-label="Result"]')).toBe("It is in a.py.");
});
