/** The page: its server's settings, unique names, style sheets. */

import sharedCss from "./page.css";

/** The folder of the server's files on its disk; empty: not known. */
export function serverRoot(): string {
  return read().serverRoot ?? "";
}

/** True where the server's administrator has switched a feature off for everybody (`c.CellwrightApp.…_policy`). */
export function isForcedOff(feature: string): boolean {
  return read().cellwrightPolicy?.choices?.[feature] === "force-off";
}

/** True where the server wants to know which documents are unsaved: other agents work on its files. */
export function tellsServerOfDocuments(): boolean {
  return read().cellwrightDocuments === true;
}

type Config = { serverRoot?: string; cellwrightDocuments?: boolean; cellwrightPolicy?: { choices?: Record<string, string> } };

function read(): Config {
  return JSON.parse(document.getElementById("jupyter-config-data")?.textContent ?? "{}") as Config;
}

/** A name that no other page has; `crypto.randomUUID` is missing where the page came by plain HTTP. */
export function randomName(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

let shared = sharedCss;

/** Adds a style sheet for what is drawn outside the transcripts, which may use the colours that are ours. */
export function addPageStyle(css: string): void {
  const style = document.createElement("style");
  style.textContent = shared + css;
  shared = "";
  document.head.append(style);
}
