/** What Claude was told: one closed line, each part under it. */

import { expect, it } from "vitest";

import type { Op } from "../../../src/transcript/protocol";
import { drawn, find, RUN, scene, text } from "../scene";

const TOLD: Op = {
  op: "told",
  tokens: 1540,
  parts: [
    { title: "Where Claude works", kind: "environment", text: "<environment>here</environment>", chars: 31, tokens: 8 },
    { title: "no\u202Etes.md", kind: "file", text: "<b>bold</b>\u200B", chars: 12, tokens: 1 },
  ],
};

it("is one closed line before the answer", async () => {
  const { kernel, root } = scene();
  kernel.say(RUN, TOLD, { op: "text", block: 0, text: "Yes." });
  await drawn();
  const told = find<HTMLDetailsElement>(root, ".told");
  expect(told.open).toBe(false);
  expect(text(root, ".told > summary")).toBe("What Claude was told (1.5k tokens)");
  expect(told.querySelectorAll("li")).toHaveLength(0);
  expect(told.nextElementSibling?.textContent).toBe("Yes.");
});

it("opens to its parts, and each of them to its text as it is", async () => {
  const { kernel, root } = scene();
  kernel.say(RUN, TOLD);
  await drawn();
  const told = find<HTMLDetailsElement>(root, ".told");
  told.open = true;
  told.dispatchEvent(new Event("toggle"));
  const parts = [...told.querySelectorAll<HTMLDetailsElement>("li > details")];
  expect(parts.map((part) => part.textContent)).toEqual(["Where Claude works8 tokens", "no⟦U+202E⟧tes.md1 token"]);
  const [, second] = parts;
  if (!second) throw new Error("no second part");
  second.open = true;
  second.dispatchEvent(new Event("toggle"));
  expect(second.querySelector("pre")?.textContent).toBe("<b>bold</b>⟦U+200B⟧");
  expect(second.querySelector("pre b")).toBeNull();
  told.dispatchEvent(new Event("toggle"));
  expect(told.querySelectorAll("li")).toHaveLength(2);
});
