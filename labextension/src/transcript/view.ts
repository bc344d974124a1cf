/** One place in a page that shows a transcript: draws from the store, at most once a frame. */

import { cellChangesBar } from "./cards/question_card";
import { toolCard } from "./cards/tool_card";
import { element, setText } from "./dom";
import { focused, guardFocus, stopNotebookKeys, watchAttention } from "./focus";
import { contextSent } from "./items/context_sent";
import { fillFailure } from "./items/failure";
import { endText, footer } from "./items/footer";
import type { ItemView, TranscriptContext } from "./items/item_view";
import { numbersOf } from "./items/numbers";
import { isReading, steadily } from "./items/steady_scroll";
import { steerInput } from "./items/steer_input";
import type { Arrangement } from "./items/step_groups";
import { stepGroups } from "./items/step_groups";
import { compacted, notice, userMessage, textBlock, thinkingBlock } from "./items/text_items";
import { isInList, nowDoing, progressText, todoList } from "./items/todo_list";
import type { BrowserMessage } from "./protocol";
import type { Item, TranscriptStore } from "./store";
import { adoptStyle } from "./style";
import { revealed } from "./visible_text";

/** Drawing may take this part of the main thread; the notebook needs the rest. */
const SHARE = 0.25;

function itemView(item: Item, place: TranscriptContext): ItemView {
  switch (item.kind) {
    case "text":
      return textBlock(item);
    case "thinking":
      return thinkingBlock(item, place);
    case "tool":
      return toolCard(item, place);
    case "said":
      return userMessage(item);
    case "notice":
      return notice(item);
    case "compacted":
      return compacted(item);
    default:
      return item satisfies never;
  }
}

/** Shows `store`, of an answer in several parts one, in `host`; returns how to take it away. */
export function view(host: HTMLElement, store: TranscriptStore, send: (message: BrowserMessage) => void, part = 0): () => void {
  const attention = watchAttention(host);
  const place: TranscriptContext = { store, host, attention, send };
  // a root of its own: no style of the page or of a notebook's HTML reaches in, the theme's variables do
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const items = element("div", { class: "items" });
  const waiting = element("p", { class: "notice info", role: "status", hidden: "" });
  const failure = element("div", { class: "failure", role: "alert", hidden: "" });
  const todos = todoList(store);
  const changes = cellChangesBar(place);
  const steer = steerInput(place);
  const context = contextSent(store);
  const views = new Map<Item, { view: ItemView; revision: number }>();
  const numbers = numbersOf(place, items, (call) => [...views].find(([item]) => item.kind === "tool" && item.id === call)?.[1].view.node, () => { foot.update(); });
  const foot = footer(place, [...numbers.buttons, context.button]);
  const announcer = element("p", { class: "unseen", role: "status", "aria-live": "polite" });
  // below the last part alone
  const ending = element("div", { class: "ending" }, waiting, failure, changes.node, todos.node, steer.node, foot.node, numbers.list, context.list, announcer);
  const body = element("section", { class: "transcript", role: "group", "aria-label": "Claude's answer" }, items, ending);
  body.addEventListener("keydown", stopNotebookKeys);
  root.replaceChildren(body);
  const stopKeeping = guardFocus(root);
  adoptStyle(root);

  const groups = stepGroups(items);
  let drops = 0;
  let hasEnded = false;
  let announced: string | null = null;
  const clock = setInterval(() => {
    foot.tick?.();
    for (const known of views.values()) known.view.tick?.();
  }, 1000);
  /** A run that is over has neither clocks nor questions: a notebook may show hundreds. */
  const rest = (): void => {
    clearInterval(clock);
    attention.stop();
    stopKeeping();
  };

  const draw = (): void => {
    const asking = new Set(store.pending().map((question) => question.ask.tool));
    ending.hidden = part < store.part;
    const own = store.items.filter((item) => store.partOf(item) === part);
    for (const item of own) if (!views.has(item)) views.set(item, { view: itemView(item, place), revision: -1 });
    if (drops < store.drops) removeDropped(views, store.items);
    drops = store.drops;
    const nodes = new Map(Array.from(views, ([item, known]) => [item, known.view.node]));
    const ended = store.end && { after: part > 0, last: part === store.part };
    const ends = ended !== null && !hasEnded && nodes.size > 0 && body.dataset.drawn !== undefined;
    hasEnded = ended !== null;
    const keepsOpen = (folded: readonly Item[]): boolean => ends && isReading(folded.flatMap((item) => nodes.get(item) ?? []), focused());
    const drawAll = (): void => {
      // in their places before they are drawn: a card whose turn it is takes the keyboard
      groups.arrange(nodes, { waiting: waitingCalls(store), ended, changes: store.changes, keepsOpen });
      for (const item of own) {
        const known = views.get(item);
        // a question's turn depends on the others
        if (!known || (known.revision === item.revision && !(item.kind === "tool" && asking.has(item.id)))) continue;
        known.revision = item.revision;
        known.view.update();
      }
      if (!ending.hidden) drawEnd();
    };
    if (ends) steadily(body, [...wordsOf(nodes), ending], drawAll);
    else drawAll();
    // how far the page is, for whoever waits for it
    body.dataset.drawn = `${store.have}`;
  };
  const drawEnd = (): void => {
    drawEnding(store, waiting, failure);
    body.setAttribute("aria-busy", `${store.run !== null && store.end === null}`);
    changes.update();
    todos.update();
    steer.update();
    context.update();
    numbers.update();
    foot.update();
    const news = newsOf(store);
    // what had happened before this view was there is no news
    if (announced !== null && news !== announced) setText(announcer, news);
    announced = news;
  };
  const drawAndRest = (): void => {
    draw();
    if (store.end) rest();
  };

  const stopDrawing = drawOnChange(store, drawAndRest);
  drawAndRest();
  return () => {
    stopDrawing();
    rest();
    for (const known of views.values()) known.view.dispose?.();
    steer.dispose?.();
    foot.dispose?.();
    numbers.dispose();
    root.replaceChildren();
  };
}

/** Calls `draw` in a frame after a change, less often where drawing is slow; returns how to stop. */
function drawOnChange(store: TranscriptStore, draw: () => void): () => void {
  let frame = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let due = false;
  const request = (): void => {
    due = true;
    if (!frame && timer === undefined) frame = requestAnimationFrame(inFrame);
  };
  const inFrame = (): void => {
    frame = 0;
    due = false;
    const from = performance.now();
    draw();
    // after the frame: layout and painting are most of what it cost
    timer = setTimeout(() => {
      timer = setTimeout(rested, (performance.now() - from) * (1 / SHARE - 1));
    });
  };
  const rested = (): void => {
    timer = undefined;
    if (due) request();
  };
  const unsubscribe = store.subscribe(request);
  return () => {
    unsubscribe();
    cancelAnimationFrame(frame);
    clearTimeout(timer);
  };
}

/** What is read in an answer, the last first. */
function wordsOf(nodes: ReadonlyMap<Item, HTMLElement>): HTMLElement[] {
  return Array.from(nodes).flatMap(([item, node]) => (item.kind === "text" ? [node] : [])).reverse();
}

/** The calls that wait behind the question that is being asked. */
function waitingCalls(store: TranscriptStore): Arrangement["waiting"] {
  const [first, ...later] = store.pending();
  if (!first) return new Set();
  const asked = new Set(later.map(({ ask }) => ask.tool));
  return new Set(store.items.filter((item) => {
    if (item.kind !== "tool" || item.id === first.ask.tool || item.agents.length > 0 || isInList(item)) return false;
    return item.status === "waiting" && (item.questions.length === 0 || asked.has(item.id));
  }));
}

function removeDropped(views: Map<Item, { view: ItemView }>, items: Item[]): void {
  const kept = new Set(items);
  for (const [item, { view }] of views) {
    if (kept.has(item)) continue;
    view.dispose?.();
    view.node.remove();
    views.delete(item);
  }
}

function drawEnding(store: TranscriptStore, waiting: HTMLElement, failure: HTMLElement): void {
  const { retry, end } = store;
  waiting.hidden = retry === null;
  if (retry) setText(waiting, `${retry.message} Retrying (${retry.attempt} of ${retry.of}).`);
  if (!end?.error || failure.childElementCount > 0) return;
  fillFailure(failure, end.stop_reason === "interrupted" ? null : end.error);
}

/** The text that a screen reader says when it changes; never the streaming text. */
function newsOf(store: TranscriptStore): string {
  const [first] = store.pending();
  if (first) return `Claude asks: ${revealed(first.ask.title)}`;
  if (store.end) return `Claude: ${endText(store.end)}`;
  if (store.retry) return "The request failed and is sent again";
  if (store.todos.length > 0) return `Claude: ${nowDoing(store.todos) || "working"}, ${progressText(store.todos)}`;
  return store.run ? "Claude is working" : "";
}
