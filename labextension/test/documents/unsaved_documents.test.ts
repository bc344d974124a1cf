import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { REPEAT_MS, DOCUMENTS_TARGET, UnsavedDocuments, unsavedDocumentsPlugin } from "../../src/documents/unsaved_documents";
import type { Signal } from "../support/cell_shapes";
import type { Comm, DocumentContext, Kernel } from "../support/document_shapes";
import { standIn } from "../support/stand_in";

type Slot<Value> = (sender: unknown, value: Value) => void;

/** As Lumino's. */
class Emitter<Value = unknown> implements Signal<Value> {
  private readonly slots = new Set<Slot<Value>>();

  connect(slot: Slot<Value>): boolean {
    this.slots.add(slot);
    return true;
  }

  disconnect(slot: Slot<Value>): boolean {
    return this.slots.delete(slot);
  }

  emit(value: Value): void {
    this.slots.forEach((slot) => { slot(this, value); });
  }
}

type Said = { type: string; page: string; root: string; paths: string[] };

class OneComm implements Comm {
  readonly said: Said[] = [];
  onClose = (): void => undefined;

  open(): void {
    throw new Error("the kernel opens it");
  }

  send(data: Record<string, unknown>): void {
    this.said.push(data as Said);
  }

  get last(): string[] | undefined {
    return this.said.at(-1)?.paths;
  }
}

/** A kernel's connection; `open` are the comms that it had before the page came. */
class OneKernel implements Kernel {
  isDisposed = false;
  readonly disposed = new Emitter();
  readonly comms = new Map<string, OneComm>();
  private target: (comm: Comm) => void = () => undefined;

  constructor(readonly id: string, private readonly open: string[] = []) {}

  registerCommTarget(target: string, opened: (comm: Comm) => void): void {
    expect(target).toBe(DOCUMENTS_TARGET);
    this.target = opened;
  }

  createComm(_target: string, id: string): Comm {
    const comm = new OneComm();
    this.comms.set(id, comm);
    return comm;
  }

  requestCommInfo(): Promise<{ content: { status: string; comms: Record<string, unknown> } }> {
    return Promise.resolve({ content: { status: "ok", comms: Object.fromEntries(this.open.map((id) => [id, {}])) } });
  }

  load(): OneComm {
    const comm = new OneComm();
    this.target(comm);
    return comm;
  }
}

class OneDocument implements DocumentContext {
  readonly model = { dirty: false, stateChanged: new Emitter() };
  readonly pathChanged = new Emitter();
  readonly disposed = new Emitter();
  readonly sessionContext: DocumentContext["sessionContext"] & { kernelChanged: Emitter<{ newValue: Kernel | null }> };

  constructor(public path: string, kernel: Kernel | null = null) {
    this.sessionContext = { session: kernel && { kernel }, kernelChanged: new Emitter() };
  }

  type(dirty = true): void {
    this.model.dirty = dirty;
    this.model.stateChanged.emit(undefined);
  }
}

const settled = (): Promise<void> => new Promise((resolve) => { queueMicrotask(() => { queueMicrotask(resolve); }); });

describe("unsaved documents", () => {
  it("are told to a kernel that loads Cellwright, and to one that had it before the page came", async () => {
    const [young, old] = [new OneKernel("young"), new OneKernel("old", ["its-comm"])];
    const documents = new UnsavedDocuments("/root");
    const text = new OneDocument("a.py");
    [new OneDocument("young.ipynb", young), new OneDocument("old.ipynb", old), text].forEach((each) => { documents.add(standIn(each)); });
    await settled();
    text.type();
    const comm = young.load();
    expect(comm.said).toEqual([{ type: "unsaved", page: expect.any(String) as string, root: "/root", paths: ["a.py"] }]);
    expect(old.comms.get("its-comm")?.last).toEqual(["a.py"]);
  });

  it("are told when they change, not with each key", async () => {
    const kernel = new OneKernel("k");
    const documents = new UnsavedDocuments("/root");
    const [one, two] = [new OneDocument("one.py", kernel), new OneDocument("two.py")];
    documents.add(standIn(one));
    documents.add(standIn(two));
    await settled();
    const comm = kernel.load();
    one.type();
    one.type();
    two.type();
    one.type(false);
    expect(comm.said.map(({ paths }) => paths)).toEqual([[], ["one.py"], ["one.py", "two.py"], ["two.py"]]);
    two.path = "renamed.py";
    two.pathChanged.emit(undefined);
    expect(comm.last).toEqual(["renamed.py"]);
    two.disposed.emit(undefined);
    expect(comm.last).toEqual([]);
  });

  it("are told to the kernel that a notebook changes to", async () => {
    const [before, after] = [new OneKernel("before"), new OneKernel("after")];
    const notebook = new OneDocument("n.ipynb", before);
    const documents = new UnsavedDocuments("/root");
    documents.add(standIn(notebook));
    await settled();
    const first = before.load();
    before.disposed.emit(undefined);
    notebook.sessionContext.kernelChanged.emit({ newValue: after });
    await settled();
    const second = after.load();
    notebook.type();
    expect(first.last).toEqual([]);
    expect(second.last).toEqual(["n.ipynb"]);
  });

  it("are told to the server where it asks for them", () => {
    const told: string[][] = [];
    const documents = new UnsavedDocuments("/root", ({ paths }) => { told.push(paths); });
    const text = new OneDocument("a.py");
    documents.add(standIn(text));
    text.type();
    documents.repeat();
    text.type(false);
    documents.repeat();
    expect(told).toEqual([[], ["a.py"], ["a.py"], []]);
  });

  it("are not told to a kernel that closed its comm", async () => {
    const kernel = new OneKernel("k");
    const notebook = new OneDocument("n.ipynb", kernel);
    const documents = new UnsavedDocuments("/root");
    documents.add(standIn(notebook));
    await settled();
    const comm = kernel.load();
    comm.onClose();
    notebook.type();
    documents.repeat();
    expect(comm.said).toHaveLength(1);
  });
});

describe("the plugin", () => {
  beforeEach(() => { vi.useFakeTimers(); });
  afterEach(() => { vi.useRealTimers(); });

  it("watches what is opened, with the server's folder, and says it again", () => {
    const config = document.createElement("script");
    config.id = "jupyter-config-data";
    config.type = "application/json";
    config.textContent = JSON.stringify({ serverRoot: "~/work" });
    document.head.append(config);
    const opened = new Emitter<{ context: DocumentContext }>();
    void unsavedDocumentsPlugin.activate(standIn(undefined), { opened });
    const kernel = new OneKernel("k");
    const notebook = new OneDocument("n.ipynb", kernel);
    opened.emit({ context: notebook });
    const comm = kernel.load();
    notebook.type();
    vi.advanceTimersByTime(REPEAT_MS);
    expect(comm.said.map(({ root, paths }) => [root, paths])).toEqual([
      ["~/work", []],
      ["~/work", ["n.ipynb"]],
      ["~/work", ["n.ipynb"]],
    ]);
    config.remove();
  });

  it("does nothing where documents are not opened", () => {
    expect(() => unsavedDocumentsPlugin.activate(standIn(undefined), null)).not.toThrow();
  });
});
