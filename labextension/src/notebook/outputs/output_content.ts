/** What an output holds for Claude: a picture that it can see, text, or something that only the page draws. */

import type { IOutputModel } from "@jupyterlab/rendermime";

import { TRANSCRIPT_TYPE } from "../../transcript/protocol";

export type MimeData = Readonly<Record<string, unknown>>;

export const IMAGE_TYPES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const DRAWN_KINDS = [
  "application/vnd.vegalite", "application/vnd.vega", "application/vnd.plotly", "application/vnd.bokehjs_exec", "application/vnd.holoviews",
  "application/vnd.jupyter.widget-view", "image/svg+xml",
];
const DRAWN_HTML = /<(?:script|canvas|svg|img|iframe)\b|<style(?!\s+scoped)|\sstyle\s*=/i;
const TEXT_TYPES = ["text/plain", "text/markdown", "text/latex"];
/** What an object says of itself that has no words: `<Figure size 640x480>`. */
const SAYS_NOTHING = /^<[\w.<>]+(?: object)?(?: at 0x[0-9a-f]+)?>\s*$/i;
// as it is in a terminal
// eslint-disable-next-line no-control-regex
const TERMINAL_CODES = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])/g;

/** The length of what Claude gets of one output, and of a cell's source. */
export const MAX_OUTPUT_CHARS = 10_000;

/** True for what says less as text than the page shows, and has no picture that Claude can see; as in notebook_page.py. */
export function isDrawn(data: MimeData): boolean {
  if (isAnswer(data) || pictureIn(data)) return false;
  if (Object.keys(data).some((mime) => DRAWN_KINDS.some((kind) => mime.startsWith(kind)))) return true;
  const html = textIn(data["text/html"]);
  return DRAWN_HTML.test(html) && !(html.includes("<style scoped>") && html.includes('class="dataframe"'));
}

/** True for an answer of Claude's. */
export function isAnswer(data: MimeData): boolean {
  return TRANSCRIPT_TYPE in data;
}

/** The picture that Claude can see as it is; null where there is none. */
export function pictureIn(data: MimeData): { readonly type: string; readonly data: string } | null {
  const type = IMAGE_TYPES.find((each) => each in data);
  return type ? { type, data: textIn(data[type]).replace(/\s/g, "") } : null;
}

/** An output in words, bounded; `shown` is what the page shows of it. */
export function outputText(output: IOutputModel, shown: HTMLElement | null): string {
  const { type } = output;
  const json = output.toJSON() as Record<string, unknown>;
  if (type === "stream") return bounded(plain(textIn(json.text)));
  if (type === "error") {
    const traceback = Array.isArray(json.traceback) ? plain(json.traceback.join("\n")) : "";
    return bounded(traceback || `${textIn(json.ename)}: ${textIn(json.evalue)}`);
  }
  const said = TEXT_TYPES.map((mime) => plain(textIn(output.data[mime])).trim()).find((text) => text && !SAYS_NOTHING.test(text));
  return bounded(said ?? shown?.innerText.trim() ?? "");
}

/** `text` without its middle where it is long: two thirds from its beginning, the rest from its end. */
export function bounded(text: string, limit = MAX_OUTPUT_CHARS): string {
  if (text.length <= limit) return text;
  const [head, tail] = [Math.floor((limit * 2) / 3), Math.floor(limit / 3)];
  return `${text.slice(0, head)}\n[… ${(text.length - head - tail).toLocaleString("en")} characters left out …]\n${text.slice(-tail)}`;
}

function plain(text: string): string {
  return text.replace(TERMINAL_CODES, "");
}

/** Text as a notebook holds it: whole, or line by line. */
function textIn(value: unknown): string {
  if (typeof value === "string") return value;
  return Array.isArray(value) ? value.join("") : "";
}
