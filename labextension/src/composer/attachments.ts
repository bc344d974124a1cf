/** Pictures and texts that go with the next prompt: read from what was dropped, pasted or chosen. */

import type { Attachment } from "../transport/chat_protocol";
import type { Trans } from "./composer_deps";

/** The kernel takes no more; and it holds pictures against what the API takes. */
export const MOST_ATTACHMENTS = 20;
export const IMAGE_BYTES = 20_000_000;
export const TEXT_CHARS = 200_000;

const IMAGES = ["image/png", "image/jpeg", "image/gif", "image/webp"];

export type Attached = { readonly id: number; readonly attachment: Attachment; readonly bytes: number };

export class Attachments {
  list: readonly Attached[] = [];
  private ids = 0;
  /** Files that are being read: they count already. */
  private reading = 0;

  /** `changed` is called when the list is another one, `refused` with why a file was not taken. */
  constructor(
    private readonly trans: Trans,
    private readonly changed: () => void,
    private readonly refused: (why: string) => void,
  ) {}

  /** Reads `files`, and takes those that can go along. */
  async add(files: readonly File[]): Promise<void> {
    for (const file of files) {
      if (this.list.length + this.reading >= MOST_ATTACHMENTS) {
        this.refused(this.trans.__("%1 was not attached: a prompt takes %2 attachments.", file.name, MOST_ATTACHMENTS));
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

  remove(id: number): void {
    this.list = this.list.filter((one) => one.id !== id);
    this.changed();
  }

  /** Takes those away that were sent. */
  sent(sent: readonly Attached[]): void {
    this.list = this.list.filter((one) => !sent.includes(one));
    this.changed();
  }

  private take(attachment: Attachment, bytes: number): void {
    this.list = [...this.list, { id: ++this.ids, attachment, bytes }];
    this.changed();
  }

  private async read(file: File): Promise<Attachment> {
    const name = file.name || this.trans.__("picture");
    if (IMAGES.includes(file.type)) return this.readImage(file, name);
    if (file.type.startsWith("image/") && file.type !== "image/svg+xml") {
      throw new Refusal(this.trans.__("%1 was not attached: PNG, JPEG, GIF and WebP can be shown to Claude.", name));
    }
    // of UTF-8 each character takes four bytes at most
    if (file.size > 4 * TEXT_CHARS) throw new Refusal(this.tooLong(name));
    const text = decoded(await file.arrayBuffer());
    if (text === null) {
      const why = "%1 was not attached: it is no text and no picture. Put it into the project, and mention it with @.";
      throw new Refusal(this.trans.__(why, name));
    }
    if (text.length > TEXT_CHARS) throw new Refusal(this.tooLong(name));
    return { kind: "text", name, text };
  }

  private async readImage(file: File, name: string): Promise<Attachment> {
    if (file.size > IMAGE_BYTES) {
      throw new Refusal(this.trans.__("%1 was not attached: it has more than %2 MB. Scale it down.", name, IMAGE_BYTES / 1e6));
    }
    const url = await dataUrl(file);
    return { kind: "image", media_type: file.type, data: url.slice(url.indexOf(",") + 1), name };
  }

  private tooLong(name: string): string {
    const why = "%1 was not attached: it has more than %2 characters. Put it into the project, and mention it with @.";
    return this.trans.__(why, name, TEXT_CHARS.toLocaleString("en"));
  }
}

/** Why a file does not go along, for the user. */
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
