/** A call's input, as what was meant: a command or code as text, other fields by name. */

import { element } from "./dom";
import type { Json } from "./protocol";
import { visibleText } from "./visible_text";

export function callInput(input: Json): HTMLElement {
  if (typeof input !== "object" || input === null || Array.isArray(input)) return textOf(input);
  const fields = Object.entries(input);
  const only = fields[0];
  if (fields.length === 1 && only && typeof only[1] === "string") return textOf(only[1]);
  return element(
    "dl",
    { class: "fields" },
    ...fields.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, textOf(value))]),
  );
}

function textOf(value: Json): HTMLElement {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return element("pre", { class: "exact", tabindex: "0" }, visibleText(text));
}
