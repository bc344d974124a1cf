/** Claude's todos: one list, kept up to date in its place. */

import { element, setText } from "../dom";
import type { Todo } from "../protocol";
import type { ToolItem, TranscriptStore } from "../store";
import { revealed } from "../visible_text";
import type { ItemView } from "./item_view";

const MARKS: Record<Todo["status"], string> = { pending: "○", in_progress: "▸", completed: "✓" };
const WORDS: Record<Todo["status"], string> = { pending: "to do", in_progress: "in progress", completed: "done" };

/** These calls show in the list itself. */
const LIST_TOOLS: ReadonlySet<string> = new Set(["TodoWrite", "TodoRead", "TaskCreate", "TaskUpdate", "TaskGet", "TaskList"]);

/** True for a call of which the list shows all that it does. */
export function isInList({ name, status }: ToolItem): boolean {
  return LIST_TOOLS.has(name) && ["writing", "waiting", "running", "success"].includes(status);
}

export function progressText(todos: readonly Todo[]): string {
  return `${todos.filter((todo) => todo.status === "completed").length} of ${todos.length} done`;
}

/** The todo in progress, in words; "" when there is none. */
export function nowDoing(todos: readonly Todo[]): string {
  const doing = todos.find((todo) => todo.status === "in_progress");
  return doing ? revealed(doing.activeForm) : "";
}

export function todoList(store: TranscriptStore): ItemView {
  const count = element("span", { class: "count" });
  const bar = element("span", { class: "bar", "aria-hidden": "true" }, element("span"));
  const list = element("ul", { tabindex: "0", "aria-label": "Todos, in order" });
  const fold = element("details", { open: "" }, element("summary", {}, element("b", {}, "Todos"), count, bar), list);
  const node = element("section", { class: "todos", "aria-label": "Todos", hidden: "" }, fold);
  let shown: readonly Todo[] = [];
  let folded = false;
  const foldWhenDone = (): void => {
    if (folded || !store.end || !store.todos.every((todo) => todo.status === "completed")) return;
    folded = true;
    fold.open = false;
  };
  return {
    node,
    update() {
      // at the end nobody works on them any more
      const todos = store.end ? store.todos.map((todo): Todo => (todo.status === "in_progress" ? { ...todo, status: "pending" } : todo)) : store.todos;
      foldWhenDone();
      if (todos === shown) return;
      shown = todos;
      node.hidden = todos.length === 0;
      setText(count, progressText(todos));
      const done = todos.filter((todo) => todo.status === "completed").length;
      bar.style.setProperty("--done", `${todos.length ? (100 * done) / todos.length : 0}%`);
      while (list.children.length > todos.length) list.lastElementChild?.remove();
      while (list.children.length < todos.length) list.append(line());
      todos.forEach((todo, index) => { draw(list.children[index] as HTMLElement, todo); });
      const doing = list.querySelector<HTMLElement>('[data-status="in_progress"]');
      // in a long list only, and never of the page
      if (doing && list.scrollHeight > list.clientHeight) list.scrollTop = doing.offsetTop - list.offsetTop - list.clientHeight / 2;
    },
  };
}

function line(): HTMLElement {
  return element("li", {}, element("span", { class: "mark", "aria-hidden": "true" }), element("span"), element("span", { class: "unseen" }));
}

function draw(node: HTMLElement, todo: Todo): void {
  const [mark, text, status] = node.children as unknown as [HTMLElement, HTMLElement, HTMLElement];
  node.dataset.status = todo.status;
  setText(mark, MARKS[todo.status]);
  setText(text, revealed(todo.status === "in_progress" ? todo.activeForm : todo.content));
  setText(status, ` (${WORDS[todo.status]})`);
}
