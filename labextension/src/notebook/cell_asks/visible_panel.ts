/** The panel as actions on cells see it: while it is in sight for a kernel, it shows the answers to what is asked at that kernel's cells. */

import type { Chat } from "../../transport/chat";

export type VisiblePanel = {
  readonly chat: Pick<Chat, "runs" | "prompt">;
  /** Scrolls to the newest words. */
  follow(): void;
};

/** The runs, as `kernel run`, that were asked for at cells of this page: they are seen there. */
export const askedAtCells = new Set<string>();

/** One for the page: the sidebar sets `of`, which finds the panel that is in sight for a kernel. */
export const visiblePanel: { of(kernelId: string): VisiblePanel | null } = { of: () => null };
