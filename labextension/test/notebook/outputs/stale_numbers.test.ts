/** What of a notebook is compared with the places that its answers keep. */

import { expect, it } from "vitest";

import { comparedCells } from "../../../src/notebook/outputs/stale_numbers";

type Output = Record<string, unknown>;

function cell(id: string, ...outputs: Output[]): never {
  const models = outputs.map((output) => ({ metadata: output.metadata ?? {}, toJSON: () => output }));
  return { id, executionCount: 3, sharedModel: { getSource: () => `source of ${id}` }, outputs: { length: models.length, get: (index: number) => models[index] } } as never;
}

const printed = { output_type: "stream", text: "mean 2.4" };
const plot = { output_type: "display_data", data: { "image/png": "x".repeat(1000), "text/plain": "<Figure>" } };
const answer = (...n: Output[]): Output => ({ output_type: "display_data", data: {}, metadata: { cellwright: { numbers: { v: 1, n } } } });
const sent = (cells: never[]): string[] | undefined => comparedCells(cells)?.cells.map(({ id }) => id);

it("sends the answers that keep places and the cells that these name, without pictures", () => {
  const cells = [cell("a", printed, plot), cell("other", printed), cell("ask", answer({ cell: "a" })), { id: "text" } as never];
  expect(sent(cells)).toEqual(["a", "ask"]);
  const found = comparedCells(cells);
  expect(found?.files).toBe(false);
  expect(found?.cells[0]).toEqual({ id: "a", source: "source of a", execution_count: 3, outputs: [printed, { ...plot, data: { "text/plain": "<Figure>" } }] });
});

it("sends all cells if one that is named is not there: its id may have changed", () => {
  expect(sent([cell("b", printed), cell("c"), cell("ask", answer({ cell: "a" }))])).toEqual(["b", "c", "ask"]);
});

it("compares nothing where no answer keeps places, and says whether files are to be looked at", () => {
  expect(comparedCells([cell("a", printed), cell("ask", { ...answer(), metadata: { cellwright: {} } })])).toBeNull();
  expect(comparedCells([cell("ask", answer({ path: "a.csv", cell: "" }))])?.files).toBe(true);
});
