/** The keys of the prompt's field, in one table: what each does depends on what is open and what goes on. */

import type { SteerHow } from "../transcript/protocol";
import type { Palette } from "./palette";
import { isAtFirstLine, isAtLastLine } from "./text_field";

export type KeyContext = {
  readonly area: HTMLTextAreaElement;
  readonly palette: Palette;
  sendKey(): "Enter" | "Shift+Enter";
  /** `other`: not as the toggle says, but the other way. */
  send(other: boolean): void;
  take(): void;
  /** The list is closed, and stays so for this word. */
  dismiss(): void;
  historyBefore(): boolean;
  historyAfter(): boolean;
  nextMode(): void;
  /** A key brought the keyboard here, and nothing was pressed since. */
  cameByTab(): boolean;
  escape(): void;
  /** Any key but Esc. */
  otherKey(): void;
};

/** True while an input method composes: the key is its own. */
export function isComposing(event: KeyboardEvent): boolean {
  // Safari ends the composition before it tells of the Enter that ended it: only this old name of it still says so
  // eslint-disable-next-line @typescript-eslint/no-deprecated
  return event.isComposing || event.keyCode === 229;
}

/** Does what `event` is for; whether it was for the composer. */
export function handleKey(event: KeyboardEvent, keys: KeyContext): boolean {
  if (isComposing(event)) return false;
  if (event.key !== "Escape") keys.otherKey();
  if (event.ctrlKey || event.metaKey) return event.key === "Enter" && did(() => { keys.send(false); });
  return (keys.palette.isOpen && paletteKey(event, keys)) || fieldKey(event, keys);
}

function fieldKey(event: KeyboardEvent, keys: KeyContext): boolean {
  switch (event.key) {
    case "Enter":
      return enterKey(event, keys);
    case "Tab":
      // who walks back through the page goes on, and changes nothing on the way; a held key is one press
      return event.shiftKey && !keys.cameByTab() && did(() => { if (!event.repeat) keys.nextMode(); });
    case "ArrowUp":
      return !hasModifier(event) && isAtFirstLine(keys.area) && keys.historyBefore();
    case "ArrowDown":
      return !hasModifier(event) && isAtLastLine(keys.area) && keys.historyAfter();
    case "Escape":
      return did(() => { keys.escape(); });
    default:
      return false;
  }
}

function paletteKey(event: KeyboardEvent, keys: KeyContext): boolean {
  const { palette } = keys;
  if (event.altKey || event.shiftKey) return false;
  switch (event.key) {
    case "ArrowDown":
      return palette.chosen !== undefined && did(() => { palette.move(1); });
    case "ArrowUp":
      return palette.chosen !== undefined && did(() => { palette.move(-1); });
    case "Enter":
    case "Tab":
      return palette.chosen !== undefined && !isWritten(keys) && did(() => { keys.take(); });
    case "Escape":
      return did(() => { keys.dismiss(); });
    default:
      return false;
  }
}

/** True where the chosen item stands there already: Enter then sends. */
function isWritten({ palette, area }: KeyContext): boolean {
  const wanted = palette.chosen?.insert.trim() ?? "";
  const end = area.value.slice(0, area.selectionEnd);
  return end.endsWith(wanted) && (end.length === wanted.length || /\s/.test(end[end.length - wanted.length - 1] ?? ""));
}

function enterKey(event: KeyboardEvent, keys: KeyContext): boolean {
  if (event.altKey) return did(() => { keys.send(true); });
  const sends = event.shiftKey === (keys.sendKey() === "Shift+Enter");
  return sends && did(() => { keys.send(false); });
}

function hasModifier(event: KeyboardEvent): boolean {
  return event.altKey || event.shiftKey;
}

function did(work: () => void): true {
  work();
  return true;
}

/** The other of the two ways in which words can be said to a run. */
export function otherWay(how: SteerHow): SteerHow {
  return how === "steer" ? "queue" : "steer";
}

/** True while what the user did last was a click. */
let clicked = false;
let watches = false;

function watchPointer(): void {
  if (watches) return;
  watches = true;
  document.addEventListener("pointerdown", () => { clicked = true; }, true);
  document.addEventListener("keydown", () => { clicked = false; }, true);
}

/** Watches how the keyboard comes to `field`; gives whether Tab, or a command's key, brought it, and no other key was pressed there since. */
export function watchTab(field: HTMLElement): () => boolean {
  watchPointer();
  let came = false;
  let pressed = false;
  field.addEventListener("keydown", ({ key, repeat }) => {
    if (key !== "Tab") came &&= key === "Shift";
    else if (!repeat) pressed = true;
    else came ||= !pressed; // held since before it came here
  });
  field.addEventListener("keyup", ({ key }) => {
    if (key !== "Tab") return;
    came ||= !pressed;
    pressed = false;
  });
  field.addEventListener("focus", () => { came ||= !clicked; });
  field.addEventListener("pointerdown", () => { came = false; });
  field.addEventListener("blur", () => { came = pressed = false; });
  return () => came;
}
