/** A composer in a page, with the conversation around it in the test's hand. */

import { vi } from "vitest";

import { mountComposer } from "../../src/composer/composer";
import type { ActiveCell, Composer, ComposerDeps, ComposerSettings } from "../../src/composer/composer_deps";
import type { Json, JsonObject } from "../../src/json";
import { Marks } from "../../src/notebook/outputs/marks";
import { TranscriptStore } from "../../src/transcript/store";
import type { Chat, Connection, KernelInfo, RunTranscript } from "../../src/transport/chat";
import type { ChatState, Completion, PanelMessage, PromptParams, Run } from "../../src/transport/chat_protocol";
import { find } from "../transcript/scene";

export const STATE: ChatState = {
  session: { id: "s1", title: "", cost_usd: 0, context_tokens: 0, context_window: 200_000, turns: 0 },
  cwd: "/home/ada/project",
  kernel: { executable: "/usr/bin/python", python: "3.11", busy: false },
  model: "opus",
  models: [{ id: "opus", name: "Opus" }, { id: "haiku", name: "Haiku" }],
  mode: "default",
  modes: ["default", "acceptEdits", "plan", "bypassPermissions"].map((id) => ({ id, name: id, about: `about ${id}` })),
  effort: "high",
  efforts: ["low", "high"],
  current: null,
  waiting: [],
  asking: [],
  notices: [],
  scripted: false,
};

export const COMMANDS: Completion[] = [
  { insert: "/help", label: "/help", about: "list the commands", kind: "command" },
  { insert: "/undo ", label: "/undo [N]", about: "take back what the last turns changed", kind: "command" },
  { insert: "/permissions", label: "/permissions", about: "the mode and the rules", kind: "command" },
];

/** The kernel's side: answers as `answers` says, at once or when the test lets it. */
export class Conversation implements Chat {
  connection: Connection = "connected";
  kernelInfo: KernelInfo | null = { kernelId: "k1", name: "Python 3", notebook: "tides/notebook.ipynb" };
  state: ChatState | null = STATE;
  problem = null;
  waitsForCell = false;
  isRestoring = false;
  notRestored = "";
  needsKey = false;
  runs: RunTranscript[] = [];
  readonly prompts: PromptParams[] = [];
  readonly sent: PanelMessage[] = [];
  readonly asked: { method: string; params: JsonObject }[] = [];
  /** What becomes of the next prompts. */
  taking: (params: PromptParams) => Promise<string> = () => Promise.resolve("run-1");
  answers: (method: string, params: JsonObject) => Promise<unknown> = (method, params) =>
    Promise.resolve(method === "complete" && params.kind === "command" ? { items: COMMANDS } : { items: [] });
  private readonly listeners = new Set<() => void>();

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  prompt(params: PromptParams): Promise<string> {
    this.prompts.push(params);
    return this.taking(params);
  }

  request(method: string, params: JsonObject): Promise<Json> {
    this.asked.push({ method, params });
    return this.answers(method, params) as Promise<Json>;
  }

  send(message: PanelMessage): void {
    this.sent.push(message);
  }

  change(changes: Partial<Pick<Conversation, "connection" | "kernelInfo" | "state" | "runs">>): void {
    Object.assign(this, changes);
    for (const listener of this.listeners) listener();
  }

  /** A run goes on; its store is given. */
  begin(id = "run-1", changes: Partial<Run> = {}): TranscriptStore {
    const run: Run = {
      id, prompt: "Go", place: "[3]", kind: "prompt", state: "running", session: "s1", turn: 1, asked: 0, background: false, ...changes,
    };
    const transcript = new TranscriptStore();
    const current = run.state === "waiting" ? (this.state?.current ?? null) : id;
    this.change({ runs: [...this.runs, { run, transcript }], state: { ...STATE, ...this.state, current } });
    return transcript;
  }
}

export class KeptInMemory {
  readonly kept = new Map<string, string>();
  getItem(key: string): string | null {
    return this.kept.get(key) ?? null;
  }
  setItem(key: string, value: string): void {
    this.kept.set(key, value);
  }
}

export type ComposerScene = {
  chat: Conversation;
  host: HTMLElement;
  composer: Composer;
  area: HTMLTextAreaElement;
  left: ReturnType<typeof vi.fn>;
  marks: Marks;
  /** Another cell, or none, is the active one. */
  goToCell(cell: ActiveCell | null): void;
};

export const SETTINGS: ComposerSettings = { sendKey: "Enter", whileRunning: "steer", context: "auto" };

export function composerScene(
  changes: Partial<ComposerSettings> = {},
  { chat = new Conversation(), memory = new KeptInMemory(), serverRoot = "/home/ada" } = {},
): ComposerScene {
  const host = document.createElement("div");
  document.body.replaceChildren(host);
  const left = vi.fn();
  const marks = new Marks();
  let cell: ActiveCell | null = null;
  let changed = (): void => undefined;
  const deps: ComposerDeps = {
    trans: { __: (text, ...args) => text.replace(/%(\d)/g, (_, place: string) => String(args[Number(place) - 1])) },
    settings: () => ({ ...SETTINGS, ...changes }),
    cell: () => cell,
    onCell: (listener) => {
      changed = listener;
      listener(); // as the page does
      return () => (changed = () => undefined);
    },
    serverRoot,
    memory,
    marks,
    leave: left,
  };
  const composer = mountComposer(host, chat, deps);
  const goToCell = (to: ActiveCell | null): void => {
    cell = to;
    changed();
  };
  return { chat, host, composer, area: find(host, "textarea"), left, goToCell, marks };
}

/** The user types `text` at the caret. */
export function type(area: HTMLTextAreaElement, text: string): void {
  area.focus();
  area.setRangeText(text, area.selectionStart, area.selectionEnd, "end");
  area.dispatchEvent(new InputEvent("input", { bubbles: true }));
}

export function write(area: HTMLTextAreaElement, text: string): void {
  area.value = "";
  type(area, text);
}

/** Presses a key in the prompt; whether the composer took it for itself. */
export function key(area: HTMLTextAreaElement, name: string, more: KeyboardEventInit = {}): boolean {
  const event = new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true, ...more });
  area.dispatchEvent(event);
  return event.defaultPrevented;
}

/** What is done without waiting for anything outside. */
export async function settled(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 0));
}

export function labels(host: HTMLElement): string[] {
  return [...host.querySelectorAll(".cellwright-palette-label")].map((node) => node.textContent);
}

export function chosen(host: HTMLElement): string {
  return find(host, "[role=option][aria-selected=true] .cellwright-palette-label").textContent;
}
