/** The prompt's keys: what sends, what completes, what goes through the history, what stops; and that nothing gets lost. */

import { expect, it, vi } from "vitest";

import type { SteerRunMessage } from "../../src/transport/chat_protocol";
import { find, text } from "../transcript/scene";
import type { ComposerScene } from "./composer_scene";
import { composerScene, Conversation, key, KeptInMemory, settled, STATE, type, write } from "./composer_scene";

const sentTexts = ({ chat }: ComposerScene): string[] => chat.prompts.map((params) => params.text);
const steered = ({ chat }: ComposerScene): SteerRunMessage[] => chat.sent.filter((message) => message.type === "steer");
const waiting = ({ host }: ComposerScene): string[] => [...host.querySelectorAll(".cellwright-waiting li")].map((node) => node.textContent);
const problem = ({ host }: ComposerScene): HTMLElement => find(host, ".cellwright-problem");

it("sends with Enter what was written, with the context and nothing else", async () => {
  const scene = composerScene();
  type(scene.area, "Why?");
  expect(key(scene.area, "Enter")).toBe(true);
  await settled();
  expect(scene.chat.prompts).toEqual([{ text: "Why?", attachments: [], context: "auto", cell: null, options: {} }]);
  expect(scene.area.value).toBe("");
});

it("leaves Shift+Enter to the field, and the other way round where the setting says so", () => {
  const usual = composerScene();
  type(usual.area, "a");
  expect(key(usual.area, "Enter", { shiftKey: true })).toBe(false);
  const swapped = composerScene({ sendKey: "Shift+Enter" });
  type(swapped.area, "a");
  expect(key(swapped.area, "Enter")).toBe(false);
  expect(swapped.chat.prompts).toEqual([]);
  expect(key(swapped.area, "Enter", { shiftKey: true })).toBe(true);
  expect(sentTexts(swapped)).toEqual(["a"]);
});

it.each([{ isComposing: true }, { keyCode: 229 }])("leaves every key to an input method: %j", async (more) => {
  const scene = composerScene();
  type(scene.area, "/");
  await settled();
  for (const name of ["Enter", "Tab", "Escape", "ArrowUp", "ArrowDown"]) expect(key(scene.area, name, more)).toBe(false);
  expect(scene.chat.prompts).toEqual([]);
  expect(find(scene.host, ".cellwright-palette").hidden).toBe(false);
  expect(scene.left).not.toHaveBeenCalled();
});

it("sends nothing where nothing was written", () => {
  const scene = composerScene();
  type(scene.area, " \n ");
  key(scene.area, "Enter");
  expect(scene.chat.prompts).toEqual([]);
  expect(find<HTMLButtonElement>(scene.host, ".cellwright-send").disabled).toBe(true);
});

it("keeps the text until the kernel has taken the prompt, and sends it once", async () => {
  const scene = composerScene();
  let take: (id: string) => void = () => undefined;
  scene.chat.taking = () => new Promise((resolve) => (take = resolve));
  type(scene.area, "Slow");
  key(scene.area, "Enter");
  key(scene.area, "Enter");
  await settled();
  expect(scene.area.value).toBe("Slow");
  expect(scene.area.readOnly).toBe(true);
  take("run-1");
  await settled();
  expect(scene.area.value).toBe("");
  expect(scene.area.readOnly).toBe(false);
  expect(sentTexts(scene)).toEqual(["Slow"]);
});

it.each([[true, "Fast,\nnow"], [false, "Slow\n\nFast,\nnow"]])("keeps what is typed while a prompt is on its way (taken: %s)", async (taken, after) => {
  const scene = composerScene();
  let settle: () => void = () => undefined;
  scene.chat.taking = () => new Promise((resolve, reject) => {
    settle = () => { if (taken) resolve("run-1"); else reject(new Error("Refused.")); };
  });
  type(scene.area, "Slow");
  key(scene.area, "Enter");
  for (const letter of "Fasst") expect(key(scene.area, letter)).toBe(true);
  for (const name of ["Backspace", "Backspace", "t", ","]) key(scene.area, name);
  key(scene.area, "Enter", { shiftKey: true });
  for (const letter of "now") key(scene.area, letter);
  key(scene.area, "v", { ctrlKey: true });
  expect(scene.area.value).toBe("Slow");
  settle();
  await settled();
  expect(scene.area.value).toBe(after);
  expect(sentTexts(scene)).toEqual(["Slow"]);
});

it("says why a prompt was refused, and keeps it with its attachments", async () => {
  const scene = composerScene();
  scene.chat.taking = () => Promise.reject(new Error("plot.png cannot be attached. Nothing was sent."));
  scene.composer.attach([new File(["a,b"], "data.csv", { type: "text/csv" })]);
  await vi.waitFor(() => find(scene.host, ".cellwright-attached li"));
  type(scene.area, "Look");
  key(scene.area, "Enter");
  await vi.waitFor(() => { expect(problem(scene).textContent).toContain("cannot be attached"); });
  expect(problem(scene).getAttribute("role")).toBe("alert");
  expect(scene.area.value).toBe("Look");
  expect(scene.host.querySelectorAll(".cellwright-attached li")).toHaveLength(1);
  scene.chat.taking = () => Promise.resolve("run-1");
  key(scene.area, "Enter");
  await settled();
  expect(scene.area.value).toBe("");
  expect(scene.host.querySelectorAll(".cellwright-attached li")).toHaveLength(0);
  expect(problem(scene).hidden).toBe(true);
});

it.each(["lost", "missing", "unsupported"] as const)("sends nothing to a kernel that is %s, and keeps the text", async (connection) => {
  const scene = composerScene();
  scene.chat.change({ connection });
  type(scene.area, "Wait for me");
  key(scene.area, "Enter");
  await settled();
  expect(scene.chat.prompts).toEqual([]);
  expect(scene.area.value).toBe("Wait for me");
  expect(problem(scene).hidden).toBe(false);
  scene.chat.change({ connection: "connected" });
  key(scene.area, "Enter");
  expect(sentTexts(scene)).toEqual(["Wait for me"]);
});

it("starts a kernel by sending where there is none; what was written goes to it", async () => {
  const chat = new Conversation();
  Object.assign(chat, { connection: "none", kernelInfo: null, state: null });
  const scene = composerScene({}, { chat });
  type(scene.area, "Hello");
  let take: (id: string) => void = () => undefined;
  chat.taking = () => new Promise((resolve) => (take = resolve));
  key(scene.area, "Enter");
  chat.change({ connection: "connected", kernelInfo: { kernelId: "own", name: "Python 3", notebook: null }, state: STATE });
  expect(scene.area.value).toBe("Hello");
  take("run-1");
  await settled();
  expect(scene.area.value).toBe("");
  key(scene.area, "ArrowUp");
  expect(scene.area.value).toBe("Hello");
});

it("takes over what was written before there was a kernel", () => {
  const chat = new Conversation();
  Object.assign(chat, { connection: "none", kernelInfo: null, state: null });
  const scene = composerScene({}, { chat });
  type(scene.area, "Half writ");
  chat.change({ connection: "connected", kernelInfo: { kernelId: "own", name: "Python 3", notebook: null }, state: STATE });
  expect(scene.area.value).toBe("Half writ");
});

it("does not bring back what was sent to the kernel that was started for it", async () => {
  const memory = new KeptInMemory();
  const none = { connection: "none", kernelInfo: null, state: null } as const;
  const chat = Object.assign(new Conversation(), none);
  const scene = composerScene({}, { chat, memory });
  type(scene.area, "First words");
  chat.change({ connection: "connected", kernelInfo: { kernelId: "own", name: "Python 3", notebook: null }, state: STATE });
  key(scene.area, "Enter");
  await settled();
  scene.composer.dispose();
  expect(composerScene({}, { chat: Object.assign(new Conversation(), none), memory }).area.value).toBe("");
});

it("keeps drafts across reloads, for each conversation by itself", () => {
  const memory = new KeptInMemory();
  const first = composerScene({}, { memory });
  type(first.area, "of the notebook");
  first.chat.change({ kernelInfo: { kernelId: "k2", name: "other", notebook: "b.ipynb" } });
  expect(first.area.value).toBe("");
  type(first.area, "of the other");
  first.composer.dispose();
  const again = composerScene({}, { memory });
  expect(again.area.value).toBe("of the notebook");
  again.chat.change({ kernelInfo: { kernelId: "k3", name: "other", notebook: "b.ipynb" } });
  expect(again.area.value).toBe("of the other");
});

it("goes through the history at the first and last line only, and back to what was being written", async () => {
  const scene = composerScene();
  for (const prompt of ["first", "two\nlines"]) {
    write(scene.area, prompt);
    key(scene.area, "Enter");
    await settled();
  }
  write(scene.area, "a\nb");
  expect(key(scene.area, "ArrowUp")).toBe(false);
  scene.area.setSelectionRange(1, 1);
  expect(key(scene.area, "ArrowDown")).toBe(false);
  expect(key(scene.area, "ArrowUp", { shiftKey: true })).toBe(false);
  expect(key(scene.area, "ArrowUp")).toBe(true);
  expect(scene.area.value).toBe("two\nlines");
  expect(key(scene.area, "ArrowUp")).toBe(true);
  expect(scene.area.value).toBe("first");
  expect(key(scene.area, "ArrowUp")).toBe(false);
  expect(key(scene.area, "ArrowDown")).toBe(true);
  expect(key(scene.area, "ArrowDown")).toBe(true);
  expect(scene.area.value).toBe("a\nb");
  expect(key(scene.area, "ArrowDown")).toBe(false);
});

it("has the session's own prompts in its history, and what is changed there is written anew", () => {
  const scene = composerScene();
  scene.chat.begin("past-s1-1", { prompt: "said in a cell", kind: "past", state: "done" });
  scene.chat.change({ state: STATE });
  expect(key(scene.area, "ArrowUp")).toBe(true);
  expect(scene.area.value).toBe("said in a cell");
  type(scene.area, "!");
  expect(key(scene.area, "ArrowDown")).toBe(false);
  expect(scene.area.value).toBe("said in a cell!");
});

it("goes back to the notebook with Esc", () => {
  const scene = composerScene();
  expect(key(scene.area, "Escape")).toBe(true);
  expect(scene.left).toHaveBeenCalledOnce();
});

it("stops a run with Esc Esc, not with one, nor with another key between", () => {
  const scene = composerScene();
  scene.chat.begin();
  key(scene.area, "Escape");
  expect(scene.chat.sent).toEqual([]);
  expect(text(scene.host, ".cellwright-hint")).toContain("Press Esc again");
  key(scene.area, "a");
  key(scene.area, "Escape");
  expect(scene.chat.sent).toEqual([]);
  key(scene.area, "Escape");
  expect(scene.chat.sent).toEqual([{ type: "stop", run: "run-1" }]);
  expect(scene.left).not.toHaveBeenCalled();
});

it("does not stop the next run with an Esc that was meant for the one before", () => {
  const scene = composerScene();
  scene.chat.begin("run-1");
  key(scene.area, "Escape");
  scene.chat.change({ state: { ...STATE, current: null } });
  scene.chat.begin("run-2");
  key(scene.area, "Escape");
  expect(scene.chat.sent).toEqual([]);
});

it("has a button that stops while a run goes on", () => {
  const scene = composerScene();
  const button = find(scene.host, ".cellwright-stop");
  expect(button.hidden).toBe(true);
  scene.chat.begin();
  expect(button.hidden).toBe(false);
  button.click();
  expect(scene.chat.sent).toEqual([{ type: "stop", run: "run-1" }]);
});

it("steers while a run goes on, and queues with Alt+Enter", async () => {
  const scene = composerScene();
  scene.chat.begin();
  expect(text(scene.host, ".cellwright-send")).toBe("Send now");
  type(scene.area, "Use tabs.");
  key(scene.area, "Enter");
  expect(steered(scene).map(({ text, how, run }) => [text, how, run])).toEqual([["Use tabs.", "steer", scene.chat.state?.current]]);
  expect(scene.area.value).toBe("");
  type(scene.area, "Then test.");
  key(scene.area, "Enter", { altKey: true });
  await settled();
  expect(sentTexts(scene)).toEqual(["Then test."]);
  expect(steered(scene)).toHaveLength(1);
});

it("queues where the setting or the toggle says so", async () => {
  const scene = composerScene({ whileRunning: "queue" });
  scene.chat.begin();
  expect(text(scene.host, ".cellwright-send")).toBe("Send when done");
  type(scene.area, "Later");
  key(scene.area, "Enter");
  await settled();
  expect(sentTexts(scene)).toEqual(["Later"]);
  const ways = find<HTMLSelectElement>(scene.host, ".cellwright-ways");
  ways.value = "steer";
  ways.dispatchEvent(new Event("change", { bubbles: true }));
  expect(text(scene.host, ".cellwright-send")).toBe("Send now");
  expect(document.activeElement).toBe(scene.area);
  type(scene.area, "Now");
  key(scene.area, "Enter");
  expect(steered(scene).map((message) => message.text)).toEqual(["Now"]);
});

it("asks with what words alone cannot tell: commands and attachments are no steering", async () => {
  const scene = composerScene();
  scene.chat.begin();
  type(scene.area, "/status");
  expect(text(scene.host, ".cellwright-send")).toBe("Send when done");
  key(scene.area, "Escape");
  key(scene.area, "Enter");
  await settled();
  scene.composer.attach([new File(["a,b"], "data.csv", { type: "text/csv" })]);
  await vi.waitFor(() => find(scene.host, ".cellwright-attached li"));
  type(scene.area, "And this");
  key(scene.area, "Enter");
  await settled();
  expect(sentTexts(scene)).toEqual(["/status", "And this"]);
  expect(steered(scene)).toEqual([]);
});

it("shows what waits, has it taken back, and says when it is on its way", () => {
  const scene = composerScene();
  const run = scene.chat.begin();
  type(scene.area, "Use tabs.");
  key(scene.area, "Enter");
  expect(waiting(scene)).toEqual(["sending…Use tabs."]);
  const [message] = steered(scene);
  if (!message) throw new Error("nothing was sent");
  const steer = { op: "steer", id: message.id, text: message.text, how: "steer", at: 0 } as const;
  run.receive({ type: "ops", first: 0, now: 0, ops: [{ ...steer, state: "waiting" }] });
  expect(waiting(scene)).toEqual(["Next stepUse tabs.×"]);
  find(scene.host, ".cellwright-waiting button").click();
  expect(scene.chat.sent.at(-1)).toEqual({ type: "withdraw", id: message.id });
  run.receive({ type: "ops", first: 1, now: 0, ops: [{ ...steer, state: "withdrawn" }] });
  expect(waiting(scene)).toEqual([]);
  // to be said in another way
  expect(scene.area.value).toBe("Use tabs.");
  expect(problem(scene).hidden).toBe(true);
});

it("gives words back that Claude was done before", () => {
  const scene = composerScene();
  const run = scene.chat.begin();
  for (const words of ["First.", "Second."]) {
    type(scene.area, words);
    key(scene.area, "Enter");
  }
  const [first] = steered(scene);
  type(scene.area, "Half writ");
  run.receive({
    type: "ops", first: 0, now: 0,
    ops: [
      { op: "steer", id: first?.id ?? "", text: "First.", how: "steer", state: "waiting", at: 0 },
      { op: "end", stop_reason: "end_turn", cost_usd: 0, session_cost_usd: 0, ms: 1, error: null },
    ],
  });
  expect(scene.area.value).toBe("First.\n\nSecond.\n\nHalf writ");
  expect(waiting(scene)).toEqual([]);
  expect(problem(scene).hidden).toBe(false);
  scene.chat.change({ state: STATE });
  expect(scene.area.value).toBe("First.\n\nSecond.\n\nHalf writ");
});

it("does not give words back that were delivered", () => {
  const scene = composerScene();
  const run = scene.chat.begin();
  type(scene.area, "First.");
  key(scene.area, "Enter");
  const steer = { op: "steer", id: steered(scene)[0]?.id ?? "", text: "First.", how: "steer", at: 0 } as const;
  run.receive({
    type: "ops", first: 0, now: 0,
    ops: [
      { ...steer, state: "waiting" },
      { ...steer, state: "delivered" },
      { op: "end", stop_reason: "end_turn", cost_usd: 0, session_cost_usd: 0, ms: 1, error: null },
    ],
  });
  expect(scene.area.value).toBe("");
});

it("puts text in at the caret, on a line of its own where it has several", () => {
  const scene = composerScene();
  type(scene.area, "Look:");
  scene.composer.insert("a\nb");
  expect(scene.area.value).toBe("Look:\na\nb");
  scene.composer.insert("!");
  expect(scene.area.value).toBe("Look:\na\nb!");
});

it("lets Shift+Tab go back for who came by Tab, until another key is pressed, and says each mode that it chooses", () => {
  const scene = composerScene();
  const { area, host } = scene;
  const modes = (): unknown[] => scene.chat.asked.filter(({ method }) => method === "set").map(({ params }) => params.mode);
  const released = (name: string): void => { area.dispatchEvent(new KeyboardEvent("keyup", { key: name, bubbles: true })); };
  const back = (more: KeyboardEventInit = {}): boolean => key(area, "Tab", { shiftKey: true, ...more });
  // Tab was pressed elsewhere, and is let go here
  released("Tab");
  key(area, "Shift");
  expect(back()).toBe(false);
  area.dispatchEvent(new FocusEvent("blur"));
  // held, it walks through
  expect(back({ repeat: true })).toBe(false);
  released("Tab");
  expect(modes()).toEqual([]);
  key(area, "a");
  expect(back()).toBe(true);
  // a key that is held here is one press
  expect(back({ repeat: true })).toBe(true);
  released("Tab");
  expect(modes()).toEqual(["acceptEdits"]);
  const said = find(host, ".cellwright-composer > span[role=status]");
  expect([said.textContent, said.closest("[hidden]")]).toEqual(["Mode: acceptEdits", null]);
  expect(back()).toBe(true);
  expect(modes()).toEqual(["acceptEdits", "plan"]);
});
