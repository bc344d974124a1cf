/** Past prompts, gone through with ↑ and ↓; what was being written comes back behind the newest. */

import type { Chat } from "../transport/chat";
import type { KeyValueStorage } from "./composer_deps";

const MAX_PROMPTS = 100;
/** A longer one is kept as long as the panel stands, but not across reloads. */
const MAX_PROMPT_CHARS = 10_000;
/** A key that was pasted into the wrong field: the kernel refuses it, and the browser keeps none. */
const MODEL_KEY = /sk-ant-[\w-]{8}/;

export class PromptHistory {
  private kept: string[];
  /** Since the first ↑: the prompts that are gone through, with what was being written as the last. */
  private gone: string[] = [];
  private at = 0;

  /** `key` names the conversation in `memory`. */
  constructor(
    private readonly memory: KeyValueStorage,
    private readonly key: string,
  ) {
    this.kept = read(memory, key);
  }

  /** Remembers a prompt that was sent. */
  add(prompt: string): void {
    this.leave();
    this.kept = [...this.kept.filter((other) => other !== prompt), prompt].slice(-MAX_PROMPTS);
    const short = this.kept.filter((one) => one.length <= MAX_PROMPT_CHARS && !MODEL_KEY.test(one));
    this.memory.setItem(this.key, JSON.stringify(short));
  }

  /** The prompt before, null at the oldest. `written` is what stands there now, `said` are the session's prompts, oldest first. */
  before(written: string, sessionPrompts: readonly string[]): string | null {
    if (this.gone.length === 0) {
      const known = [...this.kept.filter((prompt) => !sessionPrompts.includes(prompt)), ...sessionPrompts].filter((prompt) => prompt.trim());
      // a prompt that was said again counts where it was said last
      const once = [...new Set(known.reverse())].reverse().filter((prompt) => prompt !== written);
      this.gone = [...once, written];
      this.at = this.gone.length - 1;
    }
    if (this.at === 0) return null;
    this.at -= 1;
    return this.gone[this.at] ?? null;
  }

  /** The prompt behind, null where none was gone through. */
  after(): string | null {
    if (this.at >= this.gone.length - 1) return null;
    this.at += 1;
    const found = this.gone[this.at] ?? null;
    if (this.at === this.gone.length - 1) this.leave();
    return found;
  }

  /** The text was changed: it is the user's own now. */
  leave(): void {
    this.gone = [];
    this.at = 0;
  }
}

function read(memory: KeyValueStorage, key: string): string[] {
  try {
    const found: unknown = JSON.parse(memory.getItem(key) ?? "[]");
    return Array.isArray(found) ? found.filter((one) => typeof one === "string") : [];
  } catch {
    return []; // written by another version
  }
}

/** A memory that forgets rather than fail: where the browser keeps nothing, or no more, the panel works all the same. */
export function tolerantStorage(memory: KeyValueStorage): KeyValueStorage {
  return {
    getItem(key) {
      try {
        return memory.getItem(key);
      } catch {
        return null;
      }
    },
    setItem(key, value) {
      try {
        memory.setItem(key, value);
      } catch {
        // full, or not allowed: what is on the screen stays there
      }
    },
  };
}

// What was completed, so that it is offered first: kept in the tab, as prompts are.

const USED_KEY = "cellwright:completed";
const MAX_USED = 200;

/** An item's name, how often it was taken, and the number of its last time. */
type Use = { readonly name: string; readonly count: number; readonly last: number };

export class CompletionUse {
  private readonly memory: KeyValueStorage;

  constructor(memory: KeyValueStorage) {
    this.memory = tolerantStorage(memory);
  }

  /** The item was taken. */
  add(name: string): void {
    const uses = this.read();
    const last = 1 + Math.max(0, ...uses.map((use) => use.last));
    const count = 1 + (uses.find((use) => use.name === name)?.count ?? 0);
    const others = uses.filter((use) => use.name !== name).slice(1 - MAX_USED);
    this.memory.setItem(USED_KEY, JSON.stringify([...others, { name, count, last }]));
  }

  /** `items` by use: what was taken often or lately comes first among those that `fits` says, the rest stays in its order. */
  sorted<Item extends { readonly insert: string }>(items: readonly Item[], fits: (item: Item) => boolean): Item[] {
    const uses = this.read();
    const newest = Math.max(0, ...uses.map((use) => use.last));
    // half as much for each ten that were taken since
    const weights = new Map(uses.map(({ name, count, last }) => [name, count * 0.5 ** ((newest - last) / 10)]));
    const weight = (item: Item): number => (fits(item) ? (weights.get(item.insert) ?? 0) : 0);
    return [...items].sort((one, other) => weight(other) - weight(one));
  }

  private read(): Use[] {
    try {
      const found: unknown = JSON.parse(this.memory.getItem(USED_KEY) ?? "[]");
      return Array.isArray(found) ? (found as Use[]).filter((use) => typeof use.name === "string" && use.count > 0 && use.last > 0) : [];
    } catch {
      return []; // written by another version
    }
  }
}

// Drafts and sent prompts, for each conversation by itself; kept across reloads of the page.

const DRAFT_KEY = "cellwright:draft:";
const HISTORY_KEY = "cellwright:prompts:";

export class Drafts {
  /** A past prompt is being shown: it was not written anew. */
  browsing = false;
  private readonly memory: KeyValueStorage;
  private key: string;
  private history: PromptHistory;

  constructor(
    memory: KeyValueStorage,
    private readonly chat: Chat,
  ) {
    this.memory = tolerantStorage(memory);
    this.key = keyOf(chat);
    this.history = new PromptHistory(this.memory, HISTORY_KEY + this.key);
  }

  /** The draft from before the page was left. */
  text(): string {
    return this.memory.getItem(DRAFT_KEY + this.key) ?? "";
  }

  /** Keeps what stands there. */
  keep(text: string): void {
    this.memory.setItem(DRAFT_KEY + this.key, MODEL_KEY.test(text) ? "" : text);
  }

  /** The text was changed. */
  written(text: string): void {
    if (!this.browsing) this.history.leave();
    this.keep(text);
  }

  sent(text: string): void {
    const key = keyOf(this.chat);
    if (key !== this.key) this.goTo(key); // the kernel was started for it
    if (text.trim()) this.history.add(text);
  }

  before(text: string): string | null {
    const sessionPrompts = this.chat.runs.filter(({ run }) => run.kind !== "command").map(({ run }) => run.prompt);
    return this.history.before(text, sessionPrompts);
  }

  after(): string | null {
    return this.history.after();
  }

  /** The draft of the conversation where it is another one than before, else null; `text` stays with the one before. */
  change(text: string): string | null {
    const key = keyOf(this.chat);
    if (key === this.key) return null;
    const wasNone = this.key === "";
    if (!wasNone) this.keep(text);
    this.goTo(key);
    const draft = this.text();
    // what was written before there was a kernel is for the one that came
    return wasNone && text.trim() ? [draft, text].filter((part) => part.trim()).join("\n\n") : draft;
  }

  private goTo(key: string): void {
    if (this.key === "") this.keep(""); // it went along
    this.key = key;
    this.history = new PromptHistory(this.memory, HISTORY_KEY + key);
  }
}

/** A notebook stays the same when its kernel is another one. */
function keyOf({ kernelInfo }: Chat): string {
  return kernelInfo ? (kernelInfo.notebook ?? kernelInfo.kernelId) : "";
}
