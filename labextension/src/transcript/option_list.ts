/** One of Claude's questions: its options, and a line for an answer of one's own. */

import { element, freshId } from "./dom";
import type { AskedQuestion, Option } from "./questions";
import { revealed, visibleText } from "./visible_text";

export type OptionList = {
  readonly node: HTMLElement;
  /** The question's text, by which answers go. */
  readonly question: string;
  /** Whether several options may be chosen. */
  readonly several: boolean;
  /** Takes the option of this digit, or goes to the free text; whether there is such an option. */
  choose(digit: number): boolean;
  /** The answer as Claude gets it; "" while there is none. */
  answer(): string;
  focus(): void;
};

/** `title`: the id of what the question is called, where the card's title is the question; else it is shown. `remark` follows it. */
export function optionList(question: AskedQuestion, title: string | null, remark: Node, onChange: () => void): OptionList {
  const id = title ?? freshId();
  const name = freshId();
  const type = question.several ? "checkbox" : "radio";
  const boxes = question.options.map((option) => element("input", { type, name, value: option.label }));
  const previews = previewStack(question.options);
  const own = element("input", { type, name, "aria-label": "An answer of your own" });
  const text = element("input", {
    type: "text",
    class: "own",
    autocomplete: "off",
    placeholder: question.several ? "Something else as well" : "Something else",
    "aria-label": "Your own answer",
  });
  const asked = title === null ? [element("span", { id, class: "asked" }, visibleText(question.text))] : [];
  const several = question.several ? [element("span", { class: "remark" }, "Choose any number.")] : [];
  const node = element(
    "div",
    { class: "question", role: question.several ? "group" : "radiogroup", "aria-labelledby": id },
    element("p", { class: "heading" }, element("span", { class: "chip" }, revealed(question.header)), ...asked, ...several, remark),
    ...boxes.map((box, index) => row(index + 1, box, optionText(question.options[index]))),
    row(question.options.length + 1, own, [text], "div"),
    ...previews.nodes,
  );
  const changed = (): void => {
    previews.show(boxes.findLastIndex((box) => box.checked));
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
    label.addEventListener("pointerenter", () => { previews.show(index); });
  });
  return {
    node,
    question: question.text,
    several: question.several,
    choose(digit) {
      const box = boxes[digit - 1];
      if (box) take(box);
      else if (digit === boxes.length + 1) text.focus();
      return digit <= boxes.length + 1;
    },
    answer() {
      const chosen = question.options.filter((_, index) => boxes[index]?.checked).map((option) => option.label);
      const written = own.checked ? text.value.trim() : "";
      return [...chosen, ...(written ? [written] : [])].join(", ");
    },
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

function optionText(option: Option | undefined): HTMLElement[] {
  const { label = "", description = "" } = option ?? {};
  const parts = [element("b", {}, visibleText(label))];
  if (description) parts.push(element("span", { class: "description" }, visibleText(description)));
  return parts;
}

/** All previews in one place, one of them seen: the card keeps its height, whichever it is. */
function previewStack(options: Option[]): { nodes: HTMLElement[]; show: (index: number) => void } {
  if (!options.some((option) => option.preview)) return { nodes: [], show: () => undefined };
  const shown = options.map(({ label, preview }) =>
    element("pre", { class: "exact detail", tabindex: "0", role: "region", "aria-label": `Preview of ${revealed(label)}` }, visibleText(preview || "No preview")),
  );
  const show = (index: number): void => {
    shown.forEach((one, at) => { one.style.visibility = at === Math.max(index, 0) ? "" : "hidden"; });
  };
  show(0);
  return { nodes: [element("div", { class: "previews" }, ...shown)], show };
}
