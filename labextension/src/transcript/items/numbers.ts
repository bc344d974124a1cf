/** The numbers of an answer and their sources: each is a button in the text, the footer counts them, a list has all. */

import { SEARCHED, button, element, freshId, setText } from "../dom";
import { plural } from "../format";
import type { CheckedNumbers, NumberPlace, NumberSaid, NumbersOp } from "../protocol";
import { revealed, visibleText } from "../visible_text";
import type { TranscriptContext } from "./item_view";
import { hasPageActions, request } from "./page_actions";

export type Numbers = { readonly buttons: readonly HTMLButtonElement[]; readonly list: HTMLElement; update(): void; dispose(): void };

type CardOf = (call: string) => HTMLElement | undefined;

/** Text that the kernel does not look numbers up in. */
const NO_PROSE = "code, pre, .formula, .thinking, .tool, svg";
const BLOCK = "table, p, li, h1, h2, h3, h4, h5, h6";

/** A source that can be run again. */
const FROM_CODE = /\b(?:Branch|Python), call \d/;

/** What was checked, by the answer that stated it: either build of the renderer may draw that answer, before or later. */
const CHECKED = "cellwright-checked-answers";
const CHECKED_EVENT = "cellwright-checked";

function checkedAnswers(): Map<string, CheckedNumbers> {
  const page = globalThis as unknown as Record<string, Map<string, CheckedNumbers> | undefined>;
  return (page[CHECKED] ??= new Map<string, CheckedNumbers>());
}

/** `items` holds the answer's text; `cardOf` is the card of the call with this id, if it is in this view. */
export function numbersOf({ store, host }: Pick<TranscriptContext, "store" | "host">, items: HTMLElement, cardOf: CardOf): Numbers {
  const id = freshId();
  const list = element("ul", { class: "numbers", id, "aria-label": "Numbers of this answer", hidden: "" });
  const node = button("", () => {
    list.hidden = !list.hidden;
    node.setAttribute("aria-expanded", `${!list.hidden}`);
  }, { class: "plain", "aria-expanded": "false", "aria-controls": id, hidden: "" });
  const check = button("Check these", () => {
    request(host, { action: "ask", prompt: drawn?.check ?? "" });
  }, { class: "plain", title: "Ask Claude to compute the numbers that were not found", hidden: "" });
  const test = button("Test stability", () => {
    request(host, { action: "command", command: `/stability answer=${drawn?.answer ?? ""}` });
  }, { class: "plain", title: "Write a command into Claude's panel that runs the code behind these numbers on resampled data", hidden: "" });
  let drawn: NumbersOp | null = null;
  const draw = (): void => {
    if (!drawn) return;
    const numbers = renewed(drawn.numbers, checkedAnswers().get(drawn.answer));
    node.hidden = numbers.length === 0;
    setText(node, summary(numbers));
    check.hidden = !drawn.check || !hasPageActions() || !numbers.some(({ marked }) => marked);
    test.hidden = !hasPageActions() || !drawn.numbers.some(({ words }) => FROM_CODE.test(words));
    const places = numbers.map((number) => (): HTMLElement[] => placeParts(number, cardOf, host));
    list.replaceChildren(...numbers.map((number, index) =>
      element("li", { class: number.marked && "missing" }, element("b", {}, visibleText(number.text)), " ", ...(places[index]?.() ?? []))));
    markNumbers(items, numbers, (index) => places[index]?.() ?? []);
  };
  return {
    buttons: [node, check, test],
    list,
    update() {
      if (store.numbers === drawn) return;
      drawn = store.numbers;
      if (drawn?.checked) {
        checkedAnswers().set(drawn.checked.answer, drawn.checked);
        document.dispatchEvent(new Event(CHECKED_EVENT));
      }
      // an answer without marks waits for nothing
      if (drawn?.numbers.some(({ marked }) => marked)) document.addEventListener(CHECKED_EVENT, draw);
      draw();
    },
    dispose: () => { document.removeEventListener(CHECKED_EVENT, draw); },
  };
}

/** The numbers with what was computed since for those that had no source. */
export function renewed(numbers: readonly NumberSaid[], checked: CheckedNumbers | undefined): readonly NumberSaid[] {
  if (!checked) return numbers;
  let count = 0;
  return numbers.map((number) => {
    if (!number.marked) return number;
    count += 1;
    const found = checked.numbers.find((each) => each.number === count);
    if (!found) return number;
    const { words, source } = found;
    return found.agrees ? { ...number, verdict: "seen", marked: false, words, source } : { ...number, words: `not found; ${words}`, source };
  });
}

/** `23 numbers · 21 with a source · 2 not found`; those that are too short to tell count as neither. */
export function summary(numbers: readonly NumberSaid[]): string {
  const traced = numbers.filter(({ verdict }) => verdict === "seen" || verdict === "derived").length;
  const missing = numbers.filter(({ marked }) => marked).length;
  return `${plural(numbers.length, "number")} · ${traced} with a source${missing > 0 ? ` · ${missing} not found` : ""}`;
}

/** The source in words, the line that has the number, and the way there. */
function placeParts({ text, words, source }: NumberSaid, cardOf: CardOf, host: HTMLElement): HTMLElement[] {
  const parts = [element("span", {}, visibleText(words))];
  if (!source) return parts;
  if (source.quote) parts.push(element("code", {}, ...lit(source.quote, /[\d.,]*\d/.exec(text)?.[0] ?? "")));
  const go = wayTo(source, cardOf, host);
  return go ? [...parts, go] : parts;
}

function lit(quote: string, digits: string): Node[] {
  const at = digits ? quote.indexOf(digits) : -1;
  return at < 0 ? [visibleText(quote)] : [visibleText(quote.slice(0, at)), element("mark", {}, digits), visibleText(quote.slice(at + digits.length))];
}

function wayTo({ call, cell, path, quote }: NumberPlace, cardOf: CardOf, host: HTMLElement): HTMLButtonElement | null {
  if (call && cardOf(call)) {
    return button("Go to call", () => {
      const card = cardOf(call);
      if (card) reveal(card, quote);
    }, { class: "plain" });
  }
  if (!hasPageActions()) return null;
  if (cell) return button("Go to cell", () => { request(host, { action: "cell", path, cell }); }, { class: "plain" });
  return path ? button("Open file", () => { request(host, { action: "open", path, line: null }); }, { class: "plain" }) : null;
}

/** Opens the folds around the card, goes to the line of its text with the keyboard, and selects it. */
function reveal(card: HTMLElement, quote: string): void {
  for (let fold = card.closest("details"); fold; fold = fold.parentElement?.closest("details") ?? null) fold.open = true;
  const own = card.querySelector("details");
  if (own) {
    own.open = true;
    own.dispatchEvent(new Event(SEARCHED));
  }
  (card.querySelector<HTMLElement>("summary, button") ?? card).focus({ preventScroll: true });
  const line = lineIn(card, quote);
  (line?.startContainer.parentElement ?? card).scrollIntoView({ block: "center" });
  if (line) getSelection()?.setBaseAndExtent(line.startContainer, line.startOffset, line.endContainer, line.endOffset);
}

/** The line of the card's text that the quote is of, whose spaces were joined. */
function lineIn(card: HTMLElement, quote: string): Range | null {
  for (const text of [...card.querySelectorAll("pre")].flatMap((pre) => textsIn(pre, "svg"))) {
    let at = 0;
    for (const line of text.data.split("\n")) {
      const words = line.trim().replace(/\s+/g, " ");
      if (words !== "" && words.includes(quote)) return rangeOf(text, at, at + line.length);
      at += line.length + 1;
    }
  }
  return null;
}

function rangeOf(node: Text, start: number, end: number): Range {
  const range = document.createRange();
  range.setStart(node, start);
  range.setEnd(node, end);
  return range;
}

/** Makes each number in the answer's text a button that shows its source. `from_end` counts from the text's end. */
export function markNumbers(items: HTMLElement, numbers: readonly NumberSaid[], partsOf: (index: number) => HTMLElement[]): void {
  for (const old of items.querySelectorAll(".claim-source")) old.remove();
  for (const old of items.querySelectorAll(".claim")) {
    const around = old.parentNode;
    old.replaceWith(...old.childNodes);
    around?.normalize();
  }
  const marks: HTMLElement[] = [];
  // from the end: what is before a number keeps its place
  const texts = [...items.querySelectorAll(".prose")].filter((prose) => !prose.closest(NO_PROSE)).flatMap((prose) => textsIn(prose, NO_PROSE)).reverse();
  for (const [index, number] of [...numbers.entries()].reverse()) {
    const found = fromEnd(texts, number.text, number.from_end);
    if (found) marks.unshift(mark(found.node, found.at, number, () => partsOf(index)));
  }
  // one stop of the keyboard for all; arrows go on
  const first = marks.find((each) => each.classList.contains("unsourced")) ?? marks[0];
  for (const [index, each] of marks.entries()) {
    each.tabIndex = each === first ? 0 : -1;
    each.addEventListener("keydown", (event) => {
      const to = { ArrowLeft: marks[index - 1], ArrowRight: marks[index + 1] }[event.key];
      if (!to) return;
      event.preventDefault();
      each.tabIndex = -1;
      to.tabIndex = 0;
      to.focus();
    });
  }
}

function mark(text: Text, at: number, number: NumberSaid, parts: () => HTMLElement[]): HTMLElement {
  const node = element("span", { class: number.marked ? "claim unsourced" : "claim", role: "button", "aria-expanded": "false", "aria-label": revealed(`${number.text}, ${number.words}`), title: revealed(number.words) });
  rangeOf(text, at, at + number.text.length).surroundContents(node);
  let card: HTMLElement | null = null;
  const close = (): void => {
    card?.remove();
    card = null;
    node.setAttribute("aria-expanded", "false");
  };
  const toggle = (): void => {
    if (card?.isConnected) {
      close();
      return;
    }
    card = element("div", { class: "claim-source", role: "status" });
    const block = node.closest(BLOCK) ?? node;
    if (block.localName === "li") block.append(card);
    else block.after(card);
    card.append(element("b", {}, visibleText(number.text)), " ", ...parts());
    card.addEventListener("keydown", leave);
    node.setAttribute("aria-expanded", "true");
  };
  const leave = (event: KeyboardEvent): void => {
    if (event.key !== "Escape" || !card) return;
    event.stopPropagation();
    close();
    node.focus();
  };
  node.addEventListener("click", () => { if (getSelection()?.isCollapsed !== false) toggle(); });
  node.addEventListener("keydown", (event) => {
    leave(event);
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    toggle();
  });
  return node;
}

function textsIn(node: Node, without: string): Text[] {
  const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT, (text) =>
    text.parentElement?.closest(without) ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT);
  const texts: Text[] = [];
  while (walker.nextNode()) texts.push(walker.currentNode as Text);
  return texts;
}

/** `texts`: the last first. */
function fromEnd(texts: readonly Text[], text: string, skip: number): { node: Text; at: number } | null {
  let left = skip;
  for (const node of texts) {
    let at = node.data.lastIndexOf(text);
    while (at >= 0) {
      if (left-- === 0) return { node, at };
      at = at > 0 ? node.data.lastIndexOf(text, at - 1) : -1;
    }
  }
  return null;
}
