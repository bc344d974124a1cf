/** Copying, also where the page is served over plain http and has no clipboard of its own. */

import { button, element, setText } from "./dom";
import { focused } from "./focus";

const FEEDBACK_MS = 1500;

/** A button that copies what `text` returns and says so; `what` is its name, since there are several of them. */
export function copyButton(text: () => string, what: string): HTMLButtonElement {
  const node = button("Copy", () => {
    void copy(text()).then((copied) => {
      setText(node, copied ? "Copied" : "Not copied");
      node.ariaLabel = null;
      setTimeout(() => {
        setText(node, "Copy");
        node.ariaLabel = what;
      }, FEEDBACK_MS);
    });
  }, { "aria-label": what, title: what });
  node.className = "copy";
  return node;
}

async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // no permission, or no clipboard outside a secure context
    return copyBySelection(text);
  }
}

function copyBySelection(text: string): boolean {
  const area = element("textarea", { style: "position: fixed; opacity: 0", "aria-hidden": "true" });
  area.value = text;
  document.body.append(area);
  const active = focused();
  area.focus({ preventScroll: true });
  area.select();
  // eslint-disable-next-line @typescript-eslint/no-deprecated -- the one way that works without a secure context
  const copied = document.execCommand("copy");
  area.remove();
  if (active instanceof HTMLElement) active.focus({ preventScroll: true });
  return copied;
}
