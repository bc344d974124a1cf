/** F6 goes from one part of the panel to the next, as in other programs of many parts. */

import { focused } from "../../transcript/focus";

export type PanelRegion = { readonly node: Element; focus(): void };

/** Gives the focus to the region after that which has it (`step` 1), or before it (-1), round the ends. */
export function goToRegion(regions: readonly PanelRegion[], step: 1 | -1): void {
  const having = regions.filter(({ node }) => node.contains(document.activeElement) || node.contains(focused()));
  // the context bar is inside the composer; a question, in the conversation's shadow, comes later than that
  const innermost = having.findLast((region) => !having.some((other) => other !== region && region.node.contains(other.node)));
  const at = innermost ? regions.indexOf(innermost) : -1;
  const next = at < 0 && step < 0 ? -1 : (at + step) % regions.length;
  regions.at(next)?.focus();
}

/** `node` as a region: its first control that Tab reaches has the focus; undefined while there is none. */
export function regionOf(node: HTMLElement): PanelRegion | undefined {
  const target = [...node.querySelectorAll<HTMLElement>("button, input, select, [tabindex]")].find(reached);
  return target && { node, focus: () => { target.focus(); } };
}

function reached(control: HTMLElement): boolean {
  if (control.tabIndex < 0 || control.matches(":disabled") || control.closest("[hidden]") !== null) return false;
  // what a narrow panel has no room for; the DOM of the tests lays nothing out
  return typeof control.checkVisibility !== "function" || control.checkVisibility();
}

// Focus moves from an empty composer to Claude's question, which can be answered at once.

/** A card takes keys a moment after it came up, and drawing it takes some frames. */
const MAX_FRAMES = 90;

/** Moves the focus from an empty composer to the question that waits in `panel`. */
export function focusQuestion(panel: HTMLElement, composer: HTMLElement): void {
  const writing = focused();
  if (!writing || !composer.contains(document.activeElement) || textOf(writing).trim()) return;
  let left = MAX_FRAMES;
  const attempt = (): void => {
    // it is somebody's who has gone on
    if (focused() !== writing || textOf(writing).trim()) return;
    const card = answerableCard(panel);
    if (card) {
      card.focus({ preventScroll: true });
      card.scrollIntoView({ block: "nearest" });
    } else if (left--) requestAnimationFrame(attempt);
  };
  attempt();
}

/** The question in `panel` that can be answered now. */
export function answerableCard(panel: HTMLElement): HTMLElement | null {
  const roots = [...panel.querySelectorAll(".answer")].map(({ shadowRoot }) => shadowRoot);
  return roots.map((root) => root?.querySelector<HTMLElement>(".ask[data-ready]") ?? null).find((card) => card !== null) ?? null;
}

function textOf(field: Element): string {
  return field instanceof HTMLTextAreaElement || field instanceof HTMLInputElement ? field.value : field.textContent;
}
