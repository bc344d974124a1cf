/** What a screen reader says of the panel as a whole when it changes; each run says its own. */

import type { Chat } from "../transport/chat";
import type { Trans } from "../composer/composer_deps";

export function panelNews({ connection, place, waitsForCell }: Chat, trans: Trans): string {
  switch (connection) {
    case "connected":
      return trans.__("Connected to the kernel of %1", place?.notebook ?? trans.__("this panel"));
    case "connecting":
      return waitsForCell ? trans.__("Waiting for the cell that runs") : "";
    case "lost":
      return trans.__("The kernel is gone");
    case "missing":
      return trans.__("This kernel has no Cellwright");
    case "unsupported":
      return trans.__("This kernel has another version of Cellwright");
    case "none":
      return "";
    default:
      return connection satisfies never;
  }
}
