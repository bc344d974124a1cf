/**
 * The keyboard stays where the user is writing.
 *
 * JupyterLab's notebook takes the focus when a cell that was just run has stopped growing (`handleRunState` waits for
 * `WindowedList.scrollToItem`, whose timer begins anew with every resize): for an answer that streams that is at its first pause,
 * long after the user has gone on. What is typed then would be commands of the notebook: `d d` deletes a cell.
 */

/** Where the notebook puts the focus of its own accord; not the field of an `input()`, which asks for something. */
const NOTEBOOKS_OWN = ".jp-Notebook, .jp-Cell, .jp-Notebook-footer, .jp-Notebook .cm-content";
const PRESSABLE = "button, a, summary, select";
const LEAVING = new Set(["Tab", "Escape", "F6"]);
const PRESSING = new Set(["Enter", " "]);

/** Gives the focus back to what had it in `home` when the notebook takes it and the user did not ask for that; returns how to end this. */
export function keepKeyboard(home: HTMLElement | ShadowRoot): () => void {
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
