/** The answers to a permission or a plan: a button for each, its key in the label, and the keys themselves. */

import type { JsonObject } from "../../json";
import type { Child } from "../dom";
import { button, element, freshId, setText } from "../dom";
import type { ChangeRunner } from "../items/page_actions";
import { changeRunner } from "../items/page_actions";
import type { AskOp, Choice, Scope } from "../protocol";
import { revealed, sentence } from "../visible_text";
import type { SubmitAction } from "./edit_first";
import { editFirst } from "./edit_first";

type FormText = { placeholder: string; why: string; edit: string; edited(choice: Choice): string; offer(choice: Choice): string };

const PERMISSION: FormText = {
  placeholder: "Why not? (optional)",
  why: "Reason for denying",
  edit: "Edit first…",
  edited: () => "Allow once with this input",
  offer,
};
const CELL_CHANGE: FormText = {
  placeholder: "What should be different?",
  why: "Reason for rejecting",
  edit: "Edit first…",
  edited: () => "Accept",
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

/** A change of a cell that somebody else changed meanwhile: to allow it changes nothing, and has Claude read the cell again. */
function isConflict(ask: AskOp): boolean {
  return isCellChange(ask) && ask.warning !== "";
}

/** As the terminal says it (`terminal/question.py`). */
const ADAPT = "Let Claude adapt it";

export function approvalForm(ask: AskOp, card: AnswerTarget): AnswerForm {
  const words = formTextFor(ask);
  const why = reasonField(words);
  const take = (choice: Choice, edited: JsonObject | null = null, run = false): void => {
    if (!card.ready()) return;
    if (isCellChange(ask)) changeRunner()?.runWhenChanged(ask, run && !isConflict(ask) ? sourceOf(edited ?? ask.input) : null);
    card.send(answerOf(choice, edited, why.value.trim()));
  };
  const allowAll = (): void => {
    card.send({ behavior: "allow", scope: "once", reason: "", input: null, next: true });
  };
  const deny = (): void => {
    ask.choices.filter(({ action }) => action === "deny").slice(0, 1).forEach((choice) => { take(choice); });
  };
  const once = ask.choices.find(({ action, scope }) => action === "allow" && scope === "once");
  /** Accepts a change, and runs the cell if the page can. */
  const accept = once && ((input: JsonObject | null = null): void => { take(once, input, true); });
  const edit = (): void => {
    if (!ask.input || !card.ready()) return;
    const close = (): void => {
      editor.replaceWith(form.node);
      card.focus();
    };
    const submits: SubmitAction[] = ask.choices
      .filter(({ action, scope }) => action === "allow" && scope === "once")
      .map((choice) => ({ label: words.edited(choice), run: (input) => { close(); take(choice, input); } }));
    // the first is the one that Enter is for in the card
    if (accept && offered(ask) === "run") submits.unshift({ label: "Accept and run", run: (input) => { close(); accept(input); } });
    const editor = editFirst(ask, ask.input, submits, close);
    form.node.replaceWith(editor);
    editor.querySelector("textarea")?.focus();
  };
  const keys = new Map<string, () => void>([["Escape", deny]]);
  const buttons = (action: Choice["action"]): HTMLButtonElement[] =>
    ask.choices.filter((choice) => choice.action === action).map((choice, index) => {
      keys.set(choice.key, () => { take(choice); });
      const kind = action === "deny" ? ask.kind !== "trust" && "deny" : index === 0 && "primary";
      return keyButton(choice.key, choiceLabel(ask, choice, words), () => { take(choice); }, kind);
    });
  const parts = { keys, why, card, edit, allowAll, deny, allowing: buttons("allow"), denying: buttons("deny") };
  const form = isCellChange(ask) ? changeForm(ask, { ...parts, accept }) : permissionForm(ask, words, parts);
  return form;
}

function answerOf({ action, scope, input }: Choice, edited: JsonObject | null, reason: string): ApprovalAnswer {
  if (action === "deny") return { behavior: "deny", scope: "once", reason, input: null };
  return { behavior: "allow", scope, reason: "", input: edited || input ? { ...edited, ...input } : null };
}

type FormParts = {
  keys: Map<string, () => void>;
  why: HTMLInputElement;
  card: AnswerTarget;
  deny: () => void;
  edit: () => void;
  allowAll: () => void;
  allowing: HTMLButtonElement[];
  denying: HTMLButtonElement[];
};

function permissionForm(ask: AskOp, words: FormText, { keys, why, card, edit, allowAll, deny, allowing, denying }: FormParts): AnswerForm {
  const count = 1 + (ask.next?.length ?? 0);
  if (count > 1 && allowing.length > 0) {
    keys.set("a", allowAll).set("A", allowAll);
    allowing.splice(1, 0, keyButton("a", [element("span", {}, `Allow ${many(count)}`)], allowAll));
  }
  if (ask.input && ask.kind !== "trust" && allowing.length > 0) {
    keys.set("e", edit).set("E", edit);
    allowing.push(keyButton("e", [element("span", {}, words.edit)], edit));
  }
  const node = foldingForm(allowing, denying, ask.kind === "trust" ? [] : [why]);
  return { node, keys: shownKeys(node), press: pressing(keys, why, deny, card) };
}

/** Where there is little room the style sheet folds away what is wanted seldom: to allow once, the next wider answer and to deny stay in view. */
function foldingForm([once, second, ...wider]: HTMLElement[], denying: HTMLElement[], why: HTMLElement[]): HTMLFieldSetElement {
  const folded = element("div", { class: "wider", id: freshId() }, ...wider);
  const more = button("More", () => {
    more.setAttribute("aria-expanded", `${folded.classList.toggle("open")}`);
    folded.scrollIntoView({ block: "nearest" });
  }, { class: "plain unfold", "aria-label": "More answers", "aria-expanded": "false", "aria-controls": folded.id });
  const isFolding = wider.length > 0;
  second?.classList.add("second");
  return element(
    "fieldset",
    { class: isFolding && "of-call", disabled: "" },
    element("div", { class: "choices" }, ...[once, second].flatMap((each) => each ?? []), folded, ...(isFolding ? [more] : [])),
    element("div", { class: "choices" }, ...denying, ...why),
  );
}

function pressing(keys: Map<string, () => void>, why: HTMLInputElement, deny: () => void, card: AnswerTarget): AnswerForm["press"] {
  const inReason = new Map<string, () => void>([["Enter", deny], ["Escape", card.focus]]);
  return (event) => {
    const target = event.composedPath()[0];
    // a button or a fold is pressed by its own key
    if (event.key === "Enter" && target instanceof Element && target.matches("button, summary, a")) return;
    const act = (target === why ? inReason : keys).get(event.key);
    if (!act) return;
    event.preventDefault();
    act();
  };
}

/** "Press Enter, 1 or 4": the keys of the buttons that are shown; `folded`: while the seldom ones are folded away. */
function shownKeys(node: HTMLElement): AnswerForm["keys"] {
  return (folded = false) => {
    const keys = [...node.querySelectorAll<HTMLButtonElement>("button:has(kbd)")]
      .filter((each) => each.closest(folded ? "[hidden], .wider" : "[hidden]") === null)
      .map((each) => each.getAttribute("aria-keyshortcuts") ?? "")
      .filter((key) => key !== "Escape");
    const last = keys.pop();
    return last === undefined ? "" : `Press ${keys.length > 0 ? `${keys.join(", ")} or ` : ""}${last}`;
  };
}

/** Of a cell that goes there is no text to edit, and a conflict changes nothing. */
function isEditable(ask: AskOp): boolean {
  return ask.input !== null && ask.input.edit_mode !== "delete" && !isConflict(ask);
}

/** `accept` accepts it once, and runs the cell; undefined if no choice allows that. */
type ChangeParts = FormParts & { accept: (() => void) | undefined };

/** One row of buttons; what is wanted seldom unfolds below it. */
function changeForm(ask: AskOp, { keys, why, card, accept, deny, edit, allowAll, allowing, denying }: ChangeParts): AnswerForm {
  const [first, ...wider] = allowing;
  const run = keyButton("Enter", [element("span", {})], () => { accept?.(); }, "primary");
  const next = ask.next?.length ?? 0;
  const acceptAll = next > 0 ? allowAll : (): void => { card.answerAll?.("allow"); };
  const all = keyButton("a", [element("span", {})], acceptAll);
  const none = button("Reject all", () => { card.answerAll?.("deny"); }, { class: "deny" });
  const rest = element(
    "div",
    { class: "rest", id: freshId(), hidden: "" },
    ...(ask.reason ? [element("p", { class: "reason" }, ...sentence(ask.reason))] : []),
    element("div", { class: "choices" }, ...wider, none),
    ...rulesOf(ask),
  );
  const editing = accept && isEditable(ask) ? [keyButton("e", [element("span", {}, CELL_CHANGE.edit)], edit)] : [];
  if (editing.length > 0) keys.set("e", edit).set("E", edit);
  const seldom = [...editing, all, unfolding(rest), why];
  const row = element("div", { class: "choices" }, run, ...(first ? [first] : []), ...denying, ...seldom);
  const node = element("fieldset", { class: "of-change", disabled: "" }, row, rest);
  const offer = (shown: HTMLButtonElement, named: string[], act: (() => void) | undefined): void => {
    shown.hidden = act === undefined;
    for (const key of named) {
      if (act) keys.set(key, act);
      else keys.delete(key);
    }
  };
  const refresh = (total: number): void => {
    const enter = accept ? offered(ask) : null;
    offer(run, ["Enter"], enter === null ? undefined : accept);
    label(run, isConflict(ask) ? ADAPT : enter === "run" ? "Accept and run" : "Accept");
    if (first) standBeside(first, enter);
    const several = total > 1 && card.answerAll !== undefined;
    offer(all, ["a", "A"], several || next > 0 ? acceptAll : undefined);
    none.hidden = !several;
    label(all, next > 0 ? `Allow ${many(next + 1)}` : `Accept ${many(total)}`);
    setText(none, `Reject ${many(total)}`);
  };
  refresh(1);
  return { node, keys: shownKeys(node), refresh, press: pressing(keys, why, deny, card) };
}

/** To accept alone is one button, whichever key is pressed. */
function standBeside(accept: HTMLButtonElement, enter: ReturnType<ChangeRunner["offers"]>): void {
  accept.hidden = enter === "accept";
  accept.classList.toggle("primary", enter === null);
}

function label(node: HTMLButtonElement, text: string): void {
  if (node.lastElementChild instanceof HTMLElement) setText(node.lastElementChild, text);
}

function unfolding(rest: HTMLElement): HTMLButtonElement {
  const more = button("More", () => {
    rest.hidden = !rest.hidden;
    more.setAttribute("aria-expanded", `${!rest.hidden}`);
  }, { class: "plain unfold", "aria-label": "More answers", "aria-expanded": "false", "aria-controls": rest.id });
  return more;
}

function sourceOf(input: JsonObject | null): string | null {
  const source = input?.new_source;
  return typeof source === "string" ? source : null;
}

/** The act that Enter is for; of a conflict nothing is run. */
function offered(ask: AskOp): ReturnType<ChangeRunner["offers"]> {
  const runner = changeRunner();
  // of a cell that goes nothing is run, and Enter accepts it as its neighbours' changes
  const offers = runner && ask.input?.edit_mode === "delete" ? "accept" : (runner?.offers(ask) ?? null);
  return offers && isConflict(ask) ? "accept" : offers;
}

/** The field in which a "no" is explained. */
export function reasonField({ placeholder, why }: { placeholder: string; why: string }): HTMLInputElement {
  return element("input", { type: "text", autocomplete: "off", placeholder, "aria-label": why });
}

export function keyButton(key: string, label: Child[], onClick: () => void, kind: string | false = false): HTMLButtonElement {
  const shown = key === "Escape" ? "Esc" : key;
  const node = button(element("kbd", { "aria-hidden": "true" }, shown), onClick, { class: kind, "aria-keyshortcuts": key });
  node.append(...label);
  return node;
}

const NUMBERS: Record<number, string> = { 3: "three", 4: "four", 5: "five" };

function many(count: number): string {
  return count === 2 ? "both" : `all ${NUMBERS[count] ?? count}`;
}

/** The label of a choice, in words; the rules that it keeps stand in `rulesOf`. */
function choiceLabel(ask: AskOp, choice: Choice, words: FormText): Child[] {
  const adapts = isConflict(ask) && choice.action === "allow" && choice.scope === "once";
  return [element("span", {}, ...sentence(adapts ? ADAPT : words.offer(choice)))];
}

const KEPT: Partial<Record<Scope, string>> = { session: "for this session", always: "saved in this project's settings" };

/** Each rule that a choice would keep, whole: folded away, since the choices say it in words. */
export function rulesOf({ choices }: AskOp): HTMLElement[] {
  const keeping = choices.filter(({ scope, rules }) => KEPT[scope] && rules.length > 0);
  if (keeping.length === 0) return [];
  const lines = keeping.map(({ key, scope, rules }) =>
    element("p", { "data-scope": scope }, `${key}, ${KEPT[scope]}: `, ...rules.flatMap((rule) => [element("code", {}, revealed(rule)), " "])),
  );
  const title = keeping.flatMap(({ rules }) => rules).length > 1 ? "Rules that would be saved" : "Rule that would be saved";
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
  /** Answers all changes of cells that wait in this notebook; undefined if the card doesn't know the others. */
  readonly answerAll?: ((behavior: ApprovalAnswer["behavior"]) => void) | undefined;
};

export type AnswerForm = {
  /** Disabled by the card while no answer counts. */
  readonly node: HTMLFieldSetElement;
  /** Does what `event` asks for, if it is one of the form's keys. */
  press(event: KeyboardEvent): void;
  /** How to answer by keys now, or while the seldom answers are folded away; "" if none does. */
  keys(folded?: boolean): string;
  /** Looks again at what the page can do; `total` changes wait in its notebook. */
  refresh?(total: number): void;
};
