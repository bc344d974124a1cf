/** Text that must be read exactly: what the eye would miss is written out, like ⟦U+202E⟧. */

import { element } from "./dom";

/**
 * Control, format, zero-width and bidi characters, lone surrogates, private use, separators that look like a space or a
 * line end. Tab, newline and the plain space are as they seem; so is an emoji's own selector and joiner.
 */
const DECEPTIVE =
  /(?![\n\t ])[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Z}\p{Default_Ignorable_Code_Point}\u2800](?<!\p{Extended_Pictographic}\uFE0F)(?<!\p{Extended_Pictographic}\uFE0F?\u200D(?=\p{Extended_Pictographic}))/gu;

function codePoint(character: string): string {
  return `⟦U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}⟧`;
}

/** `text` with every deceptive character written out, as plain text (for titles, labels and editors). */
export function revealed(text: string): string {
  return text.replace(DECEPTIVE, codePoint);
}

/** The way back from `revealed(original)`, edited by then: what was written out there is its character again. */
export function concealed(text: string, original: string): string {
  const characters = new Map(Array.from(original.matchAll(DECEPTIVE), ([one]) => [codePoint(one), one]));
  return text.replace(/⟦U\+[\dA-F]{4,6}⟧/g, (written) => characters.get(written) ?? written);
}

/** The same as nodes, the written-out characters marked. */
export function visibleText(text: string): DocumentFragment {
  const fragment = document.createDocumentFragment();
  let from = 0;
  for (const match of text.matchAll(DECEPTIVE)) {
    fragment.append(text.slice(from, match.index), element("mark", { class: "deceptive" }, codePoint(match[0])));
    from = match.index + match[0].length;
  }
  fragment.append(text.slice(from));
  return fragment;
}

/** A sentence of ours: what stands between backticks (rules, commands, paths) as code. */
export function sentence(text: string): Node[] {
  return text.split("`").map((part, index) => (index % 2 === 1 ? element("code", {}, visibleText(part)) : visibleText(part)));
}
