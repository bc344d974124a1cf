/** The pickers' two places, the run options behind the button, and what was completed before. */

import { expect, it } from "vitest";

import { OptionsMenu, WIDE_PX } from "../../src/composer/options/options_menu";
import { find, text } from "../transcript/scene";
import { expectAccessible } from "../sidebar/panel_scene";
import type { ComposerScene } from "./composer_scene";
import { COMMANDS, composerScene, Conversation, key, KeptInMemory, labels, settled, write } from "./composer_scene";

const opener = ({ host }: ComposerScene): HTMLElement => find(host, ".cellwright-options-button");
const popover = ({ host }: ComposerScene): HTMLElement => find(host, ".cellwright-options");

function set(scene: ComposerScene, option: string, value: string): void {
  const field = find<HTMLInputElement>(scene.host, `[data-option=${option}]`);
  field.value = value;
  field.dispatchEvent(new Event("change", { bubbles: true }));
}

it("sends the options that are set with each prompt, as the kernel takes them, until they are cleared", async () => {
  const scene = composerScene();
  opener(scene).click();
  expect(find<HTMLDetailsElement>(scene.host, ".cellwright-more").open).toBe(true);
  await expectAccessible(scene.host);
  for (const [option, value] of [["budget_usd", "0.5"], ["max_turns", "3"], ["on_denied", "skip"], ["allow", "Bash(ls *)\nRead"], ["tools", "Read, Grep"], ["max_tokens", "many"]] as const) {
    set(scene, option, value);
  }
  expect([opener(scene).textContent, text(scene.host, ".cellwright-set-options")]).toEqual(["Options: default Opus +6 more set", "+6"]);
  write(scene.area, "Go");
  key(scene.area, "Enter");
  await settled();
  expect(scene.chat.prompts[0]?.options).toEqual({ budget_usd: 0.5, max_turns: 3, on_denied: "skip", allow: ["Bash(ls *)", "Read"], tools: ["Read", "Grep"], max_tokens: "many" });
  find(popover(scene), ".cellwright-run-options button").click();
  write(scene.area, "Again");
  key(scene.area, "Enter");
  await settled();
  expect(scene.chat.prompts[1]?.options).toEqual({});
});

it("opens with the keyboard in it, and gives that back with Escape", () => {
  const scene = composerScene();
  opener(scene).click();
  expect(popover(scene).contains(document.activeElement)).toBe(true);
  expect(opener(scene).getAttribute("aria-expanded")).toBe("true");
  find(popover(scene), "summary").dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true, cancelable: true }));
  expect([popover(scene).hidden, document.activeElement]).toEqual([true, opener(scene)]);
  expect(scene.left).not.toHaveBeenCalled();
  opener(scene).click();
  document.body.dispatchEvent(new Event("pointerdown", { bubbles: true }));
  expect(popover(scene).hidden).toBe(true);
});

it("has the pickers in a line where it is wide, else behind the button", () => {
  const pickers = document.createElement("div");
  const trans = { __: (words: string) => words };
  const menu = new OptionsMenu(trans, document.createElement("div"), pickers, () => document.createElement("div"));
  const place = (width: number): boolean => {
    menu.place(width);
    return menu.popover.contains(pickers);
  };
  expect([place(WIDE_PX), place(320), place(WIDE_PX - 1), place(700)]).toEqual([false, true, true, false]);
});

it("lists first what was taken often or lately, among what begins with the word", async () => {
  const memory = new KeptInMemory();
  const scene = composerScene({}, { memory });
  const taken = async (word: string): Promise<void> => {
    write(scene.area, word);
    await settled();
    key(scene.area, "Tab");
  };
  for (const word of ["/perm", "/perm", "/und"]) await taken(word);
  write(scene.area, "/");
  await settled();
  expect(labels(scene.host)).toEqual(["/permissions", "/undo [N]", "/help"]);
  const again = composerScene({}, { memory, chat: new Conversation() });
  await settled();
  write(again.area, "/");
  await settled();
  expect(labels(again.host)).toEqual(["/permissions", "/undo [N]", "/help"]);
  // use does not go before what fits better
  write(again.area, "/h");
  await settled();
  expect(labels(again.host)[0]).toBe("/help");
  expect(COMMANDS).toHaveLength(3);
});
