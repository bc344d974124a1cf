/** What goes along with a prompt: pasted and dropped files, the cell; and what holds for it: model, mode, effort, context. */

import { expect, it, vi } from "vitest";

import { MAX_ATTACHMENTS } from "../../src/composer/attachments";
import { find, text } from "../transcript/scene";
import type { ComposerScene } from "./composer_scene";
import { composerScene, key, settled, STATE, type } from "./composer_scene";

const PNG = new Uint8Array([0x89, 0x50, 0x4e, 0x47]);
const picture = (name = "plot.png"): File => new File([PNG], name, { type: "image/png" });
const names = ({ host }: ComposerScene): string[] => [...host.querySelectorAll(".cellwright-chip-name")].map((node) => node.textContent);
const problem = ({ host }: ComposerScene): string => find(host, ".cellwright-problem").textContent;
const picker = ({ host }: ComposerScene, setting: string): HTMLSelectElement => find(host, `select[data-setting=${setting}]`);
const values = (select: HTMLSelectElement): string[] => [...select.options].map(({ value }) => value);
const sets = ({ chat }: ComposerScene): unknown[] => chat.asked.filter(({ method }) => method === "set").map(({ params }) => params);

/** An event with what a browser has in it and jsdom has not; whether it was taken. */
function fire(node: HTMLElement, name: string, more: object): boolean {
  const event = Object.assign(new Event(name, { bubbles: true, cancelable: true }), more);
  node.dispatchEvent(event);
  return event.defaultPrevented;
}

const paste = (scene: ComposerScene, files: File[], plain = ""): boolean =>
  fire(scene.area, "paste", { clipboardData: { files, getData: () => plain } });

function choose(select: HTMLSelectElement, value: string): void {
  select.value = value;
  select.dispatchEvent(new Event("change", { bubbles: true }));
}

const CELL = { path: "tides/notebook.ipynb", id: "cell-2", selection: "", source: "\nprices = read()", executionCount: 7, position: 1 };

it("attaches a picture that is pasted, shows it, and sends its bytes", async () => {
  const scene = composerScene();
  expect(paste(scene, [picture()])).toBe(true);
  await vi.waitFor(() => { expect(names(scene)).toEqual(["plot.png"]); });
  expect(find<HTMLImageElement>(scene.host, ".cellwright-attached img").src).toBe("data:image/png;base64,iVBORw==");
  type(scene.area, "What is it?");
  key(scene.area, "Enter");
  await settled();
  expect(scene.chat.prompts[0]?.attachments).toEqual([{ kind: "image", media_type: "image/png", data: "iVBORw==", name: "plot.png" }]);
  expect(names(scene)).toEqual([]);
});

it("pastes text as text, also where a picture of it comes along", () => {
  const scene = composerScene();
  expect(paste(scene, [], "words")).toBe(false);
  expect(paste(scene, [picture("table.png")], "a\tb")).toBe(false);
  expect(names(scene)).toEqual([]);
});

it("takes files that are dropped, pictures and texts; the page does not open them", async () => {
  const scene = composerScene();
  const files = [picture(), new File(["x = 1\n"], "a.py"), picture("b.png")];
  expect(fire(find(scene.host, ".cellwright-box"), "dragover", { dataTransfer: { types: ["Files"], files } })).toBe(true);
  expect(find(scene.host, ".cellwright-composer").classList).toContain("cellwright-mod-dragging");
  expect(fire(scene.area, "drop", { dataTransfer: { types: ["Files"], files } })).toBe(true);
  await vi.waitFor(() => { expect(names(scene)).toEqual(["plot.png", "a.py", "b.png"]); });
  expect(find(scene.host, ".cellwright-composer").classList).not.toContain("cellwright-mod-dragging");
  find(scene.host, ".cellwright-attached li:nth-child(3) button").click();
  expect(names(scene)).toEqual(["plot.png", "a.py"]);
  key(scene.area, "Enter");
  await settled();
  expect(scene.chat.prompts[0]?.attachments.map(({ kind }) => kind)).toEqual(["image", "text"]);
});

it("keeps what is attached for the prompt when a command is sent", async () => {
  const scene = composerScene();
  await settled();
  paste(scene, [picture()]);
  await vi.waitFor(() => { expect(names(scene)).toEqual(["plot.png"]); });
  type(scene.area, "/help");
  key(scene.area, "Enter");
  await settled();
  expect(scene.chat.prompts[0]).toMatchObject({ text: "/help", attachments: [], cell: null });
  expect(names(scene)).toEqual(["plot.png"]);
});

it("leaves other drags alone", () => {
  const scene = composerScene();
  expect(fire(scene.area, "dragover", { dataTransfer: { types: ["text/plain"], files: [] } })).toBe(false);
  expect(fire(scene.area, "drop", { dataTransfer: { types: ["text/plain"], files: [] } })).toBe(false);
  expect(fire(scene.area, "lm-drop", { mimeData: { hasData: () => false, getData: () => null } })).toBe(false);
});

it("mentions the files that are dragged from the file browser, as the kernel knows them", () => {
  const scene = composerScene();
  scene.chat.change({ state: { ...STATE, cwd: "/home/ada/project" } });
  type(scene.area, "compare");
  const mimeData = {
    hasData: (kind: string) => kind === "application/x-jupyter-icontents",
    getData: () => ["project/a.csv", "other/two words.csv"],
  };
  const over = { mimeData, proposedAction: "move", dropAction: "none" };
  fire(scene.area, "lm-dragover", over);
  expect(fire(scene.area, "lm-drop", { mimeData, proposedAction: "move", dropAction: "none" })).toBe(true);
  expect(scene.area.value).toBe('compare @a.csv @"/home/ada/other/two words.csv" ');
  scene.area.value = "compare  well";
  scene.area.setSelectionRange(8, 8);
  fire(scene.area, "lm-drop", { mimeData, proposedAction: "move", dropAction: "none" });
  expect(scene.area.value).toBe('compare @a.csv @"/home/ada/other/two words.csv" well');
});

it.each([
  ["data.bin", () => new Uint8Array([0xff, 0xfe, 0x00]), "", "data.bin was not attached: it is neither text"],
  ["zero.txt", () => "a\0b", "", "zero.txt was not attached: it is neither text"],
  ["long.log", () => "x".repeat(200_001), "", "long.log was not attached: it has more than 200,000 characters"],
  ["longer.log", () => "x".repeat(900_000), "", "longer.log was not attached: it has more than 200,000 characters"],
  ["scan.tiff", () => "II", "image/tiff", "PNG, JPEG, GIF and WebP"],
  ["huge.png", () => new Uint8Array(20_000_001), "image/png", "larger than 20 MB"],
])("says why it does not take %s", async (name, content, kind, why) => {
  const scene = composerScene();
  scene.composer.attach([new File([content()], name, { type: kind })]);
  await vi.waitFor(() => { expect(problem(scene)).toContain(why); });
  expect(names(scene)).toEqual([]);
});

it("takes so many and no more", async () => {
  const scene = composerScene();
  scene.composer.attach(Array.from({ length: MAX_ATTACHMENTS + 1 }, (_, index) => new File(["x"], `${index}.txt`)));
  await vi.waitFor(() => { expect(problem(scene)).toContain("20.txt was not attached"); });
  expect(names(scene)).toHaveLength(MAX_ATTACHMENTS);
});

it("sends the cell along where the user says so, with what is selected in it then", async () => {
  const scene = composerScene();
  const chip = find<HTMLButtonElement>(scene.host, ".cellwright-cell-chip");
  expect(chip.disabled).toBe(true);
  scene.goToCell(CELL);
  expect([chip.textContent, chip.getAttribute("aria-pressed")]).toEqual(["Cell [7]", "false"]);
  type(scene.area, "Explain");
  key(scene.area, "Enter");
  await settled();
  expect(scene.chat.prompts[0]?.cell).toBeNull();
  chip.click();
  expect(document.activeElement).toBe(scene.area);
  scene.goToCell({ ...CELL, selection: "prices\n= read()" });
  expect([chip.textContent, chip.getAttribute("aria-pressed")]).toEqual(["Cell [7], 2 lines selected", "true"]);
  type(scene.area, "Explain");
  key(scene.area, "Enter");
  await settled();
  expect(scene.chat.prompts[1]?.cell).toEqual({ path: CELL.path, id: "cell-2", selection: "prices\n= read()" });
  scene.goToCell(null);
  type(scene.area, "Explain");
  key(scene.area, "Enter");
  await settled();
  expect(scene.chat.prompts[2]?.cell).toBeNull();
});

it("offers what the kernel lists, and shows what is in force where that is not listed", () => {
  const scene = composerScene();
  expect(values(picker(scene, "model"))).toEqual(["opus", "haiku"]);
  expect(values(picker(scene, "mode"))).toEqual(["default", "acceptEdits", "plan", "bypassPermissions"]);
  expect(values(picker(scene, "effort"))).toEqual(["", "low", "high"]);
  scene.chat.change({ state: { ...STATE, model: "custom", modes: STATE.modes.slice(0, 1), efforts: [] } });
  expect(picker(scene, "model").value).toBe("custom");
  expect(values(picker(scene, "mode"))).toEqual(["default"]);
  expect(picker(scene, "effort").hidden).toBe(true);
  scene.chat.change({ connection: "lost" });
  expect(picker(scene, "model").disabled).toBe(true);
});

it("sets model and effort for the conversation, and the context for its own prompts", async () => {
  const scene = composerScene();
  choose(picker(scene, "model"), "haiku");
  choose(picker(scene, "effort"), "low");
  choose(picker(scene, "context"), "full");
  expect(sets(scene)).toEqual([{ model: "haiku" }, { effort: "low" }]);
  expect(picker(scene, "model").value).toBe("haiku");
  type(scene.area, "Go");
  key(scene.area, "Enter");
  await settled();
  expect(scene.chat.prompts[0]?.context).toBe("full");
});

it("shows what is in force again where the kernel refuses a choice, and says why", async () => {
  const scene = composerScene();
  scene.chat.answers = () => Promise.reject(new Error("The model haiku may not be used."));
  choose(picker(scene, "model"), "haiku");
  await vi.waitFor(() => { expect(problem(scene)).toContain("may not be used"); });
  expect(picker(scene, "model").value).toBe("opus");
});

it("goes through the modes with Shift+Tab, but never into the one that asks nothing", async () => {
  const scene = composerScene();
  for (const next of ["acceptEdits", "plan", "default"]) {
    expect(key(scene.area, "Tab", { shiftKey: true })).toBe(true);
    expect(sets(scene).at(-1)).toEqual({ mode: next });
    expect(picker(scene, "mode").value).toBe(next);
    scene.chat.change({ state: { ...STATE, mode: next } });
    await settled();
  }
  expect(key(scene.area, "Tab")).toBe(false);
});

it("leaves out all questions only when the user has said so twice", () => {
  const scene = composerScene();
  const confirm = find(scene.host, ".cellwright-confirm");
  expect(confirm.hidden).toBe(true);
  choose(picker(scene, "mode"), "bypassPermissions");
  expect(sets(scene)).toEqual([]);
  expect(picker(scene, "mode").value).toBe("default");
  expect(confirm.hidden).toBe(false);
  const [keep, leaveOut] = confirm.querySelectorAll("button");
  expect(document.activeElement).toBe(keep);
  keep?.click();
  expect(confirm.hidden).toBe(true);
  expect(sets(scene)).toEqual([]);
  choose(picker(scene, "mode"), "bypassPermissions");
  leaveOut?.click();
  expect(sets(scene)).toEqual([{ mode: "bypassPermissions" }]);
  expect(confirm.hidden).toBe(true);
});

it("says before it is sent that with a cell it is asked later, and sends the cell", async () => {
  const scene = composerScene();
  scene.goToCell(CELL);
  scene.chat.begin();
  type(scene.area, "Look at this");
  expect(text(scene.host, ".cellwright-send")).toBe("Send now");
  find(scene.host, ".cellwright-cell-chip").click();
  expect(text(scene.host, ".cellwright-send")).toBe("Send when done");
  expect(text(scene.host, ".cellwright-hint")).toBe("With a cell or files it is sent when Claude is done.");
  key(scene.area, "Enter");
  await settled();
  expect(scene.chat.sent).toEqual([]);
  expect(scene.chat.prompts).toMatchObject([{ text: "Look at this", cell: { id: "cell-2" } }]);
  scene.goToCell(null);
  expect(text(scene.host, ".cellwright-send")).toBe("Send now");
});
