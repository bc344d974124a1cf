/** Code that is loaded when it is needed may be gone by then: the extension was upgraded while the page was open. */

import { element } from "../transcript/dom";
import type { Trans } from "../translation";

export function staleBundleMessage(trans: Trans): string {
  return trans.__("Part of Cellwright could not be loaded. It may have been upgraded: reload the page.");
}

/** Has `use` take what `loading` gives; where either fails, `host` says so. */
export function whenLoaded<Code>(loading: Promise<Code>, host: HTMLElement, trans: Trans, use: (code: Code) => void): void {
  loading.then(use).catch((error: unknown) => {
    console.error("Cellwright:", error);
    // what a part has drawn into a root of its own hides what stands beside that
    (host.shadowRoot ?? host).replaceChildren(element("p", { class: "lost", role: "alert" }, staleBundleMessage(trans)));
  });
}
