/** The questions about one call: a card while it is open, one line once it is answered. */

import { answeredLine } from "./answered_line";
import { element } from "./dom";
import type { Place } from "./items/item_view";
import type { Question, ToolItem } from "./items";
import type { QuestionCard } from "./cards/question_card";
import { questionCard } from "./cards/question_card";

export type QuestionList = {
  readonly node: HTMLElement;
  /** Whether a question is open. */
  update(): boolean;
  dispose(): void;
};

export function questionList(item: ToolItem, place: Place): QuestionList {
  const node = element("div", { class: "questions" });
  const open = new Map<Question, QuestionCard>();
  const closed = new Set<Question>();

  const show = (question: Question, rank: number, total: number): void => {
    let card = open.get(question);
    if (!card) {
      card = questionCard(question, place);
      open.set(question, card);
      node.append(card.node);
    }
    card.update(rank, total);
  };
  const close = (question: Question): void => {
    closed.add(question);
    const line = answeredLine(question);
    const card = open.get(question);
    if (!card) {
      node.append(line);
      return;
    }
    card.dispose();
    card.node.replaceWith(line);
    open.delete(question);
  };
  return {
    node,
    update() {
      const pending = place.store.pending();
      for (const question of item.questions) {
        const rank = pending.indexOf(question);
        if (rank >= 0) show(question, rank, pending.length);
        else if (!closed.has(question)) close(question);
      }
      return open.size > 0;
    },
    dispose() {
      for (const card of open.values()) card.dispose();
    },
  };
}
