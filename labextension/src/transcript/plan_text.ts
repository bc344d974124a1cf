/** A plan as it reads: Markdown, with what would deceive written out. */

import { element } from "./dom";
import { Markdown } from "./markdown/markdown";
import { revealed } from "./visible_text";

export function planText(plan: string): HTMLElement {
  const node = element("div", { class: "prose plan", tabindex: "0", role: "region", "aria-label": "The plan" });
  new Markdown(node).update(revealed(plan), false);
  return node;
}
