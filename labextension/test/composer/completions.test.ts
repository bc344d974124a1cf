/** The list of what can be completed: what it shows and when, how it is chosen from, what a screen reader hears of it. */

import axe from "axe-core";
import { afterEach, expect, it, vi } from "vitest";

import { LATE_AFTER_MS } from "../../src/composer/completions";
import type { Completion } from "../../src/transport/chat_protocol";
import { find, text } from "../transcript/scene";
import type { ComposerScene } from "./composer_scene";
import { chosen, COMMANDS, composerScene, Conversation, key, labels, settled, STATE, type, write } from "./composer_scene";

const file = (path: string): Completion => ({ insert: `@${path}`, label: path, about: "", kind: path.endsWith("/") ? "folder" : "file" });
const isOpen = ({ host }: ComposerScene): boolean => !find(host, ".cellwright-palette").hidden;
const remark = ({ host }: ComposerScene): string => text(host, ".cellwright-palette-remark");

/** Answers each request for a word when the test says so. */
function slow(chat: Conversation): { params: { text?: unknown }; answer: (items: Completion[]) => void }[] {
  const open: { params: { text?: unknown }; answer: (items: Completion[]) => void }[] = [];
  chat.answers = (_, params) =>
    params.kind === "command"
      ? Promise.resolve({ items: COMMANDS })
      : new Promise((resolve) => open.push({ params, answer: (items) => { resolve({ items }); } }));
  return open;
}

function answering(items: (text: string) => Completion[]): ComposerScene {
  const scene = composerScene();
  scene.chat.answers = (_, params) => Promise.resolve({ items: params.kind === "command" ? COMMANDS : items(params.text as string) });
  return scene;
}

afterEach(() => { vi.useRealTimers(); });

it("knows the commands before they are asked for, and filters them by itself", async () => {
  const scene = composerScene();
  await settled();
  expect(scene.chat.asked).toEqual([{ method: "complete", params: { kind: "command", text: "", notebook: "tides/notebook.ipynb" } }]);
  type(scene.area, "/");
  expect(labels(scene.host)).toEqual(["/help", "/undo [N]", "/permissions"]);
  type(scene.area, "pm");
  expect(labels(scene.host)).toEqual(["/permissions"]);
  expect([...scene.host.querySelectorAll(".cellwright-palette-label mark")].map((node) => node.textContent)).toEqual(["p", "m"]);
  expect(scene.chat.asked).toHaveLength(1);
});

it("learns the commands again from another kernel, and when a lost one is back", async () => {
  const scene = composerScene();
  await settled();
  scene.chat.change({ connection: "lost" });
  scene.chat.change({ connection: "connected" });
  scene.chat.change({ kernelInfo: { kernelId: "k2", name: "other", notebook: null } });
  await settled();
  expect(scene.chat.asked).toHaveLength(3);
  scene.chat.change({ state: STATE });
  expect(scene.chat.asked).toHaveLength(3);
});

it.each(["Tab", "Enter"])("takes the chosen command with %s, and says what it takes", async (name) => {
  const scene = composerScene();
  await settled();
  type(scene.area, "/un");
  expect(key(scene.area, name)).toBe(true);
  expect(scene.area.value).toBe("/undo ");
  expect(isOpen(scene)).toBe(false);
  expect(text(scene.host, ".cellwright-hint")).toBe("/undo [N] · take back what the last turns changed");
  expect(scene.chat.prompts).toEqual([]);
});

it("sends with Enter what stands there whole already", async () => {
  const scene = composerScene();
  await settled();
  type(scene.area, "/help");
  expect(isOpen(scene)).toBe(true);
  key(scene.area, "Enter");
  expect(scene.chat.prompts.map((params) => params.text)).toEqual(["/help"]);
});

it("is gone through with the arrows, round its ends; the history is left alone", async () => {
  const scene = composerScene();
  await settled();
  type(scene.area, "/");
  expect(chosen(scene.host)).toBe("/help");
  key(scene.area, "ArrowDown");
  expect(chosen(scene.host)).toBe("/undo [N]");
  key(scene.area, "ArrowUp");
  key(scene.area, "ArrowUp");
  expect(chosen(scene.host)).toBe("/permissions");
  expect(scene.area.value).toBe("/");
  find(scene.host, "[role=option]:nth-child(2)").click();
  expect(scene.area.value).toBe("/undo ");
});

it("is closed with Esc, stays closed for that word, and opens for the next", async () => {
  const scene = answering(() => [file("a.py")]);
  await settled();
  type(scene.area, "/h");
  expect(key(scene.area, "Escape")).toBe(true);
  expect(isOpen(scene)).toBe(false);
  expect(scene.left).not.toHaveBeenCalled();
  type(scene.area, "e");
  expect(isOpen(scene)).toBe(false);
  write(scene.area, "see @a");
  await settled();
  expect(isOpen(scene)).toBe(true);
});

it("asks the kernel for mentions and puts the one that is taken into the text", async () => {
  const scene = answering((wanted) => (wanted === "ap" ? [file("src/app.py"), file("map.txt")] : []));
  type(scene.area, "look at @ap");
  await vi.waitFor(() => { expect(labels(scene.host)).toEqual(["src/app.py", "map.txt"]); });
  expect(scene.chat.asked.at(-1)?.params).toEqual({ kind: "mention", text: "ap", notebook: "tides/notebook.ipynb" });
  key(scene.area, "Tab");
  expect(scene.area.value).toBe("look at @src/app.py ");
});

it.each([
  ["/und 2", 4, "/undo ", "/undo 2", 6],
  ["/und", 4, "/undo ", "/undo ", 6],
  ["/hel me", 4, "/help", "/help me", 5],
  ["see @ap please", 7, "@apple.txt", "see @apple.txt please", 15],
  ["see @apple.txt please", 6, "@apple.txt", "see @apple.txt please", 15],
  ["see @ap\nplease", 7, "@apple.txt", "see @apple.txt\nplease", 14],
  ["see @ap, please", 7, "@apple.txt", "see @apple.txt, please", 14],
])("leaves one space behind what is taken: %j at %i", async (before, caret, insert, after, then) => {
  const scene = answering(() => [file(insert.slice(1))]);
  scene.area.value = before;
  scene.area.setSelectionRange(caret, caret);
  type(scene.area, "");
  await vi.waitFor(() => { expect(labels(scene.host)[0]).toContain(insert.trim().slice(1)); });
  key(scene.area, "Tab");
  expect([scene.area.value, scene.area.selectionStart]).toEqual([after, then]);
});

it("goes on into a folder", async () => {
  const scene = answering((wanted) => (wanted === "src/" ? [file("src/app.py")] : [file("src/")]));
  type(scene.area, "@s");
  await vi.waitFor(() => { expect(labels(scene.host)).toEqual(["src/"]); });
  key(scene.area, "Enter");
  expect(scene.area.value).toBe("@src/");
  await vi.waitFor(() => { expect(labels(scene.host)).toEqual(["src/app.py"]); });
});

it("offers cells and variables, with what is known of them", async () => {
  const cell = { insert: "@cell:ab", label: "cell:[7]", about: "prices = read()", kind: "cell" };
  const variable = { insert: "$prices", label: "prices", about: "DataFrame 3 × 4", kind: "variable" };
  const scene = composerScene();
  scene.chat.answers = (_, { kind }) => Promise.resolve({ items: kind === "mention" ? [cell] : kind === "variable" ? [variable] : [] });
  type(scene.area, "@cell:7");
  await vi.waitFor(() => { expect(text(scene.host, ".cellwright-palette-about")).toBe("prices = read()"); });
  key(scene.area, "Tab");
  type(scene.area, "and $pri");
  await vi.waitFor(() => { expect(text(scene.host, ".cellwright-palette-about")).toBe("DataFrame 3 × 4"); });
  key(scene.area, "Tab");
  expect(scene.area.value).toBe("@cell:ab and $prices ");
});

it("asks for one word at a time, and passes over answers for words that have gone on", async () => {
  const scene = composerScene();
  const open = slow(scene.chat);
  type(scene.area, "@a");
  type(scene.area, "p");
  type(scene.area, "p");
  expect(open.map(({ params }) => params.text)).toEqual(["a"]);
  open[0]?.answer([file("a.txt"), file("apple.txt")]);
  await vi.waitFor(() => { expect(open.map(({ params }) => params.text)).toEqual(["a", "app"]); });
  expect(labels(scene.host)).toEqual([]);
  open[1]?.answer([file("apple.txt")]);
  await vi.waitFor(() => { expect(labels(scene.host)).toEqual(["apple.txt"]); });
});

it("shows what is known at once, while the kernel has yet to answer, and says when it takes long", async () => {
  const scene = composerScene();
  const open = slow(scene.chat);
  type(scene.area, "@");
  open[0]?.answer([file("apple.txt"), file("pear.txt")]);
  await vi.waitFor(() => { expect(labels(scene.host)).toHaveLength(2); });
  vi.useFakeTimers();
  type(scene.area, "pe");
  expect(labels(scene.host)).toEqual(["pear.txt", "apple.txt"]);
  expect(remark(scene)).not.toContain("not answered");
  vi.advanceTimersByTime(LATE_AFTER_MS);
  expect(remark(scene)).toContain("not answered");
  expect(labels(scene.host)).toEqual(["pear.txt", "apple.txt"]);
  key(scene.area, "Tab");
  expect(scene.area.value).toBe("@pear.txt ");
});

it("does without a kernel: the text can be written all the same", async () => {
  const scene = composerScene();
  scene.chat.answers = () => Promise.reject(new Error("There is no connection."));
  type(scene.area, "@x");
  await settled();
  expect(key(scene.area, "Enter")).toBe(true);
  expect(scene.chat.prompts.map((params) => params.text)).toEqual(["@x"]);
});

it("closes where the caret leaves the word, and where the field is left", async () => {
  const scene = answering(() => [file("a.py")]);
  type(scene.area, "go to @a");
  await settled();
  expect(isOpen(scene)).toBe(true);
  scene.area.setSelectionRange(1, 1);
  scene.area.dispatchEvent(new KeyboardEvent("keyup", { key: "ArrowLeft", bubbles: true }));
  expect(isOpen(scene)).toBe(false);
  write(scene.area, "@a");
  await settled();
  expect(isOpen(scene)).toBe(true);
  scene.area.blur();
  expect(isOpen(scene)).toBe(false);
});

it("tells a screen reader what is listed and chosen", async () => {
  const scene = composerScene();
  await settled();
  expect(scene.area.getAttribute("aria-haspopup")).toBe("listbox");
  for (const name of ["aria-controls", "aria-activedescendant"]) expect(scene.area.hasAttribute(name)).toBe(false);
  type(scene.area, "/");
  expect(remark(scene)).toMatch(/^Suggestions: \d+\. /);
  // what a text field of several lines may have
  expect(["role", "aria-expanded"].filter((name) => scene.area.hasAttribute(name))).toEqual([]);
  key(scene.area, "ArrowDown");
  const list = find(scene.host, "[role=listbox]");
  expect(scene.area.getAttribute("aria-controls")).toBe(list.id);
  const active = document.getElementById(scene.area.getAttribute("aria-activedescendant") ?? "");
  expect(active?.getAttribute("role")).toBe("option");
  expect(active?.getAttribute("aria-selected")).toBe("true");
  expect(active?.textContent).toContain("undo");
  expect(list.querySelectorAll("[aria-selected=true]")).toHaveLength(1);
  write(scene.area, "/nothing");
  expect(scene.area.hasAttribute("aria-activedescendant")).toBe(false);
  expect(find(scene.host, ".cellwright-palette-remark").getAttribute("role")).toBe("status");
  expect(remark(scene)).toContain("No such command");
  key(scene.area, "Escape");
  expect(scene.area.hasAttribute("aria-controls")).toBe(false);
});

it("has no serious fault that axe finds: idle, with the list open, and while a run goes on", async () => {
  const scene = composerScene();
  await settled();
  const faults = async (): Promise<string[]> => {
    const { violations } = await axe.run(scene.host, { rules: { "color-contrast": { enabled: false }, region: { enabled: false } } });
    const serious = violations.filter(({ id, impact }) => impact === "serious" || impact === "critical" || id === "aria-allowed-role");
    return serious.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" ")}`);
  };
  expect(await faults()).toEqual([]);
  type(scene.area, "/");
  expect(await faults()).toEqual([]);
  scene.chat.begin("run-1");
  scene.chat.begin("run-2", { state: "waiting" });
  expect(await faults()).toEqual([]);
});

it("shows deceptive characters of names as they are", async () => {
  const scene = answering(() => [file("a\u202Eb")]);
  type(scene.area, "@");
  await vi.waitFor(() => { expect(labels(scene.host)).toEqual(["a⟦U+202E⟧b"]); });
});
