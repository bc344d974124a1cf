/** A small form over a session's row: a new title, tags, where to fork, or whether to delete. */

import { button, element, freshId, setText } from "../transcript/dom";

export type RowForm = {
  /** What the form is for, said above its field. */
  readonly label: string;
  /** What the button says that does it. */
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
