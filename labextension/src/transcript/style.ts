/** The style sheet, parsed once for all transcripts of a page. */

import cardsCss from "./cards/cards.css";
import codeCss from "./code/code.css";
import transcriptCss from "./style.css";

const css = [transcriptCss, codeCss, cardsCss].join("\n");

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
