/** The Undo button of an answer's footer: the page knows which turns can be undone, and does it; the transcript has the place. */

/** The place of a button; `host` is the element in the page that holds the transcript. */
export type UndoPlace = {
  readonly host: HTMLElement;
  /** Shows the button, which calls `undo`; null: there is nothing to undo any more. */
  offer(undo: (() => void) | null): void;
  focus(): void;
};

export class UndoOffers {
  private readonly places = new Set<UndoPlace>();
  private readonly unfinished = new Set<HTMLElement>();
  private readonly listeners = new Set<(host: HTMLElement) => void>();

  /** Adds a place; returns how to take it out. */
  add(place: UndoPlace): () => void {
    this.places.add(place);
    this.changed(place.host);
    return () => this.places.delete(place);
  }

  /** An answer that is not over stands at `host`: it may get a place with its end. Returns how to say that this has come. */
  await(host: HTMLElement): () => void {
    this.unfinished.add(host);
    return () => {
      if (this.unfinished.delete(host)) this.changed(host);
    };
  }

  /** Whether an answer in `node` is not over. */
  isAwaited(node: Node): boolean {
    return [...this.unfinished].some((host) => node.contains(host));
  }

  /** The places in `node`. */
  in(node: Node): UndoPlace[] {
    return [...this.places].filter(({ host }) => node.contains(host));
  }

  /** Calls `listener` with the host of each place that comes, and of each answer that is over; returns how to end that. */
  onChanged(listener: (host: HTMLElement) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  private changed(host: HTMLElement): void {
    for (const listener of this.listeners) listener(host);
  }
}

/** The page's own: a cell's renderer may be another build than the page's. */
export function undoOffers(): UndoOffers {
  const page = globalThis as unknown as Record<symbol, UndoOffers | undefined>;
  return (page[Symbol.for("cellwright.undo")] ??= new UndoOffers());
}
