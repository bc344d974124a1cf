/** The line over the end of a box that counts what is cut off there. */

import { button, setText } from "../dom";

/** "4 more below" while `items` of `box`, which scrolls, are cut off at its end; a press shows the next ones. */
export function belowLine(box: HTMLElement, items: string): HTMLElement {
  const node = button("More below", () => { box.scrollBy({ top: box.clientHeight - 40 }); }, { class: "plain below", tabindex: "-1", hidden: "" });
  const update = (): void => {
    const end = box.getBoundingClientRect().bottom;
    const cut = [...box.querySelectorAll(items)].filter((each) => each.getBoundingClientRect().bottom > end + 4).length;
    node.hidden = cut === 0;
    setText(node, `${cut} more below`);
  };
  box.addEventListener("scroll", update, { passive: true });
  // a box that leaves the page is observed no more: the observer goes with it
  if ("ResizeObserver" in globalThis) new ResizeObserver(update).observe(box);
  return node;
}
