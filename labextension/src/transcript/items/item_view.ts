/** The view of one item, and the context that it is given. */

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

/** A transcript's surroundings: `host` is the element in the page that holds it, `attention` tells whether the user is still there. */
export type TranscriptContext = {
  readonly store: TranscriptStore;
  readonly host: HTMLElement;
  readonly attention: UserAttention;
  send(message: BrowserMessage): void;
};

/** True in the panel, which has a field and a Stop button of its own, always in sight. */
export function isInPanel({ host }: Pick<TranscriptContext, "host">): boolean {
  return host.closest(".cellwright-panel") !== null;
}

/** True in the panel, and in the strip below a cell that answers an action on it: they have a Stop of their own. */
export function hasOwnStop({ host }: Pick<TranscriptContext, "host">): boolean {
  return host.closest(".cellwright-panel, .cellwright-strip") !== null;
}
