/** Editing a prompt that was sent, in a field like the composer's: it is asked anew, and what came after it stays in a branch of its own. */

import { isComposing } from "../../composer/keys";
import { fitHeight } from "../../composer/text_field";
import { button, element } from "../../transcript/dom";
import type { Trans } from "../../translation";
import { icon } from "../icons";

/** The form; Enter sends unless `sendKey` says otherwise. `send` gets the new words, `cancel` is called when nothing is to change. */
export function promptEditor(trans: Trans, text: string, sendKey: "Enter" | "Shift+Enter", send: (text: string) => void, cancel: () => void): HTMLElement {
  const area = element("textarea", { "aria-label": trans.__("Edit the prompt"), rows: "1" });
  area.value = text;
  const submit = (): void => {
    const words = area.value.trim();
    if (words) send(words);
  };
  const sends = button(icon("send"), submit, { class: "send", title: `${trans.__("Send")} (${sendKey})`, "aria-label": trans.__("Send") });
  const node = element(
    "div",
    { class: "prompt-editor" },
    area,
    element(
      "div",
      { class: "editor-line" },
      element("span", { class: "hint" }, trans.__("The earlier answer is kept as a branch.")),
      button(trans.__("Cancel"), cancel, { class: "plain", "aria-keyshortcuts": "Escape" }),
      sends,
    ),
  );
  area.addEventListener("input", () => { fitHeight(area); });
  node.addEventListener("keydown", (event) => {
    if (isComposing(event)) return;
    const isSend = event.key === "Enter" && event.target === area && !event.altKey && (event.ctrlKey || event.metaKey || event.shiftKey === (sendKey === "Shift+Enter"));
    if (event.key === "Escape") cancel();
    else if (isSend) submit();
    else return;
    event.stopPropagation();
    event.preventDefault();
  });
  setTimeout(() => {
    fitHeight(area);
    area.focus();
    area.setSelectionRange(area.value.length, area.value.length);
  });
  return node;
}
