/** The one place of a page in which a question asks: where its user is. In the others it is a line. */

export type PlaceKind = "panel" | "cell" | "proposal";

/** A card of a question, wherever it is drawn. */
export type AskingPlace = {
  readonly node: HTMLElement;
  readonly kind: PlaceKind;
  /** The question asks here, or elsewhere, in a place of that kind; `atCell`: it has a card at the cell that it would change. */
  show(elsewhere: PlaceKind | null, atCell: boolean): void;
  /** Brings the card into view and gives it the keys; only a card at a cell can. */
  reveal?: () => void;
};

const PANEL = ".cellwright-panel";
const NOTEBOOK = ".jp-Notebook, .jp-NotebookPanel, .cell";
const SCROLLER = ".jp-WindowedPanel-outer";
/** A card of which less is in sight is not seen. */
const SEEN_PX = 100;
/** From the most wanted: a change of a cell is best looked at beside the cell. */
const ORDER: Record<"panel" | "notebook", PlaceKind[]> = {
  panel: ["panel", "proposal", "cell"],
  notebook: ["proposal", "cell", "panel"],
};

export class AskingPlaces {
  private readonly places = new Map<string, Set<AskingPlace>>();
  private readonly chosen = new Map<string, AskingPlace>();
  /** The questions about a change whose cell was out of sight when it came up, or was not. */
  private readonly away = new Map<string, boolean>();
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
      if (known.size === 0 && this.places.get(question) === known) {
        this.places.delete(question);
        this.away.delete(question);
      }
      this.arrangeSoon();
    };
  }

  /** The user wants to answer here. */
  choose(question: string, place: AskingPlace): void {
    this.chosen.set(question, place);
    this.arrange();
  }

  /** The user wants to answer in the card `node`. */
  here(question: string, node: HTMLElement): void {
    const place = [...(this.places.get(question) ?? [])].find((each) => each.node === node);
    if (place) this.choose(question, place);
  }

  /** The user wants to answer at the cell; false if no card is there. */
  review(question: string): boolean {
    const place = [...(this.places.get(question) ?? [])].find(({ reveal }) => reveal !== undefined);
    if (!place) return false;
    this.chosen.set(question, place);
    this.arrange();
    place.reveal?.();
    return true;
  }

  /** True if nothing waits but changes that are shown at their cells. */
  onlyChangesWait(): boolean {
    return [...this.places.values()].every(hasProposal);
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
      const asks = chosen && seen.includes(chosen) ? chosen : this.best(question, seen);
      const atCell = hasProposal(places);
      // a notebook in two tabs has a card in each
      for (const place of seen) place.show(!asks || place.kind === asks.kind ? null : asks.kind, atCell);
    }
  }

  private best(question: string, seen: AskingPlace[]): AskingPlace | undefined {
    const kinds = ORDER[this.userIn].filter((kind) => kind !== "proposal" || !this.isAway(question, seen));
    return [...kinds, "proposal"].map((kind) => seen.find((place) => place.kind === kind)).find((place) => place !== undefined);
  }

  /** One change alone whose cell is out of sight is asked about where it was asked for. It stays so: nothing moves as one scrolls. */
  private isAway(question: string, seen: AskingPlace[]): boolean {
    const card = seen.find(({ kind }) => kind === "proposal");
    if (!card) return false;
    const alone = [...this.places.values()].filter(hasProposal).length === 1;
    const away = alone && (this.away.get(question) ?? !isInView(card.node));
    this.away.set(question, away);
    return away;
  }
}

/** True where it could be scrolled to. */
function isSeen(node: HTMLElement): boolean {
  return node.isConnected && node.checkVisibility();
}

function hasProposal(places: Set<AskingPlace>): boolean {
  return [...places].some(({ kind }) => kind === "proposal");
}

function isInView(node: HTMLElement): boolean {
  const box = node.getBoundingClientRect();
  if (box.height === 0) return true; // not laid out
  const root = node.getRootNode();
  const host = root instanceof ShadowRoot ? root.host : node;
  const view = (host.closest(SCROLLER) ?? document.documentElement).getBoundingClientRect();
  const seen = Math.min(box.bottom, view.bottom, innerHeight) - Math.max(box.top, view.top, 0);
  return seen >= Math.min(box.height, SEEN_PX);
}

/** The page's own: a cell's renderer may be another build than the panel's. */
export function askingPlaces(): AskingPlaces {
  const page = globalThis as unknown as Record<symbol, AskingPlaces | undefined>;
  return (page[Symbol.for("cellwright.asking.2")] ??= new AskingPlaces());
}
