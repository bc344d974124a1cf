/** Several changes of cells wait for an answer: all of them accepted or rejected with one button. */

import { button, element, setText } from "./dom";
import type { Place } from "./items/item_view";
import type { Question } from "./items";
import type { AnswerMessage } from "./protocol";
import { isCellChange } from "./questions";

/** A click that was meant for something else must not answer what has just come up. */
const READY_AFTER_MS = 300;

export function cellChanges(place: Place): { readonly node: HTMLElement; update(): void } {
  const what = element("span", { class: "what" });
  const answer = (behavior: AnswerMessage["behavior"]) => (): void => {
    node.toggleAttribute("disabled", true);
    for (const { ask } of waiting(place)) {
      place.send({ type: "answer", question: ask.question, behavior, scope: "once", reason: "", input: null });
    }
  };
  const node = element(
    "fieldset",
    { class: "cell-changes", hidden: "", disabled: "", "aria-label": "All changes of cells" },
    what,
    button("Accept all", answer("allow"), { class: "primary" }),
    button("Reject all", answer("deny"), { class: "deny" }),
  );
  let asked = "";
  return {
    node,
    update() {
      const questions = waiting(place);
      node.hidden = questions.length < 2;
      if (node.hidden) return;
      setText(what, `${questions.length} changes of cells wait for you`);
      const now = questions.map(({ ask }) => ask.question).join();
      // fewer of the same are no news
      if (questions.every(({ ask }) => asked.includes(ask.question))) return;
      asked = now;
      node.toggleAttribute("disabled", true);
      setTimeout(() => { node.toggleAttribute("disabled", false); }, READY_AFTER_MS);
    },
  };
}

function waiting(place: Place): Question[] {
  return place.store.pending().filter(({ ask, taken }) => isCellChange(ask) && !taken);
}
