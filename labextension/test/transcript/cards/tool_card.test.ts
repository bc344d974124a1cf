import { expect, it } from "vitest";

import type { PageAction } from "../../../src/transcript/items/page_actions";
import { ACTION_EVENT, offerPageActions } from "../../../src/transcript/items/page_actions";
import type { Op } from "../../../src/transcript/protocol";
import { begun, drawn, END, ended, find, RUN, scene, text } from "../scene";

const DIFF = "--- a/tides.py\n+++ b/tides.py\n@@ -17,3 +17,3 @@\n same\n-old\n+new\n same\n";
const RESULT = `tides.py:40:def rolling(values):\n  File "/home/me/tides.py", line 41, in rolling\n  File "<stdin>", line 4\n${"x/".repeat(400)}a.py:3\n`;

it("opens files where a change begins, at a search's hits and at a traceback's lines", async () => {
  offerPageActions();
  const asked: unknown[] = [];
  document.addEventListener(ACTION_EVENT, (event) => {
    const { detail } = event as CustomEvent<PageAction>;
    if (detail.action === "open") asked.push([detail.path, detail.line]);
  });
  const { kernel, root } = scene();
  kernel.say(RUN, begun("t", { name: "Edit", input: { file_path: "tides.py" } }), ended("t", { result: RESULT, diff: DIFF }));
  await drawn();
  const fold = find<HTMLDetailsElement>(root, ".fold");
  fold.open = true;
  fold.dispatchEvent(new Event("toggle"));
  expect(text(root, ".inside .output")).toBe(RESULT);
  for (const link of root.querySelectorAll<HTMLElement>(".file-link")) link.click();
  expect(asked).toEqual([["tides.py", 18], ["tides.py", 40], ["/home/me/tides.py", 41]]);
});

it("has what was tried in a branch run in the kernel, or a variable of it taken, by commands that the user sends", async () => {
  offerPageActions();
  const asked: unknown[] = [];
  document.addEventListener(ACTION_EVENT, (event) => { asked.push((event as CustomEvent<PageAction>).detail); });
  const { kernel, root } = scene();
  kernel.say(RUN, begun("t", { name: "Branch", input: { code: "import x\ntop = df.head()\ntop == 1\nfor a in top:\n    b = a\n" } }), ended("t", { result: "[Your variables]" }));
  await drawn();
  const fold = find<HTMLDetailsElement>(root, ".fold");
  fold.open = true;
  fold.dispatchEvent(new Event("toggle"));
  for (const button of root.querySelectorAll<HTMLButtonElement>(".inside p > button")) button.click();
  expect(asked).toEqual(["/branches run t", "/branches keep top"].map((command) => ({ action: "command", command })));
});

it("says of a call that was stopped, and of its question, nothing but that", async () => {
  const { kernel, root } = scene();
  const error = { code: "INTERRUPTED", message: "The user interrupted before this call was done." };
  kernel.say(RUN, begun("t"), ended("t", { status: "interrupted", error }), { ...END, stop_reason: "interrupted", error } as Op);
  await drawn();
  expect([text(root, ".status"), root.querySelector(".error"), text(root, ".state").split(" · ")[0]]).toEqual(["stopped", null, "Stopped"]);
});

it("sets the number of a failed request apart from the words", async () => {
  const { kernel, root } = scene();
  kernel.say(RUN, { ...END, stop_reason: "error", error: { code: "API_OVERLOADED", message: "The API is overloaded. [request req_1]" } } as Op);
  await drawn();
  expect([...root.querySelectorAll(".failure p")].map((each) => each.textContent)).toEqual(["The API is overloaded.", "Request req_1"]);
});

it("names the verb of a title that only begins as the tool's name does", async () => {
  const { kernel, root } = scene();
  const input = { file_path: "tides.py" };
  kernel.say(
    RUN, begun("e", { name: "Edit", title: "Edit tides.py", input }), ended("e", { title: "Edited tides.py" }), begun("r", { name: "Read", title: "Read tides.py", input }),
  );
  await drawn();
  expect([...root.querySelectorAll(".tool summary b")].map(({ textContent }) => textContent)).toEqual(["Edited", "Read"]);
});

it("says what runs with a verb, the command first, and what it is for once", async () => {
  const { kernel, root } = scene();
  const input = { command: "python check.py > log.txt", description: "Run the check." };
  kernel.say(RUN, begun("t", { title: "Running python check.py > log.txt (Run the check)", input }));
  await drawn();
  const parts = (): string[] => ["b", ".title", ".purpose"].map((part) => text(root, `.call > ${part}`).trim());
  expect(parts()).toEqual(["Running", "python check.py > log.txt", "Run the check"]);
  expect(find(root, ".call").title).toBe("Run the check");
  kernel.say(ended("t", { title: "Ran python check.py > log.txt (Run the check)" }));
  await drawn();
  expect(parts()[0]).toBe("Ran");
});

it("a change that nobody was asked about is open, and its chevron folds it", async () => {
  const { kernel, root } = scene();
  const diff = "--- a.py\n+++ a.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n";
  kernel.say(RUN, begun("t", { name: "Edit", title: "Edit a.py" }), ended("t", { title: "Edited a.py", diff, lines: { added: 1, removed: 1 } }));
  await drawn();
  const fold = find<HTMLDetailsElement>(root, ".fold");
  expect([fold.open, root.querySelectorAll(".diff").length, fold.querySelectorAll(".diff").length]).toEqual([true, 1, 1]);
});
