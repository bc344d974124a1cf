/** A block of code in the answer: its language, a copy button, the text. */

import { copyButton } from "../clipboard";
import { element, setText } from "../dom";

/** The page's own buttons in a block's head, besides Copy. `text` gives the code as it is then. */
export const codeBlocks: { actions(language: string, text: () => string): Node[] } = { actions: () => [] };

export function codeBlock(text: string, language: string): HTMLElement {
  const code = element("code", {}, text);
  const label = element("span", { class: "language" }, language || "text");
  const textNow = (): string => code.textContent;
  return element(
    "figure",
    { class: "code", "aria-label": `Code, ${language || "text"}` },
    element("figcaption", {}, label, ...codeBlocks.actions(language, textNow), copyButton(textNow)),
    // focusable, so that long lines can be scrolled by keyboard
    element("pre", { tabindex: "0" }, code),
  );
}

/** Writes a longer text into a block that exists: its button and scroll position stay. */
export function updateCodeBlock(block: HTMLElement, text: string): void {
  const code = block.querySelector("code");
  if (code) setText(code, text);
}
