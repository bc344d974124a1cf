/**
 * The renderer's entry, free of Jupyter: a channel to the kernel goes in, views come out.
 *
 * One transcript may have several views; they share its store.
 */

import type { RunEntry } from "../renderer_registry";
import type { BrowserMessage, KeptMessage, Op, SavedMessage } from "./protocol";
import { kernelMessage, PROTOCOL, SAVED_EVENT } from "./protocol";
import { TranscriptStore } from "./store";
import { view } from "./view";

export { PROTOCOL };

/** `onMessage` calls its listener with each message of the kernel and returns how to end that. */
export type Channel = {
  send(message: BrowserMessage): void;
  onMessage(listener: (content: unknown) => void): () => void;
};

/** How a run goes, for who sees nothing of it but that. */
export type RunProgress = "starting" | "working" | "asking" | "over";

export type Transcript = {
  /** Shows the transcript, of an answer in several parts one, in `host`, too; returns how to take that view away. */
  mount(host: HTMLElement, part?: number): () => void;
  /** True once there is anything of a run: a cell may be skipped before. */
  begun(): boolean;
  /** True when all of the run is there. */
  ended(): boolean;
  progress(): RunProgress;
  /** Calls `listener` after each change; returns how to stop that. */
  watch(listener: () => void): () => void;
  /** Asks the kernel to stop the run. */
  stop(): void;
  /** Ends the run here: its kernel is gone. */
  loseKernel(): void;
  close(): void;
};

/** Missing operations are asked for again after this time. */
const RESEND_AFTER_MS = 2000;

/** Opens the transcript at the other end of `channel` and tells the kernel that somebody listens; `run` is told, too. */
export function open(channel: Channel, run: RunEntry | null = null): Transcript {
  const store = new TranscriptStore();
  const openedAt = Date.now() / 1000;
  let loaded: LoadTime | null = null;
  const loadedDuringRun = (): boolean => loaded !== null && mayBeDuring(loaded, store);
  const saved = savedOutput(loadedDuringRun, (message) => { channel.send(message); });
  let askedFor = -1;
  let askedAt = 0;
  const ready = (): void => {
    // messages go on arriving at 20 a second until the kernel has answered: one `ready` for each gap
    if (askedFor === store.have && Date.now() - askedAt < RESEND_AFTER_MS) return;
    askedFor = store.have;
    askedAt = Date.now();
    channel.send({ type: "ready", have: store.have, protocol: PROTOCOL });
  };
  const unsubscribe = channel.onMessage((content) => {
    const message = kernelMessage(content);
    if (!message) return;
    switch (message.type) {
      case "ops":
        if (store.receive(message)) loaded ??= loadTime(message.now, openedAt);
        else ready();
        return;
      case "ack":
        store.acknowledge(message.question);
        return;
      case "saved":
        saved.receive(message);
        return;
      default:
        message satisfies never;
    }
  });
  ready();
  const transcript: Transcript = {
    mount(host, part = 0) {
      const unmount = view(host, store, (message) => { channel.send(message); }, part);
      // a message lost with a connection would otherwise be missed only at the next one, and there may be none
      if (!store.end) ready();
      // whoever makes the view has it in its place by then, and can take it away again
      setTimeout(saved.offer);
      return unmount;
    },
    begun: () => store.run !== null,
    ended: () => store.end !== null,
    progress: () => (store.end ? "over" : store.pending().length > 0 ? "asking" : store.run ? "working" : "starting"),
    watch: (listener) => store.subscribe(listener),
    stop: () => { channel.send({ type: "stop" }); },
    loseKernel: () => { store.loseKernel(); },
    close: unsubscribe,
  };
  run?.open(transcript);
  return transcript;
}

/** Shows in `host` what a notebook has kept of a run: `ops` were checked, and nobody is at the other end. */
export function mountSaved(host: HTMLElement, ops: Op[]): () => void {
  const store = new TranscriptStore();
  store.receive({ type: "ops", first: 0, now: 0, ops });
  return view(host, store, () => undefined);
}

/** One transcript with one view. */
export function mount(host: HTMLElement, channel: Channel): () => void {
  const transcript = open(channel);
  const unmount = transcript.mount(host);
  return () => {
    unmount();
    transcript.close();
  };
}

// The saved output of a run, offered to the page where the kernel cannot put it into the notebook itself.
// The front end that can takes it with `preventDefault()`; elsewhere the transcript goes on being shown.

export type SavedOutput = {
  receive(message: SavedMessage): void;
  /** Offers what was saved, if anything was and nobody has taken it. */
  readonly offer: () => void;
};

/** `loadedDuringRun`: the page may have read its notebook from disk while the run went on, so that its cell lacks the output. */
export function savedOutput(loadedDuringRun: () => boolean, send: (message: KeptMessage) => void): SavedOutput {
  let saved: SavedMessage | null = null;
  const offer = (): void => {
    if (!saved) return;
    const detail: SavedMessage = { ...saved, cell: loadedDuringRun() ? saved.cell : null };
    // on the document: the cell may be far out of sight and have no view
    if (document.dispatchEvent(new CustomEvent(SAVED_EVENT, { cancelable: true, detail }))) return;
    saved = null;
    send({ type: "kept", writer: detail.writer });
  };
  return {
    receive(message) {
      saved = message;
      offer();
    },
    offer,
  };
}

/** The time that this page was loaded, in seconds by the kernel's clock: no earlier and no later than this. */
type LoadTime = { earliest: number; latest: number };

/**
 * The time of loading, by the first operations that were taken: the kernel sent them at `sentAt` of its clock, in answer to
 * what the page sent at `openedAt` of its own. A page that is busy, as it is when it is loaded, may hear of them seconds later.
 */
function loadTime(sentAt: number, openedAt: number): LoadTime {
  const now = Date.now() / 1000;
  const loadedAt = now - performance.now() / 1000;
  return { earliest: sentAt - (now - loadedAt), latest: sentAt - (openedAt - loadedAt) };
}

function mayBeDuring({ earliest, latest }: LoadTime, { run, end }: TranscriptStore): boolean {
  return run !== null && latest >= run.started && (!end || earliest <= run.started + end.ms / 1000);
}
