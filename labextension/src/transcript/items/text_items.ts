/** The answer's own words. */

import { element } from "../dom";
import type { ItemView } from "./item_view";
import type { TextItem } from "../items";
import { Markdown } from "../markdown/markdown";

export function textBlock(item: TextItem): ItemView {
  const node = element("div", { class: "prose" });
  const markdown = new Markdown(node);
  return {
    node,
    update() {
      markdown.update(item.text, item.open);
    },
  };
}
