/** What was suggested lately, so that typing along, and coming back to a place, asks nobody. */

/** A place in a cell: what stands before and behind the cursor. `cell` tells cells of all notebooks apart. */
export type Place = { readonly cell: string; readonly prefix: string; readonly suffix: string };

const MOST = 60;
/** What the editor may have put behind the cursor by itself: the other half of what was typed. */
const CLOSING = /^[)\]}"'`]{1,3}$/;

export class Suggestions {
  /** The newest last. */
  private known: { place: Place; text: string }[] = [];

  /** Keeps what was suggested at a place; an empty text says that nothing is missing there. */
  put(place: Place, text: string): void {
    this.known = [...this.known.filter((each) => !isSame(each.place, place)), { place, text }].slice(-MOST);
  }

  /** What is to be shown at a place without asking anybody; undefined where that is not known. */
  find(place: Place): string | undefined {
    const same = this.known.find((each) => isSame(each.place, place));
    if (same) return same.text;
    for (let at = this.known.length - 1; at >= 0; at--) {
      const each = this.known[at];
      const rest = each && restOf(each.text, each.place, place);
      if (rest) return rest;
    }
    return undefined;
  }
}

function isSame(one: Place, other: Place): boolean {
  return one.cell === other.cell && one.prefix === other.prefix && one.suffix === other.suffix;
}

/** What is left of `text`, suggested at `was`, when its user has typed as far as `now`; undefined where they typed something else. */
function restOf(text: string, was: Place, now: Place): string | undefined {
  if (was.cell !== now.cell || !now.prefix.startsWith(was.prefix) || !now.suffix.endsWith(was.suffix)) return undefined;
  const typed = now.prefix.slice(was.prefix.length);
  if (typed === "" || !text.startsWith(typed)) return undefined;
  const rest = text.slice(typed.length);
  const closed = now.suffix.slice(0, now.suffix.length - was.suffix.length);
  if (closed === "") return rest;
  return CLOSING.test(closed) && rest.endsWith(closed) ? rest.slice(0, -closed.length) : undefined;
}
