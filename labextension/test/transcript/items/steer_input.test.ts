/** Telling Claude something while it works: typed, shown while it waits, taken back, delivered, never lost. */

import { expect, it, vi } from "vitest";

import type { PageAction } from "../../../src/transcript/items/page_actions";
import { ACTION_EVENT, offerPageActions } from "../../../src/transcript/items/page_actions";
import type { BrowserMessage, Op, SteerMessage, SteerOp } from "../../../src/transcript/protocol";
import { drawn, END, find, press, RUN, scene, text } from "../scene";

const field = (root: ShadowRoot): HTMLTextAreaElement => find(root, ".steer textarea");
const rows = (root: ShadowRoot): string[] => [...root.querySelectorAll(".steer li .words")].map((node) => node.textContent);
const labels = (root: ShadowRoot): string[] => [...root.querySelectorAll(".steer li .chip")].map((node) => node.textContent);

function run(session: string): Op {
  return { ...RUN, session } as Op;
}

function type(root: ShadowRoot, words: string): void {
  field(root).value = words;
  field(root).dispatchEvent(new Event("input", { bubbles: true }));
}

function sent(received: BrowserMessage[]): SteerMessage[] {
  return received.filter((message) => message.type === "steer");
}

function steer(message: { id: string; text: string; how: "steer" | "queue" }, state: SteerOp["state"]): Op {
  return { op: "steer", id: message.id, text: message.text, how: message.how, state, at: 0 };
}

it("is there while the run goes on, and only then", async () => {
  const { kernel, root } = scene();
  await drawn();
  expect(find(root, ".steer").hidden).toBe(true);
  kernel.say(run("there"));
  await drawn();
  expect(find(root, ".steer .field").hidden).toBe(false);
  kernel.say(END);
  await drawn();
  expect(find(root, ".steer").hidden).toBe(true);
});

it("can be stopped while it waits for its turn, and takes no words before that", async () => {
  const { kernel, root } = scene();
  await drawn();
  expect(find(root, ".stop").hidden).toBe(true);
  kernel.say({ op: "notice", level: "info", text: "Claude is still working on “a” (run-1). This waits for its turn.", waits: true });
  await drawn();
  expect(text(root, ".state")).toBe("Waiting…");
  expect(find(root, ".steer").hidden).toBe(true);
  expect(root.querySelectorAll(".notice:not([hidden])")).toHaveLength(1);
  find(root, ".stop").click();
  expect(kernel.received).toContainEqual({ type: "stop" });
  kernel.say(run("turn"));
  await drawn();
  expect(root.querySelectorAll(".notice:not([hidden])")).toHaveLength(0);
});

it("sends with Enter for the next step and with Alt+Enter for after the turn; the notebook hears neither", async () => {
  const { kernel, root } = scene();
  kernel.say(run("keys"));
  await drawn();
  type(root, "Use tabs.");
  expect(press(field(root), "Enter", { shiftKey: true })).toBe(false);
  expect(sent(kernel.received)).toEqual([]);
  expect(press(field(root), "Enter")).toBe(false);
  type(root, "Then test.");
  expect(press(field(root), "Enter", { altKey: true })).toBe(false);
  expect(sent(kernel.received).map(({ text, how }) => [text, how])).toEqual([["Use tabs.", "steer"], ["Then test.", "queue"]]);
  expect(field(root).value).toBe("");
  expect(press(field(root), "a")).toBe(false);
  press(field(root), "Enter");
  expect(sent(kernel.received)).toHaveLength(2);
});

it("leaves Enter to an input method", async () => {
  const { kernel, root } = scene();
  kernel.say(run("ime"));
  await drawn();
  type(root, "日本");
  press(field(root), "Enter", { isComposing: true });
  expect(sent(kernel.received)).toEqual([]);
});

it("has a button for each way", async () => {
  const { kernel, root } = scene();
  kernel.say(run("buttons"));
  await drawn();
  for (const which of root.querySelectorAll<HTMLElement>(".steer .choices button")) {
    type(root, "go");
    which.click();
  }
  expect(sent(kernel.received).map((message) => message.how)).toEqual(["steer", "queue"]);
});

it("shows what waits and where it was delivered", async () => {
  const { kernel, root } = scene();
  kernel.say(run("waits"));
  await drawn();
  type(root, "Use tabs.");
  press(field(root), "Enter");
  expect(labels(root)).toEqual(["sending…"]);
  const [message] = sent(kernel.received);
  if (!message) throw new Error("nothing was sent");
  kernel.say(steer(message, "waiting"));
  await drawn();
  expect(labels(root)).toEqual(["Next step"]);
  expect(rows(root)).toEqual(["Use tabs."]);
  kernel.say({ op: "text", block: 0, text: "Before." }, steer(message, "delivered"), { op: "text", block: 1, text: "After." });
  await drawn();
  expect(rows(root)).toEqual([]);
  expect([...root.querySelectorAll(".items > *")].map((node) => node.className)).toEqual(["prose", "said", "prose"]);
  expect(text(root, ".said")).toBe("You Use tabs.");
});

it("takes back what waits", async () => {
  const { kernel, root } = scene();
  const words = { id: "w", text: "Drop the table.", how: "queue" } as const;
  kernel.say(run("back"), steer(words, "waiting"));
  await drawn();
  expect(labels(root)).toEqual(["When done"]);
  find(root, ".steer .back").click();
  expect(kernel.received).toContainEqual({ type: "withdraw", id: "w" });
  kernel.say(steer(words, "withdrawn"));
  await drawn();
  expect(rows(root)).toEqual([]);
  expect(root.querySelector(".said")).toBeNull();
});

it("shows what was not delivered, and offers it again in the next run of the session", async () => {
  const first = scene();
  first.kernel.say(run("again"), steer({ id: "w", text: "Waits.", how: "steer" }, "waiting"));
  await drawn();
  type(first.root, "On its way.");
  press(field(first.root), "Enter");
  type(first.root, "Half writ");
  first.kernel.say({ ...END, stop_reason: "interrupted" } as Op);
  await drawn();
  expect(labels(first.root)).toEqual(["not delivered", "not delivered"]);
  expect(first.root.querySelector(".steer .back")).toBeNull();
  const other = scene();
  other.kernel.say(run("of another session"));
  await drawn();
  expect(field(other.root).value).toBe("");
  const next = scene();
  next.kernel.say(run("again"));
  await drawn();
  expect(field(next.root).value).toBe("Waits.\n\nOn its way.\n\nHalf writ");
  expect(sent(next.kernel.received)).toEqual([]);
});

it("keeps the words and the keyboard when the run ends while the user writes; they become the next prompt, or go", async () => {
  offerPageActions();
  const { kernel, root, host } = scene();
  kernel.say(run("writing"));
  await drawn();
  field(root).focus();
  type(root, "And the neap ti");
  kernel.say(END);
  await drawn();
  expect(find(root, ".steer .field").hidden).toBe(false);
  expect(root.activeElement).toBe(field(root));
  expect(text(root, ".steer .late")).toBe("Claude had finished, so this was not sent.");
  type(root, "And the neap tide?");
  const wanted = vi.fn();
  host.addEventListener(ACTION_EVENT, (event) => { wanted((event as CustomEvent<PageAction>).detail); });
  press(field(root), "Enter");
  expect(wanted).toHaveBeenCalledWith({ action: "command", command: "And the neap tide?" });
  expect(sent(kernel.received)).toEqual([]);
  expect(find(root, ".steer").hidden).toBe(true);
});

it("keeps what is being written when the output is taken away", async () => {
  const { kernel, root, transcript, host } = scene();
  const unmount = transcript.mount(host);
  kernel.say(run("taken away"));
  await drawn();
  type(root, "Half writ");
  unmount();
  const next = scene();
  next.kernel.say(run("taken away"));
  await drawn();
  expect(field(next.root).value).toBe("Half writ");
});

it("is the cell's alone where a panel shows the same runs: that takes and keeps nothing", async () => {
  const cell = scene();
  cell.kernel.say(run("in both"), steer({ id: "w", text: "Waits.", how: "steer" }, "waiting"));
  await drawn();
  type(cell.root, "Half writ");
  cell.kernel.say(END);
  await drawn();
  const panel = scene("cellwright-panel");
  panel.kernel.say(run("in both"), steer({ id: "w", text: "Waits.", how: "steer" }, "waiting"), END);
  await drawn();
  const later = scene("cellwright-panel");
  later.kernel.say(run("in both"));
  await drawn();
  expect(field(later.root).value).toBe("");
  const next = scene();
  next.kernel.say(run("in both"));
  await drawn();
  expect(field(next.root).value).toBe("Waits.\n\nHalf writ");
});

it("shows deceptive characters of the user's words as they are", async () => {
  const { kernel, root } = scene();
  kernel.say(run("bidi"), steer({ id: "w", text: "a\u202Eb", how: "steer" }, "delivered"));
  await drawn();
  expect(text(root, ".said")).toBe("You a⟦U+202E⟧b");
});
