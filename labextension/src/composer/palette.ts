/** The list above the prompt from which a command, a mention or a variable is chosen; the focus stays in the prompt. */

import { addPageStyle } from "../page";
import { element, freshId, setText } from "../transcript/dom";
import { revealed, visibleText } from "../transcript/visible_text";
import type { Trans } from "../translation";
import type { Completion } from "../transport/chat_protocol";
import type { CompletionKind, CompletionList } from "./completions";
import { fuzzyMatch } from "./fuzzy_match";
import css from "./palette.css";

/** Before the names of one kind: their column is theirs alone. */
const SIGNS: Record<string, string> = { file: "@", folder: "▸", cell: "▦", agent: "◆", option: "−" };
/** Written with the name. */
const PREFIXES: Record<string, string> = { command: "/", variable: "$" };

let styled = false;

/** The field to which the list belongs; an element is one. */
export type AttributeHolder = Pick<HTMLElement, "setAttribute" | "removeAttribute">;

export class Palette {
  readonly node: HTMLElement;
  private readonly list: HTMLElement;
  private readonly remark: HTMLElement;
  private readonly count = element("span", { class: "cellwright-unseen" });
  private readonly keys = element("span");
  private items: readonly Completion[] = [];
  private chosenAt = 0;

  /** `field` says to screen readers what is chosen; `take` is called with what the user clicks on. */
  constructor(
    private readonly field: AttributeHolder,
    private readonly trans: Trans,
    private readonly take: (item: Completion) => void,
  ) {
    if (!styled) addPageStyle(css);
    styled = true;
    const id = freshId();
    // it scrolls, and belongs to no combobox, which a field of several lines cannot be: so that it can have the focus
    this.list = element("div", { id, role: "listbox", class: "cellwright-palette-list", "aria-label": trans.__("Suggestions"), tabindex: "0" });
    // only what changed is read out
    this.remark = element("div", { class: "cellwright-palette-remark", role: "status", "aria-atomic": "false" }, this.count, this.keys);
    this.node = element("div", { class: "cellwright-palette", hidden: "" }, this.list, this.remark);
    // the focus stays where it is
    this.node.addEventListener("mousedown", (event) => { event.preventDefault(); });
    field.setAttribute("aria-haspopup", "listbox");
    field.setAttribute("aria-autocomplete", "list");
  }

  get isOpen(): boolean {
    return !this.node.hidden;
  }

  /** The item that Enter would take; undefined where nothing is listed. */
  get chosen(): Completion | undefined {
    return this.isOpen ? this.items[this.chosenAt] : undefined;
  }

  /** Shows what was found for `text`; the best is chosen, or again the one that the user went to. */
  show({ items, late }: CompletionList, kind: CompletionKind, text: string): void {
    const before = this.chosenAt > 0 ? this.chosen?.insert : undefined;
    this.items = items;
    this.chosenAt = Math.max(items.findIndex((item) => item.insert === before), 0);
    const query = kind === "mention" ? text.replace(/^(?:cell:|")/, "") : text;
    this.list.replaceChildren(...items.map((item, index) => this.row(item, index, query)));
    this.list.hidden = items.length === 0;
    this.node.hidden = false;
    setText(this.count, items.length > 0 ? this.trans.__("Suggestions: %1. ", items.length) : "");
    setText(this.keys, this.words(items.length, kind, late));
    this.field.setAttribute("aria-controls", this.list.id);
    this.mark();
  }

  close(): void {
    if (!this.isOpen) return;
    this.node.hidden = true;
    this.items = [];
    this.chosenAt = 0;
    for (const part of [this.count, this.keys]) setText(part, "");
    for (const name of ["aria-controls", "aria-activedescendant"]) this.field.removeAttribute(name);
  }

  /** Goes `steps` down the list (up where negative), round its ends. */
  move(steps: number): void {
    if (this.items.length === 0) return;
    this.chosenAt = (this.chosenAt + steps + this.items.length) % this.items.length;
    this.mark();
  }

  private words(count: number, kind: CompletionKind, late: boolean): string {
    const { trans } = this;
    if (late) return trans.__("The kernel has not answered yet.");
    if (count > 0) return trans.__("↑ ↓ choose · Tab inserts · Esc closes");
    if (kind === "command") return trans.__("No such command; it will be sent as written.");
    return kind === "variable" ? trans.__("No such variable.") : trans.__("Nothing has that name.");
  }

  private row(item: Completion, index: number, query: string): HTMLElement {
    const prefixed = Object.hasOwn(PREFIXES, item.kind);
    const known = prefixed || Object.hasOwn(SIGNS, item.kind) ? item.kind : "file";
    const row = element(
      "div",
      { id: `${this.list.id}-${index}`, role: "option", class: "cellwright-palette-row", "data-kind": known },
      ...(prefixed ? [] : [element("span", { class: "cellwright-palette-sign", "aria-hidden": "true" }, SIGNS[known] ?? "")]),
      element("span", { class: "cellwright-palette-label" }, element("bdi", { dir: "ltr" }, ...labelNodes(item, query))),
      element("span", { class: "cellwright-palette-about" }, visibleText(item.about)),
    );
    row.title = revealed(item.about ? `${item.label}\n${item.about}` : item.label);
    row.addEventListener("click", () => { this.take(item); });
    return row;
  }

  private mark(): void {
    for (const [index, row] of [...this.list.children].entries()) {
      const chosen = index === this.chosenAt;
      row.setAttribute("aria-selected", String(chosen));
      if (chosen) row.scrollIntoView({ block: "nearest" });
    }
    if (this.items.length > 0) this.field.setAttribute("aria-activedescendant", `${this.list.id}-${this.chosenAt}`);
    else this.field.removeAttribute("aria-activedescendant");
  }
}

/** The label with the letters that were typed marked; what a command takes stands back. */
function labelNodes({ kind, label }: Completion, query: string): (Node | string)[] {
  const prefix = PREFIXES[kind] ?? "";
  if (kind !== "command") return [prefix, ...markedNodes(label, query)];
  const name = label.slice(1).split(" ", 1)[0] ?? "";
  const hint = element("span", { class: "cellwright-palette-hint" }, visibleText(label.slice(1 + name.length)));
  return [prefix, ...markedNodes(name, query), hint];
}

function markedNodes(name: string, query: string): Node[] {
  const places = new Set(query ? fuzzyMatch(query, name)?.places : []);
  const nodes: Node[] = [];
  for (let from = 0; from < name.length;) {
    const marked = places.has(from);
    let to = from + 1;
    while (to < name.length && places.has(to) === marked) to += 1;
    const part = visibleText(name.slice(from, to));
    nodes.push(marked ? element("mark", {}, part) : part);
    from = to;
  }
  return nodes;
}
