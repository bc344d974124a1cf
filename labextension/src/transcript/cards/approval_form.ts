/** The answers to a permission or a plan: a button for each, its key in the label, and the keys themselves. */

import type { Child } from "../dom";
import { button, element } from "../dom";
import type { Card, Form } from "../form";
import type { Submit } from "../input_editor";
import { inputEditor, inputForm } from "../input_editor";
import type { AskOp, Choice, JsonObject } from "../protocol";
import { isCellChange } from "../questions";
import { revealed, sentence } from "../visible_text";

type Words = { placeholder: string; why: string; edit: string; edited(choice: Choice): string; offer(choice: Choice): string };

const PERMISSION: Words = {
  placeholder: "Reason, or what to do instead (optional)",
  why: "Reason for denying",
  edit: "Edit first…",
  edited: () => "Allow once with this input",
  offer,
};
const CELL_CHANGE: Words = {
  placeholder: "What should be different? (optional)",
  why: "Reason for rejecting",
  edit: "Edit first…",
  edited: () => "Accept with this source",
  offer: (choice) => (choice.scope !== "once" ? offer(choice) : choice.action === "deny" ? "Reject" : "Accept"),
};
const PLAN: Words = {
  placeholder: "What should be different? (optional)",
  why: "Comment on the plan",
  edit: "Edit the plan…",
  edited: (choice) => choice.label,
  offer: (choice) => choice.label,
};

const TRUST: Words = { ...PERMISSION, offer: (choice) => choice.label };

function wordsFor(ask: AskOp): Words {
  if (ask.kind === "plan") return PLAN;
  if (ask.kind === "trust") return TRUST;
  return isCellChange(ask) ? CELL_CHANGE : PERMISSION;
}

export function keyForm(ask: AskOp, card: Card): Form {
  const words = wordsFor(ask);
  const why = whyField(words);
  const take = (choice: Choice, edited: JsonObject | null = null): void => {
    const denies = choice.action === "deny";
    const input = edited || choice.input ? { ...edited, ...choice.input } : null;
    card.send({
      behavior: choice.action,
      scope: denies ? "once" : choice.scope,
      reason: denies ? why.value.trim() : "",
      input: denies ? null : input,
    });
  };
  const deny = (): void => {
    ask.choices.filter(({ action }) => action === "deny").slice(0, 1).forEach((choice) => { take(choice); });
  };
  const edit = (): void => {
    if (!ask.input || !card.ready()) return;
    const close = (): void => {
      editor.replaceWith(node);
      card.focus();
    };
    const submits: Submit[] = ask.choices
      .filter(({ action, scope }) => action === "allow" && scope === "once")
      .map((choice) => ({ label: words.edited(choice), run: (input) => { close(); take(choice, input); } }));
    const editor = inputEditor(inputForm(ask, ask.input), submits, close);
    node.replaceWith(editor);
    editor.querySelector("textarea")?.focus();
  };
  const keys = new Map<string, () => void>([["Escape", deny]]);
  const buttons = (action: Choice["action"]): HTMLButtonElement[] =>
    ask.choices.filter((choice) => choice.action === action).map((choice, index) => {
      keys.set(choice.key, () => { take(choice); });
      const kind = action === "deny" ? "deny" : index === 0 && "primary";
      return keyButton(choice.key, choiceLabel(choice, words), () => { take(choice); }, kind);
    });
  const allowing = buttons("allow");
  if (ask.input && ask.kind !== "trust" && allowing.length > 0) {
    keys.set("e", edit).set("E", edit);
    allowing.push(keyButton("e", [element("span", {}, words.edit)], edit));
  }
  const node = element(
    "fieldset",
    { disabled: "" },
    element("div", { class: "choices" }, ...allowing),
    element("div", { class: "choices" }, ...buttons("deny"), ...(ask.kind === "trust" ? [] : [why])),
  );
  const inReason = new Map<string, () => void>([["Enter", deny], ["Escape", card.focus]]);
  return {
    node,
    press(event) {
      const act = (event.composedPath()[0] === why ? inReason : keys).get(event.key);
      if (!act) return;
      event.preventDefault();
      act();
    },
  };
}

/** Where a "no" is explained. */
export function whyField({ placeholder, why }: { placeholder: string; why: string }): HTMLInputElement {
  return element("input", { type: "text", autocomplete: "off", placeholder, "aria-label": why });
}

export function keyButton(key: string, label: Child[], onClick: () => void, kind: string | false = false): HTMLButtonElement {
  const shown = key === "Escape" ? "Esc" : key;
  const node = button(element("kbd", {}, shown), onClick, { class: kind, "aria-keyshortcuts": key });
  node.append(...label);
  return node;
}

/** What the choice covers; for the one that is kept for ever every rule as well. */
function choiceLabel(choice: Choice, words: Words): Child[] {
  const { label, scope, rules } = choice;
  const unsaid = scope === "always" ? rules.filter((rule) => !label.includes(`\`${rule}\``)) : [];
  const text = element("span", {}, ...sentence(words.offer(choice)));
  return [text, ...unsaid.map((rule) => element("code", {}, revealed(rule)))];
}

/** "all edits in src" is offered as "Allow all edits in src". */
function offer({ label, action }: Choice): string {
  const text = action === "deny" || /^(?:always )?allow/i.test(label) ? label : `Allow ${label}`;
  return text.charAt(0).toUpperCase() + text.slice(1);
}
