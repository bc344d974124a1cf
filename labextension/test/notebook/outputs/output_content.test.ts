/** What an output holds for Claude, as the kernel says it, too: docs/protocol/drawn-outputs.json. */

import type { IOutputModel } from "@jupyterlab/rendermime";
import { expect, it } from "vitest";

import examples from "../../../../docs/protocol/drawn-outputs.json";
import type { MimeData } from "../../../src/notebook/outputs/output_content";
import { bounded, isDrawn, outputText, pictureIn } from "../../../src/notebook/outputs/output_content";
import { standIn } from "../../support/stand_in";

const output = (json: { output_type: string; data?: MimeData; [field: string]: unknown }): IOutputModel =>
  standIn({ type: json.output_type, data: json.data ?? {}, toJSON: () => json });

it("knows what only the page draws, as the kernel does", () => {
  expect(examples.filter(({ data, drawn }) => isDrawn(data) !== drawn).map(({ name }) => name)).toEqual([]);
});

it("has the words of each kind of output, without a terminal's colours", () => {
  const shown = document.createElement("div");
  shown.innerText = "tide | 3";
  const texts = [
    output({ output_type: "stream", text: ["one\n", "two\n"] }),
    output({ output_type: "error", ename: "KeyError", evalue: "'x'", traceback: ["\u001b[31mKeyError\u001b[0m: 'x'"] }),
    output({ output_type: "error", ename: "KeyError", evalue: "'x'", traceback: [] }),
    output({ output_type: "execute_result", data: { "text/plain": "<Styler object at 0x7f65>", "text/html": "<table>" } }),
    output({ output_type: "display_data", data: { "text/plain": "3", "text/markdown": "*3*" } }),
  ].map((each) => outputText(each, shown));
  expect(texts).toEqual(["one\ntwo\n", "KeyError: 'x'", "KeyError: 'x'", "tide | 3", "3"]);
});

it("has the picture as it is, and long texts without their middle", () => {
  expect(pictureIn({ "image/png": ["iVBO\n", "Rw==\n"] })).toEqual({ type: "image/png", data: "iVBORw==" });
  expect(pictureIn({ "text/plain": "a" })).toBeNull();
  expect(bounded("a".repeat(30), 9)).toBe("aaaaaa\n[… 21 characters left out …]\naaa");
});
