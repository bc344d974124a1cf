/**
 * Fuzzy matching: names that hold the typed letters in order, the likeliest first.
 * The kernel's `kernel/chat/completions.py` orders in the same way, so that a list does not jump when its answer comes;
 * both are held to docs/protocol/completion-order.json.
 */

/** For each letter that is found. */
const LETTER = 16;
/** More for a letter at the beginning of a word, and for one right behind the letter before. */
const BEGINS_WORD = 10;
const FOLLOWS = 12;
/** Less for each letter between the first and the last that is none of the query's. */
const GAP = 2;
/** More where the text itself begins so, and for a path whose last part alone holds the query. */
const BEGINS_TEXT = 20;
const IN_NAME = 40;

export type FuzzyMatch = { readonly score: number; /** Where the letters stand in the text. */ readonly places: readonly number[] };

/** The score of `text` for `query`; null where it does not match. Case does not matter. */
export function fuzzyMatch(query: string, text: string): FuzzyMatch | null {
  const wanted = query.toLowerCase();
  const letters = small(text);
  const window = windowOf(wanted, letters);
  if (!window) return null;
  const [start, end] = window;
  const places: number[] = [];
  let score = start === 0 ? BEGINS_TEXT : 0;
  for (let place = start; place < end; place += 1) {
    if (places.length === wanted.length || letters[place] !== wanted[places.length]) {
      score -= GAP;
      continue;
    }
    score += LETTER;
    if (places.at(-1) === place - 1) score += FOLLOWS;
    else if (beginsWord(text, place)) score += BEGINS_WORD;
    places.push(place);
  }
  return { score: score - text.length / 100, places };
}

/** The score of a name; null where it does not match. */
export function nameScore(query: string, name: string): number | null {
  return fuzzyMatch(query, name)?.score ?? null;
}

/** `nameScore` of a path: better where its last part alone fits. */
export function pathScore(query: string, path: string): number | null {
  const name = path.replace(/\/+$/, "").split("/").at(-1) ?? "";
  const ofName = query.includes("/") ? null : nameScore(query, name);
  return ofName === null ? nameScore(query, path) : ofName + IN_NAME - path.length / 100;
}

/** The `things` that match `query`, best first; equals stay in their order. */
export function fuzzyFilter<Thing>(query: string, things: readonly Thing[], text: (thing: Thing) => string, rate = nameScore): Thing[] {
  if (!query) return [...things];
  return things
    .map((thing) => ({ thing, score: rate(query, text(thing)) }))
    .filter((each): each is { thing: Thing; score: number } => each.score !== null)
    .sort((one, other) => other.score - one.score)
    .map(({ thing }) => thing);
}

/** The range in which the letters stand in order: all together, or as near as their first end allows. */
function windowOf(wanted: string, letters: string): [number, number] | null {
  const whole = letters.indexOf(wanted);
  if (whole >= 0) return atWord(wanted, letters, whole);
  let end = 0;
  for (const letter of wanted) {
    end = letters.indexOf(letter, end) + 1;
    if (end === 0) return null;
  }
  let start = end;
  for (let at = wanted.length - 1; at >= 0; at -= 1) start = letters.lastIndexOf(wanted[at] ?? "", start - 1);
  return [start, end];
}

/** The place of all of `wanted` that begins a word, else the first one. */
function atWord(wanted: string, letters: string, first: number): [number, number] {
  for (let place = first; place >= 0 && wanted; place = letters.indexOf(wanted, place + 1)) {
    if (beginsWord(letters, place)) return [place, place + wanted.length];
  }
  return [first, first + wanted.length];
}

/** `text` in lower case, each letter in its place: of "İ" `toLowerCase` makes two. */
function small(text: string): string {
  const lower = text.toLowerCase();
  return lower.length === text.length ? lower : text.replace(/./gsu, (letter) => letter.toLowerCase().slice(0, letter.length));
}

function beginsWord(text: string, place: number): boolean {
  const before = text[place - 1] ?? "";
  return place === 0 || !/[\p{L}\p{N}]/u.test(before) || (/\p{Lu}/u.test(text[place] ?? "") && /\p{Ll}/u.test(before));
}
