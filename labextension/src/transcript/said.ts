/** What the user said while Claude worked, where Claude was given it. */

import { element } from "./dom";
import type { ItemView } from "./items/item_view";
import type { SaidItem } from "./items";
import { visibleText } from "./visible_text";

export function said(item: SaidItem): ItemView {
  const node = element("p", { class: "said" }, element("b", {}, "You"), " ", element("span", {}, visibleText(item.text)));
  return { node, update: () => undefined };
}
