/** A change of a cell that Claude proposes, at the cell itself: the same card as in the transcript, with the same keys. */

import { element } from "../dom";
import { stopNotebookKeys } from "../focus";
import type { AnswerMessage, AskOp } from "../protocol";
import type { Question } from "../store";
import { adoptStyle } from "../style";
import { questionCard } from "./question_card";

export type ProposalCard = {
  /** The kernel has taken the answer that was given here. */
  acknowledge(): void;
  dispose(): void;
};

/** Shows `ask` in `host`. */
export function proposalCard(host: HTMLElement, ask: AskOp, send: (answer: AnswerMessage) => void): ProposalCard {
  const question: Question = { ask, answer: null, taken: false };
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const card = questionCard(question, {
    host,
    attention: null,
    send: (message) => {
      if (message.type === "answer") send(message);
    },
  });
  const body = element("section", { class: "transcript proposal", "aria-label": "Claude proposes a change to this cell" }, card.node);
  body.addEventListener("keydown", stopNotebookKeys);
  root.replaceChildren(body);
  adoptStyle(root);
  card.update(0, 1);
  return {
    acknowledge() {
      question.taken = true;
      card.update(0, 1);
    },
    dispose() { card.dispose(); },
  };
}
