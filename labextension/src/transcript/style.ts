/** The style sheet, parsed once for all transcripts of a page. */

import css from "./style.css";

let sheet: CSSStyleSheet | undefined;

export function adoptStyle(root: ShadowRoot): void {
  if ("adoptedStyleSheets" in root && "replaceSync" in CSSStyleSheet.prototype) {
    if (!sheet) {
      sheet = new CSSStyleSheet();
      sheet.replaceSync(css);
    }
    root.adoptedStyleSheets = [sheet];
    return;
  }
  const style = document.createElement("style");
  style.textContent = css;
  root.prepend(style);
}
