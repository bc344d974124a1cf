/** What is being written and what was sent, for each conversation by itself; kept across reloads of the page. */

import type { Chat } from "../transport/chat";
import type { Memory } from "./composer_deps";
import { PromptHistory, forgiving } from "./prompt_history";

const DRAFT = "cellwright:draft:";
const HISTORY = "cellwright:prompts:";

export class Drafts {
  /** A past prompt is being shown: it was not written anew. */
  going = false;
  private readonly memory: Memory;
  private key: string;
  private history: PromptHistory;

  constructor(
    memory: Memory,
    private readonly chat: Chat,
  ) {
    this.memory = forgiving(memory);
    this.key = keyOf(chat);
    this.history = new PromptHistory(this.memory, HISTORY + this.key);
  }

  /** What was being written when the page was left. */
  text(): string {
    return this.memory.getItem(DRAFT + this.key) ?? "";
  }

  /** Keeps what stands there. */
  keep(text: string): void {
    this.memory.setItem(DRAFT + this.key, text);
  }

  /** What stands there was changed. */
  written(text: string): void {
    if (!this.going) this.history.leave();
    this.keep(text);
  }

  sent(text: string): void {
    const key = keyOf(this.chat);
    if (key !== this.key) this.goTo(key); // the kernel was started for it
    if (text.trim()) this.history.add(text);
  }

  before(text: string): string | null {
    const said = this.chat.runs.filter(({ run }) => run.kind !== "command").map(({ run }) => run.prompt);
    return this.history.before(text, said);
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
    this.history = new PromptHistory(this.memory, HISTORY + key);
  }
}

/** A notebook stays the same when its kernel is another one. */
function keyOf({ place }: Chat): string {
  return place ? (place.notebook ?? place.kernelId) : "";
}
