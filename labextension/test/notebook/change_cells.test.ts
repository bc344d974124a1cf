import { describe, expect, it } from "vitest";

import type { CellChange } from "../../src/notebook/change_cells";
import { cellJson, changeCells } from "../../src/notebook/change_cells";
import { RequestError } from "../../src/transport/rpc";
import { standIn } from "../support/stand_in";
import { code, markdown, OneSharedNotebook } from "./shared_notebook";

const PRINTED = { output_type: "stream", name: "stdout", text: "1\n" };

function notebook(): OneSharedNotebook {
  return new OneSharedNotebook(
    code("a", "x = 1", { outputs: [PRINTED], execution_count: 3, metadata: { trusted: true } }),
    markdown("b", "# Title", { attachments: { "p.png": {} } }),
    code("c", "y = 2"),
  );
}

const replace = (id: string, expect: string, more: object): CellChange =>
  ({ type: "replace", id, expect, source: null, cell_type: null, outputs: null, execution_count: null, attachments: null, ...more });
const insert = (id: string, source: string, more: object): CellChange =>
  ({
    type: "insert", where: "end", beside: "", cell_type: "code", id, source, metadata: {}, attachments: {}, outputs: [],
    execution_count: null, ...more,
  });
const move = (id: string, where: string, beside = ""): CellChange => ({ type: "move", id, where, beside }) as CellChange;
const remove = (id: string, expect: string): CellChange => ({ type: "delete", id, expect });

const ids = (book: OneSharedNotebook): string[] => book.cells.map(({ id }) => id);
const errorOf = (work: () => unknown): RequestError => {
  try {
    work();
  } catch (error) {
    if (error instanceof RequestError) return error;
  }
  throw new Error("it was done");
};

describe("a change of cells", () => {
  it("keeps its reason in the cells that hold what was asked for, and in no other", () => {
    const book = notebook();
    const asked = { asked: "Fix the KeyError in cell [3]", at: "2026-11-22T08:15:00+00:00", session: "s" };
    const changed = changeCells(standIn(book), [replace("a", "x = 1", { source: "x = 2" }), insert("d", "z", {}), move("c", "start")], asked);
    const kept = (): unknown[] => book.cells.map(({ id, metadata }) => [id, metadata.cellwright ?? null]);
    expect(kept()).toEqual([["c", null], ["a", asked], ["b", null], ["d", asked]]);
    expect(changed[0]?.after?.metadata).toEqual({ trusted: true, cellwright: asked });
    // taken back, it is not what was asked for any more
    changeCells(standIn(book), [replace("a", "x = 2", { source: "x = 1" })]);
    expect(kept()).toEqual([["c", null], ["a", null], ["b", null], ["d", asked]]);
  });

  it("is one transaction that undo managers follow, apart from what was typed before and after", () => {
    const book = notebook();
    changeCells(standIn(book), [replace("a", "x = 1", { source: "x = 2" }), insert("d", "z", { where: "before", beside: "c" }), move("c", "start")]);
    expect(ids(book)).toEqual(["c", "a", "b", "d"]);
    expect(book.origins).toHaveLength(1);
    const [, first] = book.cells;
    for (const manager of [book.undoManager, first?.undoManager]) {
      expect(manager?.trackedOrigins.has(book.origins[0])).toBe(true);
      expect(manager?.stops).toBe(2);
    }
  });

  it("exchanges what differs alone, and keeps the halves of a character together", () => {
    const book = new OneSharedNotebook(code("a", "one two three"), code("b", "a😀b"));
    changeCells(standIn(book), [replace("a", "one two three", { source: "one 2 three" }), replace("b", "a😀b", { source: "a😁b" })]);
    expect(book.cells.map(({ edits }) => edits)).toEqual([[[4, 7, "2"]], [[1, 3, "😁"]]]);
    expect(book.cells.map((cell) => cell.getSource())).toEqual(["one 2 three", "a😁b"]);
  });

  it("takes outputs and count from a code cell whose source changes, and no trust from anybody", () => {
    const book = notebook();
    const [changed] = changeCells(standIn(book), [replace("a", "x = 1", { source: "x = 2" })]);
    expect(changed).toMatchObject({ id: "a", position: 0, before: { outputs: [PRINTED], execution_count: 3 } });
    expect(changed?.after).toMatchObject({ source: "x = 2", outputs: [], execution_count: null, metadata: { trusted: true } });
    changeCells(standIn(book), [replace("a", "x = 2", { source: "x = 1", outputs: [PRINTED], execution_count: 3 })]);
    expect(book.cells[0]?.toJSON()).toEqual(notebook().cells[0]?.toJSON());
  });

  it("leaves outputs where the source stays", () => {
    const book = notebook();
    changeCells(standIn(book), [replace("a", "x = 1", { source: "x = 1" })]);
    expect(book.cells[0]?.getOutputs?.()).toEqual([PRINTED]);
    expect(book.cells[0]?.edits).toEqual([]);
  });

  it("changes types: id and metadata stay, what the type does not have is gone", () => {
    const book = notebook();
    changeCells(standIn(book), [replace("a", "x = 1", { cell_type: "markdown" }), replace("b", "# Title", { cell_type: "code", source: "z" })]);
    expect(book.cells.map((cell) => cell.toJSON()).slice(0, 2)).toEqual([
      { id: "a", cell_type: "markdown", source: "x = 1", metadata: { trusted: true } },
      { id: "b", cell_type: "code", source: "z", metadata: {}, outputs: [], execution_count: null },
    ]);
  });

  it("moves a cell as it is", () => {
    const book = notebook();
    const before = book.cells.map((cell) => cell.toJSON());
    const [moved] = changeCells(standIn(book), [move("b", "start")]);
    expect(moved).toMatchObject({ id: "b", was: 1, position: 0 });
    expect(book.cells.map((cell) => cell.toJSON())).toEqual([before[1], before[0], before[2]]);
    changeCells(standIn(book), [move("b", "after", "c")]);
    expect(ids(book)).toEqual(["a", "c", "b"]);
    expect(changeCells(standIn(book), [move("b", "end")])[0]).toMatchObject({ was: 2, position: 2 });
  });

  it("gives a new cell another id where its own is taken", () => {
    const book = notebook();
    const [made] = changeCells(standIn(book), [insert("a", "z", {})]);
    expect(made?.id).not.toBe("a");
    expect(new Set(ids(book)).size).toBe(4);
  });

  it("reads back what the last change of each cell has left", () => {
    const book = notebook();
    const changed = changeCells(standIn(book), [
      replace("c", "y = 2", { source: "y = 3" }),
      replace("c", "y = 3", { source: "y = 4" }),
      remove("a", "x = 1"),
    ]);
    expect(changed.map(({ after, position }) => [after?.source, position])).toEqual([["y = 3", 2], ["y = 4", 1], [undefined, 0]]);
  });
});

describe("a change that cannot be made", () => {
  it("is refused with what the cells hold, and nothing of its company is made", () => {
    const book = notebook();
    const before = book.cells.map((cell) => cell.toJSON());
    const error = errorOf(() =>
      changeCells(standIn(book), [insert("d", "z", {}), replace("a", "old", { source: "x" }), remove("c", "older")]),
    );
    expect(error.code).toBe("conflict");
    expect(error.details.conflicts).toEqual([{ id: "a", now: "x = 1" }, { id: "c", now: "y = 2" }]);
    expect(book.cells.map((cell) => cell.toJSON())).toEqual(before);
    expect(book.origins).toEqual([]);
  });

  it("names the cells that there are", () => {
    const book = notebook();
    for (const each of [remove("z", ""), move("a", "after", "z"), insert("d", "", { where: "before", beside: "z" })]) {
      const error = errorOf(() => changeCells(standIn(book), [each]));
      expect(error.code).toBe("no_cell");
      expect(error.message).toContain("a, b, c");
    }
  });

  it("leaves a cell alone that is running", () => {
    const book = notebook();
    const [first] = book.cells;
    if (first) first.executionState = "running";
    expect(errorOf(() => changeCells(standIn(book), [replace("a", "x = 1", { source: "x" })])).code).toBe("running");
  });
});

it("a cell is told without its outputs where they are not wanted", () => {
  const [first] = notebook().cells;
  expect(first && cellJson(standIn(first), false)).toMatchObject({ source: "x = 1", outputs: [], execution_count: 3 });
});
