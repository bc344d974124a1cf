/** A question that was answered: one line that says how, how far, where. */

import type { Child } from "./dom";
import { element } from "./dom";
import type { AnsweredOp, Scope } from "./protocol";
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

export function answeredLine(answer: AnsweredOp): HTMLElement {
  const allowed = answer.behavior === "allow";
  const parts: Child[] = [element("b", {}, allowed ? ALLOWED[answer.scope] : "Denied")];
  if (allowed && answer.edited) parts.push(", with an edited input");
  if (allowed) answer.rules.forEach((rule) => parts.push(" ", element("code", {}, revealed(rule))));
  parts.push(` ${PLACES[answer.by] ?? `by ${revealed(answer.by)}`}`);
  if (answer.reason) parts.push(`: ${revealed(answer.reason)}`);
  return element("p", { class: `answered ${answer.behavior}` }, ...parts);
}
