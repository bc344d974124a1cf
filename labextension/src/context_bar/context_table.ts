/** What fills the context, as a table with bars, and what the conversation has cost. */

import type { Chat } from "../transport/chat";
import type { Trans } from "../composer/composer_deps";
import { element } from "../transcript/dom";
import { count, dollars } from "../transcript/format";

export type ContextUse = { parts: { name: string; tokens: number }[]; tokens: number; window: number | null };

export function contextTable(use: ContextUse, trans: Trans): HTMLElement {
  if (!use.parts.length) return element("p", {}, trans.__("Nothing was said yet: the context is empty."));
  const names = partNames(trans);
  const whole = use.window ?? use.tokens;
  const rows = use.parts.map(({ name, tokens }) => row(names[name] ?? name, tokens, whole, name));
  if (use.window) rows.push(row(trans.__("Free"), Math.max(0, use.window - use.tokens), whole, "free"));
  const head = [trans.__("Part"), trans.__("Tokens"), trans.__("Share")].map((title) => element("th", { scope: "col" }, title));
  const about = trans.__("The number of tokens is the API's; how they are shared out is estimated by size.");
  return element(
    "div",
    {},
    element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows)),
    element("p", { class: "hint" }, about),
  );
}

function row(label: string, tokens: number, whole: number, name: string): HTMLElement {
  const share = whole > 0 ? tokens / whole : 0;
  const bar = element("span", { class: "share", "aria-hidden": "true", style: `width: ${Math.max(share * 100, tokens ? 1 : 0)}%` });
  const percent = share > 0 && share < 0.001 ? "< 0.1 %" : `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`;
  return element(
    "tr",
    { "data-part": name },
    element("th", { scope: "row" }, label, element("span", { class: "track" }, bar)),
    element("td", {}, count(tokens)),
    element("td", {}, percent),
  );
}

function partNames(trans: Trans): Record<string, string> {
  return {
    system: trans.__("System prompt"),
    tools: trans.__("Tools"),
    told: trans.__("Told with prompts"),
    attachments: trans.__("Attached files"),
    words: trans.__("Your words"),
    answers: trans.__("Claude's answers and calls"),
    thinking: trans.__("Thinking"),
    results: trans.__("Results of tools"),
    images: trans.__("Images"),
  };
}

/** The model, and what session and newest turn have cost. */
export function costs(chat: Chat, trans: Trans): HTMLElement {
  const { state } = chat;
  const model = state?.models.find(({ id }) => id === state.model)?.name ?? state?.model ?? "";
  const last = chat.runs.findLast(({ run }) => run.kind === "prompt");
  const said: [string, string][] = [
    [trans.__("Model"), model],
    [trans.__("Session"), price(state?.session.cost_usd ?? null, trans)],
    ...(last ? [[trans.__("Last turn"), price(last.transcript.totals.cost, trans)] as [string, string]] : []),
  ];
  return element("dl", {}, ...said.flatMap(([term, text]) => [element("dt", {}, term), element("dd", {}, text)]));
}

function price(cost: number | null, trans: Trans): string {
  return cost === null ? trans.__("price not known") : dollars(cost);
}
