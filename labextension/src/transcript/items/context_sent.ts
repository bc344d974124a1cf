/** The context that was sent with a prompt: a button in the footer, and below it each block with its text. */

import { button, element, freshId, setText } from "../dom";
import { count, plural } from "../format";
import type { ContextPart } from "../protocol";
import type { TranscriptStore } from "../store";
import { visibleText } from "../visible_text";

export type ContextSent = { readonly button: HTMLButtonElement; readonly list: HTMLElement; update(): void };

export function contextSent({ context }: TranscriptStore): ContextSent {
  const id = freshId();
  const list = element("ul", { class: "context-sent", id, "aria-label": "Context sent", hidden: "" });
  const node = button("", () => {
    list.hidden = !list.hidden;
    node.setAttribute("aria-expanded", `${!list.hidden}`);
    fill();
  }, { class: "plain", "aria-expanded": "false", "aria-controls": id, hidden: "" });
  const fill = (): void => {
    if (list.hidden) return;
    const parts = context.flatMap((op) => op.parts);
    list.append(...parts.slice(list.childElementCount).map((part) => element("li", {}, partView(part))));
  };
  return {
    button: node,
    list,
    update() {
      node.hidden = context.length === 0;
      setText(node, `Context sent (${tokens(context.reduce((sum, op) => sum + op.tokens, 0))})`);
      fill();
    },
  };
}

function partView(part: ContextPart): HTMLElement {
  const title = element("b", {}, visibleText(part.title));
  const node = element("details", {}, element("summary", {}, title, element("span", {}, tokens(part.tokens))));
  const fill = (): void => {
    node.append(element("pre", { tabindex: "0" }, visibleText(part.text)));
  };
  node.addEventListener("toggle", fill, { once: true });
  return node;
}

function tokens(number: number): string {
  return number === 1 ? plural(1, "token") : `${count(number)} tokens`;
}
