/** The answers of a notebook while JupyterLab's search is open in it: their text for the search, and its hits in them. */

import { element, SEARCHED } from "../../transcript/dom";
import type { Block } from "./answer_text";
import { blocksOf, rangeIn } from "./answer_text";

const NOTEBOOK = ".jp-NotebookPanel";
const ANSWERS = ".cellwright-answer > div";
/** As JupyterLab marks its hits, and the one that it is at. */
const CURRENT = "jp-current-match";
/** A text that grows is looked at again so often. */
const GROWING_MS = 500;

const STYLE = `
::highlight(cellwright-found) { background-color: var(--jp-search-unselected-match-background-color, #ffff00); color: var(--jp-search-unselected-match-color, black); }
::highlight(cellwright-current) { background-color: var(--jp-search-selected-match-background-color, #ffa500); color: var(--jp-search-selected-match-color, black); }
`;

const open = new WeakMap<HTMLElement, OpenSearch>();

/** Lets the search `overlay` find the answers of its notebook, until it is closed. */
export function searchAnswers(overlay: HTMLElement): void {
  const notebook = overlay.closest<HTMLElement>(NOTEBOOK);
  if (!notebook) return;
  const known = open.get(overlay);
  if (known?.isOpen) known.look();
  else open.set(overlay, new OpenSearch(overlay, notebook));
}

class OpenSearch {
  private readonly answers = new Map<HTMLElement, SearchedAnswer>();
  private readonly closed = new MutationObserver(() => { if (!this.isOpen) this.close(); });
  private readonly growing = setInterval(() => { this.look(true); }, GROWING_MS);
  /** What is looked for is another word: what was unfolded since is searched, too. */
  private readonly newWords = (): void => { this.look(); };

  constructor(private readonly overlay: HTMLElement, private readonly notebook: HTMLElement) {
    // where it is taken out of the page, or what it stands in
    for (let node = overlay.parentElement; node && notebook.contains(node); node = node.parentElement) this.closed.observe(node, { childList: true });
    overlay.addEventListener("input", this.newWords, { capture: true });
    this.look();
  }

  get isOpen(): boolean {
    return this.notebook.contains(this.overlay);
  }

  /** Has the search see the text of all answers as it is now, or of those that grow. */
  look(growing = false): void {
    if (!this.isOpen) {
      this.close();
      return;
    }
    for (const host of this.notebook.querySelectorAll<HTMLElement>(ANSWERS)) this.lookAt(host, growing);
    for (const [host, answer] of this.answers) {
      if (host.isConnected) continue;
      answer.close();
      this.answers.delete(host);
    }
  }

  private lookAt(host: HTMLElement, growing: boolean): void {
    const body = host.shadowRoot?.querySelector(".transcript");
    const known = this.answers.get(host);
    if (!body || (growing && known?.isWhole)) return;
    const answer = known ?? new SearchedAnswer(host);
    this.answers.set(host, answer);
    answer.look(body);
  }

  private close(): void {
    clearInterval(this.growing);
    this.closed.disconnect();
    this.overlay.removeEventListener("input", this.newWords, { capture: true });
    for (const answer of this.answers.values()) answer.close();
    this.answers.clear();
  }
}

class SearchedAnswer {
  /** Without a slot nothing of it is drawn, or in the accessibility tree. */
  private readonly copy = element("div", { class: "cellwright-searched" });
  private readonly marked = new MutationObserver(() => { this.showHits(); });
  private blocks: Block[] = [];
  private hits: Range[] = [];
  private at: Element | null = null;
  /** True once the text was seen after the run had ended. */
  isWhole = false;

  constructor(private readonly host: HTMLElement) {
    if (host.shadowRoot) lendStyle(host.shadowRoot);
    this.marked.observe(this.copy, { childList: true, subtree: true, attributes: true, attributeFilter: ["class"] });
  }

  look(body: Element): void {
    const closed = body.querySelectorAll("details:not([open])");
    for (const fold of closed) fold.dispatchEvent(new Event(SEARCHED));
    // code that a fold gets now has its colours, and other nodes with them, some frames later
    const isDrawn = this.blocks.length > 0 || closed.length === 0;
    this.isWhole = isDrawn && body.getAttribute("aria-busy") !== "true";
    const blocks = blocksOf(body);
    const lines = [...this.copy.children];
    blocks.forEach(({ text }, index) => {
      const line = lines[index];
      if (!line) this.copy.append(element("div", {}, text));
      // what is the same keeps its hits
      else if (line.textContent !== text) line.replaceChildren(text);
    });
    for (const line of lines.slice(blocks.length)) line.remove();
    this.blocks = blocks;
    if (!this.copy.isConnected) this.host.append(this.copy);
    this.showHits();
  }

  close(): void {
    this.marked.disconnect();
    this.forget();
    this.copy.remove();
  }

  private forget(): void {
    const painted = highlights();
    for (const hit of this.hits) for (const each of Object.values(painted ?? {})) each.delete(hit);
    this.hits = [];
  }

  private showHits(): void {
    this.forget();
    const painted = highlights();
    let current: { mark: Element; range: Range } | null = null;
    for (const mark of this.copy.querySelectorAll("mark")) {
      const range = this.rangeOf(mark);
      if (!range) continue;
      this.hits.push(range);
      const isCurrent = mark.classList.contains(CURRENT);
      if (isCurrent) current = { mark, range };
      painted?.[isCurrent ? "current" : "found"].add(range);
    }
    if (current && current.mark !== this.at) reveal(current.range, painted === null);
    this.at = current?.mark ?? null;
  }

  private rangeOf(mark: Element): Range | null {
    const line = mark.parentElement;
    const block = line && this.blocks[[...this.copy.children].indexOf(line)];
    if (!block) return null;
    let from = 0;
    for (let before = mark.previousSibling; before; before = before.previousSibling) from += before.textContent?.length ?? 0;
    return rangeIn(block, from, mark.textContent.length);
  }
}

/** Opens what `range` is folded in, and scrolls to it; `select`: nothing else shows where it is. */
function reveal(range: Range, select: boolean): void {
  const place = range.startContainer instanceof Element ? range.startContainer : range.startContainer.parentElement;
  for (let node = place; node; node = node.parentElement) {
    if (node instanceof HTMLDetailsElement && !place?.closest("summary")?.isSameNode(node.querySelector(":scope > summary"))) node.open = true;
    if (node.getAttribute("hidden") !== "until-found") continue;
    // as the browser's own search does
    node.dispatchEvent(new Event("beforematch", { bubbles: true }));
    node.removeAttribute("hidden");
  }
  if (select) getSelection()?.setBaseAndExtent(range.startContainer, range.startOffset, range.endContainer, range.endOffset);
  // JupyterLab goes to the cell first
  requestAnimationFrame(() => { if (!isInSight(range)) place?.scrollIntoView({ block: "center", inline: "nearest" }); });
}

function isInSight(range: Range): boolean {
  const box = range.getBoundingClientRect();
  const root = range.startContainer.getRootNode();
  const host = root instanceof ShadowRoot ? root.host : null;
  const view = host?.closest(".jp-WindowedPanel-outer, .jp-Notebook")?.getBoundingClientRect();
  return view !== undefined && box.height > 0 && box.top >= view.top && box.bottom <= view.bottom;
}

type Painted = { readonly found: Highlight; readonly current: Highlight };
let painted: Painted | null = null;

/** What paints hits over text; null where the browser has nothing for that. */
function highlights(): Painted | null {
  if (!("Highlight" in globalThis)) return null;
  if (!painted) {
    painted = { found: new Highlight(), current: new Highlight() };
    painted.current.priority = 1;
    CSS.highlights.set("cellwright-found", painted.found);
    CSS.highlights.set("cellwright-current", painted.current);
  }
  return painted;
}

let sheet: CSSStyleSheet | undefined;

function lendStyle(root: ShadowRoot): void {
  if (!("adoptedStyleSheets" in root) || !("replaceSync" in CSSStyleSheet.prototype)) return;
  if (!sheet) {
    sheet = new CSSStyleSheet();
    sheet.replaceSync(STYLE);
  }
  if (!root.adoptedStyleSheets.includes(sheet)) root.adoptedStyleSheets.push(sheet);
}
