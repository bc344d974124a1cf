/** The numbers of an answer and their sources: each is a button in the text, the footer counts them, a list has all. */

import { SEARCHED, button, element, freshId, setText } from "../dom";
import { plural } from "../format";
import type { CheckedNumbers, NumberPlace, NumberSaid, NumbersOp, UnknownName } from "../protocol";
import { revealed, visibleText } from "../visible_text";
import type { TranscriptContext } from "./item_view";
import { hasPageActions, request } from "./page_actions";

export type Numbers = { readonly buttons: readonly HTMLButtonElement[]; readonly list: HTMLElement; update(): void; dispose(): void };

/** An answer of a notebook whose cells or files have another value now; `refresh` are the instructions by which Claude writes it anew. */
/** `title`: the prompt that has the answer written anew where no cell shows it; the kernel knows its instructions. */
export type StaleAnswer = { readonly answer: string; readonly numbers: readonly StaleNumber[]; readonly refresh: string; readonly title?: string };
export type StaleNumber = { readonly text: string; readonly from_end: number; readonly words: string; readonly cell: string; readonly path: string };
/** A number as it is drawn; `stale` says what its source has now, "" if it is not stale. */
type Drawn = NumberSaid & { readonly stale: string };

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

/** What the page has found stale, by the answer's name, for either build of the renderer. */
const STALE = "cellwright-stale-answers";
const STALE_EVENT = "cellwright-stale";

function staleAnswers(): Map<string, StaleAnswer> {
  const page = globalThis as unknown as Record<string, Map<string, StaleAnswer> | undefined>;
  return (page[STALE] ??= new Map<string, StaleAnswer>());
}

/** Marks the answers `found`, and takes the marks from those of `before` that are not stale any more. */
export function showStale(found: readonly StaleAnswer[], before: Iterable<string> = []): void {
  const known = staleAnswers();
  for (const answer of before) known.delete(answer);
  for (const each of found) known.set(each.answer, each);
  document.dispatchEvent(new Event(STALE_EVENT));
}

/** `items` holds the answer's text; `cardOf` is the card of the call with this id, if it is in this view; `changed`: other buttons are shown. */
export function numbersOf({ store, host }: Pick<TranscriptContext, "store" | "host">, items: HTMLElement, cardOf: CardOf, changed: () => void): Numbers {
  const id = freshId();
  const list = element("ul", { class: "numbers", id, "aria-label": "Numbers of this answer", hidden: "" });
  const node = button("", () => {
    list.hidden = !list.hidden;
    node.setAttribute("aria-expanded", `${!list.hidden}`);
  }, { class: "plain", "aria-expanded": "false", "aria-controls": id, hidden: "" });
  const check = button("Check these", () => {
    request(host, { action: "ask", prompt: drawn?.check ?? "" });
  }, { class: "plain", title: "Ask Claude to compute the numbers that were not found", hidden: "" });
  const refresh = button("Refresh", () => {
    if (stale?.title) request(host, { action: "ask", prompt: stale.title });
    else if (drawn && stale) request(host, { action: "refresh", answer: drawn.answer, prompt: { title: `Refresh ${plural(stale.numbers.length, "number")}`, instructions: stale.refresh } });
  }, { class: "plain", title: "Ask Claude to write this answer anew with the current values", hidden: "" });
  const test = button("Test stability", () => {
    const text = store.items.findLast((item) => item.kind === "text")?.text ?? "";
    request(host, { action: "command", command: `/stability answer="${(text.match(/[\p{L}\p{N}_]+/gu) ?? []).slice(0, 8).join(" ")}"` });
  }, { class: "plain", title: "Write a command into Claude's panel that runs the code behind these numbers on resampled data", hidden: "" });
  let drawn: NumbersOp | null = null;
  let stale: StaleAnswer | undefined;
  const draw = (): void => {
    if (!drawn) return;
    const numbers = withStale(renewed(drawn.numbers, checkedAnswers().get(drawn.answer)), stale);
    refresh.hidden = !hasPageActions() || !numbers.some((number) => number.stale);
    const { names = [] } = drawn;
    node.hidden = numbers.length + names.length === 0;
    setText(node, [numbers.length > 0 && summary(numbers), names.length > 0 && `${plural(names.length, "name")} not found`].filter(Boolean).join(" · "));
    check.hidden = !drawn.check || !hasPageActions() || !numbers.some(({ marked }) => marked);
    test.hidden = !hasPageActions() || !drawn.numbers.some(({ words }) => FROM_CODE.test(words));
    const places = numbers.map((number) => (): HTMLElement[] => placeParts(number, cardOf, host));
    list.replaceChildren(
      ...numbers.map((number, index) =>
        element("li", { class: number.stale ? "stale" : number.marked && "missing" }, element("b", {}, visibleText(number.text)), " ", ...(places[index]?.() ?? []))),
      ...names.map((name) => element("li", { class: "missing" }, element("b", {}, visibleText(name.text)), " ", visibleText(name.words))),
      ...[check, test].filter((each) => !each.hidden).map((each) => element("li", {}, each)),
    );
    markNumbers(items, numbers, (index) => places[index]?.() ?? [], names);
  };
  const drawStale = (): void => {
    const now = drawn ? staleAnswers().get(drawn.answer) : undefined;
    if (JSON.stringify(now) === JSON.stringify(stale)) return;
    stale = now;
    draw();
    changed();
  };
  return {
    buttons: [node, refresh],
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
      if (drawn?.numbers.some(({ source }) => source)) document.addEventListener(STALE_EVENT, drawStale);
      stale = drawn ? staleAnswers().get(drawn.answer) : undefined;
      draw();
    },
    dispose: () => {
      document.removeEventListener(CHECKED_EVENT, draw);
      document.removeEventListener(STALE_EVENT, drawStale);
    },
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

function withStale(numbers: readonly NumberSaid[], answer: StaleAnswer | undefined): readonly Drawn[] {
  return numbers.map((number) => {
    const found = answer?.numbers.find(({ text, from_end }) => text === number.text && from_end === number.from_end);
    if (!found) return { ...number, stale: "" };
    const { words, cell, path } = found;
    return { ...number, stale: words, source: { quote: "", call: "", cell, path } };
  });
}

/** `20 of 23 numbers traced, 1 stale`, as the terminal says it. */
export function summary(numbers: readonly (NumberSaid & { readonly stale?: string })[]): string {
  const stale = numbers.filter((number) => number.stale).length;
  const traced = numbers.filter((number) => !number.stale && isTraced(number)).length;
  return `${traced} of ${plural(numbers.length, "number")} traced${stale > 0 ? `, ${stale} stale` : ""}`;
}

function isTraced({ verdict }: { readonly verdict?: string }): boolean {
  return verdict === "seen" || verdict === "derived";
}

/** The verdict in words. */
function saidOf({ stale, words }: { readonly stale?: string; readonly words: string }): string {
  return stale ? `stale: ${stale}` : words;
}

/** The source in words, the line that has the number, and the way there. */
function placeParts(number: Drawn, cardOf: CardOf, host: HTMLElement): HTMLElement[] {
  const { text, source } = number;
  const parts = [element("span", {}, visibleText(saidOf(number)))];
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
export function markNumbers(items: HTMLElement, numbers: readonly (NumberSaid & { readonly stale?: string })[], partsOf: (index: number) => HTMLElement[], names: readonly UnknownName[] = []): void {
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
    if (found) marks.push(mark(rangeOf(found.node, found.at, found.at + number.text.length), number, () => partsOf(index)));
  }
  for (const name of names) marks.push(...markName(items, name));
  marks.sort((one, other) => (one.compareDocumentPosition(other) & Node.DOCUMENT_POSITION_FOLLOWING ? -1 : 1));
  walkByArrows(marks);
}

/** One stop of the keyboard for all; arrows go on. */
function walkByArrows(marks: readonly HTMLElement[]): void {
  const first = marks.find((each) => each.matches(".unsourced, .stale")) ?? marks[0];
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

function markName(items: HTMLElement, name: UnknownName): HTMLElement[] {
  const range = name.code ? inlineCode(items, name) : wordsOf(items, name);
  return range ? [mark(range, { ...name, marked: true }, () => [element("span", {}, visibleText(name.words))])] : [];
}

/** A name in code style, the code's box included: what it looks like stays. */
function inlineCode(items: HTMLElement, { text, from_end }: UnknownName): Range | null {
  const found = [...items.querySelectorAll(".prose code")].filter((code) => !code.closest("pre, .thinking, .tool") && code.textContent === text).at(-1 - from_end);
  if (!found) return null;
  const range = document.createRange();
  range.selectNode(found);
  return range;
}

function wordsOf(items: HTMLElement, { text, from_end }: UnknownName): Range | null {
  const texts = [...items.querySelectorAll(".prose")].filter((prose) => !prose.closest(NO_PROSE)).flatMap((prose) => textsIn(prose, NO_PROSE)).reverse();
  const found = fromEnd(texts, text, from_end);
  return found && !found.node.parentElement?.closest(".claim") ? rangeOf(found.node, found.at, found.at + text.length) : null;
}

type Marked = { readonly text: string; readonly words: string; readonly marked: boolean; readonly stale?: string; readonly verdict?: string };

function mark(range: Range, number: Marked, parts: () => HTMLElement[]): HTMLElement {
  const words = saidOf(number);
  const kind = number.stale ? "claim stale" : number.marked ? "claim unsourced" : isTraced(number) ? "claim" : "claim untraced";
  const node = element("span", { class: kind, role: "button", "aria-expanded": "false", "aria-label": revealed(`${number.text}, ${words}`), title: revealed(words) });
  range.surroundContents(node);
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
