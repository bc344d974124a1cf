/** The field for a key: what is wrong stands at it, and it keeps the keyboard. */

import { afterEach, describe, expect, it } from "vitest";

import { liveAnswers } from "../../../src/notebook/answers/live_answers";
import { drawCellKey, isCellWaiting, keyField } from "../../../src/sidebar/panel/key_field";
import { fillFailure } from "../../../src/transcript/items/failure";
import { lendKeyForm } from "../../../src/transcript/items/page_actions";
import { RequestError } from "../../../src/transport/rpc";
import type { Trans } from "../../../src/translation";
import type { KeptKey } from "../../../src/transport/server_api";
import { expectAccessible } from "../panel_scene";

const plainTrans: Trans = { __: (text, ...args) => text.replace(/%(\d)/g, (_, number: string) => String(args[Number(number) - 1])) };

const KEPT: KeptKey = { source: "keyring", own_credentials: true, kept_in: "the system's keyring", tried: true, overruled_by: "" };

const server = {
  keepKey: (key: string): Promise<KeptKey> => (key === "good" ? Promise.resolve(KEPT) : Promise.reject(new RequestError("API_KEY_INVALID", "Anthropic rejected this key."))),
};

async function enter(form: HTMLElement, key: string): Promise<HTMLInputElement> {
  const input = form.querySelector("input");
  if (!input) throw new Error("no field");
  input.value = key;
  form.dispatchEvent(new Event("submit", { cancelable: true }));
  await new Promise((done) => { setTimeout(done); });
  return input;
}

function descriptionOf(input: HTMLInputElement): string {
  const ids = input.getAttribute("aria-describedby")?.split(" ") ?? [];
  return ids.map((id) => document.getElementById(id)?.textContent).join(" ");
}

afterEach(() => { document.body.replaceChildren(); });

describe("a key that was rejected", () => {
  it("is told at its field, which keeps the keyboard, until something else is typed", async () => {
    const busy: string[] = [];
    const field = keyField({ trans: plainTrans, server, busy: (words) => { busy.push(words); }, kept: () => undefined });
    document.body.append(field.node);
    const input = await enter(field.node, "bad");
    expect(input.getAttribute("aria-invalid")).toBe("true");
    expect(document.activeElement).toBe(input);
    expect(descriptionOf(input)).toContain("Anthropic rejected this key.");
    expect(busy).toEqual(["Testing the key…", ""]);
    await expectAccessible(document.body);
    input.dispatchEvent(new Event("input"));
    expect(input.hasAttribute("aria-invalid")).toBe(false);
    expect(descriptionOf(input)).not.toContain("rejected");
  });
});

describe("a cell that waits for a key", () => {
  it("has the field in its card, and what is typed there is no key of the notebook's", async () => {
    const done: string[] = [];
    lendKeyForm((host) => { drawCellKey(host, { trans: plainTrans, server, way: (way) => { done.push(way); }, later: () => { done.push("later"); } }); });
    const node = document.createElement("div");
    document.body.append(node);
    expect(isCellWaiting()).toBe(false);
    fillFailure(node, { code: "API_KEY_ASKED", message: "" });
    expect(isCellWaiting()).toBe(true);
    expect(liveAnswers().map(({ progress }) => progress)).toEqual(["asking"]); // so the status bar says it
    let passed = 0;
    document.body.addEventListener("keydown", () => passed++);
    const form = node.querySelector("form");
    if (!form) throw new Error("no form");
    const input = await enter(form, "good");
    input.dispatchEvent(new KeyboardEvent("keydown", { key: "d", bubbles: true }));
    expect(passed).toBe(0);
    expect(input.value).toBe("");
    expect(node.textContent).toContain("Key saved in the system's keyring.");
    expect(node.querySelector("a")?.textContent).toBe("Get a key");
    for (const each of node.querySelectorAll<HTMLElement>(".choices button")) each.click();
    expect(done).toEqual(["cloud", "subscription", "demo", "later"]);
    expect([isCellWaiting(), liveAnswers()]).toEqual([false, []]);
    await expectAccessible(document.body);
  });
});
