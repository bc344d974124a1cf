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
  private readonly listeners = new Set<(place: UndoPlace) => void>();

  /** Adds a place; returns how to take it out. */
  add(place: UndoPlace): () => void {
    this.places.add(place);
    for (const listener of this.listeners) listener(place);
    return () => this.places.delete(place);
  }

  /** The places in `node`. */
  in(node: Node): UndoPlace[] {
    return [...this.places].filter(({ host }) => node.contains(host));
  }

  /** Calls `listener` with each place that comes; returns how to end that. */
  onAdded(listener: (place: UndoPlace) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

/** The page's own: a cell's renderer may be another build than the page's. */
export function undoOffers(): UndoOffers {
  const page = globalThis as unknown as Record<symbol, UndoOffers | undefined>;
  return (page[Symbol.for("cellwright.undo")] ??= new UndoOffers());
}
