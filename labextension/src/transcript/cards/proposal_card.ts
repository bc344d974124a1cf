/** A change of a cell that Claude proposes, at the cell itself: the same card as in the transcript, with the same keys. */

import { element } from "../dom";
import { focused, stopNotebookKeys } from "../focus";
import type { AnswerMessage, AskOp } from "../protocol";
import type { Question } from "../store";
import { adoptStyle } from "../style";
import type { ChangePage } from "./question_card";
import { questionCard } from "./question_card";
import { askingPlaces } from "./asking_place";

export type ProposalCard = {
  /** The kernel has taken the answer that was given here. */
  acknowledge(): void;
  /** It is the change number `position` of the `total` that wait in the notebook. */
  number(position: number, total: number): void;
  /** True when an answer counts. */
  ready(): boolean;
  hasFocus(): boolean;
  /** The user wants to answer here. */
  choose(): void;
  focus(): void;
  /** Gives it the keys unasked: none counts for a moment. */
  offerKeys(): void;
  dispose(): void;
};

/** Shows `ask` in `host`. */
export function proposalCard(host: HTMLElement, ask: AskOp, send: (answer: AnswerMessage) => void, page: ChangePage): ProposalCard {
  const question: Question = { ask, answer: null, taken: false };
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const card = questionCard(question, {
    host,
    change: page,
    send: (message) => {
      if (message.type === "answer") send(message);
    },
  });
  const body = element("div", { class: "transcript proposal" }, card.node);
  body.addEventListener("keydown", stopNotebookKeys);
  root.replaceChildren(body);
  adoptStyle(root);
  let [position, total] = [1, 1];
  card.update(0, 1);
  const focus = (): void => { card.node.focus({ preventScroll: true }); };
  return {
    acknowledge() {
      question.taken = true;
      card.update(position - 1, total);
    },
    number(now, of) {
      [position, total] = [now, of];
      card.update(position - 1, total);
    },
    ready: () => card.ready(),
    hasFocus: () => card.node.contains(focused()),
    choose() { askingPlaces().here(ask.question, card.node); },
    focus,
    offerKeys() {
      focus();
      card.hold();
    },
    dispose() { card.dispose(); },
  };
}
