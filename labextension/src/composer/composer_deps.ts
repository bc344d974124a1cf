/** The composer's interface to the page around it. */

import type { Trans } from "../translation";
import type { MarkedAttachment } from "../transport/chat_protocol";

/** The cell that the user is at, in the notebook that the conversation is about. `path` as the page names the notebook. */
export type ActiveCell = {
  readonly path: string;
  readonly id: string;
  /** The selection in its editor; "" for nothing. */
  readonly selection: string;
  readonly source: string;
  readonly executionCount: number | null;
  /** From 0. */
  readonly position: number;
};

/** The store of drafts and past prompts across reloads; a Storage is one. */
export type KeyValueStorage = { getItem(key: string): string | null; setItem(key: string, value: string): void };

export type ComposerSettings = {
  /** The notebook context of a prompt, until the user chooses another. */
  readonly context: "none" | "auto" | "code" | "cells" | "full";
  /** The key that sends; the other one begins a new line. */
  readonly sendKey: "Enter" | "Shift+Enter";
  /** The default for messages while Claude works: with its next step, or as a prompt when it is done. */
  readonly whileRunning: "steer" | "queue";
};

/** What is marked in the page's notebooks, as the composer sees it. */
export type MarkedContext = {
  readonly list: readonly { readonly id: string; readonly attachment: MarkedAttachment }[];
  remove(ids: readonly string[]): void;
  subscribe(listener: () => void): () => void;
};

export type ComposerDeps = {
  readonly trans: Trans;
  /** The settings as they stand; asked whenever they matter. */
  settings(): ComposerSettings;
  /** The cell that could go along now; null where there is none. */
  cell(): ActiveCell | null;
  /** Calls `listener` when another cell, selection or source may be there; gives how to stop that. */
  onCell(listener: () => void): () => void;
  /** The folder of the server's files on its disk (`serverRoot` in page.ts); "" where that is not known. */
  readonly serverRoot: string;
  readonly memory: KeyValueStorage;
  /** What is marked in the notebooks: it goes along with the next prompt. */
  readonly marks: MarkedContext;
  /** Gives the focus back to the notebook. */
  leave(): void;
};

export type Composer = {
  /** The place in the line below the text for what the page shows there. */
  readonly aside: HTMLElement;
  focus(): void;
  /** Something is written in it. */
  readonly hasText: boolean;
  dispose(): void;
  /** Puts `text` at the caret, and a line break before it where it is several lines. */
  insert(text: string): void;
  /** Takes files as if they had been dropped. */
  attach(files: readonly File[]): void;
};
