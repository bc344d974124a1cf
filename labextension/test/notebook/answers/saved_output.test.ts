import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import type { JsonObject } from "../../../src/json";
import type { OpenNotebook } from "../../../src/notebook/answers/saved_output";
import { insertSavedOutput, savedOutputPlugin } from "../../../src/notebook/answers/saved_output";
import { keepOutputsInOrder } from "../../../src/notebook/answers/shared_outputs";
import type { Op, SavedMessage } from "../../../src/transcript/protocol";
import { open } from "../../../src/transcript/transcript";
import { standIn } from "../../support/stand_in";
import { END, Kernel, scene } from "../../transcript/scene";

const place = (output: number, run = "r1"): JsonObject => ({ cellwright: { run, output } });
const SAVED: SavedMessage = {
  type: "saved",
  run: "r1",
  cell: "cell-1",
  count: 4,
  writer: "another page",
  outputs: [
    { data: { "text/markdown": "I **plot** it.", "text/plain": "I plot it." }, metadata: { cellwright: { session: "20261120-101500-1c2d3e", run: "r1", output: 0 } } },
    { data: { "image/png": "iVBORw0KGgo=", "text/plain": "<Figure>" }, metadata: place(1) },
    { data: { "text/markdown": "There.", "text/plain": "There." }, metadata: place(2) },
  ],
};
const STATIC: DisplayData[] = SAVED.outputs.map(({ data, metadata }) => ({ output_type: "display_data", data, metadata }));

type DisplayData = { output_type: "display_data"; data: JsonObject; metadata: JsonObject };
type Output = DisplayData | { output_type: "stream"; name: string; text: string };

const live = (output: number, run = "r1"): DisplayData => ({
  output_type: "display_data", data: { "application/vnd.cellwright.transcript+json": { version: 1, run, part: output } }, metadata: place(output, run),
});
const printed: Output = { output_type: "stream", name: "stdout", text: "" };

/** Outputs as JupyterLab's model has them. */
class CellOutputs {
  readonly all: Output[];
  writes = 0;

  constructor(...outputs: Output[]) {
    this.all = outputs;
  }

  get length(): number {
    return this.all.length;
  }

  get displayed(): Output[] {
    return this.all.filter(({ output_type }) => output_type === "display_data");
  }

  get(index: number): { toJSON(): Output; metadata: unknown } {
    const output = this.all[index];
    if (!output) throw new Error(`no output ${index}`);
    return { toJSON: () => output, metadata: "metadata" in output ? output.metadata : undefined };
  }

  set(index: number, output: Output): void {
    this.writes++;
    this.all[index] = output;
  }

  add(output: Output): number {
    this.writes++;
    return this.all.push(output);
  }
}

const notebook = (...outputs: CellOutputs[]): OpenNotebook => ({
  session: "this page",
  // the first cell is Markdown and has no outputs
  model: standIn({ collaborative: false, cells: [{ id: "prose" }, ...outputs.map((each, index) => ({ id: `cell-${index}`, outputs: each }))] }),
});

describe("what came of a run is put", () => {
  it("into its places, and what is not there yet below them", () => {
    const outputs = new CellOutputs(printed, live(0), printed);
    expect(insertSavedOutput([notebook(new CellOutputs(), new CellOutputs()), notebook(outputs)], SAVED)).toBe(true);
    expect(outputs.displayed).toEqual(STATIC);
    expect(outputs.all.map(({ output_type }) => output_type)).toEqual(["stream", "display_data", "stream", "display_data", "display_data"]);
  });

  it("to the end of its cell where no output is one of its places", () => {
    const cells = [new CellOutputs(), new CellOutputs(printed)] as const;
    expect(insertSavedOutput([notebook(...cells)], SAVED)).toBe(true);
    expect(cells[0].all).toEqual([]);
    expect(cells[1].displayed).toEqual(STATIC);
  });

  it("while it goes on as its widgets, where these are not shown", () => {
    const begun: SavedMessage = { ...SAVED, outputs: [live(0)] };
    const further: SavedMessage = { ...SAVED, outputs: [live(0), ...SAVED.outputs.slice(1, 2), live(2)] };
    const cells = [new CellOutputs(), new CellOutputs()] as const;
    expect(insertSavedOutput([notebook(...cells)], begun)).toBe(true);
    const shown = cells[1].all[0];
    expect(insertSavedOutput([notebook(...cells)], further)).toBe(true);
    expect(cells[1].all[0]).toBe(shown);
    expect(cells[1].length).toBe(3);
    expect(insertSavedOutput([notebook(...cells)], SAVED)).toBe(true);
    expect(cells[1].displayed).toEqual(STATIC);
    // it crossed the end
    expect(insertSavedOutput([notebook(...cells)], further)).toBe(true);
    expect(cells[1].displayed).toEqual(STATIC);
  });

  it("once, however often it is sent, also where others have written it in another way", () => {
    const cells = [new CellOutputs(), new CellOutputs(printed)] as const;
    for (let times = 0; times < 2; times++) expect(insertSavedOutput([notebook(...cells)], SAVED)).toBe(true);
    expect(cells[1].displayed).toEqual(STATIC);
    expect(cells[1].writes).toBe(3);
    cells[1].set(3, { output_type: "display_data", data: { "text/plain": "There. (normalised)" }, metadata: place(2) });
    expect(insertSavedOutput([notebook(...cells)], SAVED)).toBe(true);
    expect(cells[1].displayed).toEqual(STATIC);
  });

  it("into the places that were saved with a name of their own", () => {
    const outputs = SAVED.outputs.map(({ data }, output) => ({ data, metadata: place(output, "played") }));
    const shown = new CellOutputs(...outputs.map((output) => ({ output_type: "display_data" as const, ...output })));
    expect(insertSavedOutput([notebook(shown)], { ...SAVED, cell: null, outputs })).toBe(true);
    expect(shown.writes).toBe(0);
  });

  it("nowhere where the cell is not known, or there is a copy of it", () => {
    const cells = [new CellOutputs(live(0, "another")), new CellOutputs()] as const;
    expect(insertSavedOutput([], SAVED)).toBe(false);
    expect(insertSavedOutput([notebook(...cells)], { ...SAVED, cell: null })).toBe(false);
    expect(insertSavedOutput([notebook(...cells), notebook(...cells)], SAVED)).toBe(false);
    expect(cells.map((cell) => cell.length)).toEqual([1, 0]);
  });
});

/** A cell of a document that others edit as well: the document's outputs, and those that JupyterLab shows of them. */
class SharedCell {
  readonly id = "cell-1";
  executionState = "running";
  executionCount: number | null = null;
  isDisposed = false;
  readonly outputs: CellOutputs & { fromJSON(outputs: Output[]): void; changed: { disconnect: () => void; connect: () => void } };
  readonly sharedModel = {
    document: [] as Output[],
    writes: 0,
    slots: [] as ((sender: unknown, change: object) => void)[],
    changed: { connect: (slot: (sender: unknown, change: object) => void): void => { this.sharedModel.slots.push(slot); } },
    getOutputs: (): Output[] => structuredClone(this.sharedModel.document),
    setOutputs: (outputs: Output[]): void => { this.sharedModel.writes++; this.sharedModel.document = outputs; },
    updateOutputs: (start: number, end: number): void => { this.sharedModel.writes++; this.sharedModel.document.splice(start, end - start); },
  };

  constructor(...outputs: Output[]) {
    this.sharedModel.document = [...outputs];
    const shown = new CellOutputs(...outputs);
    this.outputs = Object.assign(shown, {
      fromJSON: (all: Output[]): void => { shown.all.splice(0, shown.length, ...all); },
      changed: { disconnect: vi.fn(), connect: vi.fn() },
    });
  }

  onOutputsChange(): void {
    throw new Error("only JupyterLab calls this");
  }

  /** Another page has put `output` at `index`; JupyterLab shows it at the end. */
  replacedElsewhere(index: number, output: Output): void {
    this.sharedModel.document[index] = output;
    this.outputs.all.splice(index, 1);
    this.outputs.all.push(output);
    for (const slot of this.sharedModel.slots) slot(null, { outputsChange: [{ retain: index }, { delete: 1 }, { insert: [output] }] });
  }
}

const sharedNotebook = (session: string, cell: SharedCell): OpenNotebook =>
  ({ session, model: standIn({ collaborative: true, cells: Object.assign([cell], { changed: { connect: vi.fn() } }) }) });

describe("in a notebook that several pages edit", () => {
  beforeEach(() => { vi.useFakeTimers(); });
  afterEach(() => { vi.useRealTimers(); });

  it("the page alone writes that the kernel has named", () => {
    const cell = new SharedCell(printed, live(0));
    expect(insertSavedOutput([sharedNotebook("this page", cell)], SAVED)).toBe(true);
    expect(insertSavedOutput([sharedNotebook("", cell)], { ...SAVED, writer: "" })).toBe(true);
    expect([cell.sharedModel.writes, cell.outputs.writes, cell.executionState]).toEqual([0, 0, "running"]);
    for (let times = 0; times < 2; times++) expect(insertSavedOutput([sharedNotebook("another page", cell)], SAVED)).toBe(true);
    expect(cell.sharedModel.document).toEqual([printed, ...STATIC]);
    expect([cell.sharedModel.writes, cell.executionState, cell.executionCount]).toEqual([1, "idle", 4]);
  });

  it("what another page puts above is shown there, and nothing is written", () => {
    const cell = new SharedCell(live(0), printed, live(2));
    keepOutputsInOrder(sharedNotebook("", cell).model);
    for (const index of [0, 2]) cell.replacedElsewhere(index, STATIC[index] as Output);
    expect(cell.outputs.all).not.toEqual(cell.sharedModel.document);
    vi.runAllTimers();
    expect(cell.outputs.all).toEqual([STATIC[0], printed, STATIC[2]]);
    expect(cell.sharedModel.writes).toBe(0);
    expect(cell.outputs.changed.connect).toHaveBeenCalledTimes(1);
  });

  it("of two outputs in one place the first stays, in whatever page that is seen", () => {
    const [first, , last] = STATIC as [Output, Output, Output];
    const cell = new SharedCell(first, last, printed, first);
    keepOutputsInOrder(sharedNotebook("", cell).model);
    cell.replacedElsewhere(3, first);
    vi.runAllTimers();
    expect(cell.sharedModel.document).toEqual([first, last, printed]);
  });
});

describe("a transcript offers what was saved", () => {
  const offered = vi.fn<(event: Event) => void>();
  const cells = (): (string | null)[] => offered.mock.calls.map(([event]) => (event as CustomEvent<SavedMessage>).detail.cell);
  // a page that was loaded a minute ago
  beforeEach(() => {
    vi.useFakeTimers({ now: Date.parse("2030-01-01") });
    vi.advanceTimersByTime(60_000);
    document.addEventListener("cellwright-saved", offered);
  });
  afterEach(() => {
    document.removeEventListener("cellwright-saved", offered);
    offered.mockReset();
    vi.useRealTimers();
  });
  it("to each view until somebody takes it, and tells the kernel once", () => {
    const { kernel, transcript } = scene();
    kernel.tell(SAVED);
    vi.runOnlyPendingTimers();
    expect(kernel.received.map(({ type }) => type)).toEqual(["ready"]);
    offered.mockImplementation((event) => { event.preventDefault(); });
    transcript.mount(document.createElement("div"));
    vi.runOnlyPendingTimers();
    transcript.mount(document.createElement("div"));
    vi.runOnlyPendingTimers();
    expect(kernel.received.filter(({ type }) => type === "kept")).toHaveLength(1);
  });

  it.each([
    ["before the run", 30, null],
    ["while it went on", 62, "cell-1"],
    ["after its end", 90, null],
  ])("to a page that was loaded %s", (_, seconds, cell) => {
    const kernel = new Kernel();
    open(kernel.channel);
    kernel.say({ op: "run", model: "m", mode: "default", session: "s", started: Date.now() / 1000 - seconds }, END);
    kernel.tell(SAVED);
    expect(cells()).toEqual([cell]);
  });

  it("to a page that was loaded while it went on, and was too busy to hear of it", () => {
    const kernel = new Kernel();
    open(kernel.channel);
    const answeredAt = Date.now() / 1000;
    // loaded 0.5 s after the start, and 2.7 s before the end
    const run: Op = { op: "run", model: "m", mode: "default", session: "s", started: answeredAt - 60.5 };
    vi.advanceTimersByTime(4_000);
    kernel.tell({ type: "ops", first: 0, now: answeredAt, ops: [run, END] });
    kernel.tell(SAVED);
    expect(cells()).toEqual(["cell-1"]);
  });
});

it("the plugin takes it for the notebooks that are open, and is silent without notebooks", () => {
  const outputs = new CellOutputs(live(0));
  const { model: shown } = notebook(outputs);
  const models = [null, shown, shown];  // "New View for Notebook"
  const panels = models.map((model) => ({ model, context: { model: shown, ready: Promise.resolve() }, sessionContext: { session: null } }));
  const tracker = { forEach: (each: (panel: object) => void) => { panels.forEach(each); }, widgetAdded: { connect: vi.fn() } };
  const offer = (): boolean => document.dispatchEvent(new CustomEvent("cellwright-saved", { cancelable: true, detail: SAVED }));
  void savedOutputPlugin.activate(standIn(undefined), null);
  expect(offer()).toBe(true);
  void savedOutputPlugin.activate(standIn(undefined), tracker);
  expect(offer()).toBe(false);
  expect(outputs.displayed).toEqual(STATIC);
});
