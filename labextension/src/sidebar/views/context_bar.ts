/** The context bar: how full Claude's context is, what the session has cost, and on demand what fills it. */

import type { Mount, PanelDeps } from "../../panel_view";
import { button, element, freshId, setText } from "../../transcript/dom";
import { count, dollars } from "../../transcript/format";
import type { Trans } from "../../translation";
import type { Chat } from "../../transport/chat";
import type { CurrentSession } from "../../transport/chat_protocol";
import css from "./context_bar.css";

/** From here on the bar warns; from there it says that little is left. */
const MUCH = 0.8;
const NEARLY_ALL = 0.95;

export const mountContextBar: Mount = (host, chat, deps) => {
  const { trans } = deps;
  const id = freshId();
  const fill = element("span", { class: "fill" });
  const meter = element("span", { class: "meter", "aria-hidden": "true" }, fill);
  const text = element("span", { class: "text" });
  const opener = button(meter, () => { if (popover.hidden) open(); else close(); }, { class: "opener", "aria-expanded": "false", "aria-controls": id });
  opener.append(text);
  const popover = element("div", { id, class: "popover", role: "dialog", tabindex: "-1", "aria-label": trans.__("Context used"), hidden: "" });
  const bar = element("div", { class: "cw-context", hidden: "" }, element("style", {}, css), opener, popover);
  host.append(bar);
  let asked = 0;
  let shown = "";

  const draw = (): void => {
    const state = chat.connection === "connected" ? chat.state : null;
    // nothing was asked yet
    bar.hidden = !state || !(state.session.context_tokens || state.session.cost_usd);
    if (state) drawSession(state.session);
    else if (!popover.hidden) close();
    const now = state ? [state.session.id, state.session.context_tokens, state.session.cost_usd, state.model].join() : "";
    if (now !== shown && !popover.hidden) void fillPopover();
    shown = now;
  };

  const drawSession = (session: CurrentSession): void => {
    const share = shareOf(session);
    meter.hidden = !session.context_window;
    fill.style.width = `${Math.min(100, share * 100).toFixed(1)}%`;
    bar.dataset.level = levelOf(share);
    setText(text, shortText(session, deps));
    opener.title = longText(session, deps);
    opener.setAttribute("aria-label", trans.__("Context: %1. What fills it?", text.textContent));
  };

  const fillPopover = async (): Promise<void> => {
    const mine = ++asked;
    let use: ContextUse | null = null;
    let problem = "";
    try {
      use = (await chat.request("context", {})) as ContextUse;
    } catch (error) {
      problem = error instanceof Error ? error.message : String(error);
    }
    if (mine !== asked || popover.hidden) return;
    const had = popover.contains(document.activeElement);
    popover.replaceChildren(
      element("h3", {}, trans.__("Context used")),
      use ? contextTable(use, trans) : element("p", { role: "alert" }, trans.__("It could not be found out: %1", problem)),
      costs(chat, trans),
      button(trans.__("Close"), close),
    );
    if (had) popover.focus();
  };

  const open = (): void => {
    popover.hidden = false;
    opener.setAttribute("aria-expanded", "true");
    popover.replaceChildren(element("p", { role: "status" }, trans.__("Counting…")));
    popover.focus();
    document.addEventListener("pointerdown", outside, true);
    void fillPopover();
  };
  const close = (): void => {
    document.removeEventListener("pointerdown", outside, true);
    const had = popover.contains(document.activeElement);
    popover.hidden = true;
    opener.setAttribute("aria-expanded", "false");
    if (had) opener.focus();
  };
  const outside = (event: Event): void => { if (!event.composedPath().includes(bar)) close(); };
  bar.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || popover.hidden) return;
    event.preventDefault();
    event.stopPropagation();
    close();
  });
  popover.addEventListener("focusout", ({ relatedTarget }) => {
    if (relatedTarget instanceof Node && !bar.contains(relatedTarget)) close();
  });

  const unsubscribe = chat.subscribe(draw);
  draw();
  return {
    dispose() {
      unsubscribe();
      close();
      bar.remove();
    },
  };
};

function shareOf({ context_tokens, context_window }: CurrentSession): number {
  return context_window ? context_tokens / context_window : 0;
}

function levelOf(share: number): "" | "much" | "nearly all" {
  return share >= NEARLY_ALL ? "nearly all" : share >= MUCH ? "much" : "";
}

function shortText({ context_tokens, context_window, cost_usd }: CurrentSession, { trans }: PanelDeps): string {
  const tokens = context_window ? percent(context_tokens / context_window) : trans.__("%1 tokens", count(context_tokens));
  return cost_usd === null ? tokens : `${tokens} · ${dollars(cost_usd)}`;
}

/** A share of the context in whole percent; what is used at all is never none. */
function percent(share: number): string {
  return share > 0 && share < 0.01 ? "<1%" : `${Math.round(share * 100)}%`;
}

function longText({ context_tokens, context_window, cost_usd }: CurrentSession, { trans }: PanelDeps): string {
  const said = context_window
    ? trans.__("%1 of %2 tokens, %3", count(context_tokens), count(context_window), percent(context_tokens / context_window))
    : trans.__("%1 tokens", count(context_tokens));
  return cost_usd === null ? said : trans.__("%1; the session has cost %2", said, dollars(cost_usd));
}

// The parts of the context, as a table with bars, and the cost of the conversation.

export type ContextUse = { parts: { name: string; tokens: number }[]; tokens: number; window: number | null };

export function contextTable(use: ContextUse, trans: Trans): HTMLElement {
  if (!use.parts.length) return element("p", {}, trans.__("Nothing has been said yet, so the context is empty."));
  const names = partNames(trans);
  // the bars compare what is in use: beside all that is free they would not be seen
  const most = Math.max(...use.parts.map(({ tokens }) => tokens));
  const rows = use.parts.map(({ name, tokens }) => row(names[name] ?? name, tokens, use.tokens, most));
  if (use.window) rows.push(row(trans.__("Free"), Math.max(0, use.window - use.tokens)));
  const head = [trans.__("Part"), trans.__("Tokens"), trans.__("Share")].map((title) => element("th", { scope: "col" }, title));
  const about = trans.__("The total is the API's count; the shares are estimated by size.");
  return element(
    "div",
    {},
    element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows)),
    element("p", { class: "hint" }, about),
  );
}

/** A part with its share of `whole`, what is in use; its bar is as long as the part is beside the largest one, `most`. */
function row(label: string, tokens: number, whole = 0, most = 0): HTMLElement {
  const share = whole > 0 ? tokens / whole : 0;
  const width = Math.max((tokens / most) * 100, tokens ? 1 : 0);
  const track = most && element("span", { class: "track" }, element("span", { class: "share", "aria-hidden": "true", style: `width: ${width}%` }));
  return element(
    "tr",
    {},
    element("th", { scope: "row" }, label, ...(track ? [track] : [])),
    element("td", {}, count(tokens)),
    element("td", {}, whole ? `${(share * 100).toFixed(share < 0.1 ? 1 : 0)}%` : ""),
  );
}

function partNames(trans: Trans): Record<string, string> {
  return {
    system: trans.__("System prompt"),
    tools: trans.__("Tools"),
    told: trans.__("Added context"),
    attachments: trans.__("Attached files"),
    words: trans.__("Your messages"),
    answers: trans.__("Claude's messages"),
    thinking: trans.__("Thinking"),
    results: trans.__("Tool results"),
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
