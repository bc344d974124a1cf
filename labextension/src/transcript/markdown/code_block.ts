/** A block of code in the answer: its language, a copy button, the text in its colours. */

import { copyButton } from "../clipboard";
import type { ColoredCode } from "../code/colored_code";
import { coloredCode } from "../code/colored_code";
import { element } from "../dom";

/** The page's own buttons in a block's head, besides Copy. `text` gives the code as it is then. */
export const codeBlocks: { actions(language: string, text: () => string): Node[] } = { actions: () => [] };

const colored = new WeakMap<HTMLElement, ColoredCode>();

export function codeBlock(text: string, language: string): HTMLElement {
  const code = element("code");
  const view = coloredCode(code, language);
  view.update(text);
  const label = element("span", { class: "language" }, language || "text");
  const textNow = (): string => code.textContent;
  const block = element(
    "figure",
    { class: "code", "aria-label": `Code, ${language || "text"}` },
    element("figcaption", {}, label, ...codeBlocks.actions(language, textNow), copyButton(textNow)),
    // focusable, so that long lines can be scrolled by keyboard
    element("pre", { tabindex: "0" }, code),
  );
  colored.set(block, view);
  return block;
}

/** Writes a longer text into a block that exists: its button, colours and scroll position stay. */
export function updateCodeBlock(block: HTMLElement, text: string): void {
  colored.get(block)?.update(text);
}

/** No more text comes for the block. */
export function finishCodeBlock(block: HTMLElement): void {
  colored.get(block)?.finish();
}
