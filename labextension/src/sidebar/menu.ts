/** A small menu below a button, by the pattern of ARIA: arrows, Home and End, Enter, Escape. */

import { element } from "../transcript/dom";

export type MenuItem = { readonly label: string; readonly about?: string; readonly chosen?: boolean; choose(): void };

/** Makes `opener` open a menu of what `items` gives then; gives how to close it. */
export function menuButton(opener: HTMLButtonElement, items: () => readonly MenuItem[]): () => void {
  let menu: HTMLElement | null = null;
  opener.setAttribute("aria-haspopup", "menu");
  opener.setAttribute("aria-expanded", "false");

  const close = (toOpener = false): void => {
    if (!menu) return;
    menu.remove();
    menu = null;
    opener.setAttribute("aria-expanded", "false");
    document.removeEventListener("pointerdown", outside, true);
    if (toOpener) opener.focus();
  };
  const outside = (event: Event): void => {
    const path = event.composedPath();
    if (!path.includes(opener) && !(menu && path.includes(menu))) close();
  };
  const open = (): void => {
    menu = menuOf(items(), close);
    opener.after(menu);
    opener.setAttribute("aria-expanded", "true");
    document.addEventListener("pointerdown", outside, true);
    menu.addEventListener("focusout", ({ relatedTarget }) => {
      if (relatedTarget instanceof Node && !menu?.contains(relatedTarget) && relatedTarget !== opener) close();
    });
    (menu.querySelector<HTMLElement>("[aria-checked=true]") ?? menu.querySelector<HTMLElement>("button"))?.focus();
  };
  opener.addEventListener("click", () => {
    if (menu) close();
    else open();
  });
  opener.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown" || menu) return;
    event.preventDefault();
    open();
  });
  return close;
}

function menuOf(items: readonly MenuItem[], close: (toOpener?: boolean) => void): HTMLElement {
  const buttons = items.map((item) => itemButton(item, close));
  const node = element("div", { class: "menu", role: "menu" }, ...buttons);
  node.addEventListener("keydown", (event) => {
    const at = buttons.findIndex((button) => button === document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1 + buttons.length, Home: 0, End: buttons.length - 1 }[event.key];
    if (to !== undefined) buttons[to % buttons.length]?.focus();
    else if (event.key === "Escape") close(true);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  return node;
}

function itemButton(item: MenuItem, close: (toOpener?: boolean) => void): HTMLButtonElement {
  const { label, about, chosen } = item;
  const isChoice = chosen !== undefined;
  const node = element(
    "button",
    { type: "button", role: isChoice ? "menuitemradio" : "menuitem", tabindex: "-1", "aria-checked": isChoice && `${chosen}` },
    element("span", { class: "label" }, label),
  );
  if (about) node.append(element("span", { class: "about" }, about));
  node.addEventListener("click", () => {
    close(true);
    item.choose();
  });
  return node;
}
