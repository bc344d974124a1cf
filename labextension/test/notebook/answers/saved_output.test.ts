import type { INotebookModel } from "@jupyterlab/notebook";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import type { JsonObject } from "../../../src/json";
import { insertSavedOutput, savedOutputPlugin } from "../../../src/notebook/answers/saved_output";
import type { Op, SavedCellOutput, SavedMessage } from "../../../src/transcript/protocol";
import { open } from "../../../src/transcript/transcript";
import { standIn } from "../../support/stand_in";
import { END, Kernel, scene } from "../../transcript/scene";

const SAVED: SavedMessage = {
  type: "saved",
  cell: "cell-1",
  outputs: [
    { model: "the-model", data: { "text/markdown": "I **plot** it.", "text/plain": "I plot it." }, metadata: { cellwright: { session: "20261120-101500-1c2d3e" } } },
    { model: "", data: { "image/png": "iVBORw0KGgo=", "text/plain": "<Figure>" }, metadata: {} },
    { model: "its-next-part", data: { "text/markdown": "There.", "text/plain": "There." }, metadata: {} },
  ],
};
const STATIC: DisplayData[] = SAVED.outputs.map(({ data, metadata }) => ({ output_type: "display_data", data, metadata }));

type DisplayData = { output_type: "display_data"; data: JsonObject; metadata: JsonObject };
type Output = { type: string; data: Record<string, unknown> };

const view = (model: string): Output => ({ type: "display_data", data: { "application/vnd.jupyter.widget-view+json": { model_id: model } } });
const printed: Output = { type: "stream", data: {} };

/** Outputs as JupyterLab's model has them. */
class CellOutputs {
  readonly all: Output[];

  constructor(...outputs: Output[]) {
    this.all = outputs;
  }

  get length(): number {
    return this.all.length;
  }

  get displayed(): DisplayData[] {
    return this.all.flatMap(({ type, ...rest }) => ("output_type" in rest && type ? [rest as DisplayData] : []));
  }

  get(index: number): Output {
    const output = this.all[index];
    if (!output) throw new Error(`no output ${index}`);
    return output;
  }

  set(index: number, output: DisplayData): void {
    this.all[index] = { ...output, type: output.output_type };
  }

  add(output: DisplayData): number {
    return this.all.push({ ...output, type: output.output_type });
  }
}

const notebook = (...outputs: CellOutputs[]): INotebookModel => standIn({
  // the first cell is Markdown and has no outputs
  cells: [{ id: "prose" }, ...outputs.map((each, index) => ({ id: `cell-${index}`, outputs: each }))],
});

describe("what came of a run is put", () => {
  it("into the places of its widgets, and what is not there yet below them", () => {
    const outputs = new CellOutputs(printed, view("the-model"), printed);
    expect(insertSavedOutput([notebook(new CellOutputs(), new CellOutputs()), notebook(outputs)], SAVED)).toBe(true);
    expect(outputs.displayed).toEqual(STATIC);
    expect(outputs.all.map(({ type }) => type)).toEqual(["stream", "display_data", "stream", "display_data", "display_data"]);
  });

  it("to the end of its cell where no output shows the widget", () => {
    const cells = [new CellOutputs(), new CellOutputs(printed)] as const;
    expect(insertSavedOutput([notebook(...cells)], SAVED)).toBe(true);
    expect(cells[0].all).toEqual([]);
    expect(cells[1].displayed).toEqual(STATIC);
  });

  it("while it goes on as its widgets, where these are not shown", () => {
    const part = (model: string): SavedCellOutput => ({ model, data: view(model).data as JsonObject, metadata: {} });
    const begun: SavedMessage = { ...SAVED, outputs: [part("the-model")] };
    const further: SavedMessage = { ...SAVED, outputs: [part("the-model"), ...SAVED.outputs.slice(1, 2), part("its-next-part")] };
    const cells = [new CellOutputs(), new CellOutputs()] as const;
    expect(insertSavedOutput([notebook(...cells)], begun)).toBe(true);
    const shown = cells[1].get(0);
    expect(insertSavedOutput([notebook(...cells)], further)).toBe(true);
    expect(cells[1].get(0)).toBe(shown);
    expect(cells[1].length).toBe(3);
    expect(insertSavedOutput([notebook(...cells)], SAVED)).toBe(true);
    expect(cells[1].displayed).toEqual(STATIC);
  });

  it("once, however often it is sent", () => {
    const cells = [new CellOutputs(), new CellOutputs(printed)] as const;
    for (let times = 0; times < 2; times++) expect(insertSavedOutput([notebook(...cells)], SAVED)).toBe(true);
    expect(cells[1].displayed).toEqual(STATIC);
  });

  it("nowhere where the cell is not known, or there is a copy of it", () => {
    const cells = [new CellOutputs(view("another")), new CellOutputs()] as const;
    expect(insertSavedOutput([], SAVED)).toBe(false);
    expect(insertSavedOutput([notebook(...cells)], { ...SAVED, cell: null })).toBe(false);
    expect(insertSavedOutput([notebook(...cells), notebook(...cells)], SAVED)).toBe(false);
    expect(cells.map((cell) => cell.length)).toEqual([1, 0]);
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
  const outputs = new CellOutputs(view("the-model"));
  const shown = notebook(outputs);
  const models = [null, shown, shown];  // "New View for Notebook"
  const tracker = { forEach: (each: (panel: { model: INotebookModel | null }) => void) => { models.forEach((model) => { each({ model }); }); } };
  const offer = (): boolean => document.dispatchEvent(new CustomEvent("cellwright-saved", { cancelable: true, detail: SAVED }));
  void savedOutputPlugin.activate(standIn(undefined), null);
  expect(offer()).toBe(true);
  void savedOutputPlugin.activate(standIn(undefined), tracker);
  expect(offer()).toBe(false);
  expect(outputs.displayed).toEqual(STATIC);
});
