/** The panel's parts, one after another, by a key: F6 as in other programs of many parts. */

import { focused } from "../../transcript/focus";

export type Region = { readonly node: Element; focus(): void };

/** Gives the focus to the region after that which has it (`step` 1), or before it (-1), round the ends. */
export function goToRegion(regions: readonly Region[], step: 1 | -1): void {
  // a question stands in the conversation: what is further inside comes later
  const at = regions.findLastIndex(({ node }) => node.contains(document.activeElement) || node.contains(focused()));
  const next = at < 0 && step < 0 ? -1 : (at + step) % regions.length;
  regions.at(next)?.focus();
}

/** `node` as a region: its first control that Tab reaches has the focus; undefined while there is none. */
export function regionOf(node: HTMLElement): Region | undefined {
  const target = [...node.querySelectorAll<HTMLElement>("button, input, select, [tabindex]")].find(reached);
  return target && { node, focus: () => { target.focus(); } };
}

function reached(control: HTMLElement): boolean {
  return control.tabIndex >= 0 && !control.matches(":disabled") && control.closest("[hidden]") === null;
}
