/** Copying from an answer: Markdown without its buttons, of code the code; Ctrl-A where something of it is selected takes the whole. */

import type { JupyterFrontEndPlugin } from "@jupyterlab/application";

import { ANSWERS } from "./answer_text";
import { markdownOf } from "./copied_markdown";

const EDITABLE = "input, textarea, select, [contenteditable='true']";
/** Of code, and of words within a block, the text as it stands. */
const CODE = "pre";

export const answerCopyPlugin: JupyterFrontEndPlugin<void> = {
  id: "cellwright:answer-copy",
  description: "Copies from Claude's answers as clean Markdown.",
  autoStart: true,
  activate: () => {
    document.addEventListener("copy", (event) => {
      const origin = event.composedPath()[0];
      const selected = origin instanceof Element && origin.matches(EDITABLE) ? null : selectedAnswer();
      if (!selected || event.defaultPrevented || !event.clipboardData) return;
      const text = copiedText(selected.range);
      if (text === "") return;
      event.clipboardData.setData("text/plain", text);
      event.preventDefault();
    });
    // on the window: JupyterLab's own keys are read on the document, and would select all cells
    window.addEventListener("keydown", (event) => {
      const root = isSelectAll(event) ? rootOf(event.composedPath()[0]) : null;
      const body = root?.querySelector(".transcript");
      if (!body) return;
      event.preventDefault();
      event.stopPropagation();
      getSelection()?.selectAllChildren(body);
    }, { capture: true });
  },
};

function isSelectAll({ key, ctrlKey, metaKey, altKey, shiftKey }: KeyboardEvent): boolean {
  return key.toLowerCase() === "a" && (ctrlKey || metaKey) && !altKey && !shiftKey;
}

/** The answer that the keyboard is in, or that something is selected in; null where somebody writes. */
function rootOf(target: EventTarget | undefined): ShadowRoot | null {
  if (!(target instanceof Element) || target.matches(EDITABLE)) return null;
  return answerRoot(target) ?? selectedAnswer()?.root ?? null;
}

type Selected = { readonly root: ShadowRoot; readonly range: StaticRange };

/** What is selected within one answer; null where nothing is, or more than one. */
export function selectedAnswer(): Selected | null {
  const roots = [...document.querySelectorAll(ANSWERS)].flatMap(({ shadowRoot }) => shadowRoot ?? []);
  const selection = document.getSelection();
  if (!selection || roots.length === 0) return null;
  const range = composedRange(selection, roots);
  const root = range?.startContainer.getRootNode();
  if (!range || range.collapsed || !(root instanceof ShadowRoot) || !roots.includes(root)) return null;
  return root.contains(range.endContainer) ? { root, range } : null;
}

type RootSelection = { getSelection?(): Selection | null };

function composedRange(selection: Selection, roots: ShadowRoot[]): StaticRange | null {
  if ("getComposedRanges" in selection) return selection.getComposedRanges({ shadowRoots: roots })[0] ?? null;
  // Chromium before it
  for (const root of roots) {
    const own = (root as RootSelection).getSelection?.();
    if (own && own.rangeCount > 0 && !own.isCollapsed && root.contains(own.anchorNode)) return own.getRangeAt(0);
  }
  return null;
}

/** The Markdown of `selected`; within code its text. */
export function copiedText(selected: StaticRange): string {
  const range = document.createRange();
  range.setStart(selected.startContainer, selected.startOffset);
  range.setEnd(selected.endContainer, selected.endOffset);
  const within = range.commonAncestorContainer instanceof Element ? range.commonAncestorContainer : range.commonAncestorContainer.parentElement;
  return within?.closest(CODE) ? range.toString() : markdownOf(range.cloneContents());
}

function answerRoot(element: Element): ShadowRoot | null {
  const root = element.getRootNode();
  return root instanceof ShadowRoot && root.host.matches(ANSWERS) ? root : null;
}
