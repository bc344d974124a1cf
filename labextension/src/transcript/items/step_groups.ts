/**
 * Reads and searches that follow each other fold into one line ("Read 3 files, searched twice"), which opens on demand.
 * What needs to be seen stays out of it: a question, a failure, a picture.
 */

import { element, setText } from "../dom";
import { duration, SHOWN_MS } from "../format";
import type { Item, ToolItem } from "../store";
import type { ChangesOp } from "../protocol";
import { isOver } from "../store";
import type { Fold } from "./folded_steps";
import { endsInFailure, runChanges, stepsFold, stretches } from "./folded_steps";

/** By the kind of call, how many of them are said: now, and when they are over. */
type Words = { readonly now: string; readonly done: string; count(number: number): string };

const files = (number: number): string => (number === 1 ? "a file" : `${number} files`);
const folders = (number: number): string => (number === 1 ? "a folder" : `${number} folders`);
const pages = (number: number): string => (number === 1 ? "a page" : `${number} pages`);
const times = (number: number): string => (number === 1 ? "" : number === 2 ? "twice" : `${number} times`);

const READ: Words = { now: "reading", done: "read", count: files };
const LISTED: Words = { now: "listing", done: "listed", count: folders };
const SEARCHED: Words = { now: "searching", done: "searched", count: times };
const FETCHED: Words = { now: "fetching", done: "fetched", count: pages };
const ON_THE_WEB: Words = { now: "searching the web", done: "searched the web", count: times };
const QUIET: Record<string, Words | undefined> = {
  Read: READ,
  NotebookRead: READ,
  LS: LISTED,
  FileTree: LISTED,
  Glob: SEARCHED,
  Grep: SEARCHED,
  SemanticSearch: SEARCHED,
  SimilarCode: SEARCHED,
  FindDefinitions: SEARCHED,
  FindReferences: SEARCHED,
  WebFetch: FETCHED,
  WebSearch: ON_THE_WEB,
};

/** True for a call that may fold into a line with its neighbours. */
export function isQuiet(item: Item): item is ToolItem {
  if (item.kind !== "tool" || !QUIET[item.name]) return false;
  const { questions, displays, diff, error, agents, status, decided } = item;
  const harmless = questions.length === 0 && displays.length === 0 && agents.length === 0 && diff === null && error === null;
  return harmless && decided?.behavior !== "deny" && ["writing", "waiting", "running", "success"].includes(status);
}

/** "Read 3 files, searched twice"; while one of them goes on, "Reading 3 files, searching twice". */
export function groupTitle(items: readonly ToolItem[]): string {
  const over = items.every((item) => isOver(item.status));
  const kinds = new Map<Words, Set<string>>();
  items.forEach((item, index) => {
    const words = QUIET[item.name];
    if (!words) return;
    const subjects = kinds.get(words) ?? new Set();
    // a file that is read in two parts is one file
    subjects.add(subjectOf(item) ?? `${index}`);
    kinds.set(words, subjects);
  });
  const said = [...kinds].map(([words, subjects]) => `${over ? words.done : words.now} ${words.count(subjects.size)}`.trim()).join(", ");
  return said.charAt(0).toUpperCase() + said.slice(1);
}

function subjectOf({ name, input }: ToolItem): string | null {
  if (typeof input !== "object" || input === null || Array.isArray(input) || QUIET[name] === SEARCHED) return null;
  const subject = input.file_path ?? input.notebook_path ?? input.path ?? input.url;
  return typeof subject === "string" ? subject : null;
}

type Group = { readonly node: HTMLDetailsElement; readonly body: HTMLElement; title(items: readonly ToolItem[]): void };

function newGroup(): Group {
  const verb = element("b");
  const rest = element("span");
  const status = element("span", { class: "status" });
  const time = element("span", { class: "time" });
  const body = element("div", { class: "group-items" });
  const node = element("details", { class: "group" }, element("summary", {}, element("span", { class: "call" }, verb, rest), status, time), body);
  return {
    node,
    body,
    title(items) {
      const over = items.every((item) => isOver(item.status));
      const [, first = "", more = ""] = /^([^\s,]*)(.*)$/.exec(groupTitle(items)) ?? [];
      setText(verb, first);
      setText(rest, more);
      setText(status, over ? "" : "running");
      node.dataset.status = over ? "success" : "running";
      const ms = items.reduce((sum, item) => sum + item.ms, 0);
      setText(time, over && ms >= SHOWN_MS ? duration(ms / 1000) : "");
    },
  };
}

/** The line of calls that wait until an answer has been given: what there is to say of them is in their titles. */
function newWaiting(): Group {
  const title = element("span", { class: "call" });
  const body = element("div", { class: "group-items" });
  return {
    node: element("details", { class: "group waiting-calls" }, element("summary", {}, title), body),
    body,
    title(items) { setText(title, items.length === 1 ? "1 more waits" : `${items.length} more wait`); },
  };
}

/** What is known of the answer when its items are arranged. */
export type Arrangement = {
  /** Calls that wait behind the question that is being asked. */
  readonly waiting: ReadonlySet<Item>;
  /** Where these items stand in an answer that is over; null while it goes on. */
  readonly ended: { readonly after: boolean; readonly last: boolean } | null;
  /** What the run changed, once that is known. */
  readonly changes: ChangesOp | null;
  /** Steps that somebody looks at stay as they are. */
  keepsOpen(items: readonly Item[]): boolean;
};

type Kind = "alone" | "quiet" | "waiting" | "steps";
type Part = { readonly kind: Kind; readonly first: Item; readonly items: Item[] };

function partsOf(items: Iterable<Item>, { waiting }: Pick<Arrangement, "waiting">): Part[] {
  const parts: Part[] = [];
  for (const item of items) {
    const last = parts.at(-1);
    const kind = waiting.has(item) ? "waiting" : isQuiet(item) ? "quiet" : "alone";
    if (last?.kind === kind && kind !== "alone") last.items.push(item);
    else parts.push({ kind, first: item, items: [item] });
  }
  return parts;
}

/** The same, with what folds at the end as one part. */
function withFolded(items: readonly Item[], arrangement: Arrangement): Part[] {
  const folded = arrangement.ended ? stretches(items, arrangement.ended) : [];
  const parts: Part[] = [];
  let from = 0;
  for (const stretch of folded) {
    const [first] = stretch;
    if (!first) continue;
    const at = items.indexOf(first);
    // a line instead of one line would be no gain
    if (partsOf(stretch, arrangement).length < 2) continue;
    parts.push(...partsOf(items.slice(from, at), arrangement), { kind: "steps", first, items: stretch });
    from = at + stretch.length;
  }
  return [...parts, ...partsOf(items.slice(from), arrangement)];
}

/** Keeps the nodes of a transcript's items in `parent`, in order, with a line for those that go together. */
export function stepGroups(parent: HTMLElement): { arrange(nodes: ReadonlyMap<Item, HTMLElement>, arrangement: Arrangement): void } {
  const quiet = new Map<Item, Group>();
  const waiting: Group[] = [];
  const folds = new Map<Item, Fold>();
  let arranged = "";

  const isGroup = ({ kind, items }: Part): boolean => kind === "waiting" || (kind === "quiet" && items.length > 1);
  /** The groups of `parts` by part; one that waits is the same when its first call does not wait any more. */
  const groupsOf = (parts: readonly Part[]): Map<Part, Group> => {
    const found = new Map<Part, Group>();
    let number = 0;
    for (const part of parts.filter(isGroup)) {
      const known = part.kind === "waiting" ? waiting[number] : quiet.get(part.first);
      const group = known ?? (part.kind === "waiting" ? newWaiting() : newGroup());
      if (part.kind === "waiting") waiting[number++] = group;
      else quiet.set(part.first, group);
      found.set(part, group);
    }
    return found;
  };
  return {
    arrange(shown, arrangement) {
      const items = [...shown.keys()];
      const tree = withFolded(items, arrangement).map((part) => ({ part, inner: part.kind === "steps" ? partsOf(part.items, arrangement) : [] }));
      const groups = groupsOf(tree.flatMap(({ part, inner }) => (part.kind === "steps" ? inner : [part])));
      const nodesOf = (parts: readonly Part[]): HTMLElement[] =>
        parts.flatMap((part) => groups.get(part)?.node ?? part.items.flatMap((item) => shown.get(item) ?? []));
      const numbers = new Map(items.map((item, index) => [item, index]));
      const now = tree.map(({ part: { kind, items: own } }) => `${kind} ${own.map((item) => numbers.get(item)).join()}`).join(";");
      if (now !== arranged || [...shown.values()].some((node) => node.parentNode === null)) {
        arranged = now;
        const foldOf = (part: Part): Fold => {
          const opens = (arrangement.ended?.last === true && endsInFailure(part.items, items)) || arrangement.keepsOpen(part.items);
          const fold = folds.get(part.first) ?? stepsFold(part.items, opens, runChanges(items, arrangement.changes));
          folds.set(part.first, fold);
          return fold;
        };
        place(parent, tree.flatMap(({ part }) => (part.kind === "steps" ? foldOf(part).node : nodesOf([part]))));
        for (const { part, inner } of tree) if (part.kind === "steps") place(foldOf(part).body, nodesOf(inner));
        for (const [part, group] of groups) place(group.body, part.items.flatMap((item) => shown.get(item) ?? []));
      }
      for (const [part, group] of groups) group.title(part.items.filter((item) => item.kind === "tool"));
    },
  };
}

/** Makes `nodes` the children of `parent`, and moves only those that are elsewhere: who has the focus keeps it. */
function place(parent: HTMLElement, nodes: readonly HTMLElement[]): void {
  const wanted = new Set<Node>(nodes);
  for (const child of [...parent.childNodes]) {
    if (!wanted.has(child)) child.remove();
  }
  nodes.forEach((node, index) => {
    const there = parent.childNodes[index] ?? null;
    if (there !== node) parent.insertBefore(node, there);
  });
}
