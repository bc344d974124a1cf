/** What the panel's parts are given, with the kernel's and the panel's ends in the test's hand. */

import axe from "axe-core";
import { expect } from "vitest";

import type { Json, JsonObject } from "../../src/json";
import { OverviewFeed } from "../../src/overview/overview_feed";
import type { Disposable, Mount, PanelDeps } from "../../src/panel_view";
import type { Chat } from "../../src/transport/chat";
import type { ChatState, PanelMessage, SessionEntry } from "../../src/transport/chat_protocol";

export const STATE: ChatState = {
  session: { id: "s1", title: "Tides", cost_usd: 0.134, context_tokens: 25_230, context_window: 1_000_000, turns: 3 },
  cwd: "/home/ada/tides",
  kernel: { executable: "/usr/bin/python3", python: "3.11.9", busy: false },
  model: "claude-opus-5-5",
  models: [{ id: "claude-opus-5-5", name: "Opus 5.5" }],
  mode: "default",
  modes: [{ id: "default", name: "Default" }],
  effort: "high",
  efforts: ["high"],
  current: null,
  waiting: [],
  asking: [],
  notices: [],
  scripted: false,
};

type Answer = (params: JsonObject) => Json | Promise<Json>;

/** A conversation whose kernel answers as the test says. */
export class OneChat implements Chat {
  connection: Chat["connection"] = "connected";
  kernelInfo: Chat["kernelInfo"] = { kernelId: "k1", name: "Python 3", notebook: "tides/notebook.ipynb" };
  problem: Chat["problem"] = null;
  waitsForCell = false;
  isRestoring = false;
  notRestored = "";
  needsKey = false;
  state: ChatState | null = STATE;
  runs: Chat["runs"] = [];
  readonly asked: [method: string, params: JsonObject][] = [];
  readonly sent: PanelMessage[] = [];
  private readonly listeners = new Set<() => void>();

  constructor(private readonly answers: Record<string, Answer> = {}) {}

  get listening(): number {
    return this.listeners.size;
  }

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Something of the conversation is another. */
  change(what: Partial<Pick<OneChat, "connection" | "kernelInfo" | "state" | "runs">>): void {
    Object.assign(this, what);
    for (const listener of this.listeners) listener();
  }

  prompt(): Promise<string> {
    return Promise.reject(new Error("nothing is asked here"));
  }

  request(method: string, params: JsonObject): Promise<Json> {
    this.asked.push([method, params]);
    const answer = this.answers[method];
    if (!answer) return Promise.reject(new Error(`this kernel does not know ${method}`));
    return Promise.resolve().then(() => answer(params));
  }

  send(message: PanelMessage): void {
    this.sent.push(message);
  }

  /** The params of the last request of a method. */
  last(method: string): JsonObject | undefined {
    return this.asked.filter(([name]) => name === method).at(-1)?.[1];
  }
}

/** What the panel does for its parts, written down. */
export class OnePanel {
  readonly announced: string[] = [];
  readonly commands: [command: string, args: unknown][] = [];
  closed = 0;
  started = 0;
  composed = "";
  known = new Set<string>();
  readonly gone: [kernel: string, where: string, run: string | null][] = [];
  overview = new OverviewFeed({ overview: () => Promise.reject(new Error("no server")), stopTask: () => Promise.resolve() }, () => undefined);
  settings: ReturnType<PanelDeps["settings"]> = {
    notifications: "away",
    desktopNotifications: false,
    followNotebook: true,
    sendKey: "Enter",
    whileRunning: "steer",
    context: "auto",
    fontSize: 13,
    density: "comfortable",
  };

  readonly deps: PanelDeps = {
    trans: { __: (text, ...args) => text.replace(/%(\d)/g, (_, number: string) => String(args[Number(number) - 1])) },
    settings: () => this.settings,
    shortcuts: () => [
      { command: "cellwright:focus-composer", label: "Ask Claude", keys: "Ctrl+Shift+Y", inPanel: false },
      { command: "cellwright:next-region", label: "Next Part of the Panel", keys: "F6", inPanel: true },
    ],
    startKernel: () => { this.started++; },
    close: () => { this.closed++; },
    compose: (text) => void (this.composed = text),
    show: () => undefined,
    setSetting: (name, value) => { this.settings = { ...this.settings, [name]: value }; },
    overview: () => this.overview,
    goToKernel: (row, where, run) => {
      this.gone.push([row.id, where, run?.id ?? null]);
      return Promise.resolve();
    },
    announce: (text) => void this.announced.push(text),
    run: (command, args) => {
      this.commands.push([command, args]);
      return this.known.has(command) ? Promise.resolve() : Promise.reject(new Error("no such command"));
    },
  };
}

export type Mounted = { host: HTMLElement; chat: OneChat; panel: OnePanel; part: Disposable };

/** A part of the panel, in a page. */
export function mounted(mount: Mount, chat: OneChat): Mounted {
  const host = document.createElement("div");
  document.body.replaceChildren(host);
  const panel = new OnePanel();
  return { host, chat, panel, part: mount(host, chat, panel.deps) };
}

export function session(id: string, more: Partial<SessionEntry> = {}): SessionEntry {
  const now = Date.now() / 1000;
  return {
    id,
    title: `Title of ${id}`,
    tags: [],
    cwd: "/home/ada/tides",
    created: now - 90_000,
    updated: now - 7_300,
    turns: 12,
    cost_usd: 0.134,
    model: "claude-opus-5-5",
    size: 12_000,
    in_use: false,
    snippet: "",
    forked_from: "",
    depth: 0,
    ...more,
  };
}

export function press(target: Element, key: string, more: KeyboardEventInit = {}): void {
  target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, composed: true, ...more }));
}

/** What has the focus. */
export function focused(): HTMLElement {
  return document.activeElement as HTMLElement;
}

export function settled(): Promise<void> {
  return new Promise((resolve) => { setTimeout(resolve); });
}

/** No serious violation of what screen readers and keyboards need; colours have to be seen, which jsdom does not. */
export async function expectAccessible(host: HTMLElement): Promise<void> {
  const { violations } = await axe.run(host, { rules: { "color-contrast": { enabled: false }, region: { enabled: false } } });
  const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  expect(serious.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)])).toEqual([]);
}
