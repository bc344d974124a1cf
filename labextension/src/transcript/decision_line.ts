/** Why a call ran, was asked about or was refused, before anybody was asked. */

import { element } from "./dom";
import type { Behavior, DecidedOp } from "./protocol";
import { revealed, sentence } from "./visible_text";

const WORDS: Record<Behavior, string> = { allow: "Allowed", ask: "Asked", deny: "Denied" };

export function decisionLine({ behavior, by, reason, rule }: DecidedOp): HTMLElement {
  const who = by === "hook" ? " by a hook" : "";
  const why = behavior === "allow" && rule ? ["by the rule ", element("code", {}, revealed(rule))] : sentence(reason);
  return element("p", { class: `decided ${behavior}` }, element("b", {}, `${WORDS[behavior]}${who}: `), ...why);
}

/** Whether it must be seen without opening the card: what was refused, and what a hook waved through. */
export function isNews(decided: DecidedOp | null): decided is DecidedOp {
  return decided !== null && (decided.behavior === "deny" || (decided.by === "hook" && decided.behavior === "allow"));
}
