/** `&amp;`, `&#58;`, `&copy;` in markdown text, as the characters they stand for. */

const REFERENCE = /&(?:#[xX][\da-fA-F]{1,6}|#\d{1,7}|[A-Za-z][A-Za-z\d]{1,31});/g;
const known = new Map<string, string>();

export function resolveReferences(text: string): string {
  return text.includes("&") ? text.replace(REFERENCE, resolve) : text;
}

function resolve(reference: string): string {
  let character = known.get(reference);
  if (character === undefined) {
    // the browser has the table of names; the pattern above lets nothing but one reference through
    character = new DOMParser().parseFromString(reference, "text/html").body.textContent;
    known.set(reference, character);
  }
  return character;
}
