/** Completions in the prompt: commands are known beforehand, the rest comes from the kernel; its last answer stands in meanwhile. */

import type { Chat } from "../transport/chat";
import type { Completion } from "../transport/chat_protocol";
import { fuzzyFilter, pathScore } from "./fuzzy_match";

/** After so long the list says that the kernel has not answered. */
export const LATE_AFTER_MS = 300;

const MAX_SHOWN = 50;

/** `late`: the kernel has not answered yet. */
export type CompletionList = { readonly items: readonly Completion[]; readonly late: boolean };

/** The kernel that completions come from, whichever that is now; the panel's conversation is one. */
export type CompletionPeer = Pick<Chat, "connection" | "kernelInfo" | "subscribe" | "request">;

export class CompletionSource {
  private commands: readonly Completion[] = [];
  private known: Partial<Record<CompletionKind, readonly Completion[]>> = {};
  /** The kernel that the list of commands is from; "" for none. */
  private kernel = "";
  private wanted: Trigger | null = null;
  private asking = false;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private readonly stop: () => void;

  /** `show` is called with what there is for the word that `look` was called with last. */
  constructor(
    private readonly peer: CompletionPeer,
    private readonly show: (found: CompletionList) => void,
  ) {
    this.stop = peer.subscribe(() => { this.connect(); });
    this.connect();
  }

  dispose(): void {
    this.stop();
    this.rest();
  }

  /** The command of this name; undefined where the kernel has none. */
  command(name: string): Completion | undefined {
    return this.commands.find((command) => nameOf(command) === `/${name}`);
  }

  /** Shows what there is for `trigger`: at once what is known, then what the kernel says. */
  look(trigger: Trigger): void {
    this.wanted = trigger;
    clearTimeout(this.timer);
    this.tell(false);
    if (trigger.kind === "command") {
      if (this.commands.length === 0 && this.kernel) void this.learnCommands();
      return;
    }
    this.timer = setTimeout(() => { this.tell(true); }, LATE_AFTER_MS);
    void this.ask();
  }

  /** Nothing is looked for any more. */
  rest(): void {
    this.wanted = null;
    clearTimeout(this.timer);
  }

  private tell(late: boolean): void {
    if (!this.wanted) return;
    const { kind, text } = this.wanted;
    const items = kind === "command" ? this.commands : (this.known[kind] ?? []);
    this.show({ items: matching(kind, text, items).slice(0, MAX_SHOWN), late });
  }

  /** One request at a time: the kernel is asked for the newest word when it has answered for the one before. */
  private async ask(): Promise<void> {
    if (this.asking) return;
    this.asking = true;
    try {
      let asked: Trigger | null = null;
      while (this.wanted && this.wanted.kind !== "command" && this.wanted !== asked) {
        asked = this.wanted;
        const items = await this.request(asked.kind, asked.text);
        this.known = { ...this.known, [asked.kind]: items };
        if (this.wanted !== asked) continue;
        clearTimeout(this.timer);
        this.show({ items, late: false });
      }
    } catch {
      // not connected, or the kernel does not answer: the list says so, and what is known stays in it
    } finally {
      this.asking = false;
    }
  }

  private connect(): void {
    const kernel = this.peer.connection === "connected" ? (this.peer.kernelInfo?.kernelId ?? "") : "";
    if (kernel === this.kernel) return;
    if (kernel) this.known = {};
    this.kernel = kernel;
    if (!kernel) return;
    void this.learnCommands();
    // the word was written before the kernel could be asked
    if (this.wanted && this.wanted.kind !== "command") void this.ask();
  }

  private async learnCommands(): Promise<void> {
    try {
      this.commands = await this.request("command", "");
      if (this.wanted?.kind === "command") this.tell(false);
    } catch {
      // asked again when somebody writes a command
    }
  }

  private async request(kind: CompletionKind, text: string): Promise<readonly Completion[]> {
    const notebook = this.peer.kernelInfo?.notebook ?? "";
    const result = (await this.peer.request("complete", { kind, text, notebook })) as { items?: Completion[] } | null;
    return result?.items ?? [];
  }
}

/** Those of `items` that fit what is typed, in the order in which the kernel gives them: files before cells, unless a cell's number is meant. */
function matching(kind: CompletionKind, text: string, items: readonly Completion[]): Completion[] {
  if (kind !== "mention" || !text) return fuzzyFilter(text, items, nameOf);
  const cells = fuzzyFilter(text, items.filter((item) => item.kind === "cell"), nameOf);
  const files = fuzzyFilter(text.replaceAll('"', ""), items.filter((item) => item.kind !== "cell"), nameOf, pathScore);
  return meansCell(text) ? [...cells, ...files] : [...files, ...cells];
}

/** A number is a cell's, or what stands in its brackets; every other word may be a path. */
function meansCell(text: string): boolean {
  return /^\[?\d+\]?$/.test(text);
}

/** True for an item whose name, or whose file's, begins with what is typed: only among those use decides. */
export function beginsWith(item: Completion, { text }: Trigger): boolean {
  const typed = text.replace(/^"/, "").toLowerCase();
  const name = (item.kind === "command" ? item.insert.slice(1) : item.label).toLowerCase();
  return typed === "" || name.startsWith(typed) || (item.kind !== "command" && (name.split("/").at(-1) ?? "").startsWith(typed));
}

/** The text that a completion is matched by: without the sign that a mention begins with. */
export function nameOf(item: Completion): string {
  if (item.kind === "cell") return `cell:${item.label.replace(/^cell:/, "")} ${item.insert.slice("@cell:".length)} ${item.about}`;
  return item.kind === "command" ? item.insert.trim() : item.label;
}

// The word at the caret that can be completed: a slash command, a mention, a variable; in a cell an option of the magic.

export type CompletionKind = "command" | "mention" | "variable" | "option";

/** `text` is what stands behind the sign, up to the caret; `start` and `end` are where the whole word stands. */
export type Trigger = { readonly kind: CompletionKind; readonly start: number; readonly end: number; readonly text: string };

const COMMAND = /^\/([\w-]*)$/;
const MENTION = /(?<![\w@./\\-])@("[^"\n]*|[^\s,;!?()[\]{}<>"'`|*@\\]*)$/;
// a name of Python: letters of any script
const VARIABLE = /(?<![\p{L}\p{N}\p{M}_$\\])\$([\p{L}_][\p{L}\p{N}\p{M}_]*|)$/u;
const REST = { command: /^[\w-]*/, mention: /^[\w./:-]*/, variable: /^[\p{L}\p{N}\p{M}_]*/u };

export function triggerAt(value: string, caret: number): Trigger | null {
  const before = value.slice(0, caret);
  const tried: [keyof typeof REST, RegExp][] = [
    ["command", COMMAND],
    ["mention", MENTION],
    ["variable", VARIABLE],
  ];
  for (const [kind, pattern] of tried) {
    const found = pattern.exec(before);
    if (!found) continue;
    const rest = REST[kind].exec(value.slice(caret))?.[0].length ?? 0;
    return { kind, start: found.index, end: caret + rest, text: found[1] ?? "" };
  }
  return null;
}

/**
 * The text that stands in the place of `trigger`, up to `end`, when `item` is taken; `follows` is what stands behind the trigger.
 * At the end of the text and before more words one space is behind it, be it the one that was there, unless the word goes on or
 * is a command without arguments.
 */
export function insertion(item: Completion, trigger: Trigger, follows: string): { text: string; end: number } {
  const word = item.insert.trimEnd();
  const goesOn = item.kind === "command" || (item.kind === "folder" && word.endsWith("/"));
  const isBeforeSpace = /^[^\S\n]/.test(follows);
  const isSpaced = word !== item.insert || (!goesOn && (isBeforeSpace || follows === ""));
  return { text: isSpaced ? `${word} ` : word, end: trigger.end + (isSpaced && isBeforeSpace ? 1 : 0) };
}

/** The command that `value` is, without its slash; null for what is a prompt (`/etc/hosts: what is it?`). */
export function commandName(value: string): string | null {
  return /^\s*\/([A-Za-z][\w-]*)(?:\s|$)/.exec(value)?.[1] ?? null;
}

/** The mention of the file at `path`: in quotes where it would end earlier. */
export function fileMention(path: string): string {
  const plain = /^[^\s,;!?()[\]{}<>"'`“”„‘’«»|*@\\#:]+$/.test(path) && !path.endsWith(".");
  return plain ? `@${path}` : `@"${path}"`;
}

/**
 * The path by which a kernel that works in `cwd` knows a file of the server's: relative where it lies below, and as it is
 * where it is not known where the server's files are.
 */
export function kernelPath(served: string, serverRoot: string, cwd: string): string {
  // `RTC:a/b.txt` is another way to a/b.txt
  const path = served.replace(/^[A-Za-z][\w-]*:/, "");
  if (!serverRoot) return path;
  const whole = `${serverRoot.replace(/\/+$/, "")}/${path}`;
  const folder = `${cwd.replace(/\/+$/, "")}/`;
  return cwd && whole.startsWith(folder) ? whole.slice(folder.length) : whole;
}
