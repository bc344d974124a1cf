/** The conversation so far was summed up: one quiet line from its beginning to its end, and the summary in it. */

import { expect, it } from "vitest";

import type { CompactedOp } from "../../../src/transcript/protocol";
import { drawn, find, RUN, scene, text } from "../scene";

const STARTED: CompactedOp = {
  op: "compacted", state: "started", trigger: "auto", before: 152_000, after: 0, cost_usd: 0, summary: "", reason: "",
};

it("is one line that ends as it began", async () => {
  const { kernel, root } = scene();
  kernel.say(RUN, STARTED);
  await drawn();
  expect(text(root, ".compacted > summary")).toBe("Summarising the earlier conversation…");
  kernel.say({ ...STARTED, state: "done", after: 9000, cost_usd: 0.12, summary: "<b>The tides\u202E</b>" });
  await drawn();
  expect(root.querySelectorAll(".compacted")).toHaveLength(1);
  expect(find<HTMLDetailsElement>(root, ".compacted").open).toBe(false);
  expect(text(root, ".compacted > summary")).toBe("Earlier conversation summarised: 152,000 → 9,000 tokens, $0.12");
  expect(text(root, ".compacted > pre")).toBe("<b>The tides⟦U+202E⟧</b>");
});

it("leaves it to the notice to say that nothing came of it, and why", async () => {
  const { kernel, root } = scene();
  const why = "The conversation was not summarised. The budget is spent.";
  kernel.say(RUN, STARTED, { ...STARTED, state: "failed", reason: "The budget is spent." }, { op: "notice", level: "warning", text: why });
  await drawn();
  expect(find<HTMLDetailsElement>(root, ".compacted").hidden).toBe(true);
  expect(text(root, ".notice")).toContain(why);
});
