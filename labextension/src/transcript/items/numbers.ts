/** The numbers of an answer and their sources: a button in the footer with a list below it, marks at those that were not found. */

import { button, element, freshId, setText } from "../dom";
import { plural } from "../format";
import type { NumberSaid } from "../protocol";
import type { TranscriptStore } from "../store";
import { visibleText } from "../visible_text";

export type Numbers = { readonly button: HTMLButtonElement; readonly list: HTMLElement; update(): void };

/** Text that the kernel does not look numbers up in. */
const NO_PROSE = "code, pre, .formula, .thinking, svg";

/** `items` holds the answer's text; `cardOf` is the card of the call with this id, if it is in this view. */
export function numbersOf(store: TranscriptStore, items: HTMLElement, cardOf: (call: string) => HTMLElement | undefined): Numbers {
  const id = freshId();
  const list = element("ul", { class: "numbers", id, "aria-label": "Numbers of this answer", hidden: "" });
  const node = button("", () => {
    list.hidden = !list.hidden;
    node.setAttribute("aria-expanded", `${!list.hidden}`);
  }, { class: "plain", "aria-expanded": "false", "aria-controls": id, hidden: "" });
  let drawn: readonly NumberSaid[] = [];
  return {
    button: node,
    list,
    update() {
      const { numbers } = store;
      if (numbers === drawn) return;
      drawn = numbers;
      node.hidden = numbers.length === 0;
      setText(node, summary(numbers));
      list.replaceChildren(...numbers.map((number) => entry(number, cardOf)));
      markNumbers(items, numbers);
    },
  };
}

/** `23 numbers · 2 not found`; those that are only too short to tell are not counted against it. */
export function summary(numbers: readonly NumberSaid[]): string {
  const missing = numbers.filter(({ marked }) => marked).length;
  return plural(numbers.length, "number") + (missing > 0 ? ` · ${missing} not found` : "");
}

function entry(number: NumberSaid, cardOf: (call: string) => HTMLElement | undefined): HTMLElement {
  const node = element("li", { class: number.marked ? "missing" : false }, element("b", {}, visibleText(number.text)), " ", visibleText(number.words));
  if (number.quote) node.append(element("code", {}, visibleText(number.quote)));
  const card = number.call ? cardOf(number.call) : undefined;
  if (card) node.append(button("Show the call", () => { reveal(card); }, { class: "plain" }));
  return node;
}

/** Opens the folds around the card and scrolls to it, with the keyboard. */
function reveal(card: HTMLElement): void {
  for (let fold = card.closest("details"); fold; fold = fold.parentElement?.closest("details") ?? null) fold.open = true;
  card.scrollIntoView({ block: "center" });
  const target = card.querySelector<HTMLElement>("summary, button") ?? card;
  target.focus({ preventScroll: true });
}

/** Marks the numbers that were not found in the answer's text. `from_end` counts from its end, since earlier steps have text, too. */
export function markNumbers(items: HTMLElement, numbers: readonly NumberSaid[]): void {
  const texts = proseTexts(items);
  for (const number of numbers) {
    if (!number.marked) continue;
    const found = fromEnd(texts, number.text, number.from_end);
    if (!found) continue;
    const range = document.createRange();
    range.setStart(found.node, found.at);
    range.setEnd(found.node, found.at + number.text.length);
    range.surroundContents(element("span", { class: "unsourced", title: `${number.text}: ${number.words}` }));
    // the node was split: what was before stays in it, what is behind it is a new one
    texts.splice(texts.indexOf(found.node) + 1, 0, ...textsIn(found.node.nextSibling), ...textsIn(found.node.nextSibling?.nextSibling ?? null));
  }
}

function proseTexts(items: HTMLElement): Text[] {
  return [...items.querySelectorAll(".prose")].filter((prose) => !prose.closest(NO_PROSE)).flatMap(textsIn);
}

function textsIn(node: Node | null): Text[] {
  if (node === null) return [];
  if (node instanceof Text) return [node];
  const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT, (text) =>
    text.parentElement?.closest(NO_PROSE) ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT);
  const texts: Text[] = [];
  while (walker.nextNode()) texts.push(walker.currentNode as Text);
  return texts;
}

function fromEnd(texts: readonly Text[], text: string, skip: number): { node: Text; at: number } | null {
  let left = skip;
  for (const node of [...texts].reverse()) {
    let at = node.data.lastIndexOf(text);
    while (at >= 0) {
      if (left-- === 0) return { node, at };
      at = at > 0 ? node.data.lastIndexOf(text, at - 1) : -1;
    }
  }
  return null;
}
