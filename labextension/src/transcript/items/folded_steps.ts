/**
 * The steps of an answer that is over fold into one line ("10 steps · 2 files +11 −2"), with the remarks between them;
 * what was said, asked and shown to the user stays. A stretch is one line, so an answer may have several.
 */

import { changedLines, changedNames } from "../cards/diff";
import { element } from "../dom";
import { changeWords, lineCounts, plural } from "../format";
import type { ChangesOp } from "../protocol";
import type { Item, ToolItem } from "../store";
import { revealed } from "../visible_text";
import { isInList } from "./todo_list";

/** A longer remark is more than a remark: somebody may want to read it. */
const REMARK_CHARS = 300;
/** A table, a heading, a list, code: an answer, and not what Claude is about to do. */
const HAS_BLOCKS = /^ {0,3}(?:#{1,6} |```|~~~|\||[-*+] |\d+[.)] |>)|\S\n[ \t]*\n\s*\S/m;
const FAILED: readonly string[] = ["error", "timeout", "denied", "interrupted"];

/** True for a call that failed, was refused or was stopped, itself or its agent. */
function hasFailed({ status, agents }: ToolItem): boolean {
  return FAILED.includes(status) || agents.some((agent) => agent.state === "failed" || agent.state === "stopped");
}

function isRemark(text: string): boolean {
  const said = text.trim();
  return said.length <= REMARK_CHARS && !HAS_BLOCKS.test(said);
}

/** True for what stays in sight: pictures, what the user was asked and has answered, warnings. */
function staysInSight(item: Item): boolean {
  switch (item.kind) {
    case "tool":
      return item.displays.length > 0 || item.questions.some(({ ask }) => ask.kind !== "permission");
    case "notice":
      return item.level !== "info";
    case "text":
      return item.stale === true || !isRemark(item.text);
    default:
      return false;
  }
}

function isStep(item: Item): boolean {
  return item.kind === "tool" || item.kind === "thinking";
}

/** The calls of `items` that are shown by a line of their own. */
export function shownCalls(items: readonly Item[]): ToolItem[] {
  return items.filter((item): item is ToolItem => item.kind === "tool" && !isInList(item));
}

/**
 * The stretches of `items` that fold, each from its first remark or step to its last step. `after`: what code has displayed stands
 * before the first item, which may be about it; `last`: the answer ends with these items.
 */
export function stretches(items: readonly Item[], { after, last }: { after: boolean; last: boolean }): Item[][] {
  const answer = last ? items.findLast((item) => item.kind === "text") : undefined;
  const found: Item[][] = [];
  let open: Item[] = [];
  let beside = after;
  const close = (): void => {
    found.push(open.slice(0, open.findLastIndex(isStep) + 1));
    open = [];
  };
  for (const item of items) {
    // words below a picture are about the picture
    if (staysInSight(item) || item === answer || (beside && item.kind === "text")) close();
    else open.push(item);
    beside = item.kind === "tool" && item.displays.length > 0;
  }
  close();
  return found.filter((stretch) => shownCalls(stretch).length > 1);
}

/** The call that asks which changes of a preview are accepted: those before it were made in a copy. */
const ACCEPT = "AcceptPreview";
const CELL = /(\.ipynb)#.*$/;

/** What is known of the run's changes: `changes` as the footer has them, `staged` if the steps changed a copy alone. */
export type RunChanges = { readonly changes: ChangesOp | null; readonly staged: boolean };

export function runChanges(items: readonly Item[], changes: ChangesOp | null): RunChanges {
  return { changes, staged: items.some((item) => item.kind === "tool" && item.name === ACCEPT) };
}

/** The files and cells, by name, of which calls that succeeded have shown a diff. */
export function changedIn(calls: readonly ToolItem[], changes: ChangesOp | null): string[] {
  const changed = calls.filter(({ diff, status }) => diff !== null && status === "success");
  // a notebook that is open nowhere is a file
  const whole = new Set(changes?.files.map(({ where }) => where));
  const named = changed.flatMap(({ diff }) => changedNames(diff ?? "")).map((name) => {
    const notebook = name.replace(CELL, "$1");
    return whole.has(notebook) ? notebook : name;
  });
  return [...new Set(named)];
}

/** "1 file, 2 cells +11 −2", counted as the footer does; of one file its name. */
function changesOf(calls: readonly ToolItem[], { changes, staged }: RunChanges): string[] {
  const changed = calls.filter(({ diff, status }) => diff !== null && status === "success");
  const names = changedIn(calls, changes);
  const [first] = names;
  if (first === undefined || staged) return [];
  const sum = (side: "added" | "removed"): number => changed.reduce((lines, call) => lines + (changedLines(call)?.[side] ?? 0), 0);
  const cells = names.filter((name) => CELL.test(name)).length;
  const what = names.length === 1 && cells === 0 ? revealed(first) : changeWords(names.length - cells, cells);
  return [`${what} ${lineCounts(sum("added"), sum("removed"))}`];
}

/** "10 steps · 1 failed · 2 files +11 −2"; the answer's last line has the time. */
export function stepsTitle(items: readonly Item[], known: RunChanges): string {
  const calls = shownCalls(items);
  const count = (status: (call: ToolItem) => boolean, word: string): string[] => {
    const number = calls.filter(status).length;
    return number > 0 ? [`${number} ${word}`] : [];
  };
  return [
    plural(calls.length, "step"),
    ...count((call) => call.status === "error" || call.status === "timeout", "failed"),
    ...count((call) => call.status === "denied", "denied"),
    ...count((call) => call.status === "interrupted", "stopped"),
    ...changesOf(calls, known),
  ].join(" · ");
}

/** True where the last call of `all` is among `items` and has failed: then its steps are what one wants to see. */
export function endsInFailure(items: readonly Item[], all: readonly Item[]): boolean {
  const call = shownCalls(all).at(-1);
  return call !== undefined && items.includes(call) && hasFailed(call);
}

export type Fold = { readonly node: HTMLDetailsElement; readonly body: HTMLElement };

/** The line of a stretch, which unfolds. */
export function stepsFold(items: readonly Item[], open: boolean, known: RunChanges): Fold {
  const title = element("span", { class: "call" });
  // what did not go well is seen without opening it
  title.append(...stepsTitle(items, known).split(/(\d+ (?:failed|denied|stopped))/).map((part, index) => (index % 2 ? element("span", { class: "bad" }, part) : part)));
  const body = element("div", { class: "turn-steps-items" });
  const node = element("details", { class: "turn-steps", open: open && "" }, element("summary", {}, title), body);
  return { node, body };
}
