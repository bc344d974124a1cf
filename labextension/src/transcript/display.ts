/** What a call displayed: a picture, else its plain text. */

import { element } from "./dom";
import { isInlineImage } from "./links";

const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"];

export function display(data: Record<string, string>): HTMLElement {
  const text = data["text/plain"] ?? "";
  for (const type of PICTURES) {
    // base64 as Python writes it has line ends
    const src = `data:${type};base64,${(data[type] ?? "").replace(/\s/g, "")}`;
    if (isInlineImage(src)) return element("img", { class: "display", src, alt: text || "Picture shown by the code" });
  }
  return element("pre", { class: "output display", tabindex: "0" }, text);
}
