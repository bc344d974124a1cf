/** Where a search hit, with the hits marked. */

import { element } from "../transcript/dom";

const HIT = /⟪([^⟪⟫]*)⟫/g;

/** The text with what stands between ⟪ and ⟫ marked. */
export function markedHits(snippet: string): Node[] {
  const nodes: Node[] = [];
  let from = 0;
  for (const found of snippet.matchAll(HIT)) {
    nodes.push(document.createTextNode(snippet.slice(from, found.index)), element("mark", {}, found[1] ?? ""));
    from = found.index + found[0].length;
  }
  nodes.push(document.createTextNode(snippet.slice(from)));
  return nodes.filter((node) => node.textContent !== "");
}
