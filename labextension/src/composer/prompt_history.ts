/** Past prompts, gone through with ↑ and ↓; what was being written comes back behind the newest. */

import type { Memory } from "./composer_deps";

const KEPT = 100;
/** A longer one is kept as long as the panel stands, but not across reloads. */
const KEPT_CHARS = 10_000;

export class PromptHistory {
  private kept: string[];
  /** Since the first ↑: the prompts that are gone through, with what was being written as the last. */
  private gone: string[] = [];
  private at = 0;

  /** `key` names the conversation in `memory`. */
  constructor(
    private readonly memory: Memory,
    private readonly key: string,
  ) {
    this.kept = read(memory, key);
  }

  /** Remembers a prompt that was sent. */
  add(prompt: string): void {
    this.leave();
    this.kept = [...this.kept.filter((other) => other !== prompt), prompt].slice(-KEPT);
    const short = this.kept.filter((one) => one.length <= KEPT_CHARS);
    this.memory.setItem(this.key, JSON.stringify(short));
  }

  /** The prompt before, null at the oldest. `written` is what stands there now, `said` are the session's prompts, oldest first. */
  before(written: string, said: readonly string[]): string | null {
    if (this.gone.length === 0) {
      const known = [...this.kept.filter((prompt) => !said.includes(prompt)), ...said].filter((prompt) => prompt.trim());
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

  /** What stands there was changed: it is written by the user now. */
  leave(): void {
    this.gone = [];
    this.at = 0;
  }
}

function read(memory: Memory, key: string): string[] {
  try {
    const found: unknown = JSON.parse(memory.getItem(key) ?? "[]");
    return Array.isArray(found) ? found.filter((one) => typeof one === "string") : [];
  } catch {
    return []; // written by another version
  }
}

/** A memory that forgets rather than fail: where the browser keeps nothing, or no more, the panel works all the same. */
export function forgiving(memory: Memory): Memory {
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
