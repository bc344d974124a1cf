/**
 * Reads and searches that follow each other fold into one line ("Read 3 files, searched twice"), which opens on demand.
 * What needs to be seen stays out of it: a question, a failure, a picture.
 */

import { element, setText } from "../dom";
import { duration } from "../format";
import type { Item, ToolItem } from "../store";
import { isOver } from "../store";

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
  const title = element("span", { class: "call" });
  const status = element("span", { class: "status" });
  const time = element("span", { class: "time" });
  const body = element("div", { class: "group-items" });
  const node = element("details", { class: "group" }, element("summary", {}, title, status, time), body);
  return {
    node,
    body,
    title(items) {
      const over = items.every((item) => isOver(item.status));
      setText(title, groupTitle(items));
      setText(status, over ? "done" : "running");
      node.dataset.status = over ? "success" : "running";
      const ms = items.reduce((sum, item) => sum + item.ms, 0);
      setText(time, over && ms >= 1 ? duration(ms / 1000) : "");
    },
  };
}

/** Keeps the nodes of a transcript's items in `parent`, in order, neighbours that are quiet in a group. */
export function stepGroups(parent: HTMLElement): { arrange(nodes: ReadonlyMap<Item, HTMLElement>): void } {
  const groups = new Map<Item, Group>();
  let arranged: readonly (readonly Item[])[] = [];

  const partsOf = (items: Iterable<Item>): { first: Item; items: Item[] }[] => {
    const parts: { first: Item; items: Item[] }[] = [];
    for (const item of items) {
      const last = parts.at(-1);
      if (last && isQuiet(item) && isQuiet(last.first)) last.items.push(item);
      else parts.push({ first: item, items: [item] });
    }
    return parts;
  };
  return {
    arrange(shown) {
      const parts = partsOf(shown.keys());
      const nodesOf = (items: readonly Item[]): HTMLElement[] => items.flatMap((item) => shown.get(item) ?? []);
      const inGroups = parts.filter((part) => part.items.length > 1);
      if (!sameParts(arranged, parts.map((part) => part.items))) {
        arranged = parts.map((part) => part.items);
        const kept = new Set(inGroups.map((part) => part.first));
        const nodes = parts.flatMap((part) => {
          if (!kept.has(part.first)) return nodesOf([part.first]);
          const group = groups.get(part.first) ?? newGroup();
          groups.set(part.first, group);
          return group.node;
        });
        place(parent, nodes);
        for (const part of inGroups) {
          const group = groups.get(part.first);
          if (group) place(group.body, nodesOf(part.items));
        }
        for (const first of groups.keys()) {
          if (!kept.has(first)) groups.delete(first);
        }
      }
      for (const part of inGroups) groups.get(part.first)?.title(part.items.filter((item) => item.kind === "tool"));
    },
  };
}

function sameParts(a: readonly (readonly Item[])[], b: readonly (readonly Item[])[]): boolean {
  return a.length === b.length && a.every((items, index) => items.length === b[index]?.length && items.every((item, at) => item === b[index]?.[at]));
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
