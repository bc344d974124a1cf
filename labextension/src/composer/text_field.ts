/** The prompt's text field: it grows with its text, and what is put into it can be undone. */

/** A longer text is put in at once: the browser's own command takes seconds for it. */
const MAX_UNDOABLE_CHARS = 20_000;

/** Puts `text` in place of what stands from `start` to `end`, as if it had been typed. */
export function replaceText(area: HTMLTextAreaElement, start: number, end: number, text: string): void {
  if (area.value.slice(start, end) === text) {
    area.setSelectionRange(end, end);
    return;
  }
  area.setSelectionRange(start, end);
  const focused = area.getRootNode() as Document | ShadowRoot;
  const undoable = focused.activeElement === area && text.length + end - start <= MAX_UNDOABLE_CHARS && "execCommand" in document;
  // deprecated, and the only way into the browser's own list of what can be undone
  // eslint-disable-next-line @typescript-eslint/no-deprecated
  if (undoable && document.execCommand(text ? "insertText" : "delete", false, text)) return;
  area.setRangeText(text, start, end, "end");
  area.dispatchEvent(new InputEvent("input", { bubbles: true }));
}

/** Makes the field as high as its text; its style sheet says how high at most. */
export function fitHeight(area: HTMLTextAreaElement): void {
  area.style.height = "auto";
  if (area.scrollHeight > 0) area.style.height = `${area.scrollHeight}px`;
}

/** True where ↑ at the caret cannot go up within the text. */
export function isAtFirstLine(area: HTMLTextAreaElement): boolean {
  if (area.selectionStart !== area.selectionEnd) return false;
  return area.selectionStart === 0 || (!area.value.slice(0, area.selectionStart).includes("\n") && !wraps(area));
}

/** True where ↓ at the caret cannot go down within the text. */
export function isAtLastLine(area: HTMLTextAreaElement): boolean {
  if (area.selectionStart !== area.selectionEnd) return false;
  return area.selectionEnd === area.value.length || (!area.value.slice(area.selectionEnd).includes("\n") && !wraps(area));
}

/** True where a line of the text takes several rows on the screen: then only its ends are certain to be at the edge. */
function wraps(area: HTMLTextAreaElement): boolean {
  const { lineHeight, paddingTop, paddingBottom } = getComputedStyle(area);
  const row = parseFloat(lineHeight);
  if (!(row > 0)) return false;
  const height = area.scrollHeight - parseFloat(paddingTop) - parseFloat(paddingBottom);
  return Math.round(height / row) > area.value.split("\n").length;
}

// Keys that are typed while a prompt is on its way: the field takes none then, and shows them once the kernel has the prompt.

/** "Enter", "ArrowUp", …: keys that are no text have names. */
const TEXT = /^.$/u;

export class TypeAheadBuffer {
  private readonly keys: string[] = [];

  /** Keep the key if it is one of text; false for others. */
  key({ key, shiftKey, ctrlKey, metaKey, altKey, isComposing }: KeyboardEvent): boolean {
    if (ctrlKey || metaKey || altKey || isComposing) return false;
    if (key === "Backspace") this.keys.pop();
    else if (key === "Enter" && shiftKey) this.keys.push("\n");
    else if (TEXT.test(key)) this.keys.push(key);
    else return false;
    return true;
  }

  /** Give the typed text, and forget it. */
  take(): string {
    return this.keys.splice(0).join("");
  }
}
