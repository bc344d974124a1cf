import { describe, expect, it, vi } from "vitest";

import type { JsonObject } from "../../../src/json";
import { editFirst } from "../../../src/transcript/cards/edit_first";
import type { AskOp } from "../../../src/transcript/protocol";
import { ask, find, press } from "../scene";

const OLD = ["import math", "", "", "def high(levels):", "    top = max(levels)", "    return top", "", "print(high([1, 2]))"];
const EDIT_DIFF = `--- a/tides.py
+++ b/tides.py
@@ -3,5 +3,5 @@
${" "}
 def high(levels):
-    top = max(levels)
+    top = min(levels)
     return top
${" "}
`;

type Opened = { node: HTMLElement; areas: HTMLTextAreaElement[]; sent: JsonObject[]; cancel: ReturnType<typeof vi.fn> };

function opened(name: string, input: JsonObject, detail = "", kind: AskOp["detail_kind"] = "diff"): Opened {
  const sent: JsonObject[] = [];
  const cancel = vi.fn();
  const node = editFirst(ask("q", { name, input, detail, detail_kind: kind }), input, [{ label: "Allow", run: (edited) => void sent.push(edited) }], cancel);
  document.body.replaceChildren(node);
  return { node, sent, cancel, areas: [...node.querySelectorAll("textarea")] };
}

/** The renewed diff: number, sign and text of each line that changes. */
function changes(node: HTMLElement): string[] {
  return [...node.querySelectorAll<HTMLElement>(".renewed .line:is(.added, .removed)")].map((line) => {
    const [old = "", now = ""] = [...line.querySelectorAll<HTMLElement>(".number")].map(({ dataset }) => dataset.n ?? "");
    return `${old || now}${find(line, ".sign").textContent}${find(line, ".text").textContent.trimEnd()}`;
  });
}

async function write(area: HTMLTextAreaElement | undefined, text: string, node: HTMLElement): Promise<void> {
  const before = changes(node).join();
  if (!area) throw new Error("no such field");
  area.value = text;
  area.dispatchEvent(new InputEvent("input", { bubbles: true }));
  await vi.waitFor(() => { expect(changes(node).join()).not.toBe(before); }, { interval: 5 });
}

describe("editing an edit first", () => {
  it("is its new text, and the diff in the file's lines renews; Ctrl-Enter sends", async () => {
    const input = { file_path: "tides.py", old_string: "top = max(levels)", new_string: "top = min(levels)" };
    const { node, areas, sent } = opened("Edit", input, EDIT_DIFF);
    expect(areas.map(({ value }) => value)).toEqual(["top = min(levels)"]);
    expect(changes(node)).toEqual(["5−    top = max(levels)", "5+    top = min(levels)"]);
    await write(areas[0], "top = max(levels, default=0)\n    top += 1", node);
    expect(changes(node)).toEqual(["5−    top = max(levels)", "5+    top = max(levels, default=0)", "6+    top += 1"]);
    expect(node.querySelector(".renewed .same .text")?.textContent).toBe("def high(levels):\n");
    press(areas[0] ?? node, "Enter", { ctrlKey: true });
    expect(sent).toEqual([{ ...input, new_string: "top = max(levels, default=0)\n    top += 1" }]);
  });

  it("says when nothing would change, and Escape leaves it", async () => {
    const { node, areas, sent, cancel } = opened("Edit", { file_path: "tides.py", old_string: "top = max(levels)", new_string: "top = min(levels)" }, EDIT_DIFF);
    await write(areas[0], "top = max(levels)", node);
    expect(find(node, ".renewed").textContent).toBe("Changes nothing.");
    press(areas[0] ?? node, "Escape");
    expect(cancel).toHaveBeenCalledOnce();
    expect(sent).toEqual([]);
  });

  it("of text that the diff shows in part only is compared with the text that it replaces, at its place", async () => {
    const whole = OLD.join("\n");
    const { node, areas } = opened("Edit", { file_path: "tides.py", old_string: whole, new_string: whole.replace("max", "min") }, EDIT_DIFF);
    expect(changes(node)).toEqual(["5−    top = max(levels)", "5+    top = min(levels)"]);
    await write(areas[0], whole.replace("math", "cmath"), node);
    expect(changes(node)).toEqual(["1−import math", "1+import cmath"]);
  });

  it("of several edits is a field for each", async () => {
    const edits = [{ old_string: "max(levels)", new_string: "min(levels)" }, { old_string: "return top", new_string: "return top" }];
    const { node, areas, sent } = opened("MultiEdit", { file_path: "tides.py", edits }, EDIT_DIFF);
    expect([...node.querySelectorAll("label")].map(({ textContent }) => textContent)).toEqual(["New text 1 of 2", "New text 2 of 2"]);
    await write(areas[1], "return -top", node);
    expect(changes(node)).toEqual(["5−    top = max(levels)", "6−    return top", "5+    top = min(levels)", "6+    return -top"]);
    find(node, ".primary").click();
    expect(sent[0]?.edits).toEqual([edits[0], { old_string: "return top", new_string: "return -top" }]);
  });

  it.each([["Write", "content", "file_path"], ["NotebookEdit", "new_source", "notebook_path"]])("of %s is the whole text against what was there", async (name, key, path) => {
    const now = OLD.with(4, "    top = min(levels)").join("\n");
    const { node, areas, sent } = opened(name, { [path]: "tides", [key]: now }, EDIT_DIFF);
    expect(areas[0]?.value).toBe(now);
    await write(areas[0], now.replace("import math", "import cmath"), node);
    expect(changes(node)).toEqual(["1−import math", "1+import cmath", "5−    top = max(levels)", "5+    top = min(levels)"]);
    press(areas[0] ?? node, "Enter", { metaKey: true });
    expect(sent[0]?.[key]).toBe(now.replace("import math", "import cmath"));
  });

  it("of a new file is all of it added; of code it is the code, of an unknown tool JSON", () => {
    expect(changes(opened("Write", { file_path: "new.py", content: "a\nb\n" }, "a\nb\n", "text").node)).toEqual(["1+a", "2+b"]);
    expect(opened("Python", { code: "x = 1", timeout: 3 }, "x = 1", "code").areas[0]?.value).toBe("x = 1");
    const { areas, sent, node } = opened("mcp__notes__add", { text: "hello" }, "", "text");
    expect(JSON.parse(areas[0]?.value ?? "")).toEqual({ text: "hello" });
    find<HTMLTextAreaElement>(node, "textarea").value = "[1]";
    find(node, ".primary").click();
    expect([sent, find(node, ".problem").textContent]).toEqual([[], "The input must be a JSON object: { … }"]);
  });
});
