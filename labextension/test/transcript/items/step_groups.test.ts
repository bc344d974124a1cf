import { expect, it } from "vitest";

import { ask, begun, drawn, ended, find, RUN, scene, text } from "../scene";

it("reads and searches fold into one line, which opens; what asks or fails stands for itself", async () => {
  const { kernel, root } = scene();
  const read = (id: string, path: string): object => ({ name: "Read", title: `Read ${path}`, input: { file_path: path } });
  kernel.say(RUN, begun("a", read("a", "a.py")), begun("b", read("b", "b.py")));
  await drawn();
  expect([text(root, ".group .call"), text(root, ".group .status")]).toEqual(["Reading 2 files", "running"]);
  const first = find(root, ".group .tool");
  kernel.say(ended("a"), ended("b"), begun("c", { name: "Grep", title: "Grep x", input: { pattern: "x" } }), ended("c"));
  kernel.say(begun("d", { name: "Glob", title: "Glob *", input: { pattern: "*" } }), ended("d"));
  await drawn();
  expect([text(root, ".group .call"), text(root, ".group .status")]).toEqual(["Read 2 files, searched twice", ""]);
  expect([find(root, ".group .tool"), root.querySelectorAll(".group .tool").length]).toEqual([first, 4]);
  expect(find<HTMLDetailsElement>(root, ".group").open).toBe(false);

  kernel.say(begun("tool-q", read("q", "q.py")), ask("q", { name: "Read" }), begun("e", read("e", "e.py")));
  kernel.say(ended("e", { status: "error", error: { code: "NOT_FOUND", message: "There is no e.py." } }));
  await drawn();
  expect([...root.querySelectorAll(".items > *")].map((node) => node.className.split(" ")[0])).toEqual(["group", "tool", "tool"]);
  expect(text(root, ".items > .tool[data-status='error'] .error")).toBe("There is no e.py.");
});
