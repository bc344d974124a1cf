/** What Claude was told besides the user's words: one closed line, and in it each part with its text. */

import { element } from "./dom";
import { count, plural } from "./format";
import type { ItemView } from "./items/item_view";
import type { ToldItem } from "./items";
import type { ToldPart } from "./protocol";
import { visibleText } from "./visible_text";

export function told(item: ToldItem): ItemView {
  const summary = element("summary", {}, `What Claude was told (${tokens(item.tokens)})`);
  const list = element("ul");
  const node = element("details", { class: "told" }, summary, list);
  const fill = (): void => {
    list.append(...item.parts.map((part) => element("li", {}, partView(part))));
  };
  node.addEventListener("toggle", fill, { once: true });
  return { node, update: () => undefined };
}

function partView(part: ToldPart): HTMLElement {
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
