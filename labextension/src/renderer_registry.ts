/**
 * The page's registries: of renderers, so that their code is loaded once, by the build's hash, for kernels may have different
 * versions; and of the runs that go on, for whoever shows a part of one.
 */

import type { Channel, Transcript } from "./transcript/transcript";

/** The hash of the built renderer; the build script puts it in. */
declare const BUILD: string;

export type Renderer = { open(channel: Channel, run: RunEntry | null): Transcript };
export type RendererRegistry = Record<string, (() => Promise<Renderer>) | undefined>;

export const buildHash = BUILD;

export function rendererRegistry(): RendererRegistry {
  const page = globalThis as unknown as Record<symbol, RendererRegistry | undefined>;
  return (page[Symbol.for("cellwright.transcript")] ??= {});
}

/** A run that is shown in this page, or will be: `opened` is its transcript once it is there. */
export type RunEntry = { opened?: Transcript; readonly promise: Promise<Transcript>; open(transcript: Transcript): void };

/** More than go on at the same time; of the others the notebook holds what they came to. */
const MAX_RUNS = 50;

/** The entry of the run with this name, made by whoever asks first. */
export function runEntry(name: string): RunEntry {
  const page = globalThis as unknown as Record<symbol, Map<string, RunEntry> | undefined>;
  const runs = (page[Symbol.for("cellwright.runs")] ??= new Map<string, RunEntry>());
  let entry = runs.get(name);
  if (!entry) {
    let resolve: (transcript: Transcript) => void;
    const promise = new Promise<Transcript>((resolved) => { resolve = resolved; });
    const made: RunEntry = {
      promise,
      open(transcript) {
        made.opened = transcript;
        resolve(transcript);
      },
    };
    entry = made;
    runs.set(name, entry);
    for (const old of runs.keys()) if (runs.size > MAX_RUNS) runs.delete(old);
  }
  return entry;
}
