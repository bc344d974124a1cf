/** What Claude asks: what it will do, to what, in full, and the answers with their keys. */

import { choiceForm } from "./question_form";
import { element, freshId, setText } from "../dom";
import type { Attention } from "../focus";
import { focused, focusWhenFree, returnFocus } from "../focus";
import type { Card, Form } from "../form";
import type { Place } from "../items/item_view";
import type { Question } from "../items";
import { keyForm } from "./approval_form";
import type { AskOp } from "../protocol";
import { questionDetail } from "../question_detail";
import { questionsOf } from "../questions";
import { visibleText } from "../visible_text";

/** A key or click that was meant for something else must not answer a question that has just come up. */
const READY_AFTER_MS = 300;
/** An answer that the kernel has not taken by then may be given again. */
const TAKEN_WITHIN_MS = 4000;

export type QuestionCard = {
  readonly node: HTMLElement;
  /** `rank`: 0 = it is this question's turn; `total`: how many wait. */
  update(rank: number, total: number): void;
  dispose(): void;
};

/** Where a question stands; with no `attention` it never takes the keyboard. */
export type Setting = Pick<Place, "host" | "send"> & { readonly attention: Attention | null };

export function questionCard(question: Question, place: Setting): QuestionCard {
  const { ask } = question;
  const [titleId, reasonId] = [freshId(), freshId()];
  const before = focused();
  const timers: ReturnType<typeof setTimeout>[] = [];
  let ready = false;
  let shown = false;
  let stopFocusing = (): void => undefined;

  const status = element("p", { class: "ask-status", role: "status" });
  const body = element("div", { class: "ask-body" });
  const node = element(
    "div",
    { class: "ask", role: "group", tabindex: "-1", "data-kind": ask.kind, "aria-labelledby": titleId, "aria-describedby": reasonId },
    element("p", { class: "ask-title", id: titleId }, visibleText(ask.title)),
    body,
    status,
  );
  const setReady = (value: boolean): void => {
    ready = value;
    form.node.disabled = !value;
    node.toggleAttribute("data-ready", value);
  };
  const offerAgain = (): void => {
    if (question.taken || question.answer) return;
    setText(status, "The kernel has not taken the answer yet. It may be busy; you can answer again.");
    setReady(true);
  };
  const card: Card = {
    ready: () => ready,
    send: (given) => {
      if (!ready) return;
      setReady(false);
      setText(status, "Sending the answer…");
      place.send({ type: "answer", question: ask.question, ...given });
      // the button that was pressed is disabled now
      card.focus();
      timers.push(setTimeout(offerAgain, TAKEN_WITHIN_MS));
    },
    tell: (text) => { setText(status, text); },
    focus: () => { node.focus({ preventScroll: true }); },
  };
  const { form, parts } = formOf(ask, card, titleId, reasonId);

  body.append(...parts, form.node);
  node.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.key === "Tab") return;
    // the notebook's command mode would act on every key that passes this card
    event.stopPropagation();
    if (shown && !event.repeat && !event.isComposing && form.node.isConnected) form.press(event);
  });

  return {
    node,
    update(rank, total) {
      const turn = rank === 0;
      body.hidden = !turn;
      if (question.taken) setText(status, "The answer was taken.");
      else if (!turn) setText(status, `Waits for the question before it (${rank + 1} of ${total}).`);
      if (!turn || shown) return;
      shown = true;
      setText(status, "");
      timers.push(setTimeout(setReady, READY_AFTER_MS, true));
      if (place.attention) stopFocusing = focusWhenFree(node, place.host, place.attention);
    },
    dispose() {
      stopFocusing();
      timers.forEach(clearTimeout);
      returnFocus(node, before, place.host);
    },
  };
}

/** The form of a question, and what stands above it. */
function formOf(ask: AskOp, card: Card, titleId: string, reasonId: string): { form: Form; parts: HTMLElement[] } {
  const questions = ask.kind === "question" ? questionsOf(ask.input) : [];
  if (questions.length > 0) return { form: choiceForm(questions, card, titleId, reasonId), parts: [] };
  return { form: keyForm(ask, card), parts: questionDetail(ask, reasonId) };
}
