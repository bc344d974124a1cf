/** What a browser has and jsdom does not. */

import { vi } from "vitest";

Element.prototype.scrollIntoView = () => undefined;
Element.prototype.checkVisibility = () => true;

// JupyterLab's widgets ask for it when they are loaded
(globalThis as { DragEvent?: unknown }).DragEvent ??= MouseEvent;

/** A machine that is busy with something else is no reason for a test to fail. */
const WAIT_MS = 30_000;
const { waitFor } = vi;
vi.waitFor = (callback, options = {}) =>
  waitFor(callback, { timeout: WAIT_MS, ...(typeof options === "number" ? { timeout: options } : options) });
