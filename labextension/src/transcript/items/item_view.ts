/** What the view of one part offers, and what it is given. */

import type { UserAttention } from "../focus";
import type { BrowserMessage } from "../protocol";
import type { TranscriptStore } from "../store";

export type ItemView = {
  readonly node: HTMLElement;
  /** The item has changed. */
  update(): void;
  /** A second has passed: clocks go on. */
  tick?(): void;
  dispose?(): void;
};

/** Where a transcript is shown: `host` is the element in the page that holds it, `attention` whether the user is still there. */
export type TranscriptContext = {
  readonly store: TranscriptStore;
  readonly host: HTMLElement;
  readonly attention: UserAttention;
  send(message: BrowserMessage): void;
};

/** Whether it stands in the panel, which has a place of its own to write, with Stop beside it: in sight wherever one has scrolled to. */
export function isInPanel({ host }: TranscriptContext): boolean {
  return host.closest(".cellwright-panel") !== null;
}
