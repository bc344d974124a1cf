/** A picture that opens large: a button where it stands, a dialog over the page when it is pressed. */

import { button, element } from "../dom";
import { adoptStyle } from "../style";

/** Shows the picture `src`, whose bytes are in the address. */
export function picture(src: string, alt: string): HTMLElement {
  const opener = button(element("img", { class: "display", src, alt }), () => {
    const root = opener.getRootNode();
    if (root instanceof ShadowRoot) showLarge(root.querySelector(".transcript") ?? root, opener, src, alt);
  }, {
    class: "picture",
    title: "Enlarge",
    "aria-haspopup": "dialog",
    "aria-label": `Enlarge: ${alt}`,
  });
  return opener;
}

/** Shows a picture of the page's own large. */
export function showPagePicture(opener: HTMLElement, src: string, alt: string): void {
  const host = element("div");
  const root = host.attachShadow({ mode: "open" });
  const body = element("section", { class: "transcript", "aria-label": alt });
  root.append(body);
  adoptStyle(root);
  document.body.append(host);
  showLarge(body, opener, src, alt).addEventListener("close", () => { host.remove(); });
}

function showLarge(parent: ParentNode, opener: HTMLElement, src: string, alt: string): HTMLElement {
  const image = element("img", { src, alt });
  const size = button("Actual size", () => {
    const whole = dialog.classList.toggle("actual");
    size.setAttribute("aria-pressed", `${whole}`);
  }, { "aria-pressed": "false" });
  const close = button("Close", () => { dialog.close(); }, { "aria-keyshortcuts": "Escape" });
  const dialog = element(
    "dialog",
    { class: "large-picture", "aria-label": alt },
    element("div", { class: "picture-head" }, element("span", {}, alt), size, close),
    element("div", { class: "picture-field", tabindex: "0", role: "group", "aria-label": "Picture" }, image),
  );
  dialog.addEventListener("click", (event) => {
    // beside the picture: its ground is the dialog's own
    if (event.target === dialog) dialog.close();
  });
  dialog.addEventListener("close", () => {
    dialog.remove();
    opener.focus({ preventScroll: true });
  });
  parent.append(dialog);
  dialog.showModal();
  close.focus();
  return dialog;
}
