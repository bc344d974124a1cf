/** What is being written at the caret that can be completed: a slash command, a mention, a variable. */

export type CompletionKind = "command" | "mention" | "variable";

/** `text` is what stands behind the sign, up to the caret; `start` and `end` are where the whole word stands. */
export type Trigger = { readonly kind: CompletionKind; readonly start: number; readonly end: number; readonly text: string };

const COMMAND = /^\/([\w-]*)$/;
const MENTION = /(?<![\w@./\\-])@("[^"\n]*|[^\s,;!?()[\]{}<>"'`|*@\\]*)$/;
// a name of Python: letters of any script
const VARIABLE = /(?<![\p{L}\p{N}\p{M}_$\\])\$([\p{L}_][\p{L}\p{N}\p{M}_]*|)$/u;
const REST = { command: /^[\w-]*/, mention: /^[\w./:-]*/, variable: /^[\p{L}\p{N}\p{M}_]*/u };

export function triggerAt(value: string, caret: number): Trigger | null {
  const before = value.slice(0, caret);
  const tried: [CompletionKind, RegExp][] = [
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

/** The command that `value` is, without its slash; null for what is a prompt (`/etc/hosts: what is it?`). */
export function commandName(value: string): string | null {
  return /^\s*\/([A-Za-z][\w-]*)(?:\s|$)/.exec(value)?.[1] ?? null;
}

/** How a prompt mentions the file at `path`: in quotes where it would end earlier. */
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
