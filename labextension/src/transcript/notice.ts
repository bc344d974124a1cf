/** Something the user should know that is no part of the answer. */

import { element } from "./dom";
import type { ItemView } from "./items/item_view";
import type { NoticeItem } from "./items";
import type { Level } from "./protocol";

const WORDS: Record<Level, string> = { info: "Note", warning: "Warning", error: "Error" };

export function notice(item: NoticeItem): ItemView {
  const node = element("p", { class: `notice ${item.level}`, role: item.level === "error" ? "alert" : "note" });
  return {
    node,
    update() {
      node.replaceChildren(element("b", {}, `${WORDS[item.level]}: `), item.text);
    },
  };
}
