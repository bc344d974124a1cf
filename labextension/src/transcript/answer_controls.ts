/** The answers to a question: a button for each, its key in the label, and the keys themselves. */

import type { Child } from "./dom";
import { button, element } from "./dom";
import type { AskOp, Choice } from "./protocol";
import { revealed } from "./visible_text";

export type AnswerControls = {
  readonly node: HTMLFieldSetElement;
  /** Does what `event` asks for, if it is one of these keys. */
  press(event: KeyboardEvent): void;
};

/** `take` gets the choice and the reason for a denial; `edit` begins editing; `leave` moves the keyboard out of the reason. */
export function answerControls(
  ask: AskOp,
  take: (choice: Choice, reason: string) => void,
  edit: () => void,
  leave: () => void,
): AnswerControls {
  const why = element("input", {
    type: "text",
    autocomplete: "off",
    placeholder: "Reason, or what to do instead (optional)",
    "aria-label": "Reason for denying",
  });
  const choose = (choice: Choice): void => {
    take(choice, choice.action === "deny" ? why.value.trim() : "");
  };
  const deny = (): void => {
    ask.choices.filter(({ action }) => action === "deny").slice(0, 1).forEach(choose);
  };
  const keys = new Map<string, () => void>([["Escape", deny]]);
  const buttons = (action: Choice["action"]): HTMLButtonElement[] =>
    ask.choices.filter((choice) => choice.action === action).map((choice) => {
      keys.set(choice.key, () => { choose(choice); });
      return keyButton(choice.key, choiceLabel(choice), () => { choose(choice); }, choiceClass(choice));
    });
  const allowing = buttons("allow");
  if (ask.input) {
    keys.set("e", edit).set("E", edit);
    allowing.push(keyButton("e", [element("span", {}, "Edit first…")], edit));
  }
  const node = element(
    "fieldset",
    { disabled: "" },
    element("div", { class: "choices" }, ...allowing),
    element("div", { class: "choices" }, ...buttons("deny"), why),
  );

  const inReason = new Map<string, () => void>([["Enter", deny], ["Escape", leave]]);
  return {
    node,
    press(event) {
      if (event.isComposing) return;
      const act = (event.composedPath()[0] === why ? inReason : keys).get(event.key);
      if (!act) return;
      event.preventDefault();
      act();
    },
  };
}

function keyButton(key: string, label: Child[], onClick: () => void, kind: string | false = false): HTMLButtonElement {
  const node = button(element("kbd", {}, key), onClick, { class: kind, "aria-keyshortcuts": key });
  node.append(...label);
  return node;
}

/** What the choice covers; for the one that is kept for ever the rules as well. */
function choiceLabel(choice: Choice): Child[] {
  const text = element("span", {}, revealed(sentence(choice)));
  return choice.scope === "always" ? [text, ...choice.rules.map((rule) => element("code", {}, revealed(rule)))] : [text];
}

/** "all edits in src" is offered as "Allow all edits in src". */
function sentence({ label, action }: Choice): string {
  const text = action === "deny" || /^(?:always )?allow/i.test(label) ? label : `Allow ${label}`;
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function choiceClass({ action, scope }: Choice): string | false {
  if (action === "deny") return "deny";
  return scope === "once" && "primary";
}
