/** The panel before anything is said: the notebook's earlier conversation, what Claude sees, and what one could ask now. */

import type { JsonObject } from "../../json";
import { relativeTime } from "../../sessions/session_row";
import { button, element } from "../../transcript/dom";
import { plural } from "../../transcript/format";
import { revealed } from "../../transcript/visible_text";
import type { Trans } from "../../translation";
import type { Chat } from "../../transport/chat";
import type { SessionEntry } from "../../transport/chat_protocol";
import type { KeyReport } from "../../transport/server_api";
import { icon } from "../icons";
import { baseName } from "../kernel_choice";
import type { NotebookFacts } from "../notebook_facts";

/** What the kernel answers to `start`. */
export type KernelStart = {
  readonly key: KeyReport;
  readonly variables: readonly { readonly name: string; readonly type: string }[];
  readonly variable_count: number;
  readonly earlier: SessionEntry | null;
};

export type Suggestion = { readonly label: string; readonly prompt: string };

export type StartPageDeps = {
  readonly trans: Trans;
  readonly shortcut: string;
  compose(text: string): void;
  startKernel(): void;
  resume(session: string): void;
};

export type StartPage = { readonly node: HTMLElement; update(chat: Chat, start: KernelStart | null, facts: NotebookFacts | null): void };

const MAX_SUGGESTIONS = 3;
const MINUTE = 60;
const TABLES = ["DataFrame", "LazyFrame", "Table", "Dataset", "DataArray"];

export function startPage(deps: StartPageDeps): StartPage {
  const { trans } = deps;
  const about = element("p", { class: "about" });
  const earlier = element("div", { class: "earlier" });
  const list = element("ul", { class: "examples", "aria-label": trans.__("Suggestions") });
  const keys = element("p", { class: "keys" }, ...keyLine(deps));
  const node = element("div", { class: "first" }, icon("claude"), element("h3", {}, trans.__("Ask Claude")), about, earlier, list, keys);
  let shown = "";
  return {
    node,
    update(chat, start, facts) {
      const suggested = suggestionsFor(chat, start, facts, trans);
      const seen = aboutText(chat, start, facts, trans);
      const now = JSON.stringify([chat.connection, seen, suggested, start?.earlier?.id, chat.notRestored]);
      if (now === shown) return;
      shown = now;
      about.textContent = seen;
      const notShown = chat.notRestored && trans.__("The kernel restarted, and the conversation before it cannot be shown: %1", revealed(chat.notRestored));
      earlier.replaceChildren(...(notShown ? [element("p", { class: "about" }, notShown)] : []), ...(start?.earlier ? [continueButton(start.earlier, chat, deps)] : []));
      list.replaceChildren(...suggested.map(({ label, prompt }) => element("li", {}, button(label, () => { deps.compose(prompt); }))));
      if (chat.connection === "none") list.append(element("li", {}, button(trans.__("Start a kernel in this folder"), () => { deps.startKernel(); }, { class: "start" })));
    },
  };
}

function suggestionsFor({ kernelInfo, state }: Chat, start: KernelStart | null, facts: NotebookFacts | null, trans: Trans): Suggestion[] {
  if (state?.scripted) return demoSuggestions(trans);
  return kernelInfo?.notebook == null ? folderSuggestions(trans) : suggestions(facts, start, trans);
}

function continueButton(entry: SessionEntry, { kernelInfo }: Chat, deps: StartPageDeps): HTMLElement {
  const { trans } = deps;
  // a session's title begins with its notebook, which is this one
  const notebook = `${baseName(kernelInfo?.notebook ?? "").replace(/\.\w+$/, "")}: `;
  const title = entry.title.startsWith(notebook) ? entry.title.slice(notebook.length) : entry.title;
  const now = Date.now() / 1000;
  const when = now - entry.updated < MINUTE ? trans.__("just now") : relativeTime(entry.updated, now);
  return button(
    element("span", {}, element("span", { class: "label" }, trans.__("Continue “%1”", revealed(title))), element("span", { class: "about" }, `${when} · ${plural(entry.turns, "turn")}`)),
    () => { deps.resume(entry.id); },
    { class: "continue" },
  );
}

/** What Claude sees, in a line. */
function aboutText({ kernelInfo, connection, state }: Chat, start: KernelStart | null, facts: NotebookFacts | null, trans: Trans): string {
  if (connection === "none") return trans.__("No notebook with a Python kernel is open. Your first prompt starts a kernel in the file browser's folder.");
  const folder = state ? revealed(state.cwd.split(/[\\/]/).filter((part) => part).at(-1) ?? state.cwd) : "";
  const parts = [
    ...(kernelInfo?.notebook != null ? [facts ? `${revealed(baseName(kernelInfo.notebook))} (${plural(facts.cells, "cell")})` : revealed(baseName(kernelInfo.notebook))] : []),
    ...(start ? [start.variable_count === 0 ? trans.__("no variables yet") : plural(start.variable_count, "variable")] : []),
    ...(folder ? [trans.__("files in %1", folder)] : []),
  ];
  return trans.__("Claude sees %1. It asks before it changes anything.", parts.join(", "));
}

/** Three things to ask, by what the notebook looks like now. */
export function suggestions(facts: NotebookFacts | null, start: KernelStart | null, trans: Trans): Suggestion[] {
  const usual = !facts || facts.cells === 0 ? emptySuggestions(trans) : notebookSuggestions(facts, trans);
  return [...urgentSuggestions(facts, start, trans), ...usual.map(same)].slice(0, MAX_SUGGESTIONS);
}

/** What the notebook's outputs and variables call for. */
function urgentSuggestions(facts: NotebookFacts | null, start: KernelStart | null, trans: Trans): Suggestion[] {
  const found: Suggestion[] = [];
  if (facts?.failed) {
    const { count, error } = facts.failed;
    found.push({ label: trans.__("Fix the %1 in cell [%2]", error || trans.__("error"), count), prompt: trans.__("Fix the error in @cell:[%1]", count) });
  }
  const frame = start?.variables.find(({ type }) => TABLES.includes(type))?.name;
  if (facts?.table) {
    found.push({ label: trans.__("Plot the table of cell [%1]", facts.table.count), prompt: trans.__("Plot what matters in the table of @cell:[%1]", facts.table.count) });
  } else if (frame) {
    found.push({ label: trans.__("Look for gaps and outliers in %1", revealed(frame)), prompt: trans.__("Look for gaps and outliers in $%1", frame) });
  }
  return found;
}

function notebookSuggestions({ code, ran, hasProse }: NotebookFacts, trans: Trans): string[] {
  return [
    ...(code > 0 && ran === 0 ? [trans.__("Run all cells and explain what comes out")] : []),
    trans.__("Explain what this notebook does"),
    ...(!hasProse && code > 2 ? [trans.__("Add headings and short explanations to this notebook")] : []),
    trans.__("Look for mistakes in the cells above"),
    trans.__("Plot what matters in my data"),
  ];
}

function emptySuggestions(trans: Trans): string[] {
  return [trans.__("What data is in this folder?"), trans.__("Load a file of this folder and show what is in it"), trans.__("Write a notebook that explores the data here")];
}

function same(text: string): Suggestion {
  return { label: text, prompt: text };
}

function folderSuggestions(trans: Trans): Suggestion[] {
  return [trans.__("What is in this folder?"), trans.__("Write a notebook that explores the data here"), trans.__("Run the tests and explain what fails")].map(same);
}

/** What the demo's scripted model has answers to. */
function demoSuggestions(trans: Trans): Suggestion[] {
  return [trans.__("The tests of this project fail. Find the reason, fix it, and run the tests again."), trans.__("Plot the levels and mark high tide."), trans.__("Plan how to find low tide as well.")].map(same);
}

function keyLine({ trans, shortcut }: StartPageDeps): Node[] {
  const keys: [string, string][] = [["/", trans.__("commands")], ["@", trans.__("files and cells")], ["$", trans.__("variables")]];
  if (shortcut) keys.push([shortcut, trans.__("opens this panel from anywhere")]);
  return keys.map(([key, meaning]) => element("span", {}, element("kbd", {}, key), ` ${meaning}`));
}

/** Reads the kernel's answer; null where it says nothing that is known: an older package, or a fault. */
export function kernelStart(answer: JsonObject | null): KernelStart | null {
  return answer && typeof answer.key === "object" && Array.isArray(answer.variables) ? (answer as unknown as KernelStart) : null;
}
