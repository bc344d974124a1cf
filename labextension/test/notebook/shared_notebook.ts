/** In the place of `@jupyter/ydoc`: a shared notebook that behaves as its does, as far as the plugin uses it. */

import type { JsonObject } from "../../src/json";
import type { NewCell, SharedCell, SharedNotebook } from "../support/notebook_shapes";

class Undo {
  readonly trackedOrigins = new Set<unknown>();
  stops = 0;

  stopCapturing(): void {
    this.stops++;
  }
}

export class OneSharedCell implements SharedCell {
  readonly id: string;
  readonly cell_type: string;
  readonly metadata: JsonObject;
  readonly undoManager = new Undo();
  readonly edits: [number, number, string][] = [];
  execution_count: number | null;
  executionState = "idle";
  declare getOutputs?: () => JsonObject[];
  declare setOutputs?: (outputs: JsonObject[]) => void;
  declare getAttachments?: () => JsonObject | undefined;
  declare setAttachments?: (attachments: JsonObject | undefined) => void;
  private source: string;
  private outputs: JsonObject[];
  private attachments: JsonObject | undefined;

  constructor(cell: NewCell) {
    this.id = cell.id;
    this.cell_type = cell.cell_type;
    this.metadata = cell.metadata;
    this.source = cell.source;
    this.execution_count = cell.execution_count ?? null;
    this.outputs = cell.outputs ?? [];
    this.attachments = cell.attachments;
    if (cell.cell_type === "code") {
      this.getOutputs = () => [...this.outputs];
      this.setOutputs = (outputs) => void (this.outputs = outputs);
    } else {
      this.getAttachments = () => this.attachments;
      this.setAttachments = (attachments) => void (this.attachments = attachments);
    }
  }

  getSource(): string {
    return this.source;
  }

  setMetadata(key: string, value: JsonObject): void {
    this.metadata[key] = value;
  }

  deleteMetadata(key: string): void {
    Reflect.deleteProperty(this.metadata, key);
  }

  updateSource(start: number, end: number, value: string): void {
    this.edits.push([start, end, value]);
    this.source = this.source.slice(0, start) + value + this.source.slice(end);
  }

  toJSON(): NewCell {
    const { id, cell_type, source, metadata } = this;
    const cell: NewCell = { id, cell_type, source, metadata };
    if (cell_type === "code") return { ...cell, outputs: this.outputs, execution_count: this.execution_count };
    return this.attachments ? { ...cell, attachments: this.attachments } : cell;
  }
}

export class OneSharedNotebook implements SharedNotebook {
  cells: OneSharedCell[];
  readonly undoManager = new Undo();
  readonly origins: unknown[] = [];
  private next: OneSharedCell[];

  constructor(...cells: NewCell[]) {
    this.cells = cells.map((cell) => new OneSharedCell(cell));
    this.next = [...this.cells];
  }

  readonly ydoc = {
    transact: (work: () => void, origin: unknown): void => {
      this.origins.push(origin);
      work();
      // observers run, and the list follows, when a transaction is over
      this.cells = [...this.next];
    },
  };

  insertCell(index: number, cell: NewCell): SharedCell {
    const made = new OneSharedCell(cell);
    this.next.splice(index, 0, made);
    return made;
  }

  deleteCell(index: number): void {
    if (index >= this.next.length) throw new Error("Length exceeded!");
    this.next.splice(index, 1);
  }
}

export function code(id: string, source: string, more: Partial<NewCell> = {}): NewCell {
  return { id, cell_type: "code", source, metadata: {}, outputs: [], execution_count: null, ...more };
}

export function markdown(id: string, source: string, more: Partial<NewCell> = {}): NewCell {
  return { id, cell_type: "markdown", source, metadata: {}, ...more };
}
