/** The ways from an output to Claude: the sidebar has the composer, and what asks about cells also shows answers below them. */

import type { CellRequest } from "../cell_asks/cell_requests";

type AskingWays = {
  /** Sends a request about a cell at once, and shows the answer. */
  ask(request: CellRequest): Promise<void>;
  /** Brings the keyboard to the composer, which lists what is marked. */
  compose(): Promise<void>;
};

/** One for the page; absent until its plugin has begun. */
export const askingWays: Partial<AskingWays> = {};
