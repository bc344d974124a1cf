/** A question that was answered: one line that says how, how far, where. */

import type { Child } from "./dom";
import { element } from "./dom";
import type { Question } from "./items";
import type { AnsweredOp, AskOp, Json, Scope } from "./protocol";
import { isCellChange } from "./questions";
import { revealed } from "./visible_text";

const ALLOWED: Record<Scope, string> = {
  once: "Allowed once",
  session: "Allowed for this session",
  always: "Always allowed",
};
const PLACES: Record<string, string> = {
  widget: "in this cell",
  sidebar: "in the sidebar",
  input: "at the prompt",
  policy: "by the policy",
  callback: "by a callback",
  terminal: "in the terminal",
  hook: "by a hook",
};

export function answeredLine({ ask, answer }: Question): HTMLElement {
  if (!answer) return element("p", { class: "answered" }, "Not answered");
  const given = answers(answer);
  // one question is the title of its card already
  const [short] = given.filter(([question]) => question === ask.title);
  const said = short?.[1] ?? (answer.reason || textOf(answer.input?.feedback));
  const line = element("p", {}, element("b", {}, headline(ask, answer)), ...reach(answer));
  if (said) line.append(": ", short ? element("strong", {}, revealed(said)) : revealed(said));
  const lines = short ? [] : given.map(([question, text]) => answerLine(question, text));
  return element("div", { class: `answered ${answer.behavior}` }, line, ...lines);
}

/** How far the answer goes, and where it came from. */
function reach({ behavior, by, edited, rules, input }: AnsweredOp): Child[] {
  const kept = behavior === "allow" ? rules.flatMap((rule) => [" ", element("code", {}, revealed(rule))]) : [];
  if (behavior === "allow" && edited) kept.unshift(", with an edited input");
  const nobody = by === "policy" && input !== null;
  return nobody ? kept : [...kept, ` ${PLACES[by] ?? `by ${revealed(by)}`}`];
}

function headline(ask: AskOp, answer: AnsweredOp): string {
  const allowed = answer.behavior === "allow";
  switch (ask.kind) {
    case "permission":
      return permissionHeadline(ask, answer);
    case "trust":
      return ask.name === "Undo" ? undoHeadline(allowed) : trustHeadline(allowed);
    case "question":
      if (allowed && answers(answer).length === 0) return "Not answered in time";
      return allowed ? "Answered" : "Dismissed";
    case "plan":
      if (!allowed) return "Goes on planning";
      return answer.input?.decision === "accept_edits" ? "Plan approved, edits accepted" : "Plan approved";
  }
}

function trustHeadline(allowed: boolean): string {
  return allowed ? "Trusted" : "Not trusted";
}

function undoHeadline(allowed: boolean): string {
  return allowed ? "Done" : "Left as it is";
}

function permissionHeadline(ask: AskOp, { behavior, scope }: AnsweredOp): string {
  if (behavior === "deny") return isCellChange(ask) ? "Rejected" : "Denied";
  return isCellChange(ask) && scope === "once" ? "Accepted" : ALLOWED[scope];
}

/** What the user answered, by the question. */
function answers({ input }: AnsweredOp): [string, string][] {
  const given = input?.answers;
  if (typeof given !== "object" || given === null || Array.isArray(given)) return [];
  return Object.entries(given).map(([question, answer]) => [question, textOf(answer)]);
}

function answerLine(question: string, text: string): HTMLElement {
  return element("p", { class: "qa" }, revealed(question), " ", element("strong", {}, revealed(text)));
}

/** A text, or several. */
function textOf(value: Json | undefined): string {
  const texts = Array.isArray(value) ? value : [value];
  return texts.filter((text) => typeof text === "string").join(", ");
}
