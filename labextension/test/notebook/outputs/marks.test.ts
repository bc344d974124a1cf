/** Marks of the page: one for each place, with a remark; in the composer they go along with the next prompt. */

import { expect, it, vi } from "vitest";

import { Marks } from "../../../src/notebook/outputs/marks";
import type { MarkedAttachment } from "../../../src/transport/chat_protocol";
import { composerScene, key, settled, type } from "../../composer/composer_scene";
import { find } from "../../transcript/scene";

const attachment = (name: string, more: Partial<MarkedAttachment> = {}): MarkedAttachment => ({
  kind: "marked", name, notebook: "a.ipynb", cell: "c1", remark: "", source: "x", output: "3", note: "", picture: null, ...more,
});

it("has one mark for each place, which keeps its remark when it is marked again", () => {
  const marks = new Marks();
  const changed = vi.fn();
  const stop = marks.subscribe(changed);
  marks.add({ id: "m1", notebook: "a.ipynb", cell: "c1", index: 0, attachment: attachment("Output of cell [1]") });
  marks.add({ id: "m2", notebook: "a.ipynb", cell: "c1", index: null, attachment: attachment("Cell [1]") });
  marks.setRemark("m1", "why?");
  marks.add({ id: "m3", notebook: "a.ipynb", cell: "c1", index: 0, attachment: attachment("Output of cell [4]") });
  expect(marks.of("a.ipynb", "c1").map(({ id, attachment: { name, remark } }) => [id, name, remark])).toEqual([
    ["m3", "Output of cell [4]", "why?"], ["m2", "Cell [1]", ""],
  ]);
  marks.renamed("a.ipynb", "b.ipynb");
  expect(marks.of("b.ipynb", "c1")).toHaveLength(2);
  expect(marks.list[0]?.attachment.notebook).toBe("b.ipynb");
  marks.remove(["m2", "m3"]);
  expect(marks.list).toEqual([]);
  expect(changed).toHaveBeenCalledTimes(6);
  marks.remove(["m2"]);
  stop();
  expect(changed).toHaveBeenCalledTimes(6);
});

it("keeps the marks over a reload of the page, without pictures that are too large", () => {
  const kept = new Map<string, string>();
  const memory = {
    getItem: (name: string) => kept.get(name) ?? null,
    setItem: (name: string, value: string) => {
      if (value.length > 1_000) throw new DOMException("full", "QuotaExceededError");
      kept.set(name, value);
    },
    removeItem: (name: string) => void kept.delete(name),
  };
  const marks = new Marks(memory);
  marks.add({ id: "m1", notebook: "a.ipynb", cell: "c1", index: 0, attachment: attachment("Output of cell [1]", { picture: "iVBORw==", remark: "why?" }) });
  expect(new Marks(memory).list).toEqual(marks.list);
  marks.add({ id: "m2", notebook: "a.ipynb", cell: "c2", index: 0, attachment: attachment("Output of cell [2]", { picture: "x".repeat(2_000) }) });
  expect(new Marks(memory).list.map(({ id, attachment: { picture, remark, note } }) => [id, picture, remark, note.slice(0, 10)])).toEqual([
    ["m1", null, "why?", "No picture"], ["m2", null, "", "No picture"],
  ]);
  marks.remove(["m1", "m2"]);
  kept.set("cellwright:marks", "{");
  expect(new Marks(memory).list).toEqual([]);
});

it("sends what is marked with the prompt, and takes the marks away when the kernel has it", async () => {
  const scene = composerScene();
  const shown = (): string[] => [...scene.host.querySelectorAll(".cellwright-attached li")].map(({ textContent }) => textContent);
  scene.marks.add({ id: "m1", notebook: "a.ipynb", cell: "c1", index: 0, attachment: attachment("Output of cell [1]", { picture: "iVBORw==" }) });
  scene.marks.add({ id: "m2", notebook: "a.ipynb", cell: "c2", index: null, attachment: attachment("Cell [2]") });
  expect(shown()).toEqual(["Output of cell [1]×", "✦Cell [2]×"]);
  expect(find<HTMLImageElement>(scene.host, ".cellwright-attached img").src).toContain("iVBORw==");
  scene.marks.setRemark("m1", "too high?");
  expect(find(scene.host, ".cellwright-attached li").title).toContain("too high?");
  find(scene.host, ".cellwright-attached li:last-child button").click();
  expect(scene.marks.list.map(({ id }) => id)).toEqual(["m1"]);
  // without words of its own the prompt says what was remarked
  key(scene.area, "Enter");
  await settled();
  expect(scene.chat.prompts).toMatchObject([{ text: "Output of cell [1]: too high?", attachments: [{ kind: "marked", remark: "too high?" }] }]);
  expect([scene.marks.list, shown()]).toEqual([[], []]);
});

it("keeps the marks when the prompt could not be sent", async () => {
  const scene = composerScene();
  scene.chat.taking = () => Promise.reject(new Error("The kernel is gone."));
  scene.marks.add({ id: "m1", notebook: "a.ipynb", cell: "c1", index: 0, attachment: attachment("Output of cell [1]") });
  type(scene.area, "Why?");
  key(scene.area, "Enter");
  await settled();
  expect(scene.chat.prompts).toHaveLength(1);
  expect(scene.marks.list).toHaveLength(1);
});
