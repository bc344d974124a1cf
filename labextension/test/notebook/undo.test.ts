/** The button under an answer: where it stands, what it shows, what it asks of the kernel. */

import { beforeEach, expect, it } from "vitest";

import { UNDO_CLASS, UndoButtons } from "../../src/notebook/undo";
import { undoOffers } from "../../src/transcript/items/undo_offers";
import { TRANSCRIPT_TYPE } from "../../src/transcript/protocol";
import { standIn } from "../support/stand_in";

type UndoCell = { readonly node: HTMLElement; readonly model: { readonly outputs: { readonly length: number; get(): { readonly metadata: unknown; readonly data: object } } } };

type Asked = [method: string, params: Record<string, unknown>];

const SHOWN = { title: "Undo turn 3 “Rename it”?", text: "a.py will be restored · +1 −1", does_something: true, conflicts: true };

let asked: Asked[];
let open: number[];

function cell(undo: number | null, session = "s1", data = {}): UndoCell {
  const node = document.createElement("div");
  document.body.append(node);
  const metadata = undo === null ? {} : { cellwright: { session, undo } };
  return { node, model: { outputs: { length: 1, get: () => ({ metadata, data }) } } };
}

function kernel(method: string, params: Record<string, unknown>): Promise<unknown> {
  asked.push([method, params]);
  if (method === "undo_turns") return Promise.resolve({ session: "s1", turns: open });
  return Promise.resolve(params.preview ? SHOWN : { ...SHOWN, title: "Taken back: turn 3 “Rename it”" });
}

function press(node: HTMLElement, label: string): void {
  const found = [...node.querySelectorAll("button")].find((each) => each.textContent === label);
  if (!found) throw new Error(`there is no button ${label}`);
  found.click();
}

const settled = (): Promise<void> => new Promise((resolve) => { setTimeout(resolve); });

beforeEach(() => {
  asked = [];
  open = [3];
  document.body.replaceChildren();
});

it("stands under answers whose turn can be taken back, and of another session, where the kernel says why not", async () => {
  const cells = [cell(3), cell(2), cell(null), cell(3, "of another session")];
  const buttons = new UndoButtons(() => kernel);
  await buttons.update(standIn({ content: { widgets: cells } }));
  await buttons.update(standIn({ content: { widgets: cells } }));
  const offered = (): number[] => cells.map(({ node }) => node.querySelectorAll(`.${UNDO_CLASS}`).length);
  expect(offered()).toEqual([1, 0, 0, 1]);
  open = [];
  await buttons.update(standIn({ content: { widgets: cells } }));
  expect(offered()).toEqual([0, 0, 0, 1]);
});

it("is not there without a kernel that holds Cellwright", async () => {
  const one = cell(3);
  await new UndoButtons(() => undefined).update(standIn({ content: { widgets: [one] } }));
  await new UndoButtons(() => () => Promise.reject(new Error("gone"))).update(standIn({ content: { widgets: [one] } }));
  expect(one.node.childElementCount).toBe(0);
});

it("shows first, then does it", async () => {
  const one = cell(3);
  await new UndoButtons(() => kernel).update(standIn({ content: { widgets: [one] } }));
  press(one.node, "Undo turn");
  await settled();
  expect(one.node.querySelector("pre")?.textContent).toBe(SHOWN.text);
  expect(document.activeElement?.textContent).toBe("Undo");
  expect(asked.at(-1)).toEqual(["undo_turn", { session: "s1", turn: 3, preview: true }]);
  press(one.node, "Undo");
  await settled();
  expect(asked.at(-1)).toEqual(["undo_turn", { session: "s1", turn: 3, preview: false, force: false }]);
  const said = one.node.querySelector("[role=status]");
  expect(said?.textContent).toContain("Taken back: turn 3");
  expect(document.activeElement).toBe(said);
});

it("leaves everything, by Escape as well, and overwrites only when told", async () => {
  const one = cell(3);
  await new UndoButtons(() => kernel).update(standIn({ content: { widgets: [one] } }));
  press(one.node, "Undo turn");
  await settled();
  one.node.querySelector(".card")?.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
  expect(one.node.textContent).toBe("Undo turn");
  press(one.node, "Undo turn");
  await settled();
  press(one.node, "Also undo later changes");
  await settled();
  expect(asked.at(-1)?.[1].force).toBe(true);
});

it("is not below an answer before that has ended", async () => {
  const one = cell(3);
  const answer = document.createElement("div");
  one.node.append(answer);
  one.node.classList.add("jp-Cell");
  const ended = undoOffers().await(answer);
  await new UndoButtons(() => kernel).update(standIn({ content: { widgets: [one] } }));
  expect(one.node.textContent).toBe("");
  ended();
  await settled();
  expect(one.node.textContent).toBe("Undo turn");
});

it("waits for the footer of an answer that is drawn later", async () => {
  const one = cell(3, "s1", { [TRANSCRIPT_TYPE]: {} });
  const place = document.createElement("div");
  one.node.append(place);
  one.node.classList.add("jp-Cell");
  await new UndoButtons(() => kernel).update(standIn({ content: { widgets: [one] } }));
  expect(one.node.textContent).toBe("");
  let offered = 0;
  undoOffers().add({ host: place, offer: () => { offered++; }, focus: () => undefined });
  await settled();
  expect([offered, one.node.textContent]).toEqual([1, ""]);
});

it("is in the answer's footer once there is one, whose focus it gives back", async () => {
  const one = cell(3);
  const place = document.createElement("div");
  one.node.append(place);
  let undo: (() => void) | null = null;
  let focused = 0;
  const buttons = new UndoButtons(() => kernel);
  await buttons.update(standIn({ content: { widgets: [one] } }));
  expect(one.node.textContent).toBe("Undo turn");
  one.node.classList.add("jp-Cell");
  undoOffers().add({ host: place, offer: (offered) => { undo = offered; }, focus: () => { focused++; } });
  await settled();
  expect([one.node.textContent, undo]).toEqual(["", expect.any(Function)]);
  (undo as (() => void) | null)?.();
  await settled();
  one.node.querySelector(".card")?.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
  expect([one.node.querySelector(".card"), focused]).toEqual([null, 1]);
  (undo as (() => void) | null)?.();
  await settled();
  press(one.node, "Undo");
  await settled();
  expect([undo, one.node.querySelector("[role=status]")?.textContent]).toEqual([null, expect.stringContaining("Taken back: turn 3")]);
});

it("says why it cannot be", async () => {
  const one = cell(3);
  const refusing = (method: string, params: Record<string, unknown>): Promise<unknown> =>
    method === "undo_turns" ? kernel(method, params) : Promise.reject(new Error("Claude is still at work."));
  await new UndoButtons(() => refusing).update(standIn({ content: { widgets: [one] } }));
  press(one.node, "Undo turn");
  await settled();
  expect(one.node.querySelector("[role=status]")?.textContent).toBe("Claude is still at work.");
});

it("asks over the connection that there is when it is pressed, and may be pressed again", async () => {
  const one = cell(3);
  const dead = (method: string, params: Record<string, unknown>): Promise<unknown> =>
    method === "undo_turns" ? kernel(method, params) : Promise.reject(new Error("The kernel does not answer."));
  let link: typeof kernel | undefined = dead;
  await new UndoButtons(() => link).update(standIn({ content: { widgets: [one] } }));
  link = undefined;
  press(one.node, "Undo turn");
  await settled();
  expect(one.node.querySelector("[role=status]")?.textContent).toContain("not connected");
  link = kernel;
  press(one.node, "Undo turn");
  await settled();
  expect(one.node.querySelector("pre")?.textContent).toBe(SHOWN.text);
});

it("writes out what a file's name hides", async () => {
  const one = cell(3);
  const hiding = { ...SHOWN, title: "Undo turn 3 “\u202Eevil”?", text: "report\u202Efdp.exe will be restored\nnext\u200B line" };
  const answers = (method: string): Promise<unknown> => Promise.resolve(method === "undo_turns" ? { session: "s1", turns: open } : hiding);
  await new UndoButtons(() => answers).update(standIn({ content: { widgets: [one] } }));
  press(one.node, "Undo turn");
  await settled();
  expect(one.node.querySelector("strong")?.textContent).toBe("Undo turn 3 “⟦U+202E⟧evil”?");
  expect(one.node.querySelector("pre")?.textContent).toBe("report⟦U+202E⟧fdp.exe will be restored\nnext⟦U+200B⟧ line");
});
