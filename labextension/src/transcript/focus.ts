/** The keyboard's place: taking it without taking it away from someone, and giving it back. */

/** The time in which a card that came up tries to get the keyboard. */
const TRY_MS = 3000;
/** A notebook's cell, of the second name in the classic notebook; or the panel. */
const CELL = ".jp-Cell, .cell, .cellwright-panel";
const NOTEBOOK = ".jp-Notebook";
const EDITABLE = "input, textarea, select, [contenteditable], .cm-content";

/** The focused element, also inside shadow roots. */
export function focused(): Element | null {
  let active = document.activeElement;
  while (active?.shadowRoot?.activeElement) active = active.shadowRoot.activeElement;
  return active;
}

export type UserAttention = {
  /** True once a key or the mouse was pressed outside the transcript's cell since it appeared. */
  hasMovedOn(): boolean;
  stop(): void;
};

/** Watches whether the user goes on with something else than the cell of `host`. */
export function watchAttention(host: HTMLElement): UserAttention {
  let moved = false;
  const notice = (event: Event): void => {
    moved ||= !event.composedPath().includes(host.closest(CELL) ?? host);
  };
  const kinds = ["keydown", "pointerdown"];
  for (const kind of kinds) document.addEventListener(kind, notice, { capture: true, passive: true });
  return {
    hasMovedOn: () => moved,
    stop() {
      for (const kind of kinds) document.removeEventListener(kind, notice, { capture: true });
    },
  };
}

/** True in the tests, whose browser has no user: there scripts press the keys. */
declare const SCRIPTS_MAY_ANSWER: boolean;

/** Keeps keys and clicks that a script made from `node`: what is answered there a person has to answer. */
export function onlyFromUser(node: HTMLElement): void {
  const stop = (event: Event): void => {
    if (event.isTrusted || SCRIPTS_MAY_ANSWER) return;
    event.stopImmediatePropagation();
    event.preventDefault();
  };
  for (const kind of ["click", "keydown"]) node.addEventListener(kind, stop, { capture: true });
}

/** True when focus is nowhere, or in the cell that `host` stands in, and nobody is typing there. */
function isFree(host: HTMLElement): boolean {
  const active = document.activeElement;
  if (!active || active === document.body) return true;
  return (host.closest(CELL) ?? host).contains(active) && !(focused()?.matches(EDITABLE) ?? false);
}

/** True when focus is where running a cell leaves it: on the notebook or another of its cells, or in an empty new one. */
function isOnNotebook(host: HTMLElement): boolean {
  const active = document.activeElement;
  if (!active || !host.closest(NOTEBOOK)?.contains(active)) return false;
  return !active.matches(EDITABLE) || isEmptyEditor(active);
}

/** True for a cell's editor in which nothing is written; what it says then is no text. */
function isEmptyEditor(node: Element): boolean {
  const said = node.querySelector(".cm-placeholder")?.textContent ?? "";
  return node.matches(".cm-content") && node.textContent === said;
}

/**
 * Focuses `target` once, when that takes the keyboard from nobody: when focus is free, now or once the user comes to the cell; or
 * now, where running the cell has left it and the user has not moved on. The notebook moves focus itself while a cell starts, so
 * one call of `focus` is lost: frame by frame, until it has stayed for two. `later`: also when the user comes to the cell. Returns
 * how to give up.
 */
export function focusWhenFree(target: HTMLElement, host: HTMLElement, attention: UserAttention, later = true): () => void {
  const cameUp = performance.now();
  let until = 0;
  let stayed = 0;
  let frame = 0;
  const mayFocus = (): boolean =>
    isFree(host) || (performance.now() < cameUp + TRY_MS && !attention.hasMovedOn() && isOnNotebook(host));
  const attempt = (): void => {
    frame = 0;
    if (target.contains(focused())) stayed++;
    else if (mayFocus()) {
      stayed = 0;
      target.focus({ preventScroll: true });
      target.scrollIntoView({ block: "nearest" });
    }
    if (stayed >= 2) stop();
    else if (performance.now() < until) frame = requestAnimationFrame(attempt);
  };
  const again = (): void => {
    until = performance.now() + TRY_MS;
    if (!frame) frame = requestAnimationFrame(attempt);
  };
  const stop = (): void => {
    cancelAnimationFrame(frame);
    document.removeEventListener("focusin", again);
  };
  if (later) document.addEventListener("focusin", again);
  again();
  return stop;
}

// A change at its cell gets the keyboard from a user who rests, and only when it comes up: Enter accepts it.

const REST_MS = 1000;
const LOOK_EVERY_MS = 100;
const MODIFIERS = new Set(["Shift", "Control", "Alt", "Meta", "AltGraph"]);

/** When the page's user has last pressed a key or a button. */
export function watchInput(): () => number {
  let at = -REST_MS;
  const notice = (event: Event): void => {
    if (!(event instanceof KeyboardEvent && MODIFIERS.has(event.key))) at = performance.now();
  };
  for (const kind of ["keydown", "pointerdown"]) document.addEventListener(kind, notice, { capture: true, passive: true });
  return () => at;
}

/**
 * Calls `take` once if the user has rested for a second with the keyboard nowhere, or on the notebook of `host` without writing.
 * Never after a key or click that came after `host` did. Returns how to give up.
 */
export function whenUserRests(host: HTMLElement, lastInput: () => number, take: () => void): () => void {
  const cameUp = performance.now();
  const timer = setInterval(() => {
    const now = performance.now();
    if (lastInput() > cameUp || now > cameUp + TRY_MS) clearInterval(timer);
    else if (now - lastInput() >= REST_MS && isIdleOnNotebook(host)) {
      clearInterval(timer);
      take();
    }
  }, LOOK_EVERY_MS);
  return () => { clearInterval(timer); };
}

/** True if keys would be commands of the notebook, or go nowhere. */
function isIdleOnNotebook(host: HTMLElement): boolean {
  const deep = focused();
  if (!deep || deep === document.body) return true;
  const isInNotebook = host.closest(NOTEBOOK)?.contains(document.activeElement) ?? false;
  const writes = deep.matches(EDITABLE) && !isEmptyEditor(deep);
  return isInNotebook && !writes && deep.closest(".ask:not(.aside)") === null;
}

/** Moves focus out of `leaving`, which is about to go: to where it was before, else to the notebook's cell. */
export function returnFocus(leaving: HTMLElement, before: Element | null, host: HTMLElement): void {
  if (!leaving.contains(focused())) return;
  const cell = host.closest<HTMLElement>(CELL);
  // let go of first: what is taken from it is given back to it
  (focused() as HTMLElement).blur();
  for (const target of [before, cell]) {
    if (!(target instanceof HTMLElement) || !target.isConnected || leaving.contains(target)) continue;
    target.focus({ preventScroll: true });
    if (target.contains(focused())) return;
  }
}

const PRESSED_HERE = new Set(["Enter", " ", "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "PageUp", "PageDown", "Home", "End"]);

/** Keeps keys that work a button, a fold or a scrollable box from the notebook, which would act on them as well. */
export function stopNotebookKeys(event: KeyboardEvent): void {
  const target = event.composedPath()[0];
  if (!(target instanceof Element) || event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = target.matches("input, textarea");
  if (typing || (PRESSED_HERE.has(event.key) && target.matches("button, summary, a, [tabindex]"))) event.stopPropagation();
}

// The keyboard stays where the user is writing.
// JupyterLab's notebook takes the focus when a cell that was just run has stopped growing (`handleRunState` waits for
// `WindowedList.scrollToItem`, whose timer begins anew with every resize): for an answer that streams that is at its first pause,
// long after the user has gone on. What is typed then would be commands of the notebook: `d d` deletes a cell.

/** The elements that the notebook focuses of its own accord; not the field of an `input()`, which asks for something. */
const NOTEBOOKS_OWN = ".jp-Notebook, .jp-Cell, .jp-Notebook-footer, .jp-Notebook .cm-content";
const PRESSABLE = "button, a, summary, select";
const LEAVING = new Set(["Tab", "Escape", "F6"]);
const PRESSING = new Set(["Enter", " "]);

/** Gives the focus back to what had it in `home` when the notebook takes it and the user did not ask for that; returns how to end this. */
export function guardFocus(home: HTMLElement | ShadowRoot): () => void {
  let leaves = false;
  // a button has the focus from its press on, before what it does
  const entered = (event: Event): void => { leaves &&= onPressable(event); };
  const key = (event: Event): void => {
    const { key, ctrlKey, metaKey, altKey } = event as KeyboardEvent;
    leaves = LEAVING.has(key) || ctrlKey || metaKey || altKey || (PRESSING.has(key) && onPressable(event)) || !isIn(home, event);
  };
  const pointer = (event: Event): void => { leaves = !isIn(home, event) || onPressable(event); };
  const left = (event: Event): void => {
    const { relatedTarget: taker } = event as FocusEvent;
    const had = event.composedPath()[0];
    if (leaves || !(had instanceof HTMLElement) || !(taker instanceof Element) || !taker.matches(NOTEBOOKS_OWN)) return;
    // after a call of focus() and before any key; what the browser or a screen reader does is not done yet by then, and is the user's
    queueMicrotask(() => {
      if (had.isConnected && document.activeElement === taker) had.focus({ preventScroll: true });
    });
  };
  home.addEventListener("focusin", entered);
  home.addEventListener("focusout", left);
  document.addEventListener("keydown", key, { capture: true, passive: true });
  document.addEventListener("pointerdown", pointer, { capture: true, passive: true });
  return () => {
    home.removeEventListener("focusin", entered);
    home.removeEventListener("focusout", left);
    document.removeEventListener("keydown", key, { capture: true });
    document.removeEventListener("pointerdown", pointer, { capture: true });
  };
}

function isIn(home: Node, event: Event): boolean {
  return event.composedPath().includes(home);
}

function onPressable(event: Event): boolean {
  return event.composedPath().some((node) => node instanceof Element && node.matches(PRESSABLE));
}
