/** Editing a prompt that was sent: it is asked anew, and what came after it stays in a branch of its own. */

import { button, element } from "../../transcript/dom";
import type { Trans } from "../../translation";

const MAX_ROWS = 12;

/** The form; `send` gets the new words, `cancel` is called when nothing is to change. */
export function promptEditor(trans: Trans, text: string, send: (text: string) => void, cancel: () => void): HTMLElement {
  const area = element("textarea", { "aria-label": trans.__("Edit the prompt"), rows: `${Math.min(MAX_ROWS, text.split("\n").length + 1)}` });
  area.value = text;
  const submit = (): void => {
    const words = area.value.trim();
    if (words) send(words);
  };
  const node = element(
    "div",
    { class: "prompt-editor" },
    area,
    element("p", { class: "hint" }, trans.__("The answers after it are kept as a branch that you can open again.")),
    element("div", { class: "prompt-actions" },
      button(trans.__("Ask again"), submit, { class: "primary", "aria-keyshortcuts": "Control+Enter" }),
      button(trans.__("Cancel"), cancel, { "aria-keyshortcuts": "Escape" })),
  );
  node.addEventListener("keydown", (event) => {
    if (event.key === "Escape") cancel();
    else if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.isComposing) submit();
    else return;
    event.stopPropagation();
    event.preventDefault();
  });
  setTimeout(() => { area.focus(); });
  return node;
}
