/** Pictures and texts that go with the next prompt: read from what was dropped, pasted or chosen. */

import { button, element, setText } from "../transcript/dom";
import { revealed } from "../transcript/visible_text";
import type { Trans } from "../translation";
import type { Attachment, AttachedCell } from "../transport/chat_protocol";
import type { ActiveCell, ComposerDeps, MarkedContext } from "./composer_deps";

/** The kernel takes no more; and it holds pictures against what the API takes. */
export const MAX_ATTACHMENTS = 20;
export const MAX_IMAGE_BYTES = 20_000_000;
export const MAX_TEXT_CHARS = 200_000;

const IMAGES = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/** Of a mark the id is a text, and `bytes` what its picture has. */
export type AttachedFile = { readonly id: number | string; readonly attachment: Attachment; readonly bytes: number };

export class Attachments {
  private files: readonly AttachedFile[] = [];
  private ids = 0;
  /** Files that are being read: they count already. */
  private reading = 0;

  /** `changed` is called when the list is another one, `refused` with why a file was not taken. */
  constructor(
    private readonly trans: Trans,
    private readonly marks: MarkedContext,
    private readonly changed: () => void,
    private readonly refused: (why: string) => void,
  ) {}

  /** What goes along: files, and what is marked in the notebooks. */
  get list(): readonly AttachedFile[] {
    const marked = this.marks.list.map(({ id, attachment }) => ({ id, attachment, bytes: ((attachment.picture?.length ?? 0) * 3) / 4 }));
    return [...this.files, ...marked];
  }

  /** Reads `files`, and takes those that can go along. */
  async add(files: readonly File[]): Promise<void> {
    for (const file of files) {
      if (this.list.length + this.reading >= MAX_ATTACHMENTS) {
        this.refused(this.trans.__("%1 was not attached: a prompt takes %2 attachments.", file.name, MAX_ATTACHMENTS));
        return;
      }
      this.reading += 1;
      try {
        this.take(await this.read(file), file.size);
      } catch (error) {
        this.refused(error instanceof Refusal ? error.message : this.trans.__("%1 could not be read.", file.name));
      } finally {
        this.reading -= 1;
      }
    }
  }

  remove(id: number | string): void {
    if (typeof id === "string") {
      this.marks.remove([id]);
      return;
    }
    this.files = this.files.filter((one) => one.id !== id);
    this.changed();
  }

  /** Takes those away that were sent. */
  sent(sent: readonly AttachedFile[]): void {
    this.files = this.files.filter((one) => !sent.includes(one));
    this.marks.remove(sent.flatMap(({ id }) => (typeof id === "string" ? [id] : [])));
    this.changed();
  }

  private take(attachment: Attachment, bytes: number): void {
    this.files = [...this.files, { id: ++this.ids, attachment, bytes }];
    this.changed();
  }

  private async read(file: File): Promise<Attachment> {
    const name = file.name || this.trans.__("picture");
    if (IMAGES.includes(file.type)) return this.readImage(file, name);
    if (file.type.startsWith("image/") && file.type !== "image/svg+xml") {
      throw new Refusal(this.trans.__("%1 was not attached: PNG, JPEG, GIF and WebP can be shown to Claude.", name));
    }
    // of UTF-8 each character takes four bytes at most
    if (file.size > 4 * MAX_TEXT_CHARS) throw new Refusal(this.tooLong(name));
    const text = decoded(await file.arrayBuffer());
    if (text === null) {
      const why = "%1 was not attached: it is neither text nor a picture. Put it into the project and mention it with @.";
      throw new Refusal(this.trans.__(why, name));
    }
    if (text.length > MAX_TEXT_CHARS) throw new Refusal(this.tooLong(name));
    return { kind: "text", name, text };
  }

  private async readImage(file: File, name: string): Promise<Attachment> {
    if (file.size > MAX_IMAGE_BYTES) {
      throw new Refusal(this.trans.__("%1 was not attached: it is larger than %2 MB. Scale it down.", name, MAX_IMAGE_BYTES / 1e6));
    }
    const url = await dataUrl(file);
    return { kind: "image", media_type: file.type, data: url.slice(url.indexOf(",") + 1), name };
  }

  private tooLong(name: string): string {
    const why = "%1 was not attached: it has more than %2 characters. Put it into the project and mention it with @.";
    return this.trans.__(why, name, MAX_TEXT_CHARS.toLocaleString("en"));
  }
}

/** The reason why a file is not attached, for the user. */
class Refusal extends Error {}

function decoded(content: ArrayBuffer): string | null {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(content);
    return text.includes("\0") ? null : text;
  } catch {
    return null;
  }
}

function dataUrl(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => { resolve(reader.result as string); };
    reader.onerror = () => { reject(reader.error ?? new Error(file.name)); };
    reader.readAsDataURL(file);
  });
}

// Drops and pastes: files of the computer, and files of JupyterLab's file browser.

/** The type of JupyterLab's file browser's drags: paths on the server. */
const CONTENTS = "application/x-jupyter-icontents";

type LuminoDrag = Event & {
  readonly mimeData: { hasData(type: string): boolean; getData(type: string): unknown };
  readonly proposedAction: string;
  dropAction: string;
};

export type DropHandlers = {
  /** Files with content. */
  files(files: readonly File[]): void;
  /** Paths on the server. */
  paths(paths: readonly string[]): void;
};

/** Has `node` take what is dropped on it, and `area` what is pasted into it; `dragging` says whether something hangs over it. */
export function handleDrops(node: HTMLElement, area: HTMLTextAreaElement, taken: DropHandlers, dragging: (over: boolean) => void): void {
  node.addEventListener("dragover", (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "copy";
    dragging(true);
  });
  node.addEventListener("dragleave", (event) => {
    if (!node.contains(event.relatedTarget as Node | null)) dragging(false);
  });
  node.addEventListener("drop", (event) => {
    dragging(false);
    const files = [...(event.dataTransfer?.files ?? [])];
    if (files.length === 0) return;
    event.preventDefault();
    event.stopPropagation();
    taken.files(files);
  });
  area.addEventListener("paste", (event) => {
    const data = event.clipboardData;
    const files = [...(data?.files ?? [])];
    // a table copied from an office program comes as a picture, too: its text is what is meant
    if (files.length === 0 || data?.getData("text/plain")) return;
    event.preventDefault();
    taken.files(files);
  });
  handleFileBrowserDrops(node, taken, dragging);
}

/** The file browser's drags are Lumino's own events. */
function handleFileBrowserDrops(node: HTMLElement, taken: DropHandlers, dragging: (over: boolean) => void): void {
  const on = (type: string, handle: (event: LuminoDrag) => void): void => {
    node.addEventListener(type, (event) => {
      const drag = event as LuminoDrag;
      if (!drag.mimeData.hasData(CONTENTS)) return;
      event.preventDefault();
      event.stopPropagation();
      handle(drag);
    });
  };
  on("lm-dragenter", () => { dragging(true); });
  on("lm-dragleave", () => { dragging(false); });
  on("lm-dragover", (event) => { event.dropAction = event.proposedAction; });
  on("lm-drop", (event) => {
    dragging(false);
    const paths = event.mimeData.getData(CONTENTS);
    event.dropAction = event.proposedAction;
    if (Array.isArray(paths)) taken.paths(paths.filter((path) => typeof path === "string"));
  });
}

// What goes along with a prompt: the button and the chip stand below it, attached files above it.

export class AttachmentBar {
  readonly node: HTMLElement;
  /** The attached files; nothing is there without one. */
  readonly list: HTMLElement;
  private readonly chip: HTMLButtonElement;
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
    this.list = element("ul", { class: "cellwright-attached", "aria-label": trans.__("Attached"), hidden: "" });
    this.node = element("div", { class: "cellwright-extras" }, attach, picker, this.chip);
    this.update();
  }

  /** The cell that goes along now; null where the user has not asked for that. */
  get cell(): AttachedCell | null {
    const cell = this.withCell ? this.deps.cell() : null;
    return cell && { path: cell.path, id: cell.id, selection: cell.selection };
  }

  update(): void {
    const cell = this.deps.cell();
    const { trans } = this.deps;
    this.chip.disabled = cell === null;
    setText(this.chip, cell ? cellLabel(cell, trans) : trans.__("No cell"));
    this.chip.setAttribute("aria-pressed", String(this.withCell && cell !== null));
    const goes = this.withCell ? trans.__("is sent with the prompt") : trans.__("is not sent with the prompt");
    this.chip.title = cell ? `${revealed(firstLine(cell))}\n(${goes})` : trans.__("No notebook cell to attach.");
    this.showAttached();
  }

  private toggle(): void {
    this.withCell = !this.withCell;
    this.changed();
    this.focus();
  }

  private showAttached(): void {
    const { list } = this.attachments;
    const shown = JSON.stringify(list.map(({ id, attachment }) => [id, remarkOf(attachment)]));
    if (this.list.dataset.shown === shown) return;
    this.list.dataset.shown = shown;
    this.list.hidden = list.length === 0;
    this.list.replaceChildren(...list.map((one) => this.chipOf(one)));
    this.list.lastElementChild?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  private chipOf({ id, attachment, bytes }: AttachedFile): HTMLElement {
    const { trans } = this.deps;
    const name = revealed(attachment.name);
    const remove = button("×", () => {
      this.attachments.remove(id);
      this.focus();
    }, { title: trans.__("Do not attach it"), "aria-label": trans.__("Do not attach %1", name) });
    const picture = pictureUrl(attachment);
    const face = picture
      ? element("img", { src: picture, alt: "" })
      : element("span", { class: "cellwright-file-sign", "aria-hidden": "true" }, attachment.kind === "marked" ? "✦" : "≡");
    const label = element("span", { class: "cellwright-chip-name" }, name);
    const remark = revealed(remarkOf(attachment));
    const about = attachment.kind === "marked" ? [name, remark, attachment.notebook].filter(Boolean).join("\n") : `${name}, ${size(bytes)}`;
    return element("li", { class: "cellwright-chip", title: about }, face, label, remove);
  }
}

function remarkOf(attachment: Attachment): string {
  return attachment.kind === "marked" ? attachment.remark : "";
}

/** The picture of an attachment; "" where it has none. */
function pictureUrl(attachment: Attachment): string {
  if (attachment.kind === "image") return `data:${attachment.media_type};base64,${attachment.data}`;
  // the browser sees by its content what kind of picture it is
  return attachment.kind === "marked" && attachment.picture !== null ? `data:image/png;base64,${attachment.picture}` : "";
}

/** A prompt without words of its own: what was remarked about each thing that goes along; "" where nothing was. */
export function wordsOfRemarks(attached: readonly AttachedFile[]): string {
  const said = attached.flatMap(({ attachment }) => (remarkOf(attachment) ? [`${attachment.name}: ${remarkOf(attachment)}`] : []));
  return said.join("\n");
}

function cellLabel(cell: ActiveCell, trans: Trans): string {
  const name = cell.executionCount === null ? trans.__("This cell") : trans.__("Cell [%1]", cell.executionCount);
  if (!cell.selection.trim()) return name;
  const lines = cell.selection.split("\n").length;
  return lines === 1 ? trans.__("%1, 1 line selected", name) : trans.__("%1, %2 lines selected", name, lines);
}

function firstLine(cell: ActiveCell): string {
  return cell.source.split("\n").find((line) => line.trim()) ?? "";
}

function size(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`;
  return bytes < 1e6 ? `${Math.round(bytes / 1_000)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}
