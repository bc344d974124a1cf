/** The one place of a page in which a question asks: where its user is. In the others it is a line. */

export type PlaceKind = "panel" | "cell" | "proposal";

/** A card of a question, wherever it is drawn. */
export type AskingPlace = {
  readonly node: HTMLElement;
  readonly kind: PlaceKind;
  /** The question asks here; or elsewhere, in a place of that kind. */
  show(elsewhere: PlaceKind | null): void;
};

const PANEL = ".cellwright-panel";
const NOTEBOOK = ".jp-Notebook, .jp-NotebookPanel, .cell";
/** From the most wanted: a change of a cell is best looked at beside the cell. */
const ORDER: Record<"panel" | "notebook", PlaceKind[]> = {
  panel: ["panel", "proposal", "cell"],
  notebook: ["proposal", "cell", "panel"],
};

export class AskingPlaces {
  private readonly places = new Map<string, Set<AskingPlace>>();
  private readonly chosen = new Map<string, AskingPlace>();
  private userIn: keyof typeof ORDER = "notebook";
  private frame = 0;

  constructor() {
    const notice = (event: Event): void => {
      const path = event.composedPath().filter((node) => node instanceof Element);
      if (path.some((node) => node.matches(PANEL))) this.userIn = "panel";
      else if (path.some((node) => node.matches(NOTEBOOK))) this.userIn = "notebook";
      // a place may have come into sight, or gone out of it
      if (this.places.size > 0) this.arrangeSoon();
    };
    for (const kind of ["pointerdown", "keydown", "focusin"]) document.addEventListener(kind, notice, { capture: true, passive: true });
  }

  /** Adds a place of `question`; returns how to take it out. */
  add(question: string, place: AskingPlace): () => void {
    const known = this.places.get(question) ?? new Set();
    this.places.set(question, known.add(place));
    this.arrange();
    // it is in the page by then
    this.arrangeSoon();
    return () => {
      known.delete(place);
      if (this.chosen.get(question) === place) this.chosen.delete(question);
      if (known.size === 0 && this.places.get(question) === known) this.places.delete(question);
      this.arrangeSoon();
    };
  }

  /** The user wants to answer here. */
  choose(question: string, place: AskingPlace): void {
    this.chosen.set(question, place);
    this.arrange();
  }

  private arrangeSoon(): void {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.arrange();
    });
  }

  private arrange(): void {
    for (const [question, places] of this.places) {
      const seen = [...places].filter(({ node }) => isSeen(node));
      const chosen = this.chosen.get(question);
      const asks = chosen && seen.includes(chosen) ? chosen : this.best(seen);
      // a notebook in two tabs has a card in each
      for (const place of seen) place.show(!asks || place.kind === asks.kind ? null : asks.kind);
    }
  }

  private best(seen: AskingPlace[]): AskingPlace | undefined {
    return ORDER[this.userIn].map((kind) => seen.find((place) => place.kind === kind)).find((place) => place !== undefined);
  }
}

/** True where it could be scrolled to. */
function isSeen(node: HTMLElement): boolean {
  return node.isConnected && node.checkVisibility();
}

/** The page's own: a cell's renderer may be another build than the panel's. */
export function askingPlaces(): AskingPlaces {
  const page = globalThis as unknown as Record<symbol, AskingPlaces | undefined>;
  return (page[Symbol.for("cellwright.asking")] ??= new AskingPlaces());
}
