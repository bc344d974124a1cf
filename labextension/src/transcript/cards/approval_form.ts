/** The answers to a permission or a plan: a button for each, its key in the label, and the keys themselves. */

import type { JsonObject } from "../../json";
import type { Child } from "../dom";
import { button, element } from "../dom";
import type { AskOp, Choice, Scope } from "../protocol";
import { revealed, sentence } from "../visible_text";
import type { SubmitAction } from "./edit_first";
import { editFirst } from "./edit_first";

type FormText = { placeholder: string; why: string; edit: string; edited(choice: Choice): string; offer(choice: Choice): string };

const PERMISSION: FormText = {
  placeholder: "Why not, or what instead?",
  why: "Reason for denying",
  edit: "Edit first…",
  edited: () => "Allow once with this input",
  offer,
};
const CELL_CHANGE: FormText = {
  placeholder: "What should be different?",
  why: "Reason for rejecting",
  edit: "Edit first…",
  edited: () => "Accept with this source",
  offer: (choice) => (choice.scope !== "once" ? offer(choice) : choice.action === "deny" ? "Reject" : "Accept"),
};
const PLAN: FormText = {
  placeholder: "What should be different?",
  why: "Comment on the plan",
  edit: "Edit the plan…",
  edited: (choice) => choice.label,
  offer: (choice) => choice.label,
};

const TRUST: FormText = { ...PERMISSION, offer: (choice) => choice.label };

function formTextFor(ask: AskOp): FormText {
  if (ask.kind === "plan") return PLAN;
  if (ask.kind === "trust") return TRUST;
  return isCellChange(ask) ? CELL_CHANGE : PERMISSION;
}

/** True for a change of a notebook's cell: that is accepted or rejected. */
export function isCellChange({ name, kind }: AskOp): boolean {
  return name === "NotebookEdit" && kind === "permission";
}

export function approvalForm(ask: AskOp, card: AnswerTarget): AnswerForm {
  const words = formTextFor(ask);
  const why = reasonField(words);
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
  const allowAll = (): void => {
    card.send({ behavior: "allow", scope: "once", reason: "", input: null, next: true });
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
    const submits: SubmitAction[] = ask.choices
      .filter(({ action, scope }) => action === "allow" && scope === "once")
      .map((choice) => ({ label: words.edited(choice), run: (input) => { close(); take(choice, input); } }));
    const editor = editFirst(ask, ask.input, submits, close);
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
  const allowing: HTMLElement[] = buttons("allow");
  const count = 1 + (ask.next?.length ?? 0);
  if (count > 1 && allowing.length > 0) {
    keys.set("a", allowAll).set("A", allowAll);
    allowing.splice(1, 0, keyButton("a", [element("span", {}, `Allow all ${NUMBERS[count] ?? count}`)], allowAll));
  }
  if (ask.input && ask.kind !== "trust" && allowing.length > 0) {
    keys.set("e", edit).set("E", edit);
    allowing.push(keyButton("e", [element("span", {}, words.edit)], edit));
  }
  const node = element(
    "fieldset",
    { disabled: "" },
    element("div", { class: "choices" }, ...allowing),
    ...rulesOf(ask),
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

/** The field in which a "no" is explained. */
export function reasonField({ placeholder, why }: { placeholder: string; why: string }): HTMLInputElement {
  return element("input", { type: "text", autocomplete: "off", placeholder, "aria-label": why });
}

export function keyButton(key: string, label: Child[], onClick: () => void, kind: string | false = false): HTMLButtonElement {
  const shown = key === "Escape" ? "Esc" : key;
  const node = button(element("kbd", {}, shown), onClick, { class: kind, "aria-keyshortcuts": key });
  node.append(...label);
  return node;
}

const NUMBERS: Record<number, string> = { 2: "two", 3: "three", 4: "four", 5: "five" };

/** The label of a choice, in words; the rules that it keeps stand in `rulesOf`. */
function choiceLabel(choice: Choice, words: FormText): Child[] {
  return [element("span", {}, ...sentence(words.offer(choice)))];
}

const KEPT: Partial<Record<Scope, string>> = { session: "for this session", always: "saved in this project's settings" };

/** Each rule that a choice would keep, whole: folded away, since the choices say it in words. */
function rulesOf({ choices }: AskOp): HTMLElement[] {
  const keeping = choices.filter(({ scope, rules }) => KEPT[scope] && rules.length > 0);
  if (keeping.length === 0) return [];
  const lines = keeping.map(({ key, scope, rules }) =>
    element("p", { "data-scope": scope }, `${key}, ${KEPT[scope]}: `, ...rules.flatMap((rule) => [element("code", {}, revealed(rule)), " "])),
  );
  const title = keeping.flatMap(({ rules }) => rules).length > 1 ? "The rules that would be saved" : "The rule that would be saved";
  return [element("details", { class: "rules" }, element("summary", {}, title), ...lines)];
}

/** "all edits in src" is offered as "Allow all edits in src". */
function offer({ label, action }: Choice): string {
  const text = action === "deny" || /^(?:always )?allow/i.test(label) ? label : `Allow ${label}`;
  return text.charAt(0).toUpperCase() + text.slice(1);
}

// The form in a question's card.

export type ApprovalAnswer = { behavior: "allow" | "deny"; scope: Scope; reason: string; input: JsonObject | null; next?: boolean };

/** The card as its form sees it. */
export type AnswerTarget = {
  /** True when an answer counts now. */
  readonly ready: () => boolean;
  readonly send: (answer: ApprovalAnswer) => void;
  /** Says something about answering. */
  readonly tell: (text: string) => void;
  /** Takes the keyboard back from a field. */
  readonly focus: () => void;
};

export type AnswerForm = {
  /** Disabled by the card while no answer counts. */
  readonly node: HTMLFieldSetElement;
  /** Does what `event` asks for, if it is one of the form's keys. */
  press(event: KeyboardEvent): void;
};
