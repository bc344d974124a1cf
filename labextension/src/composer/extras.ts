/** The row above the prompt: what goes along with it. It is always there, so that nothing moves when something comes. */

import type { CellGiven } from "../transport/chat_protocol";
import { button, element, setText } from "../transcript/dom";
import { revealed } from "../transcript/visible_text";
import type { Attached, Attachments } from "./attachments";
import type { CellHere, ComposerDeps, Trans } from "./composer_deps";

export class Extras {
  readonly node: HTMLElement;
  private readonly chip: HTMLButtonElement;
  private readonly list: HTMLElement;
  private withCell = false;

  /** `choose` takes the files that the user picked; `changed` is called when another cell goes along, `focus` gives the focus back to the prompt. */
  constructor(
    private readonly deps: ComposerDeps,
    private readonly attachments: Attachments,
    choose: (files: readonly File[]) => void,
    private readonly changed: () => void,
    private readonly focus: () => void,
  ) {
    const { trans } = deps;
    const picker = element("input", { type: "file", multiple: "", hidden: "", "aria-label": trans.__("Files to attach"), tabindex: "-1" });
    picker.addEventListener("change", () => {
      choose([...(picker.files ?? [])]);
      picker.value = ""; // the same file may be chosen again
      focus();
    });
    const words = trans.__("Attach pictures or text files (or paste them, or drop them here)");
    const attach = button("+", () => { picker.click(); }, { class: "cellwright-attach", title: words, "aria-label": words });
    this.chip = button("", () => { this.toggle(); }, { class: "cellwright-chip cellwright-cell-chip", "aria-pressed": "false" });
    this.list = element("ul", { class: "cellwright-attached", "aria-label": trans.__("Attached") });
    this.node = element("div", { class: "cellwright-extras" }, attach, picker, this.chip, this.list);
    this.update();
  }

  /** The cell that goes along now; null where the user has not asked for that. */
  get cell(): CellGiven | null {
    const cell = this.withCell ? this.deps.cell() : null;
    return cell && { path: cell.path, id: cell.id, selection: cell.selection };
  }

  update(): void {
    const cell = this.deps.cell();
    const { trans } = this.deps;
    this.chip.disabled = cell === null;
    setText(this.chip, cell ? cellWords(cell, trans) : trans.__("No cell"));
    this.chip.setAttribute("aria-pressed", String(this.withCell && cell !== null));
    const goes = this.withCell ? trans.__("goes along with the prompt") : trans.__("does not go along with the prompt");
    this.chip.title = cell ? `${revealed(firstLine(cell))}\n(${goes})` : trans.__("No notebook's cell could go along.");
    this.showAttached();
  }

  private toggle(): void {
    this.withCell = !this.withCell;
    this.changed();
    this.focus();
  }

  private showAttached(): void {
    const { list } = this.attachments;
    const shown = list.map(({ id }) => id).join();
    if (this.list.dataset.shown === shown) return;
    this.list.dataset.shown = shown;
    this.list.replaceChildren(...list.map((one) => this.chipOf(one)));
    this.list.lastElementChild?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  private chipOf({ id, attachment, bytes }: Attached): HTMLElement {
    const { trans } = this.deps;
    const name = revealed(attachment.name);
    const remove = button("×", () => {
      this.attachments.remove(id);
      this.focus();
    }, { title: trans.__("Do not attach it"), "aria-label": trans.__("Do not attach %1", name) });
    const face = attachment.kind === "image"
      ? element("img", { src: `data:${attachment.media_type};base64,${attachment.data}`, alt: "" })
      : element("span", { class: "cellwright-file-sign", "aria-hidden": "true" }, "≡");
    const label = element("span", { class: "cellwright-chip-name" }, name);
    return element("li", { class: "cellwright-chip", title: `${name}, ${size(bytes)}` }, face, label, remove);
  }
}

function cellWords(cell: CellHere, trans: Trans): string {
  const name = cell.executionCount === null ? trans.__("Cell %1", cell.position + 1) : trans.__("Cell [%1]", cell.executionCount);
  if (!cell.selection.trim()) return name;
  const lines = cell.selection.split("\n").length;
  return lines === 1 ? trans.__("%1, 1 line selected", name) : trans.__("%1, %2 lines selected", name, lines);
}

function firstLine(cell: CellHere): string {
  return cell.source.split("\n").find((line) => line.trim()) ?? "";
}

function size(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`;
  return bytes < 1e6 ? `${Math.round(bytes / 1_000)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}
