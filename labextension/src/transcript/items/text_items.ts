/** The answer's own words. */

import { element, SEARCHED, setText } from "../dom";
import { dollars, wholeSeconds } from "../format";
import { Markdown } from "../markdown/markdown";
import type { CompactedOp, Level } from "../protocol";
import type { CompactedItem, NoticeItem, UserMessageItem, TextItem, ThinkingItem } from "../store";
import { sentence, visibleText } from "../visible_text";
import type { ItemView, TranscriptContext } from "./item_view";

export function textBlock(item: TextItem): ItemView {
  const node = element("div", { class: item.stale ? "prose stale" : "prose" });
  const markdown = new Markdown(node);
  return {
    node,
    update() {
      markdown.update(item.text, item.open);
    },
  };
}

// Thinking: one line with a clock; its text on demand.

export function thinkingBlock(item: ThinkingItem, { store }: TranscriptContext): ItemView {
  const summary = element("summary");
  const body = element("div", { class: "prose" });
  const node = element("details", { class: "thinking" }, summary, body);
  const markdown = new Markdown(body);

  const tick = (): void => {
    if (item.open) setText(summary, `Thinking… ${wholeSeconds(store.now() - item.from)}`);
    else setText(summary, item.to - item.from < 1 ? "Thought briefly" : `Thought for ${wholeSeconds(item.to - item.from)}`);
  };
  const update = (event?: Event): void => {
    tick();
    if (node.open || event?.type === SEARCHED) markdown.update(item.text, item.open);
  };
  for (const asked of ["toggle", SEARCHED]) node.addEventListener(asked, update);
  return { node, update: () => { update(); }, tick };
}

// The user's steering message, where Claude received it.

export function userMessage(item: UserMessageItem): ItemView {
  const node = element("p", { class: "said" }, element("b", {}, "You"), " ", element("span", {}, visibleText(item.text)));
  return { node, update: () => undefined };
}

// Something the user should know that is no part of the answer.

const WORDS: Record<Level, string> = { info: "Note", warning: "Warning", error: "Error" };

export function notice(item: NoticeItem): ItemView {
  const node = element("p", { class: `notice ${item.level}`, role: item.level === "error" ? "alert" : "note" });
  return {
    node,
    update() {
      node.replaceChildren(element("b", {}, `${WORDS[item.level]}: `), ...sentence(item.times > 1 ? `${item.text} (${item.times} times)` : item.text));
    },
  };
}

// The conversation so far was summed up: one quiet line, and in it the summary.

export function compacted(item: CompactedItem): ItemView {
  const summary = element("summary");
  const body = element("pre", { tabindex: "0" });
  const node = element("details", { class: "told compacted" }, summary, body);
  const update = (): void => {
    // the error or the notice that goes with it says why
    node.hidden = item.op.state === "failed";
    setText(summary, compactedLine(item.op));
    body.replaceChildren(visibleText(item.op.summary || "The summary is being written."));
  };
  return { node, update };
}

function compactedLine({ state, before, after, cost_usd: cost }: CompactedOp): string {
  if (state === "started") return "Summarising the earlier conversation…";
  const price = cost === null ? "" : `, ${dollars(cost)}`;
  return `Earlier conversation summarised: ${before.toLocaleString("en")} → ${after.toLocaleString("en")} tokens${price}`;
}
