/** The focus stays where it was just put: a notebook that is laid out anew takes it back a moment later. */

/** How long that may take. */
const HELD_MS = 700;

/** Calls `focus` again while something takes the focus out of `home` that is no key and no click of the user. */
export function holdFocus(home: HTMLElement, focus: () => void): void {
  const until = performance.now() + HELD_MS;
  let given = true;
  const letGo = (): void => { given = false; };
  const kinds = ["keydown", "pointerdown"];
  for (const kind of kinds) document.addEventListener(kind, letGo, { capture: true, passive: true });
  const look = (): void => {
    if (given && performance.now() < until) {
      if (!home.contains(document.activeElement)) focus();
      requestAnimationFrame(look);
      return;
    }
    for (const kind of kinds) document.removeEventListener(kind, letGo, { capture: true });
  };
  focus();
  requestAnimationFrame(look);
}
