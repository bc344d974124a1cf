/**
 * What a notebook keeps of a run, offered to the page where the kernel cannot put it into the notebook itself.
 *
 * The front end that can takes it with `preventDefault()`; elsewhere the transcript goes on being shown.
 */

import type { KeptMessage, SavedMessage } from "./protocol";
import type { TranscriptStore } from "./store";

export const SAVED_EVENT = "cellwright-saved";

export type SavedOutput = {
  receive(message: SavedMessage): void;
  /** Offers what was saved, if anything was and nobody has taken it. */
  readonly offer: () => void;
};

export function savedOutput(store: TranscriptStore, send: (message: KeptMessage) => void): SavedOutput {
  let saved: SavedMessage | null = null;
  const offer = (): void => {
    if (!saved) return;
    const detail: SavedMessage = { ...saved, cell: loadedDuring(store) ? saved.cell : null };
    // on the document: the cell may be far out of sight and have no view
    if (document.dispatchEvent(new CustomEvent(SAVED_EVENT, { cancelable: true, detail }))) return;
    saved = null;
    send({ type: "kept" });
  };
  return {
    receive(message) {
      saved = message;
      offer();
    },
    offer,
  };
}

/** Whether this page was loaded while the run went on: what it read from disk may lack the run's output. */
function loadedDuring(store: TranscriptStore): boolean {
  const { run, end } = store;
  const after = store.now() - performance.now() / 1000 - (run?.started ?? Infinity);
  return after >= 0 && (!end || after <= end.ms / 1000);
}
