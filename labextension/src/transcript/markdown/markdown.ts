/**
 * Markdown that grows: blocks that are complete are drawn once and never touched again, only the live tail is drawn anew.
 * The result is the same as drawing the whole text at once.
 */

import type { Token, Tokens, TokensList } from "marked";
import { Lexer, Marked } from "marked";

import { finishCodeBlock, updateCodeBlock } from "./code_block";
import { mathTokens, openFormula, ReadyFormulas, typesetFormulas } from "./formula";
import { language, renderBlock, renderListItem, renderTableRow } from "./markdown_dom";

// While text streams: the marks of its last block that are still open are closed, so that `**bol` is bold, not asterisks.

const FENCE = /^ {0,3}(?:```|~~~)/gm;
const MARK = /\\.|`+|\*{1,3}|~~/g;
const HALF_A_LINK = /!?\[([^[\]\n]*)\]\([^()\s]*$/;

/** `source` as it will read once the marks at its end are complete; only its end differs. */
export function closeOpenMarks(source: string): string {
  if ((source.match(FENCE)?.length ?? 0) % 2 === 1) return source;
  const from = source.lastIndexOf("\n\n") + 1;
  const block = source.slice(from).replace(HALF_A_LINK, "$1");
  return source.slice(0, from) + closed(block);
}

function closed(block: string): string {
  const open: string[] = [];
  let text = block;
  for (const { 0: mark, index } of block.matchAll(MARK)) {
    const last = open.at(-1) ?? "";
    const after = block.charAt(index + mark.length);
    if (isLiteral(mark, last)) continue;
    if (mark === last && isInk(block.charAt(index - 1))) open.pop();
    // the very last mark opens something that is not there yet
    else if (after === "") text = block.slice(0, index);
    else if (isInk(after) || mark.startsWith("`")) open.push(mark);
  }
  // a mark closes only what ends without a space
  return open.length > 0 ? text.trimEnd() + open.reverse().join("") : text;
}

/** True for a mark that is escaped, or stands in code that `last` opened. */
function isLiteral(mark: string, last: string): boolean {
  return mark.startsWith("\\") || (last.startsWith("`") && mark !== last);
}

function isInk(character: string): boolean {
  return character.trim() !== "";
}

const marked = new Marked({ gfm: true }, mathTokens);

const OPENING_FENCE = /^ {0,3}(`{3,}|~{3,})(.*)/;

/** A token and the node that shows it. */
type Drawn = { token: Token; node: Node };

export class Markdown {
  private readonly drawn: Drawn[] = [];
  /** So many of `drawn` are final; their source ends at `settledChars`. */
  private settled = 0;
  private settledChars = 0;
  /** The link definitions among the settled blocks. */
  private readonly links: TokensList["links"] = {};

  private readonly formulas: ReadyFormulas;
  /** The text that waits for a formula. */
  private held: string | null = null;

  /** Draws into `node`, which nobody else changes. */
  constructor(private readonly node: HTMLElement) {
    this.formulas = new ReadyFormulas(node, () => {
      if (this.held !== null) this.update(this.held, true);
    });
  }

  /** `source` goes on from the source of the last call; `open`: more of it is to come. */
  update(source: string, open: boolean): void {
    // a carriage return at the end may be half of a line end
    const text = source.replace(/\r$/, open ? "" : "\n").replace(/\r\n?/g, "\n");
    this.held = null;
    if (!open) {
      this.finish(text);
      return;
    }
    const tail = this.shownOf(text.slice(this.settledChars));
    if (this.settledChars + tail.length < text.length) this.held = source;
    const tokens = lex(closeOpenMarks(tail), this.links);
    this.draw(this.settled, tokens);
    this.finishFenced(tokens, endsWithClosingFence(tail));
    this.settle(tail, tokens);
  }

  /** As much of `tail` as can be shown: up to a formula that is not whole or not typeset. */
  private shownOf(tail: string): string {
    if (!tail.includes("$") && !tail.includes("\\")) return tail;
    const open = (tail.match(FENCE)?.length ?? 0) % 2 === 1 ? -1 : openFormula(tail);
    const whole = open < 0 ? tail : tail.slice(0, open);
    let end = whole.length;
    let from = 0;
    void marked.walkTokens(lex(whole, this.links), (token) => {
      const formula = token.type === "mathBlock" ? (token as Tokens.Text).text : token.type === "math" ? token.raw : null;
      const at = formula === null ? -1 : whole.indexOf(formula, from);
      if (formula === null || at < 0) return;
      from = at + formula.length;
      if (this.formulas.waitsFor(formula)) end = Math.min(end, at);
    });
    return whole.slice(0, end);
  }

  /** Draws all of `text`: what was settled stays where it is the same. */
  private finish(text: string): void {
    const tokens = lex(text, {});
    // a link's definition that came late changes blocks above it, whose source is the same
    if (Object.keys(tokens.links).length > 0) this.clear();
    this.draw(0, tokens);
    for (const { node } of this.drawn.slice(this.settled)) complete(node);
    this.settled = tokens.length;
    this.settledChars = text.length;
  }

  private clear(): void {
    for (const { node } of this.drawn.splice(0)) this.node.removeChild(node);
    this.settled = 0;
  }

  /** Makes `drawn[from..]` show `tokens`, with as few changes as it takes. */
  private draw(from: number, tokens: Token[]): void {
    tokens.forEach((token, index) => {
      const old = this.drawn[from + index];
      if (old && sameLook(old.token, token)) return;
      if (old && grow(old, token)) return;
      // one node for each token, also for those that show nothing
      const node = single(renderBlock(token));
      if (old) this.node.replaceChild(node, old.node);
      else this.node.appendChild(node);
      this.drawn[from + index] = { token, node };
    });
    for (const { node } of this.drawn.splice(from + tokens.length)) this.node.removeChild(node);
    for (const { node } of this.drawn.slice(from)) this.formulas.show(node);
  }

  /** Finishes the code whose closing fence is there, of the last block too if the source `ends` with one. */
  private finishFenced(tokens: Token[], ends: boolean): void {
    tokens.forEach((token, index) => {
      const node = this.drawn[this.settled + index]?.node;
      const isClosed = ends || index < tokens.length - 1;
      if (token.type === "code" && isClosed && OPENING_FENCE.test(token.raw) && node instanceof HTMLElement) finishCodeBlock(node);
    });
  }

  /**
   * Settles the blocks before the last blank line that has a whole line after it: that line has begun a block of its own, so
   * nothing that may come reaches back over the blank line.
   */
  private settle(tail: string, tokens: Token[]): void {
    const cut = tokens.findLastIndex((token, index) => token.type === "space" && index < tokens.length - 1) + 1;
    if (cut === 0) return;
    const raw = tokens.slice(0, cut).map((token) => token.raw).join("");
    if (!tail.startsWith(raw) || !tail.includes("\n", raw.length)) return;
    for (const token of tokens.slice(0, cut)) {
      if (token.type === "def") this.links[(token as Tokens.Def).tag] ??= token as Tokens.Def;
    }
    for (const { node } of this.drawn.slice(this.settled, this.settled + cut)) complete(node);
    this.settled += cut;
    this.settledChars += raw.length;
  }
}

function lex(text: string, links: TokensList["links"]): TokensList {
  const lexer = new Lexer(marked.defaults);
  Object.assign(lexer.tokens.links, links);
  return lexer.lex(text);
}

/** True where the last whole line of `source` closes code that an earlier one has opened. */
function endsWithClosingFence(source: string): boolean {
  if (!source.endsWith("\n")) return false;
  let open = "";
  let closes = false;
  for (const line of source.trimEnd().split("\n")) {
    const [, fence = "", rest = ""] = OPENING_FENCE.exec(line) ?? [];
    closes = open !== "" && fence.startsWith(open) && rest.trim() === "";
    if (closes) open = "";
    else if (open === "") open = fence;
  }
  return closes;
}

function sameLook(a: Token, b: Token): boolean {
  return a.type === b.type && a.raw === b.raw && (a as Partial<Tokens.List>).loose === (b as Partial<Tokens.List>).loose;
}

/** Nothing of `node` changes any more: now it is worth typesetting. */
function complete(node: Node): void {
  if (!(node instanceof HTMLElement)) return;
  if (node.matches("figure.code")) finishCodeBlock(node);
  for (const block of node.querySelectorAll<HTMLElement>("figure.code")) finishCodeBlock(block);
  typesetFormulas(node);
}

function single(node: Node): Node {
  if (!(node instanceof DocumentFragment)) return node;
  const span = document.createElement("span");
  span.append(node);
  return span;
}

/** Lets the drawn token become `token` where that leaves in place what the reader may be selecting; false if it cannot. */
function grow(drawn: Drawn, token: Token): boolean {
  const { token: old, node } = drawn;
  if (old.type === "code" && token.type === "code" && language(old as Tokens.Code) === language(token as Tokens.Code)) {
    updateCodeBlock(node as HTMLElement, (token as Tokens.Code).text);
  } else if (old.type === "list" && token.type === "list") {
    if (!growList(old as Tokens.List, token as Tokens.List, node as HTMLElement)) return false;
  } else if (old.type === "table" && token.type === "table") {
    if (!growTable(old as Tokens.Table, token as Tokens.Table, node as HTMLElement)) return false;
  } else {
    return false;
  }
  drawn.token = token;
  return true;
}

function growList(old: Tokens.List, list: Tokens.List, node: HTMLElement): boolean {
  if (old.loose !== list.loose || old.ordered !== list.ordered || old.start !== list.start) return false;
  const same = list.items.findIndex((item, index) => old.items[index]?.raw !== item.raw);
  let keep = same === -1 ? list.items.length : same;
  const [before, now] = [old.items[keep], list.items[keep]];
  if (before && now && growItem(before, now, node.childNodes[keep] as HTMLElement)) keep++;
  while (node.childNodes.length > keep) node.lastChild?.remove();
  node.append(...list.items.slice(keep).map(renderListItem));
  return true;
}

/** Code at the end of an item goes on: its block stays. */
function growItem(old: Tokens.ListItem, item: Tokens.ListItem, node: HTMLElement): boolean {
  const [before, now] = [old.tokens.at(-1), item.tokens.at(-1)];
  if (before?.type !== "code" || now?.type !== "code" || old.tokens.length !== item.tokens.length) return false;
  if (language(before as Tokens.Code) !== language(now as Tokens.Code)) return false;
  if (!item.tokens.slice(0, -1).every((token, index) => token.raw === old.tokens[index]?.raw)) return false;
  updateCodeBlock(node.lastElementChild as HTMLElement, (now as Tokens.Code).text);
  return true;
}

function growTable(old: Tokens.Table, table: Tokens.Table, node: HTMLElement): boolean {
  const body = node.querySelector("tbody");
  if (!body || !sameCells(old.header, table.header)) return false;
  const same = table.rows.findIndex((cells, index) => !sameCells(old.rows[index] ?? [], cells));
  const keep = same === -1 ? table.rows.length : same;
  while (body.childNodes.length > keep) body.lastChild?.remove();
  body.append(...table.rows.slice(keep).map((cells) => renderTableRow("td", cells)));
  return true;
}

function sameCells(a: Tokens.TableCell[], b: Tokens.TableCell[]): boolean {
  return a.length === b.length && b.every((cell, index) => a[index]?.text === cell.text && a[index].align === cell.align);
}
