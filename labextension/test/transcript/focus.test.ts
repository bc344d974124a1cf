/** The keyboard leaves what the user is writing in only where the user wants that. */

import "../support/browser";

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { guardFocus, watchInput, whenUserRests } from "../../src/transcript/focus";

let home: HTMLElement;
let area: HTMLTextAreaElement;
let button: HTMLButtonElement;
let cell: HTMLElement;
let elsewhere: HTMLInputElement;
let stop: () => void;

function fill(): void {
  document.body.innerHTML = `
    <div class="home"><textarea></textarea><button></button></div>
    <div class="jp-Notebook"><div class="jp-Cell" tabindex="0"><input></div></div>
    <input class="elsewhere">`;
  const find = <T extends HTMLElement>(selector: string): T => document.querySelector<T>(selector) ?? expect.fail(selector);
  home = find(".home");
  area = find("textarea");
  button = find("button");
  cell = find(".jp-Cell");
  elsewhere = find(".elsewhere");
}

function press(target: HTMLElement, key: string, more: KeyboardEventInit = {}): void {
  target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, composed: true, ...more }));
}

function point(target: HTMLElement): void {
  target.dispatchEvent(new Event("pointerdown", { bubbles: true, composed: true }));
}

/** What the notebook does; what has the keyboard afterwards. */
async function taken(by: HTMLElement = cell): Promise<Element | null> {
  by.focus();
  await Promise.resolve();
  return document.activeElement;
}

beforeEach(() => {
  fill();
  stop = guardFocus(home);
});
afterEach(() => { stop(); });

describe("the notebook takes the keyboard", () => {
  it("gets nothing while the user writes", async () => {
    point(area);
    area.focus();
    for (const key of ["d", "d", "Enter", "Backspace"]) press(area, key);
    expect(await taken()).toBe(area);
    expect(await taken()).toBe(area);
  });

  it("gets nothing from what a command has given the keyboard to", async () => {
    press(cell, "y", { ctrlKey: true, shiftKey: true });
    area.focus();
    expect(await taken()).toBe(area);
  });

  it.each([["Tab", {}], ["Escape", {}], ["F6", {}], ["Y", { ctrlKey: true }], ["s", { metaKey: true }], ["x", { altKey: true }]])(
    "gets it after %s, until the user writes on",
    async (key, more) => {
      area.focus();
      press(area, key, more);
      expect(await taken()).toBe(cell);
      area.focus();
      press(area, key, more);
      press(area, "a");
      expect(await taken()).toBe(area);
    },
  );

  it("gets it where the user clicks outside or presses a button", async () => {
    area.focus();
    point(cell);
    expect(await taken()).toBe(cell);
    area.focus();
    press(area, "a");
    point(button);
    button.focus();
    expect(await taken()).toBe(cell);
    button.focus();
    press(button, "Enter");
    expect(await taken()).toBe(cell);
  });

  it("gets it from what is gone", async () => {
    area.focus();
    cell.focus();
    area.remove();
    await Promise.resolve();
    expect(document.activeElement).toBe(cell);
  });

  it("gets it when nobody keeps it any more", async () => {
    area.focus();
    stop();
    expect(await taken()).toBe(cell);
  });
});

it("is no matter of what is not the notebook's own: a field of input(), another part of the page", async () => {
  area.focus();
  expect(await taken(cell.querySelector("input") as HTMLElement)).toBe(cell.querySelector("input"));
  area.focus();
  expect(await taken(elsewhere)).toBe(elsewhere);
});

it("keeps what stands in a shadow root, and lets the keyboard go from part to part of it", async () => {
  stop();
  const host = document.createElement("div");
  const root = host.attachShadow({ mode: "open" });
  root.innerHTML = "<textarea></textarea><input>";
  cell.append(host);
  stop = guardFocus(root);
  const [inner, other] = [root.querySelector("textarea") as HTMLElement, root.querySelector("input") as HTMLElement];
  inner.focus();
  other.focus();
  await Promise.resolve();
  expect(root.activeElement).toBe(other);
  await taken();
  expect(root.activeElement).toBe(other);
});

describe("a card that comes up gets the keyboard", () => {
  afterEach(() => { vi.useRealTimers(); });

  /** True if it was offered within two seconds; `meanwhile` is done as it has come up. */
  function offered(from: HTMLElement | null, meanwhile: () => void = () => undefined): boolean {
    vi.useFakeTimers();
    const lastInput = watchInput();
    press(cell, "Enter", { shiftKey: true });
    from?.focus();
    const take = vi.fn();
    whenUserRests(cell, lastInput, take);
    vi.advanceTimersByTime(50);
    meanwhile();
    vi.advanceTimersByTime(850);
    expect(take).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1100);
    return take.mock.calls.length === 1;
  }

  it("a second after the last key, with the notebook in command mode or the keyboard nowhere", () => {
    expect(offered(cell)).toBe(true);
    (document.activeElement as HTMLElement).blur();
    expect(offered(null)).toBe(true);
  });

  it("but not while the user writes, works elsewhere, or has gone on", () => {
    expect(offered(cell.querySelector("input"))).toBe(false);
    expect(offered(elsewhere)).toBe(false);
    expect(offered(cell, () => { press(cell, "ArrowDown"); })).toBe(false);
    expect(offered(cell, () => { point(elsewhere); })).toBe(false);
  });
});
