/** The line above a cell in which the user says what Claude should change in it. */

import { keepKeyboard } from "../transcript/keep_keyboard";
import type { Cell } from "../notebook/cell_toolbar_types";

const HOST = "cellwright-instruction";
const OPENING_MS = 300;

/** Opens the line, or goes to the one that is open. Enter gives `send` what was typed, Escape closes it. */
export function openInstruction(cell: Cell, send: (instruction: string) => void, close: () => void): void {
  const open = cell.node.querySelector<HTMLInputElement>(`:scope > .${HOST} input`);
  if (open) {
    open.focus();
    return;
  }
  const host = document.createElement("div");
  host.className = HOST;
  const input = document.createElement("input");
  input.type = "text";
  input.className = "jp-mod-styled";
  input.placeholder = "What should Claude change in this cell?";
  input.setAttribute("aria-label", input.placeholder);
  const hint = document.createElement("span");
  hint.textContent = "Enter to ask · Esc to close";
  host.append(input, hint);
  const stopKeeping = keepKeyboard(host);
  const remove = (): void => {
    stopKeeping();
    host.remove();
  };
  host.addEventListener("keydown", (event) => {
    // a notebook would take keys as commands
    event.stopPropagation();
    if (event.key === "Escape") {
      remove();
      close();
    } else if (event.key === "Enter" && !event.isComposing && input.value.trim()) {
      remove();
      send(input.value);
    }
  });
  // the button or menu that opened it takes the focus once more, and keys would be the notebook's commands
  const opened = performance.now();
  input.addEventListener("blur", () => {
    if (performance.now() - opened < OPENING_MS) setTimeout(() => { input.focus(); });
  });
  // at its end in the DOM, since JupyterLab counts a cell's first children; the style sheet puts it where it belongs
  cell.node.append(host);
  input.focus();
}
