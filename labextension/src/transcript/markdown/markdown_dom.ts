/**
 * Markdown tokens as DOM. Only the elements named here come out, with only the attributes set here: there is no way from
 * the model's text to markup, so nothing has to be sanitised afterwards. Raw HTML is shown as the text it is.
 */

import type { MarkedToken, Token, Tokens } from "marked";

import type { Child } from "../dom";
import { element } from "../dom";
import { codeBlock } from "./code_block";
import { codeOrFile, glued, withFiles } from "./file_link";
import { formulaElement } from "./formula";

/** Bars and bullets stand where the text begins, in Hebrew on the right; what has lines alone is given its direction by the style. */
const AUTO = { dir: "auto" };

/** A block-level token; `key` of two tokens is equal when they look the same. */
export function renderBlock(token: Token): Node {
  const known = token as MarkedToken;
  switch (known.type) {
    case "code":
      return codeBlock(known.text, language(known));
    case "heading":
      // the cell's own headings are the notebook's; the answer's begin below them
      return element(`h${Math.min(6, known.depth + 1)}` as "h2", { class: `h${known.depth}` }, ...inline(known.tokens));
    case "paragraph":
      return element("p", {}, ...taskOr(known.tokens));
    case "blockquote":
      return element("blockquote", AUTO, ...known.tokens.map(renderBlock));
    case "list":
      return listElement(known, known.items.map((item) => renderListItem(item)));
    case "table":
      return table(known);
    case "hr":
      return element("hr");
    case "space":
    case "def":
      return document.createTextNode("");
    case "html":
      return element("p", { class: "raw" }, known.raw.trimEnd());
    case "text":
      return wrap(inline(known.tokens ?? [known]));
    default:
      if (token.type === "mathBlock") return element("p", {}, formulaElement((token as Tokens.Text).text));
      return wrap(inlineToken(known));
  }
}

export function language(token: Tokens.Code): string {
  return /^\S*/.exec(token.lang ?? "")?.[0] ?? "";
}

export function listElement(list: Tokens.List, items: Node[]): HTMLElement {
  if (!list.ordered) return element("ul", AUTO, ...items);
  return element("ol", { ...AUTO, start: list.start === 1 || list.start === "" ? false : `${list.start}` }, ...items);
}

export function renderListItem(item: Tokens.ListItem): HTMLElement {
  const [first, second, ...rest] = item.tokens;
  if (first?.type !== "checkbox") return element("li", { class: item.task && "task" }, ...item.tokens.map(renderBlock));
  const words = second?.type === "text" ? [second] : [];
  const below = words.length > 0 || !second ? rest : [second, ...rest];
  const box = labelled(first as Tokens.Checkbox, words.map(renderBlock));
  return element("li", { class: "task" }, box, ...below.map(renderBlock));
}

/** The text of a paragraph; of a task, with its box. */
function taskOr(tokens: Token[]): Child[] {
  const [first, ...words] = tokens;
  return first?.type === "checkbox" ? [labelled(first as Tokens.Checkbox, inline(words))] : inline(tokens);
}

/** A task's box with its words as its name. */
function labelled({ checked }: Tokens.Checkbox, words: Child[]): HTMLElement {
  const box = element("input", { type: "checkbox", disabled: "", checked: checked && "", "aria-label": words.length === 0 && "Task" });
  return element("label", {}, box, ...words);
}

function wrap(nodes: Child[]): DocumentFragment {
  const fragment = document.createDocumentFragment();
  fragment.append(...nodes);
  return fragment;
}

function table(token: Tokens.Table): HTMLElement {
  return element(
    "div",
    { class: "table", tabindex: "0", role: "group", "aria-label": "Table" },
    element(
      "table",
      {},
      element("thead", {}, renderTableRow("th", token.header)),
      element("tbody", {}, ...token.rows.map((cells) => renderTableRow("td", cells))),
    ),
  );
}

export function renderTableRow(tag: "th" | "td", cells: Tokens.TableCell[]): HTMLElement {
  const cell = ({ tokens, align }: Tokens.TableCell): HTMLElement =>
    // a header without words heads nothing
    element(tokens.length > 0 ? tag : "td", { style: align !== null && `text-align: ${align}` }, ...inline(tokens));
  return element("tr", {}, ...cells.map(cell));
}

function inline(tokens: Token[]): Child[] {
  return glued(tokens.flatMap((token) => inlineToken(token as MarkedToken)));
}

function inlineToken(token: MarkedToken): Child[] {
  switch (token.type) {
    case "text":
      return token.tokens ? inline(token.tokens) : withFiles(resolveReferences(token.text));
    case "escape":
      return [token.text];
    case "strong":
      return [element("strong", {}, ...inline(token.tokens))];
    case "em":
      return [element("em", {}, ...inline(token.tokens))];
    case "del":
      return [element("del", {}, ...inline(token.tokens))];
    case "codespan":
      return [codeOrFile(token.text)];
    case "br":
      return [element("br")];
    case "checkbox":
      return [labelled(token, [])];
    case "link":
      return link(token);
    case "image":
      return [image(token)];
    case "html":
      // a bare span is how the kernel keeps a dollar from opening a formula
      if (/^<\/?span>$/.test(token.raw)) return [];
      return [/^<br\s*\/?>$/i.test(token.raw) ? element("br") : token.raw];
    default:
      // block tokens stand in no line
      return [(token as Token).type === "math" ? formulaElement(token.raw) : token.raw];
  }
}

function link(token: Tokens.Link): Child[] {
  const address = token.autolink ? token.href : resolveReferences(token.href);
  const content = inline(token.tokens);
  const href = safeHref(address);
  if (href === null) return token.text === address ? content : [...content, ` (${address})`];
  return [anchor(href, content)];
}

function image(token: Tokens.Image): HTMLElement | string {
  const address = resolveReferences(token.href);
  const alt = resolveReferences(token.text);
  if (isInlineImage(address)) return element("img", { src: address, alt });
  const href = safeHref(address);
  // never fetched: the address of an image can carry data away
  return href === null ? `[image: ${alt}]` : anchor(href, [`Image: ${alt || href}`]);
}

function anchor(href: string, content: Child[]): HTMLElement {
  // the title shows where it leads, whatever its text says
  return element("a", { href, title: href, target: "_blank", rel: "noopener noreferrer" }, ...content);
}

// `&amp;`, `&#58;`, `&copy;` in markdown text, as the characters they stand for.

const REFERENCE = /&(?:#[xX][\da-fA-F]{1,6}|#\d{1,7}|[A-Za-z][A-Za-z\d]{1,31});/g;
const known = new Map<string, string>();

export function resolveReferences(text: string): string {
  return text.includes("&") ? text.replace(REFERENCE, resolve) : text;
}

function resolve(reference: string): string {
  let character = known.get(reference);
  if (character === undefined) {
    // the browser has the table of names; the pattern above lets nothing but one reference through
    character = new DOMParser().parseFromString(reference, "text/html").body.textContent;
    known.set(reference, character);
  }
  return character;
}

// The addresses in the model's text that may be followed or drawn.

const FOLLOWED = new Set(["http:", "https:", "mailto:"]);
const DRAWN = /^data:image\/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}$/;

/** The address as a browser understands it, or null where a click on it could do more than open a page. */
export function safeHref(href: string): string | null {
  try {
    // without a base: a relative address would be one of the Jupyter server's own
    const url = new URL(href);
    return FOLLOWED.has(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

/** True for an image that is wholly in the text: drawing it asks no server. */
export function isInlineImage(href: string): boolean {
  return DRAWN.test(href);
}
