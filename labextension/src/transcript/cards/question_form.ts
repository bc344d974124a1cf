/** Claude's own questions: options with their digits, an answer in one's own words, one form for all of them. */

import { element } from "../dom";
import { focused } from "../focus";
import type { Card, Form } from "../form";
import { keyButton, whyField } from "./approval_form";
import type { OptionList } from "../option_list";
import { optionList } from "../option_list";
import type { JsonObject } from "../protocol";
import type { AskedQuestion } from "../questions";

const HOW = "Digits choose, Enter sends.";
const HOW_ALL = "Digits choose in the marked question, Enter sends all answers.";
const WHY = { placeholder: "Why, or what you want instead (optional)", why: "Reason for dismissing" };

/** `titleId`: what the card is called, which is the question itself where there is only one. */
export function choiceForm(questions: AskedQuestion[], card: Card, titleId: string, reasonId: string): Form {
  const only = questions.length === 1;
  const how = element("span", { class: "remark", id: reasonId }, only ? HOW : HOW_ALL);
  const place = (index: number): HTMLElement => element("span", { class: "remark" }, `${index + 1}/${questions.length}`);
  const lists = questions.map((question, index) =>
    optionList(question, only ? titleId : null, only ? how : place(index), changed),
  );
  const why = whyField(WHY);
  /** The question that digits are for. */
  let current = lists[0];
  let insisted = false;

  const node = element(
    "fieldset",
    { class: "questionnaire", disabled: "" },
    ...(only ? [] : [element("p", {}, how)]),
    ...lists.map((list) => list.node),
    element(
      "div",
      { class: "choices" },
      keyButton("Enter", [element("span", {}, only ? "Send" : "Send all")], send, "primary"),
      keyButton("Escape", [element("span", {}, "Dismiss")], dismiss, "deny"),
      why,
    ),
  );
  node.addEventListener("focusin", (event) => {
    goTo(lists.find((list) => list.node.contains(event.target as Node)) ?? current);
  });
  goTo(current);
  return {
    node,
    press(event) {
      const target = event.composedPath()[0];
      // a button is pressed by its own key
      if (target instanceof HTMLButtonElement && event.key === "Enter") return;
      const typing = target instanceof HTMLInputElement && target.type === "text";
      const keys = new Map([
        ["Enter", target === why ? dismiss : send],
        ["Escape", typing ? card.focus : dismiss],
      ]);
      const act = keys.get(event.key);
      if (act) act();
      else if (typing || !choose(event.key)) return;
      event.preventDefault();
    },
  };

  function changed(): void {
    insisted = false;
    card.tell("");
  }

  function goTo(list: OptionList | undefined): void {
    current = list;
    for (const one of lists) one.node.toggleAttribute("data-current", one === list && !only);
  }

  /** Whether `key` is the digit of an answer; then it is chosen. */
  function choose(key: string): boolean {
    const list = current;
    if (!/^[1-9]$/.test(key) || !card.ready() || !list?.choose(Number(key))) return false;
    const next = lists.find((one) => !one.answer());
    // with one answer chosen the next question is on; several may follow, and the free text keeps the keyboard
    if (list.several || !list.answer() || !next) return true;
    if (list.node.contains(focused())) card.focus();
    goTo(next);
    return true;
  }

  function send(): void {
    const open = lists.filter((list) => !list.answer());
    if (open.length === lists.length) card.tell("Choose an answer or write one; Esc dismisses.");
    else if (open.length > 0 && !insisted) {
      insisted = true;
      card.tell(`${open.length === 1 ? "One question has" : `${open.length} questions have`} no answer yet. Enter again sends the others.`);
      open[0]?.focus();
    } else card.send({ behavior: "allow", scope: "once", reason: "", input: answersOf(lists) });
  }

  function dismiss(): void {
    card.send({ behavior: "deny", scope: "once", reason: why.value.trim(), input: null });
  }
}

function answersOf(lists: OptionList[]): JsonObject {
  const answers: JsonObject = {};
  const annotations: JsonObject = {};
  for (const list of lists) {
    const answer = list.answer();
    if (answer) answers[list.question] = answer;
    else annotations[list.question] = { unanswered: "skipped" };
  }
  return { answers, annotations };
}
