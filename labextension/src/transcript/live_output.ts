/** The latest lines of a running call's output, in a box that scrolls by itself and never moves the page. */

import { element, setText } from "./dom";
import { terminalText } from "./terminal_text";

const LINES = 200;
/** Within this many pixels of the end the reader is following. */
const FOLLOWING = 24;

export type LiveOutput = { readonly node: HTMLElement; update(output: string): void };

export function liveOutput(): LiveOutput {
  const node = element("pre", { class: "output live", tabindex: "0", role: "region", "aria-label": "Latest output" });
  return {
    node,
    update(output) {
      const following = node.scrollHeight - node.scrollTop - node.clientHeight < FOLLOWING;
      setText(node, terminalText(output).split("\n").slice(-LINES).join("\n"));
      if (following) node.scrollTop = node.scrollHeight;
    },
  };
}
