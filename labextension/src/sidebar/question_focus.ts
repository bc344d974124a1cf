/** Who has just sent a prompt, and is writing nothing, can answer Claude's question at once. */

import { focused } from "../transcript/focus";

/** A card takes keys a moment after it came up, and drawing it takes some frames. */
const FRAMES = 90;

/** Moves the focus from an empty composer to the question that waits in `panel`. */
export function focusQuestion(panel: HTMLElement, composer: HTMLElement): void {
  const writing = focused();
  if (!writing || !composer.contains(document.activeElement) || textOf(writing).trim()) return;
  let left = FRAMES;
  const attempt = (): void => {
    // it is somebody's who has gone on
    if (focused() !== writing || textOf(writing).trim()) return;
    const card = readyCard(panel);
    if (card) {
      card.focus({ preventScroll: true });
      card.scrollIntoView({ block: "nearest" });
    } else if (left--) requestAnimationFrame(attempt);
  };
  attempt();
}

/** The question in `panel` that can be answered now. */
export function readyCard(panel: HTMLElement): HTMLElement | null {
  const roots = [...panel.querySelectorAll(".answer")].map(({ shadowRoot }) => shadowRoot);
  return roots.map((root) => root?.querySelector<HTMLElement>(".ask[data-ready]") ?? null).find((card) => card !== null) ?? null;
}

function textOf(field: Element): string {
  return field instanceof HTMLTextAreaElement || field instanceof HTMLInputElement ? field.value : field.textContent;
}
