/** A question that was answered: one line that says how, how far, where. */

import type { Child } from "./dom";
import { element } from "./dom";
import type { Question } from "./items";
import type { AnsweredOp, Json, QuestionKind, Scope } from "./protocol";
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
  const parts: Child[] = [element("b", {}, headline(ask.kind, answer))];
  if (answer.behavior === "allow") parts.push(...reach(answer));
  parts.push(` ${PLACES[answer.by] ?? `by ${revealed(answer.by)}`}`);
  const said = answer.reason || textOf(answer.input?.feedback);
  if (said) parts.push(`: ${revealed(said)}`);
  const given = answers(answer);
  const [only] = given;
  // the card's title is the question then
  if (only && given.length === 1) parts.push(": ", element("strong", {}, revealed(only[1])));
  const lines = given.length > 1 ? given.map(([question, text]) => answerLine(question, text)) : [];
  return element("div", { class: `answered ${answer.behavior}` }, element("p", {}, ...parts), ...lines);
}

function reach({ edited, rules }: AnsweredOp): Child[] {
  const kept = rules.flatMap((rule) => [" ", element("code", {}, revealed(rule))]);
  return edited ? [", with an edited input", ...kept] : kept;
}

function headline(kind: QuestionKind, answer: AnsweredOp): string {
  const allowed = answer.behavior === "allow";
  switch (kind) {
    case "permission":
      return allowed ? ALLOWED[answer.scope] : "Denied";
    case "trust":
      return allowed ? "Trusted" : "Not trusted";
    case "question":
      return allowed ? "Answered" : "Dismissed";
    case "plan":
      if (!allowed) return "Goes on planning";
      return answer.input?.decision === "accept_edits" ? "Plan approved, edits accepted" : "Plan approved";
  }
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
