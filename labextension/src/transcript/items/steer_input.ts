/** Telling Claude something while it works: a field to write in, and what waits to be delivered. */

import { button, element, freshId, setText } from "../dom";
import { focused } from "../focus";
import type { SteerHow } from "../protocol";
import { revealed, visibleText } from "../visible_text";
import type { ItemView, TranscriptContext } from "./item_view";
import { isInPanel } from "./item_view";
import { hasPageActions, request } from "./page_actions";

/** The delivery of a message that waits; the buttons say what they do. */
const WHEN: Record<SteerHow, string> = { steer: "Next step", queue: "When done" };
const SHOWN_CHARS = 60;
const MAX_ROWS = 8;

/** What was not sent, and the field that still shows it: null once it has let go of it, and not while somebody writes there. */
type Draft = { take(): string | null };

/** Drafts and undelivered messages by session: the next run's field holds them. */
const drafts = new Map<string, Draft>();

type UndeliveredMessage = { id: string; text: string; label: string; takeBack: boolean };

/** Enter sends with Claude's next step, Alt+Enter after the turn, Shift+Enter begins a line. */
export function steerInput(place: TranscriptContext): ItemView {
  const { store } = place;
  // sent, and not yet taken by the kernel
  const sent = new Map<string, { text: string; how: SteerHow }>();
  const area = element("textarea", {
    rows: "1",
    autocomplete: "off",
    placeholder: "Add a message…",
    "aria-label": "Add a message",
  });
  const list = element("ul", { "aria-label": "Not delivered yet" });
  const send = (how: SteerHow): void => {
    const text = area.value;
    if (!text.trim()) return;
    if (over) {
      askNext();
      return;
    }
    const id = newId();
    sent.set(id, { text, how });
    place.send({ type: "steer", id, text, how });
    area.value = "";
    grow();
    area.focus();
    update();
  };
  const buttons = element(
    "span",
    { class: "choices" },
    button("Send now", () => { send("steer"); }, { class: "primary", title: "Claude receives it with its next step (Enter)" }),
    button("Send when done", () => { send("queue"); }, { title: "Claude receives it when it is done (Alt+Enter)" }),
  );
  const late = element("p", { class: "late", role: "status" });
  const field = element("div", { class: "field" }, late, area, buttons);
  const node = element("div", { class: "steer" }, list, field);
  const empty = (): void => {
    area.value = "";
    update();
  };
  /** The run is over: the words become a prompt, which the panel asks. */
  const askNext = (): void => {
    if (!hasPageActions()) return;
    const text = area.value;
    empty();
    request(node, { action: "command", command: text });
  };
  /** The run has ended while the user was writing: the field stays, with the keyboard in it, and says so. */
  const keepField = (): void => {
    setText(late, hasPageActions() ? "Claude had finished, so this was not sent." : "Claude had finished, so this was not sent. Copy it into the next prompt.");
    area.setAttribute("aria-label", "Not sent: Claude had finished");
    const next = hasPageActions() ? [button("Ask it next", askNext, { class: "primary", title: "Write it into Claude's panel (Enter)" })] : [];
    buttons.replaceChildren(...next, button("Discard", empty));
  };

  const grow = (): void => {
    area.rows = Math.min(MAX_ROWS, area.value.split("\n").length);
    field.classList.toggle("written", area.value.trim() !== "");
  };
  area.addEventListener("input", grow);
  area.addEventListener("keydown", (event) => {
    // what is typed here is text: the notebook may not take it for a key of its own
    event.stopPropagation();
    if (event.key === "Escape") area.blur();
    // an input method takes Enter for itself
    else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) send(event.altKey ? "queue" : "steer");
    else return;
    event.preventDefault();
  });

  let shown = "";
  let over = false;
  const update = (): void => {
    for (const id of store.knownMessages) sent.delete(id);
    const words = undeliveredMessages(place, sent);
    const state = words.map((one) => one.id + one.label).join();
    if (state !== shown) {
      shown = state;
      list.replaceChildren(...words.map((one) => row(place, one, area)));
    }
    list.hidden = words.length === 0;
    // the panel has a composer: its copy of this field is never seen, and may not take what was written in the cell's
    if (!isInPanel(place)) updateField();
    node.hidden = (list.hidden && field.hidden) || isInPanel(place);
  };
  const updateField = (): void => {
    field.hidden = store.run === null || (store.end !== null && !area.value.trim());
    if (store.end === null) {
      if (!field.hidden) takeDraft();
    } else if (!over) {
      over = true;
      if (!field.hidden) keepField();
      keepDraft();
    }
  };
  const takeDraft = (): void => {
    const session = store.run?.session ?? "";
    const draft = area.value ? null : (drafts.get(session)?.take() ?? null);
    if (draft === null) return;
    drafts.delete(session);
    area.value = draft;
    grow();
  };
  const keepDraft = (): void => {
    const undelivered = [...store.pendingMessages.values(), ...sent.values()].map((one) => one.text);
    const unsent = (): string => [...undelivered, area.value].filter((text) => text.trim()).join("\n\n");
    if (!store.run || !unsent()) return;
    drafts.set(store.run.session, {
      take() {
        if (focused() === area) return null;
        const draft = unsent();
        empty();
        return draft || null;
      },
    });
  };
  return {
    node,
    update,
    dispose() {
      // the page replaces the output when the run is over, or the user runs the cell again: what was written stays
      const text = area.value;
      if (!over && text.trim() && store.run) drafts.set(store.run.session, { take: () => text });
    },
  };
}

function undeliveredMessages({ store }: TranscriptContext, sent: Map<string, { text: string; how: SteerHow }>): UndeliveredMessage[] {
  const over = store.end !== null;
  const waiting = [...store.pendingMessages.values()].map(({ id, text, how }) => ({
    id, text, label: over ? "not delivered" : WHEN[how], takeBack: !over,
  }));
  const onTheirWay = [...sent].map(([id, { text }]) => ({ id, text, label: over ? "not delivered" : "sending…", takeBack: false }));
  return [...waiting, ...onTheirWay];
}

function row(place: TranscriptContext, words: UndeliveredMessage, field: HTMLElement): HTMLElement {
  const begin = revealed(words.text.slice(0, SHOWN_CHARS));
  const back = button("×", () => {
    place.send({ type: "withdraw", id: words.id });
    field.focus();
  }, { class: "back", "aria-label": `Edit again: ${begin}`, title: "Edit again" });
  return element(
    "li",
    {},
    element("span", { class: "chip" }, words.label),
    element("span", { class: "words" }, visibleText(words.text)),
    ...(words.takeBack ? [back] : []),
  );
}

function newId(): string {
  // a page without https has no randomUUID
  return `${freshId()}-${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`;
}
