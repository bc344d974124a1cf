/** The context bar: how full it is, and what it is full of. */

import { beforeEach, describe, expect, it } from "vitest";

import type { Json } from "../../../src/json";
import { mountContextBar } from "../../../src/sidebar/views/context_bar";
import { TranscriptStore } from "../../../src/transcript/store";
import type { RunTranscript } from "../../../src/transport/chat";
import { find } from "../../transcript/scene";
import type { Mounted } from "../panel_scene";
import { expectAccessible, focused, mounted, OneChat, press, settled, STATE } from "../panel_scene";

let answer: () => Json | Promise<Json>;

const USE = {
  parts: [
    { name: "system", tokens: 1_000 },
    { name: "tools", tokens: 9_000 },
    { name: "results", tokens: 15_000 },
    { name: "later versions", tokens: 230 },
  ],
  tokens: 25_230,
  window: 1_000_000,
};

const bar = (): Mounted => mounted(mountContextBar, new OneChat({ context: () => answer() }));
const opener = ({ host }: Mounted): HTMLElement => find(host, ".opener");
const popover = ({ host }: Mounted): HTMLElement => find(host, ".popover");
const withSession = (more: Partial<typeof STATE.session>): typeof STATE => ({ ...STATE, session: { ...STATE.session, ...more } });

async function opened(scene = bar()): Promise<Mounted> {
  opener(scene).click();
  await settled();
  return scene;
}

beforeEach(() => {
  answer = () => USE;
});

function ranFor(cost: number): RunTranscript {
  const transcript = new TranscriptStore();
  const turn = { op: "turn", cost_usd: cost, context_tokens: 1, context_window: null, input_tokens: 1, output_tokens: 1, cache_read_tokens: 0 } as const;
  transcript.receive({ type: "ops", first: 0, now: 0, ops: [turn] });
  const run = { id: "run-1", prompt: "why?", place: "sidebar", kind: "prompt", state: "done", session: "s1", turn: 1, asked: 0, background: false } as const;
  return { run, transcript };
}

describe("the bar", () => {
  it("says how much is used, and what it has cost", async () => {
    const scene = bar();
    expect(find(scene.host, ".text").textContent).toBe("3% · $0.13");
    expect(find(scene.host, ".fill").style.width).toBe("2.5%");
    expect(opener(scene).getAttribute("aria-label")).toBe("Context: 3% · $0.13. What fills it?");
    expect(opener(scene).title).toBe("25k of 1.0M tokens, 3%; the session has cost $0.13");
    await expectAccessible(scene.host);
  });

  it("follows the conversation, and warns when little is left", () => {
    const scene = bar();
    const level = (): string | undefined => find(scene.host, ".cw-context").dataset.level;
    scene.chat.change({ state: withSession({ context_tokens: 850_000 }) });
    expect([find(scene.host, ".text").textContent, level()]).toEqual(["85% · $0.13", "much"]);
    scene.chat.change({ state: withSession({ context_tokens: 1_200_000 }) });
    expect([find(scene.host, ".fill").style.width, level()]).toEqual(["100%", "nearly all"]);
    scene.chat.change({ state: withSession({ context_window: null, cost_usd: null }) });
    expect([find(scene.host, ".text").textContent, find(scene.host, ".meter").hidden, level()]).toEqual(["25k tokens", true, ""]);
  });

  it("is not there without a kernel that knows", () => {
    const scene = bar();
    scene.chat.change({ connection: "lost" });
    expect(find(scene.host, ".cw-context").hidden).toBe(true);
    scene.chat.change({ connection: "connected" });
    expect(find(scene.host, ".cw-context").hidden).toBe(false);
    scene.part.dispose();
    expect([scene.host.childElementCount, scene.chat.listening]).toEqual([0, 0]);
  });
});

describe("what fills it", () => {
  it("is told part by part, with what is free and what it costs", async () => {
    const scene = bar();
    scene.chat.change({ runs: [ranFor(0.021)] });
    await opened(scene);
    const rows = [...popover(scene).querySelectorAll("tbody tr")].map((row) => [...row.children].map((cell) => cell.textContent));
    expect(rows).toEqual([
      ["System prompt", "1.0k", "4.0%"],
      ["Tools", "9.0k", "36%"],
      ["Tool results", "15k", "59%"],
      ["later versions", "230", "0.9%"],
      ["Free", "975k", ""],
    ]);
    const bars = [...popover(scene).querySelectorAll("tbody tr")].map((row) => row.querySelector<HTMLElement>(".share")?.style.width);
    expect(bars.map((width) => width && Math.round(parseFloat(width)))).toEqual([7, 60, 100, 2, undefined]);
    const costs = [...popover(scene).querySelectorAll("dl > *")].map((node) => node.textContent);
    expect(costs).toEqual(["Model", "Opus 5.5", "Session", "$0.13", "Last turn", "$0.021"]);
    expect(opener(scene).getAttribute("aria-expanded")).toBe("true");
    expect(focused()).toBe(popover(scene));
    await expectAccessible(scene.host);
  });

  it("is asked for only when it is looked at, and again when it has changed", async () => {
    const scene = bar();
    scene.chat.change({ state: withSession({ context_tokens: 30_000 }) });
    expect(scene.chat.asked).toEqual([]);
    await opened(scene);
    scene.chat.change({ state: withSession({ context_tokens: 30_000, title: "another" }) });
    expect(scene.chat.asked).toHaveLength(1);
    answer = () => ({ ...USE, parts: [{ name: "words", tokens: 40_000 }], tokens: 40_000 });
    scene.chat.change({ state: withSession({ context_tokens: 40_000 }) });
    await settled();
    expect(popover(scene).querySelector("tbody th")?.textContent).toBe("Your messages");
    expect(focused()).toBe(popover(scene));
  });

  it("closes by Escape, by its button and by a click elsewhere, and gives the focus back", async () => {
    const scene = await opened();
    press(popover(scene), "Escape");
    expect([popover(scene).hidden, focused()]).toEqual([true, opener(scene)]);
    await opened(scene);
    find(popover(scene), "button").click();
    expect([popover(scene).hidden, opener(scene).getAttribute("aria-expanded")]).toEqual([true, "false"]);
    await opened(scene);
    document.body.dispatchEvent(new Event("pointerdown", { bubbles: true }));
    expect(popover(scene).hidden).toBe(true);
  });

  it("says what is wrong where the kernel cannot tell", async () => {
    answer = () => { throw new Error("The kernel does not answer."); };
    const scene = await opened();
    expect(find(popover(scene), "[role=alert]").textContent).toBe("It could not be found out: The kernel does not answer.");
  });

  it("says that nothing was said yet", async () => {
    answer = () => ({ parts: [], tokens: 0, window: 1_000_000 });
    const scene = await opened();
    expect(popover(scene).textContent).toContain("the context is empty");
  });
});
