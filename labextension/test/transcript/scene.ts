/** A transcript in a page, with the kernel's end of its channel in the test's hand. */

import { vi } from "vitest";

import type { AnswerMessage, AskOp, BrowserMessage, Choice, Op } from "../../src/transcript/protocol";
import type { Channel, Transcript } from "../../src/transcript/transcript";
import { open } from "../../src/transcript/transcript";

let current: Scene | undefined;

/** Waits until the current scene shows all that its kernel said. */
export async function drawn(): Promise<void> {
  await vi.waitFor(() => {
    if (!current) throw new Error("no scene");
    const behind = current.kernel.log.length - Number(find(current.root, ".transcript").dataset.drawn);
    if (behind > 0) throw new Error(`${behind} operations are not drawn`);
  }, { interval: 5 });
}

export class Kernel {
  readonly received: BrowserMessage[] = [];
  readonly log: Op[] = [];
  private listener: (content: unknown) => void = () => undefined;

  readonly channel: Channel = {
    send: (message) => void this.received.push(message),
    onMessage: (listener) => {
      this.listener = listener;
      return () => (this.listener = () => undefined);
    },
  };

  /** Appends to the log and sends what was appended. */
  say(...ops: Op[]): void {
    this.log.push(...ops);
    this.send(this.log.length - ops.length);
  }

  /** Sends the log from `first` on. */
  send(first: number): void {
    this.tell({ type: "ops", first, now: Date.now() / 1000, ops: this.log.slice(first) });
  }

  tell(message: unknown): void {
    this.listener(message);
  }

  get answers(): AnswerMessage[] {
    return this.received.filter((message) => message.type === "answer");
  }
}

export type Scene = { kernel: Kernel; transcript: Transcript; host: HTMLElement; root: ShadowRoot };

/** A transcript in a cell of a notebook, or in a place of another class. */
export function scene(place = "jp-Cell"): Scene {
  const kernel = new Kernel();
  const cell = document.createElement("div");
  cell.className = place;
  cell.tabIndex = -1;
  const host = document.createElement("div");
  cell.append(host);
  const notebook = document.createElement("div");
  notebook.className = "jp-Notebook";
  notebook.append(cell);
  document.body.replaceChildren(notebook);
  const transcript = open(kernel.channel);
  transcript.mount(host);
  current = { kernel, transcript, host, root: shadowOf(host) };
  return current;
}

/** The root that a view has made in `host`. */
export function shadowOf(host: HTMLElement): ShadowRoot {
  if (!host.shadowRoot) throw new Error("no shadow root");
  return host.shadowRoot;
}

export function find<T extends HTMLElement = HTMLElement>(root: ParentNode, selector: string): T {
  const found = root.querySelector<T>(selector);
  if (!found) throw new Error(`nothing matches ${selector}`);
  return found;
}

export function text(root: ParentNode, selector: string): string {
  return find(root, selector).textContent;
}

export const RUN: Op = { op: "run", model: "claude-opus-5-5", mode: "default", session: "s", started: Date.now() / 1000 };

export const CHOICES: Choice[] = [
  { key: "1", action: "allow", scope: "once", label: "Allow once", rules: [], input: null },
  { key: "2", action: "allow", scope: "session", label: "Allow all Python of this session", rules: ["Python"], input: null },
  { key: "3", action: "allow", scope: "always", label: "Always allow", rules: ["Bash(ls *)"], input: null },
  { key: "4", action: "deny", scope: "once", label: "Deny", rules: [], input: null },
];

export function ask(question: string, changes: Partial<AskOp> = {}): AskOp {
  return {
    op: "ask",
    question,
    tool: `tool-${question}`,
    name: "Bash",
    input: { command: "ls -la", timeout: 5 },
    kind: "permission",
    title: "Run ls -la",
    detail: "ls -la",
    detail_kind: "command",
    path: "",
    warning: "",
    reason: "No rule allows it.",
    choices: CHOICES,
    at: Date.now() / 1000,
    ...changes,
  };
}

export function answered(question: string, behavior: "allow" | "deny" = "allow", reason = ""): Op {
  return { op: "answered", question, tool: `tool-${question}`, behavior, scope: "once", by: "widget", reason, rules: [], edited: false, input: null };
}

export function ended(id: string, changes: object = {}): Op {
  return { op: "tool_end", id, status: "success", ms: 4, result: "fine", diff: null, error: null, ...changes };
}

export function begun(id: string, changes: object = {}): Op {
  return { op: "tool", id, name: "Bash", title: "Bash: ls", input: { command: "ls" }, parallel: false, estimate: null, at: Date.now() / 1000, ...changes };
}

export const END: Op = { op: "end", stop_reason: "end_turn", cost_usd: 0.02, session_cost_usd: 0.5, ms: 3200, error: null };

/** A key as pressed in `target`; whether it reached the notebook around the transcript. */
export function press(target: EventTarget, key: string, more: KeyboardEventInit = {}): boolean {
  const heard = vi.fn();
  document.addEventListener("keydown", heard);
  target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, composed: true, cancelable: true, ...more }));
  document.removeEventListener("keydown", heard);
  return heard.mock.calls.length > 0;
}

/** The card of the question that is to be answered, once it takes answers. */
export async function readyCard(root: ShadowRoot): Promise<HTMLElement> {
  return vi.waitFor(() => find(root, ".ask[data-ready]"), { interval: 20, timeout: 3000 });
}
