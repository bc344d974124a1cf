/** An editor's extension whose code is loaded when there is an editor. */

import type { Extension } from "@codemirror/state";
import { Compartment } from "@codemirror/state";
import { ViewPlugin } from "@codemirror/view";

/** What `now` gives is in the editor from its beginning, or as soon as `loading`, which does not reject, has settled. */
export function lateExtension(now: () => Extension | null, loading: () => Promise<unknown>): Extension {
  const there = now();
  if (there) return there;
  const place = new Compartment();
  const waiting = ViewPlugin.define((view) => {
    let isThere = true;
    void loading().then(() => {
      const come = now();
      if (isThere && come) view.dispatch({ effects: place.reconfigure(come) });
    });
    return { destroy: () => { isThere = false; } };
  });
  return [place.of([]), waiting];
}
