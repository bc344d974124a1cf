/** The keyboard's place: taking it without taking it away from someone, and giving it back. */

/** How long a card that came up tries to get the keyboard. */
const TRY_MS = 3000;
/** Whoever has pressed no key for so long is not in the middle of something. */
const QUIET_MS = 500;
/** A notebook's cell; the classic notebook's has the second name. */
const CELL = ".jp-Cell, .cell";
const NOTEBOOK = ".jp-Notebook";
const EDITABLE = "input, textarea, select, [contenteditable], .cm-content";

/** The focused element, also inside shadow roots. */
export function focused(): Element | null {
  let active = document.activeElement;
  while (active?.shadowRoot?.activeElement) active = active.shadowRoot.activeElement;
  return active;
}

let lastKey = -Infinity;
document.addEventListener("keydown", () => { lastKey = performance.now(); }, { capture: true, passive: true });

function isEditable(target: Element | null): boolean {
  return target?.matches(EDITABLE) ?? false;
}

/**
 * Whether focus is nowhere, or in the cell that `host` stands in, or where running that cell has left it (on the next cell, or in
 * the empty one that was made below), and nobody is typing.
 */
function isFree(host: HTMLElement): boolean {
  const active = document.activeElement;
  if (!active || active === document.body) return true;
  const own = host.closest(CELL) ?? host;
  if (own.contains(active)) return !isEditable(focused());
  const sameNotebook = host.closest(NOTEBOOK)?.contains(active) ?? false;
  const nothingTyped = !isEditable(active) || (active.matches(".cm-content") && active.textContent === "");
  return sameNotebook && nothingTyped && performance.now() - lastKey > QUIET_MS;
}

/**
 * Focuses `target` once, when that takes the keyboard from nobody: now, or when the user comes to the cell. The notebook moves focus
 * itself while a cell starts, so one call of `focus` is lost: frame by frame, until it has stayed for two. Returns how to give up.
 */
export function focusWhenFree(target: HTMLElement, host: HTMLElement): () => void {
  let stayed = 0;
  let frame = 0;
  let until = 0;
  const attempt = (): void => {
    frame = 0;
    if (target.contains(focused())) stayed++;
    else if (isFree(host)) {
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
  document.addEventListener("focusin", again);
  again();
  return stop;
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
