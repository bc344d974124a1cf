/** All there is to know before a question is answered: to what, the warning, the whole of it, why it is asked. */

import { diffView } from "./cards/diff";
import { element } from "./dom";
import type { AskOp } from "./protocol";
import { planText } from "./plan_text";
import { sentence, visibleText } from "./visible_text";


/** `reasonId`: the id of the element that says why it is asked. */
export function questionDetail(ask: AskOp, reasonId: string): HTMLElement[] {
  const parts: HTMLElement[] = [];
  if (ask.path && !ask.title.includes(ask.path)) parts.push(element("p", { class: "path" }, visibleText(ask.path)));
  if (ask.warning) {
    parts.push(element("p", { class: "notice warning" }, element("b", {}, "Warning: "), visibleText(ask.warning)));
  }
  if (ask.detail) parts.push(detail(ask));
  const reason = ask.kind === "plan" ? "Nothing is changed until you approve." : ask.reason;
  parts.push(element("p", { class: "reason", id: reasonId }, ...sentence(reason)));
  return parts;
}

function detail(ask: AskOp): HTMLElement {
  if (ask.kind === "plan") return planText(ask.detail);
  switch (ask.detail_kind) {
    case "diff":
      return diffView(ask.detail);
    case "command":
    case "code":
    case "text": {
      const label = ask.detail_kind === "text" ? "Details" : `The whole ${ask.detail_kind}`;
      const attributes = { class: "exact detail", tabindex: "0", role: "region", "aria-label": label };
      return element("pre", attributes, visibleText(ask.detail));
    }
  }
}
