/** Claude's own questions: options with their digits, an answer in one's own words, one form for all of them. */

import type { Json, JsonObject } from "../../json";
import { element, freshId, setText } from "../dom";
import { focused } from "../focus";
import { plural } from "../format";
import { revealed, visibleText } from "../visible_text";
import type { AnswerTarget, AnswerForm } from "./approval_form";
import { keyButton, reasonField } from "./approval_form";
import { belowLine } from "./below_line";
import { diffView } from "./diff";

const HOW = "Press a number to choose, Enter to send.";
const HOW_ACCEPTED = "Press a number to choose, Enter to accept.";
/** Answers that a list of changes has for those who type; here they are buttons. */
const ALL = "All";
const NONE = "None";
const WHY = { placeholder: "Why?", why: "Reason for dismissing" };

/** `titleId`: what the card is called, which is the question itself where there is only one. */
export function questionForm(questions: AskedQuestion[], card: AnswerTarget, titleId: string): AnswerForm {
  const only = questions.length === 1;
  const accepts = questions.some((question) => question.accepts);
  const place = (index: number): HTMLElement => element("span", { class: "remark" }, `${index + 1}/${questions.length}`);
  const lists = questions.map((question, index) =>
    optionList(question, only ? titleId : null, only ? null : place(index), changed),
  );
  const why = reasonField(WHY);
  const content = element("div", { class: "ask-content" }, ...lists.map((list) => list.node));
  content.append(belowLine(content, ".option"));
  /** The question that digits are for. */
  let current = lists[0];
  let insisted = false;

  const sends = element("span", {}, only ? "Send" : "Send all");
  changed();
  const node = element(
    "fieldset",
    { class: "questionnaire", disabled: "" },
    content,
    element(
      "div",
      { class: "choices" },
      keyButton("Enter", [sends], send, "primary"),
      ...(accepts
        ? [keyButton("a", [element("span", {}, "Accept all")], acceptAll), keyButton("d", [element("span", {}, "Discard")], discard, "deny")]
        : []),
      keyButton("Escape", [element("span", {}, accepts ? "Later" : "Dismiss")], dismiss, accepts ? false : "deny"),
      ...(accepts ? [] : [why]),
    ),
  );
  node.addEventListener("focusin", (event) => {
    goTo(lists.find((list) => list.node.contains(event.target as Node)) ?? current);
  });
  goTo(current);
  return {
    node,
    keys: () => (accepts ? HOW_ACCEPTED : HOW),
    press(event) {
      const target = event.composedPath()[0];
      // a button is pressed by its own key
      if (target instanceof HTMLButtonElement && event.key === "Enter") return;
      const typing = target instanceof HTMLInputElement && target.type === "text";
      const keys = new Map([
        ["Enter", target === why ? dismiss : send],
        ["Escape", typing ? card.focus : dismiss],
        ...(accepts ? ([["a", acceptAll], ["A", acceptAll], ["d", discard], ["D", discard]] as const) : []),
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
    if (accepts) setText(sends, `Accept ${plural(lists[0]?.chosen() ?? 0, "change")}`);
  }

  /** Answers with one option, whatever is ticked. */
  function answerWith(option: string): void {
    const answers = Object.fromEntries(questions.map(({ text }) => [text, option]));
    card.send({ behavior: "allow", scope: "once", reason: "", input: { answers, annotations: {} } });
  }

  function acceptAll(): void {
    answerWith(ALL);
  }

  function discard(): void {
    answerWith(NONE);
  }

  function goTo(list: OptionList | undefined): void {
    current = list;
    for (const one of lists) one.node.toggleAttribute("data-current", one === list && !only);
  }

  /** Choose the answer of the digit `key`; false where there is none. */
  function choose(key: string): boolean {
    const list = current;
    if (!/^[1-9]$/.test(key) || !card.ready() || !list?.choose(Number(key))) return false;
    const next = lists.find((one) => !one.answer());
    // with one answer chosen the next question is on; several may follow, and the free text keeps the keyboard
    if (list.several || !list.answer() || !next) return true;
    if (list.node.contains(focused())) card.focus();
    goTo(next);
    next.node.scrollIntoView({ block: "nearest" });
    return true;
  }

  function send(): void {
    const open = lists.filter((list) => !list.answer());
    if (open.length === lists.length) card.tell(accepts ? "Choose a change, or press d to discard all." : "Choose an answer or write one; Esc dismisses.");
    else if (open.length > 0 && !insisted) {
      insisted = true;
      card.tell(`${open.length === 1 ? "One question has" : `${open.length} questions have`} no answer yet. Enter again sends the others.`);
      open[0]?.focus();
    } else card.send({ behavior: "allow", scope: "once", reason: "", input: answersOf(lists) });
  }

  /** Changes that are offered wait then: `/preview` has them. */
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

// One of Claude's questions: its options, and a line for an answer of one's own.

export type OptionList = {
  readonly node: HTMLElement;
  /** The question's text, by which answers go. */
  readonly question: string;
  /** True where several options may be chosen. */
  readonly several: boolean;
  /** Takes the option of this digit, or goes to the free text; whether there is such an option. */
  choose(digit: number): boolean;
  /** The answer as Claude gets it; "" while there is none. */
  answer(): string;
  /** The number of options that are chosen. */
  chosen(): number;
  focus(): void;
};

/** `title`: the id of what the question is called, where the card's title is the question; else it is shown. `remark` follows it. */
export function optionList(question: AskedQuestion, title: string | null, remark: Node | null, onChange: () => void): OptionList {
  const id = title ?? freshId();
  const name = freshId();
  const type = question.several ? "checkbox" : "radio";
  const boxes = question.options.map((option) => element("input", { type, name, value: option.label, checked: option.marked && "" }));
  const previews = question.accepts ? { nodes: [], show: () => undefined } : previewStack(question.options);
  const own = element("input", { type, name, "aria-label": "An answer of your own" });
  const text = element("input", {
    type: "text",
    class: "own",
    autocomplete: "off",
    placeholder: "Other",
    "aria-label": "Your own answer",
  });
  const asked = title === null ? [element("span", { id, class: "asked" }, visibleText(question.text))] : [];
  const several = question.several ? [element("span", { class: "remark" }, "Choose any number.")] : [];
  const node = element(
    "div",
    { class: "question", role: question.several ? "group" : "radiogroup", "aria-labelledby": id },
    ...(question.accepts ? [] : [element("p", { class: "heading" }, element("span", { class: "chip" }, revealed(question.header)), ...asked, ...several, ...(remark ? [remark] : []))]),
    ...boxes.flatMap((box, index) => [row(index + 1, box, optionText(question.options[index])), ...(question.accepts ? previewBelow(question.options[index]) : [])]),
    ...(question.accepts ? [] : [row(question.options.length + 1, own, [text], "div")]),
    ...previews.nodes,
  );
  const changed = (): void => {
    previews.show(boxes.findLastIndex((box) => box.checked), true);
    onChange();
  };
  const take = (box: HTMLInputElement): void => {
    box.checked = question.several ? !box.checked : true;
    changed();
  };
  node.addEventListener("change", (event) => {
    if (event.target === own && own.checked && !text.value) text.focus();
    if (event.target !== text) changed();
  });
  text.addEventListener("input", () => {
    // what is written is meant
    own.checked = text.value.trim() !== "";
    changed();
  });
  node.querySelectorAll("label").forEach((label, index) => {
    label.addEventListener("pointerenter", () => { previews.show(index, false); });
  });
  return {
    node,
    question: question.text,
    several: question.several,
    choose(digit) {
      const box = boxes[digit - 1];
      if (box) take(box);
      else if (digit === boxes.length + 1 && !question.accepts) text.focus();
      return digit <= boxes.length + Number(!question.accepts);
    },
    answer() {
      const chosen = question.options.filter((_, index) => boxes[index]?.checked).map((option) => option.label);
      const written = own.checked ? text.value.trim() : "";
      return [...chosen, ...(written ? [written] : [])].join(", ");
    },
    chosen: () => boxes.filter((box) => box.checked).length,
    focus() {
      (boxes.find((box) => box.checked) ?? boxes[0])?.focus({ preventScroll: true });
      node.scrollIntoView({ block: "nearest" });
    },
  };
}

function row(digit: number, box: HTMLInputElement, content: (Node | string)[], tag: "label" | "div" = "label"): HTMLElement {
  const key = element("kbd", { "aria-hidden": "true" }, `${digit}`);
  return element(tag, { class: "option" }, key, box, element("span", { class: "what" }, ...content));
}

function optionText(option: QuestionOption | undefined): HTMLElement[] {
  const { label = "", description = "" } = option ?? {};
  const parts = [element("b", {}, visibleText(label))];
  if (description) parts.push(element("span", { class: "description" }, visibleText(description)));
  return parts;
}

const FOLDED_DIFF_LINES = 20;

function previewOf({ label, preview }: QuestionOption): HTMLElement {
  if (/^--- .+\n\+\+\+ .+\n@@ /.test(preview)) return diffView(preview, FOLDED_DIFF_LINES);
  return element("pre", { class: "exact detail", tabindex: "0", role: "group", "aria-label": `Preview of ${revealed(label)}` }, visibleText(preview || "No preview"));
}

/** The preview of an option below its row, if it has one. */
function previewBelow(option: QuestionOption | undefined): HTMLElement[] {
  return option?.preview ? [element("div", { class: "below-row" }, previewOf(option))] : [];
}

/** The previews in one place, one of them seen. One that is not `chosen`, only looked at, takes no room away: nothing moves up under the pointer. */
function previewStack(options: QuestionOption[]): { nodes: HTMLElement[]; show: (index: number, chosen: boolean) => void } {
  if (!options.some((option) => option.preview)) return { nodes: [], show: () => undefined };
  const shown = options.map(previewOf);
  const stack = element("div", { class: "previews" }, ...shown);
  const show = (index: number, chosen: boolean): void => {
    stack.style.minHeight = chosen ? "" : `${stack.offsetHeight}px`;
    shown.forEach((one, at) => { one.style.display = at === Math.max(index, 0) ? "" : "none"; });
  };
  show(0, true);
  return { nodes: [stack], show };
}

// Claude's own questions, as the input of the call has them.

export type QuestionOption = { label: string; description: string; preview: string; marked: boolean };
/** `accepts`: the options are changes, which are accepted or discarded, and need no words. */
export type AskedQuestion = { text: string; header: string; options: QuestionOption[]; several: boolean; accepts: boolean };

/** The questions in `input`; none when it is not here, or not what the kernel says that it is. */
export function questionsOf(input: JsonObject | null, accepts = false): AskedQuestion[] {
  const questions = list(input?.questions).map((question) => ({
    text: string(question.question),
    header: string(question.header),
    several: question.multiSelect === true,
    options: list(question.options).map((option) => ({
      label: string(option.label),
      description: string(option.description),
      preview: string(option.preview),
      marked: option.marked === true,
    })).filter(({ label }) => !accepts || (label !== ALL && label !== NONE)),
    accepts,
  }));
  return questions.every(({ text, options }) => text && options.length > 0) ? questions : [];
}

function list(value: Json | undefined): JsonObject[] {
  const items = Array.isArray(value) ? value : [];
  return items.filter((item): item is JsonObject => typeof item === "object" && item !== null && !Array.isArray(item));
}

function string(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}
