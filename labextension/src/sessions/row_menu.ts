/** A menu of actions, by mouse and by keyboard, as the ARIA authoring practices have it. */

import { button, element, freshId, setText } from "../transcript/dom";

export type RowAction = {
  readonly label: string;
  /** The reason why it cannot be done now; empty when it can. */
  readonly problem?: string;
  run(): void;
};

/** Shows the menu in `host`; `left` is called when it is closed without a choice. Gives how to close it. */
export function openRowMenu(host: HTMLElement, label: string, items: readonly RowAction[], left: () => void): () => void {
  const menu = element("div", { role: "menu", class: "menu", "aria-label": label });
  const close = (): void => {
    document.removeEventListener("pointerdown", outside, true);
    menu.remove();
  };
  const choose = (item: RowAction): void => {
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
    const to = menuStep(event, at, items);
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

function menuStep({ key }: KeyboardEvent, at: number, items: readonly RowAction[]): number | "leave" | "choose" | null {
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

// A small form over a session's row: a new title, tags, where to fork, or whether to delete.

export type RowForm = {
  /** The label above the field. */
  readonly label: string;
  /** The label of the submit button. */
  readonly action: string;
  readonly leave: string;
  /** The field; none where there is only something to confirm. */
  readonly field?: { readonly value: string; readonly type: "text" | "number"; readonly max?: number; readonly hint?: string };
  /** Does it; what it rejects with is shown. */
  run(value: string): Promise<void>;
};

/** Shows the form in `host`; `left` is called when it is over. */
export function openRowForm(host: HTMLElement, form: RowForm, left: (done: boolean) => void): () => void {
  const id = freshId();
  const label = element(form.field ? "label" : "p", { id, ...(form.field && { for: `${id}-field` }) }, form.label);
  const problem = element("p", { class: "problem", role: "alert", hidden: "" });
  const input = form.field && field(form.field, `${id}-field`);
  const act = element("button", { type: "submit", class: input ? "main" : "main danger" }, form.action);
  const close = (): void => { node.remove(); };
  const leave = button(form.leave, () => {
    close();
    left(false);
  });
  const node = element(
    "form",
    { class: "row-form", "aria-labelledby": id },
    label,
    ...(input ? [input] : []),
    ...(form.field?.hint ? [element("p", { class: "hint" }, form.field.hint)] : []),
    problem,
    element("div", { class: "buttons" }, act, leave),
  );
  node.addEventListener("submit", (event) => {
    event.preventDefault();
    act.disabled = true;
    problem.hidden = true;
    form.run(input?.value.trim() ?? "").then(
      () => {
        close();
        left(true);
      },
      (error: unknown) => {
        act.disabled = false;
        problem.hidden = false;
        setText(problem, error instanceof Error ? error.message : String(error));
      },
    );
  });
  node.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation(); // the panel would close the list
    leave.click();
  });
  host.append(node);
  node.scrollIntoView({ block: "nearest" });
  // what cannot be taken back is never where Enter falls first
  (input ?? leave).focus();
  input?.select();
  return close;
}

function field({ value, type, max }: NonNullable<RowForm["field"]>, id: string): HTMLInputElement {
  const input = element("input", { id, type, required: type === "number" && "", min: type === "number" && "1", max: max !== undefined && `${max}` });
  input.value = value;
  return input;
}
