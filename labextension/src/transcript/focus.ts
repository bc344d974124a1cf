/** The keyboard's place: taking it without taking it away from someone, and giving it back. */

const TRIES = 30;
/** A notebook's cell; the classic notebook's has the second name. */
const CELL = ".jp-Cell, .cell";
const EDITABLE = "input, textarea, select, [contenteditable], .cm-content";

/** The focused element, also inside shadow roots. */
export function focused(): Element | null {
  let active = document.activeElement;
  while (active?.shadowRoot?.activeElement) active = active.shadowRoot.activeElement;
  return active;
}

/** Whether focus is nowhere, or in the cell that `host` stands in, and nobody is typing there. */
function isFree(host: HTMLElement): boolean {
  const active = document.activeElement;
  if (!active || active === document.body) return true;
  const own = host.closest(CELL) ?? host;
  return own.contains(active) && !(focused()?.matches(EDITABLE) ?? false);
}

/**
 * Focuses `target` when that takes the keyboard from nobody. The notebook moves focus itself while a cell starts, so one call of
 * `focus` is lost: frame by frame, until it has stayed for two. Returns how to give up.
 */
export function focusWhenFree(target: HTMLElement, host: HTMLElement): () => void {
  let stayed = 0;
  let frame = 0;
  let left = TRIES;
  const attempt = (): void => {
    if (target.contains(focused())) stayed++;
    else if (isFree(host)) {
      stayed = 0;
      target.focus({ preventScroll: true });
      target.scrollIntoView({ block: "nearest" });
    }
    if (stayed < 2 && --left > 0) frame = requestAnimationFrame(attempt);
  };
  frame = requestAnimationFrame(attempt);
  return () => {
    cancelAnimationFrame(frame);
  };
}

/** Moves focus out of `leaving`, which is about to go: to where it was before, else to the notebook's cell. */
export function returnFocus(leaving: HTMLElement, before: Element | null, host: HTMLElement): void {
  if (!leaving.contains(focused())) return;
  const cell = host.closest<HTMLElement>(CELL);
  for (const target of [before, cell]) {
    if (!(target instanceof HTMLElement) || !target.isConnected || leaving.contains(target)) continue;
    target.focus({ preventScroll: true });
    if (target.contains(focused())) return;
  }
}

const PRESSED_HERE = new Set(["Enter", " ", "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "PageUp", "PageDown", "Home", "End"]);

/** Keeps keys that work a button, a fold or a scrollable box from the notebook, which would act on them as well. */
export function keepKeys(event: KeyboardEvent): void {
  const target = event.composedPath()[0];
  if (!(target instanceof Element) || event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = target.matches("input, textarea");
  if (typing || (PRESSED_HERE.has(event.key) && target.matches("button, summary, a, [tabindex]"))) event.stopPropagation();
}
