/** A text as a file that the browser saves. */

import { element } from "../transcript/dom";

export type Exported = { name: string; media_type: string; text: string };

export function download({ name, media_type, text }: Exported): void {
  const address = URL.createObjectURL(new Blob([text], { type: media_type }));
  element("a", { href: address, download: name }).click();
  // the browser has begun to read it by then
  setTimeout(() => { URL.revokeObjectURL(address); }, 60_000);
}
