/** A block of code in the answer: its language, a copy button, the text in its colours. */

import { copyButton } from "../clipboard";
import type { ColoredCode } from "../code/colored_code";
import { coloredCode } from "../code/colored_code";
import { element } from "../dom";

/** The code of a block, as it is when it is asked for; while an answer streams it may be half of it. */
export type CodeInBlock = { readonly language: string; readonly text: () => string; readonly isComplete: () => boolean };

/** The page's own buttons in a block's head, besides Copy; `update` is called when the code is complete. */
export type CodeActions = { readonly nodes: readonly Node[]; readonly update: () => void };

const NO_ACTIONS: CodeActions = { nodes: [], update: () => undefined };

export const codeBlocks: { actions(code: CodeInBlock): CodeActions } = { actions: () => NO_ACTIONS };

type Block = { view: ColoredCode; finish(): void };

const blocks = new WeakMap<HTMLElement, Block>();

export function codeBlock(text: string, language: string): HTMLElement {
  const code = element("code");
  const view = coloredCode(code, language);
  view.update(text);
  const label = element("span", { class: "language" }, language || "text");
  const textNow = (): string => code.textContent;
  let complete = false;
  const actions = codeBlocks.actions({ language, text: textNow, isComplete: () => complete });
  const block = element(
    "figure",
    { class: "code", "aria-label": `Code, ${language || "text"}` },
    element("figcaption", {}, label, ...actions.nodes, copyButton(textNow, "Copy the code")),
    // focusable, so that long lines can be scrolled by keyboard
    element("pre", { tabindex: "0" }, code),
  );
  const finish = (): void => {
    if (complete) return;
    complete = true;
    view.finish();
    actions.update();
  };
  blocks.set(block, { view, finish });
  return block;
}

/** Writes a longer text into a block that exists: its button, colours and scroll position stay. */
export function updateCodeBlock(block: HTMLElement, text: string): void {
  blocks.get(block)?.view.update(text);
}

/** No more text comes for the block. */
export function finishCodeBlock(block: HTMLElement): void {
  blocks.get(block)?.finish();
}
