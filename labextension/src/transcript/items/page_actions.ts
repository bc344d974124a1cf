/** Actions that only the page can do; a transcript asks for them with an event, whichever build of the renderer it is. */

import type { AskOp } from "../protocol";

export const ACTION_EVENT = "cellwright-action";

/** A prompt that is not the user's own: people see its `title`, Claude receives its `instructions` with it. */
export type WrittenPrompt = { readonly title: string; readonly instructions: string };

export type PageAction =
  /** Ask the same again: the cell, or the panel's prompt. */
  | { action: "again" }
  /** Ask something else, as the next prompt. */
  | { action: "ask"; prompt: string }
  /** Have the answer of this name, a cell's, written anew in its place. */
  | { action: "refresh"; answer: string; prompt: WrittenPrompt }
  /** Open a file of Claude's folder, at its line where that is given. */
  | { action: "open"; path: string; line: number | null }
  /** Go to a cell of the notebook `path`. */
  | { action: "cell"; path: string; cell: string }
  /** Write a slash command into the panel's composer. */
  | { action: "command"; command: string }
  /** Go where a key can be entered, or where another way to Claude is offered. */
  | { action: "key"; way: "key" | "cloud" | "demo" };

const READY = Symbol.for("cellwright.actions");

/** True in a page that does these things. */
export function hasPageActions(): boolean {
  return (globalThis as unknown as Record<symbol, unknown>)[READY] === true;
}

const KEY_FORM = Symbol.for("cellwright.keyForm");

/** Draws the field for a key into a cell's card. */
export type KeyForm = (host: HTMLElement) => void;

/** The page's way to draw the field for a key; undefined if it has none. */
export function keyForm(): KeyForm | undefined {
  return (globalThis as unknown as Record<symbol, KeyForm | undefined>)[KEY_FORM];
}

/** The page draws it from now on. */
export function lendKeyForm(form: KeyForm): void {
  (globalThis as unknown as Record<symbol, KeyForm>)[KEY_FORM] = form;
}

/** The page does them from now on. */
export function offerPageActions(): void {
  (globalThis as unknown as Record<symbol, unknown>)[READY] = true;
}

/** Asks the page for something, from the place of `node`. */
export function request(node: Node, detail: PageAction): void {
  node.dispatchEvent(new CustomEvent<PageAction>(ACTION_EVENT, { detail, bubbles: true, composed: true, cancelable: true }));
}

/** Runs a changed cell as its user, once the change is in the document of this page. */
export type ChangeRunner = {
  /** The act that Enter is for: run the changed cell as well, only accept, or nothing. */
  offers(ask: AskOp): "run" | "accept" | null;
  /** Runs the cell when it has `source`; null: it is not to be run after all. */
  runWhenChanged(ask: AskOp, source: string | null): void;
};

const RUNNER = Symbol.for("cellwright.change-runner");

/** The page's runner; undefined where cells can't be run from a card. */
export function changeRunner(): ChangeRunner | undefined {
  return (globalThis as unknown as Record<symbol, ChangeRunner | undefined>)[RUNNER];
}

export function offerChangeRunner(runner: ChangeRunner | undefined): void {
  (globalThis as unknown as Record<symbol, ChangeRunner | undefined>)[RUNNER] = runner;
}
