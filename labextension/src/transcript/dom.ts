/** The little that building DOM by hand needs. */

export type Child = Node | string;

/** An element with attributes and children; `false` leaves an attribute out. Strings become text, never markup. */
export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, string | false> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

export function button(label: Child, onClick: () => void, attributes: Record<string, string | false> = {}): HTMLButtonElement {
  const node = element("button", { type: "button", ...attributes }, label);
  node.addEventListener("click", onClick);
  return node;
}

/** Writes `text` only where it differs: a write of the same text would end a selection and make readers speak again. */
export function setText(node: HTMLElement, text: string): void {
  if (node.textContent !== text) node.textContent = text;
}

/** Asks a closed fold for the text that it gets when it is opened: a search looks into it. */
export const SEARCHED = "cellwright-searched";

let lastId = 0;

/** An id that is free in this page. */
export function freshId(): string {
  return `cellwright-${++lastId}`;
}
