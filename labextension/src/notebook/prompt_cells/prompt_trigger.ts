/** What can be completed at the caret of a prompt cell. */

import type { Trigger } from "../../composer/completions";
import { triggerAt } from "../../composer/completions";
import { HEADER, promptStart } from "./prompt_text";

/** An option that is being written: it, and its value, are no prompt. */
const OPTION_AT_CARET = /(?:^|\s)(--[\w-]*)$/;

/** The word at the caret that can be completed. */
export function promptTriggerAt(source: string, caret: number): Trigger | null {
  const header = HEADER.exec(source);
  if (!header) return null;
  const [whole, indent = ""] = header;
  const behindMagic = indent.length + "%%claude".length;
  if (caret <= behindMagic) return null;
  return (caret <= whole.length ? optionAt(source, behindMagic, caret) : null) ?? wordAt(source, behindMagic, caret);
}

function optionAt(source: string, from: number, caret: number): Trigger | null {
  const option = OPTION_AT_CARET.exec(source.slice(from, caret))?.[1];
  if (option === undefined) return null;
  const rest = /^[\w-]*/.exec(source.slice(caret))?.[0] ?? "";
  return { kind: "option", start: caret - option.length, end: caret + rest.length, text: option.slice(2) };
}

function wordAt(source: string, behindMagic: number, caret: number): Trigger | null {
  // between the options and the words nothing is a command
  const from = caret > promptStart(source) ? promptStart(source) : behindMagic;
  const found = triggerAt(source.slice(from), caret - from);
  return found && { ...found, start: found.start + from, end: found.end + from };
}
