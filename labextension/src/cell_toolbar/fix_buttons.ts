/** A button under the output of a cell that failed just now; the toolbar is at the active cell, which is the next one by then. */

import { applies } from "./cell_actions";
import type { Cell } from "../notebook/cell_toolbar_types";

const HOST = "cellwright-fix";

export class FixButtons {
  constructor(private readonly fix: (cell: Cell) => void) {}

  /** A cell was run: there is a button as long as its last output is an error. */
  ran(cell: Cell): void {
    const { outputs } = cell.model;
    if (!outputs || !applies("fix", cell) || cell.node.querySelector(`:scope > .${HOST}`)) return;
    const host = document.createElement("div");
    host.className = HOST;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Fix with Claude";
    button.addEventListener("click", () => { this.fix(cell); });
    host.append(button);
    cell.node.append(host);
    const changed = (): void => {
      if (applies("fix", cell)) return;
      host.remove();
      outputs.changed.disconnect(changed);
    };
    outputs.changed.connect(changed);
  }
}
