/** One session in the list. */

import { element } from "../transcript/dom";
import { dollars } from "../transcript/format";
import { revealed, sentence, visibleText } from "../transcript/visible_text";
import type { Trans } from "../translation";
import type { SessionEntry } from "../transport/chat_protocol";

/** A fork of a fork of a fork … stays readable in a narrow panel. */
const MAX_INDENT = 6;

export type RowState = { readonly id: string; readonly position: number; readonly current: boolean; readonly now: number };

/** The option of the list; its `.more` opens the menu for a mouse, the keyboard has keys for that. */
export function sessionRow(entry: SessionEntry, trans: Trans, { id, position, current, now }: RowState): HTMLElement {
  const title = element("span", { class: "title" }, ...sentence(entry.title || trans.__("Untitled")));
  const head = element("div", { class: "head" }, title, ...badges(entry, trans, current));
  head.append(element("span", { class: "more", "aria-hidden": "true", title: trans.__("Rename, fork, export, delete…") }, "⋯"));
  const about = element("div", { class: "about" }, ...facts(entry, trans, now).flatMap((fact, index) => (index ? [" · ", fact] : [fact])));
  const tags = entry.tags.map((tag) => element("span", { class: "tag" }, visibleText(tag)));
  const row = element(
    "div",
    { id, role: "option", class: "session", "aria-selected": "false", "aria-posinset": `${position}`, "aria-setsize": "-1" },
    head,
    about,
    ...(tags.length ? [element("div", { class: "tags" }, ...tags)] : []),
    ...(entry.snippet ? [element("div", { class: "snippet" }, ...highlightMatches(entry.snippet))] : []),
  );
  if (entry.depth) row.style.setProperty("--cw-depth", `${Math.min(entry.depth, MAX_INDENT)}`);
  return row;
}

export function titleOf(entry: SessionEntry, trans: Trans): string {
  return revealed(entry.title) || trans.__("Untitled");
}

function badges(entry: SessionEntry, trans: Trans, current: boolean): HTMLElement[] {
  if (current) return [element("span", { class: "badge now" }, trans.__("current"))];
  if (!entry.in_use) return [];
  const title = trans.__("Another kernel is using it. Resuming it here continues in a copy.");
  return [element("span", { class: "badge", title }, trans.__("open elsewhere"))];
}

function facts(entry: SessionEntry, trans: Trans, now: number): HTMLElement[] {
  const folder = entry.cwd.split(/[/\\]/).filter(Boolean).at(-1) ?? entry.cwd;
  const parts = [
    element("span", { title: revealed(entry.cwd) }, visibleText(folder)),
    element("time", { datetime: new Date(entry.updated * 1000).toISOString() }, relativeTime(entry.updated, now)),
    element("span", {}, entry.turns === 1 ? trans.__("1 turn") : trans.__("%1 turns", entry.turns)),
  ];
  if (entry.forked_from) parts.push(element("span", { title: trans.__("Forked from %1", entry.forked_from) }, trans.__("fork")));
  if (entry.cost_usd !== null) parts.push(element("span", { title: entry.model }, dollars(entry.cost_usd)));
  return parts;
}

// Relative times in the page's language.

const UNITS: readonly [unit: Intl.RelativeTimeFormatUnit, seconds: number][] = [
  ["year", 31_557_600],
  ["month", 2_629_800],
  ["week", 604_800],
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
];

/** The language of the page; the browser's where the page does not say. */
export function pageLanguage(): string | undefined {
  const { lang } = document.documentElement;
  try {
    return Intl.getCanonicalLocales(lang.replace("_", "-"))[0] ?? navigator.language;
  } catch {
    return navigator.language; // what JupyterLab was told to speak is no language
  }
}

/** `at` and `now` in seconds since the epoch. */
export function relativeTime(at: number, now: number, language = pageLanguage()): string {
  const words = new Intl.RelativeTimeFormat(language, { numeric: "auto" });
  const ago = Math.max(0, now - at);
  const [unit, seconds] = UNITS.find(([, seconds]) => ago >= seconds) ?? ["second", 1];
  if (unit === "second") return words.format(0, "second");
  return words.format(-Math.floor(ago / seconds), unit);
}

// Search snippets, with the matches marked.

const MATCH = /⟪([^⟪⟫]*)⟫/g;

/** The text with what stands between ⟪ and ⟫ marked. */
export function highlightMatches(snippet: string): Node[] {
  const nodes: Node[] = [];
  let from = 0;
  for (const found of snippet.matchAll(MATCH)) {
    nodes.push(document.createTextNode(revealed(snippet.slice(from, found.index))), element("mark", {}, revealed(found[1] ?? "")));
    from = found.index + found[0].length;
  }
  nodes.push(document.createTextNode(revealed(snippet.slice(from))));
  return nodes.filter((node) => node.textContent !== "");
}
