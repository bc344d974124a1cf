/** The switch between the branches of a conversation at one of its prompts: ‹ 1/2 ›. */

import { button, element, setText } from "../../transcript/dom";
import type { Trans } from "../../translation";

/** The sessions to choose from at a prompt, oldest first; `current` is the one that is shown. */
export type BranchChoice = { readonly sessions: readonly string[]; readonly current: string };

export type BranchSwitch = { readonly node: HTMLElement; update(choice: BranchChoice | null): void; focus(): void };

/** `open` is called with the session that the user goes to. */
export function branchSwitch(trans: Trans, open: (session: string) => void): BranchSwitch {
  let choice: BranchChoice | null = null;
  const at = (): number => choice?.sessions.indexOf(choice.current) ?? -1;
  const go = (step: 1 | -1): void => {
    const session = choice?.sessions[at() + step];
    if (session !== undefined) open(session);
  };
  const before = button("‹", () => { go(-1); }, { "aria-label": trans.__("Previous branch"), title: trans.__("Previous branch (←)") });
  const after = button("›", () => { go(1); }, { "aria-label": trans.__("Next branch"), title: trans.__("Next branch (→)") });
  const place = element("span", { "aria-hidden": "true" });
  const node = element("span", { class: "branches", role: "group", hidden: "" }, before, place, after);
  node.addEventListener("keydown", (event) => {
    const step = ({ ArrowLeft: -1, ArrowRight: 1 } as const)[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    go(step);
  });
  return {
    node,
    update(now) {
      choice = now?.sessions.includes(now.current) ? now : null;
      node.hidden = choice === null;
      if (!choice) return;
      const { length } = choice.sessions;
      setText(place, `${at() + 1}/${length}`);
      node.setAttribute("aria-label", trans.__("Branch %1 of %2", at() + 1, length));
      before.disabled = at() === 0;
      after.disabled = at() === length - 1;
    },
    focus() {
      (after.disabled ? before : after).focus();
    },
  };
}

/** What the kernel answers to `session_branches`. */
export type Branches = Readonly<Record<string, readonly string[]>>;
