/** The runs of this page's cells that go on, and where each is shown: for the status bar. */

import type { RunProgress, Transcript } from "../../transcript/transcript";

/** A run as this needs it: of a cell, or of a request whose answer is shown below one. */
export type LiveRun = Pick<Transcript, "progress" | "watch" | "stop"> & Partial<Pick<Transcript, "loseKernel">> & { /** What it waits for is a key. */ readonly needsKey?: boolean };

export type LiveAnswer = {
  readonly transcript: LiveRun;
  /** The output in which its last part stands. */
  readonly node: HTMLElement;
  /** The cell's number, as the kernel counts; null where it is not known. */
  readonly count: number | null;
  readonly progress: RunProgress;
};

const shown = new Map<LiveRun, { node: HTMLElement; count: number | null; stop: () => void }>();
const listeners = new Set<() => void>();
const endListeners = new Set<(answer: Pick<LiveAnswer, "node" | "count">) => void>();

/** Calls `listener` when a run begins, asks, goes on or ends; gives how to stop that. */
export function onLiveAnswers(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Calls `listener` when a run ends while a cell of this page shows it. */
export function onAnswerEnd(listener: (answer: Pick<LiveAnswer, "node" | "count">) => void): void {
  endListeners.add(listener);
}

/** The runs that go on in cells of this page, those that wait for the user first. */
export function liveAnswers(): LiveAnswer[] {
  const found = [...shown].flatMap(([transcript, { node, count }]) => {
    const progress = transcript.progress();
    return progress === "working" || progress === "asking" ? [{ transcript, node, count, progress }] : [];
  });
  return [...found.filter(({ progress }) => progress === "asking"), ...found.filter(({ progress }) => progress === "working")];
}

/** The kernel of the answers for which `isIts` is true has ended, and no end of theirs will come. */
export function loseAnswers(isIts: (node: HTMLElement) => boolean): void {
  // a renderer of a kernel with another version may not know how
  for (const [transcript, { node }] of [...shown]) if (isIts(node)) transcript.loseKernel?.();
}

/** `node` shows the last part so far of a run that goes on; gives how to end that. */
export function addLiveAnswer(transcript: LiveRun, node: HTMLElement, count: number | null): () => void {
  // a renderer of a kernel with another version may not say how its run goes
  const { watch } = transcript as Partial<LiveRun>;
  if (!watch) return () => undefined;
  shown.get(transcript)?.stop();
  let last: RunProgress | null = null;
  const look = (): void => {
    const now = transcript.progress();
    if (now === last) return;
    last = now;
    if (now === "over") {
      remove();
      for (const each of endListeners) each({ node, count });
    } else for (const each of listeners) each();
  };
  const stop = watch(look);
  const entry = { node, count, stop };
  const remove = (): void => {
    stop();
    if (shown.get(transcript) !== entry) return;
    shown.delete(transcript);
    for (const each of listeners) each();
  };
  shown.set(transcript, entry);
  look();
  return remove;
}
