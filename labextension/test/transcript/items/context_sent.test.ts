/** The context sent with a prompt: a button of the footer, which opens each part under it. */

import { expect, it } from "vitest";

import type { Op } from "../../../src/transcript/protocol";
import { drawn, END, find, RUN, scene, text } from "../scene";

const TOLD: Op = {
  op: "told",
  tokens: 1540,
  parts: [
    { title: "Where Claude works", kind: "environment", text: "<environment>here</environment>", chars: 31, tokens: 8 },
    { title: "no\u202Etes.md", kind: "file", text: "<b>bold</b>\u200B", chars: 12, tokens: 1 },
  ],
};

it("opens from the footer to its parts, and each of them to its text as it is", async () => {
  const { kernel, root } = scene();
  kernel.say(RUN, TOLD, { op: "text", block: 0, text: "Yes." }, END);
  await drawn();
  const opener = find<HTMLButtonElement>(root, "footer [aria-expanded]");
  const list = find(root, ".context-sent");
  expect([opener.textContent, opener.getAttribute("aria-controls"), list.hidden, list.childElementCount]).toEqual(["Context sent (1.5k tokens)", list.id, true, 0]);
  opener.click();
  expect([opener.getAttribute("aria-expanded"), list.hidden]).toEqual(["true", false]);
  const parts = [...list.querySelectorAll<HTMLDetailsElement>("li > details")];
  expect(parts.map((part) => part.textContent)).toEqual(["Where Claude works8 tokens", "no⟦U+202E⟧tes.md1 token"]);
  const [, second] = parts;
  if (!second) throw new Error("no second part");
  second.open = true;
  second.dispatchEvent(new Event("toggle"));
  expect(second.querySelector("pre")?.textContent).toBe("<b>bold</b>⟦U+200B⟧");
  expect(second.querySelector("pre b")).toBeNull();
  opener.click();
  opener.click();
  expect(list.querySelectorAll("li")).toHaveLength(2);
});

it("is not there without context", async () => {
  const { kernel, root } = scene();
  kernel.say(RUN, { op: "text", block: 0, text: "Yes." }, END);
  await drawn();
  expect(text(root, "footer")).not.toContain("Context");
});
