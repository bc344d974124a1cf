/** Thinking: one line with a clock; its text on demand. */

import { element, setText } from "./dom";
import { wholeSeconds } from "./format";
import type { ItemView, Place } from "./items/item_view";
import type { ThinkingItem } from "./items";
import { Markdown } from "./markdown/markdown";

export function thinkingBlock(item: ThinkingItem, { store }: Place): ItemView {
  const summary = element("summary");
  const body = element("div", { class: "prose" });
  const node = element("details", { class: "thinking" }, summary, body);
  const markdown = new Markdown(body);

  const tick = (): void => {
    if (item.open) setText(summary, `Thinking… ${wholeSeconds(store.now() - item.from)}`);
    else setText(summary, item.to - item.from < 1 ? "Thought briefly" : `Thought for ${wholeSeconds(item.to - item.from)}`);
  };
  const update = (): void => {
    tick();
    if (node.open) markdown.update(item.text, item.open);
  };
  node.addEventListener("toggle", update);
  return { node, update, tick };
}
