/** The page's registry of renderers, so that their code is loaded once: by the build's hash, for kernels may have different versions. */

import type { Channel, Transcript } from "./transcript/transcript";

/** The hash of the built renderer; the build script puts it in. */
declare const BUILD: string;

export type Renderer = { open(channel: Channel): Transcript };
export type RendererRegistry = Record<string, (() => Promise<Renderer>) | undefined>;

export const buildHash = BUILD;

export function rendererRegistry(): RendererRegistry {
  const page = globalThis as unknown as Record<symbol, RendererRegistry | undefined>;
  return (page[Symbol.for("cellwright.transcript")] ??= {});
}
