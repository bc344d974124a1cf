/** A menu of actions, by mouse and by keyboard, as the ARIA authoring practices have it. */

import { element, setText } from "../transcript/dom";

export type MenuItem = {
  readonly label: string;
  /** Why it cannot be done now; empty when it can. */
  readonly problem?: string;
  run(): void;
};

/** Shows the menu in `host`; `left` is called when it is closed without a choice. Gives how to close it. */
export function openMenu(host: HTMLElement, label: string, items: readonly MenuItem[], left: () => void): () => void {
  const menu = element("div", { role: "menu", class: "menu", "aria-label": label });
  const close = (): void => {
    document.removeEventListener("pointerdown", outside, true);
    menu.remove();
  };
  const choose = (item: MenuItem): void => {
    if (item.problem) return;
    close();
    item.run();
  };
  const nodes = items.map((item) => {
    const node = element("div", { role: "menuitem", tabindex: "-1", "aria-disabled": item.problem ? "true" : false });
    if (item.problem) node.title = item.problem;
    setText(node, item.label);
    node.addEventListener("click", () => { choose(item); });
    node.addEventListener("pointermove", () => { node.focus({ preventScroll: true }); });
    return node;
  });
  const focus = (index: number): void => { nodes[(index + nodes.length) % nodes.length]?.focus(); };
  menu.addEventListener("keydown", (event) => {
    const at = nodes.findIndex((node) => node === event.target);
    const to = target(event, at, items);
    if (to === null) return;
    event.preventDefault();
    event.stopPropagation();
    if (to === "leave") {
      close();
      left();
    } else if (to === "choose") {
      const item = items[at];
      if (item) choose(item);
    } else focus(to);
  });
  const outside = (event: Event): void => {
    if (event.composedPath().includes(menu)) return;
    close();
    left();
  };
  document.addEventListener("pointerdown", outside, true);
  menu.append(...nodes);
  host.append(menu);
  menu.scrollIntoView({ block: "nearest" });
  focus(0);
  return close;
}

function target({ key }: KeyboardEvent, at: number, items: readonly MenuItem[]): number | "leave" | "choose" | null {
  switch (key) {
    case "ArrowDown":
      return at + 1;
    case "ArrowUp":
      return at - 1;
    case "Home":
      return 0;
    case "End":
      return items.length - 1;
    case "Escape":
    case "Tab":
    case "ArrowLeft":
      return "leave";
    case "Enter":
    case " ":
      return "choose";
    default: {
      if (key.length !== 1) return null;
      const after = [...items.keys()].map((step) => (at + 1 + step) % items.length);
      return after.find((index) => items[index]?.label.toLowerCase().startsWith(key.toLowerCase())) ?? null;
    }
  }
}
