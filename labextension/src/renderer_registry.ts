/** Where a page keeps the renderer, so that its code is loaded once: by the build's hash, for kernels may have different versions. */

import type { Channel, Transcript } from "./transcript/transcript";

/** The hash of the built renderer; the build script puts it in. */
declare const BUILD: string;

export type Renderer = { open(channel: Channel): Transcript };
export type Registry = Record<string, (() => Promise<Renderer>) | undefined>;

export const build = BUILD;

export function registry(): Registry {
  const page = globalThis as unknown as Record<symbol, Registry | undefined>;
  return (page[Symbol.for("cellwright.transcript")] ??= {});
}
