import { describe, expect, it, vi } from "vitest";

import { offerPageActions } from "../../src/transcript/items/page_actions";
import { showStale } from "../../src/transcript/items/numbers";
import type { NumberSaid, Op } from "../../src/transcript/protocol";
import { mount } from "../../src/transcript/transcript";
import { ask, begun, CHOICES, END, ended, find, drawn, Kernel, press, RUN, scene, shadowOf, text } from "./scene";

const turn: Op = {
  op: "turn", cost_usd: 0.0214, context_tokens: 25_000, context_window: 1_000_000, input_tokens: 4018, output_tokens: 212, cache_read_tokens: 0,
};

describe("a call's card", () => {
  it("shows its title, how it goes in words, and how long it took", async () => {
    const { kernel, root } = scene();
    kernel.say(RUN, { op: "tool_input", id: "t", name: "Bash", chars: 1480 });
    await drawn();
    expect([text(root, ".call"), text(root, ".status"), text(root, ".time")]).toEqual(["Bash ", "writing", "1.5k characters"]);
    kernel.say(begun("t", { at: Date.now() / 1000 - 65 }));
    await drawn();
    expect([text(root, ".call"), text(root, ".status"), text(root, ".time")]).toEqual(["Bash ls", "running", expect.stringMatching(/^1 min [5-9] s$/)]);
    kernel.say(begun("u", { at: Date.now() / 1000 - 3, estimate: 12.4 }), begun("v", { at: Date.now() / 1000 - 3, estimate: 0.3 }), begun("w", { at: Date.now() / 1000 - 3, estimate: 2 }));
    await drawn();
    expect([...root.querySelectorAll(".time")].slice(1).map((one) => one.textContent)).toEqual(["3 s of about 12 s", "3 s", "3 s, usually 2 s"]);
    kernel.say(ended("t", { ms: 2345 }));
    await drawn();
    expect([text(root, ".status"), text(root, ".time")]).toEqual(["done", "2.3 s"]);
    expect(find(root, ".tool").dataset.status).toBe("success");
  });

  it("is folded; opened, it shows input and result", async () => {
    const { kernel, root } = scene();
    kernel.say(RUN, begun("t", { input: { command: "ls\u200B", timeout: 5 } }), ended("t", { result: "\u001b[31mred\u001b[0m" }));
    await drawn();
    const fold = find<HTMLDetailsElement>(root, ".fold");
    expect(fold.open).toBe(false);
    fold.open = true;
    fold.dispatchEvent(new Event("toggle"));
    expect([...root.querySelectorAll("dt")].map((name) => name.textContent)).toEqual(["command", "timeout"]);
    expect(text(root, "dd")).toBe("ls⟦U+200B⟧");
    expect(text(root, ".inside .output")).toBe("red");
  });

  it("shows the live tail of its output while it runs", async () => {
    const { kernel, root } = scene();
    kernel.say(RUN, begun("t"));
    for (let n = 0; n < 300; n++) kernel.say({ op: "output", id: "t", text: `line ${n}\r\n` });
    kernel.say({ op: "output", id: "t", text: "50 %\r100 %" });
    await drawn();
    const lines = text(root, ".live").split("\n");
    expect(lines.at(-1)).toBe("100 %");
    expect(lines.at(-2)).toBe("line 299");
    expect(lines.length).toBeLessThanOrEqual(200);
    kernel.say(ended("t"));
    await drawn();
    expect(root.querySelector(".live")).toBeNull();
  });

  it("keeps pictures, changes and errors in sight after its end", async () => {
    const { kernel, root } = scene();
    const traceback = Array.from({ length: 30 }, (_, n) => `frame ${n}`).join("\n");
    kernel.say(
      RUN,
      begun("t"),
      { op: "display", id: "t", data: { "image/png": "iVBO\nRw0KGgo=\n", "text/plain": "<Figure>" } },
      { op: "display", id: "t", data: { "text/html": "<b>x</b>", "text/plain": "a table" } },
      { op: "display", id: "t", data: { "image/png": '"onerror=alert(1)', "text/plain": "no picture" } },
      ended("t", { status: "error", diff: "--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\n", error: { code: "EXECUTION_ERROR", message: traceback } }),
    );
    await drawn();
    const picture = find<HTMLImageElement>(root, "img");
    expect([picture.getAttribute("src"), picture.alt]).toEqual(["data:image/png;base64,iVBORw0KGgo=", "<Figure>"]);
    expect([...root.querySelectorAll("pre.display")].map((node) => node.textContent)).toEqual(["a table", "no picture"]);
    expect([text(root, ".added .text"), text(root, ".removed .text")]).toEqual(["new\n", "old\n"]);
    expect(text(root, ".error")).toMatch(/^…\nframe 22\n[^]*frame 29$/);
    expect(text(root, ".status")).toBe("failed");
  });

  it("offers to restart a kernel that is stuck, and asks twice", async () => {
    const { kernel, root } = scene();
    kernel.say(RUN, begun("t"), { op: "stuck", id: "t", text: "No reaction." });
    await drawn();
    const restart = find<HTMLButtonElement>(root, ".stuck button");
    restart.click();
    expect(kernel.received.some((message) => message.type === "restart")).toBe(false);
    restart.click();
    expect(kernel.received.at(-1)).toEqual({ type: "restart" });
    kernel.say(ended("t", { status: "interrupted" }));
    await drawn();
    expect(root.querySelector(".stuck")).toBeNull();
  });
});

describe("thinking", () => {
  it("is one line with a clock; its text comes when it is opened", async () => {
    const { kernel, root } = scene();
    const at = Date.now() / 1000;
    kernel.say(RUN, { op: "thinking", block: 0, text: "hm **so**", at: at - 12 });
    await drawn();
    const details = find<HTMLDetailsElement>(root, ".thinking");
    expect(text(details, "summary")).toBe("Thinking… 12 s");
    expect(text(details, ".prose")).toBe("");
    details.open = true;
    details.dispatchEvent(new Event("toggle"));
    expect(text(details, "strong")).toBe("so");
    kernel.say({ op: "thinking", block: 0, text: "!", at: at - 2 }, { op: "text", block: 1, text: "a" });
    await drawn();
    expect(text(details, "summary")).toBe("Thought for 10 s");
  });
});

describe("the footer", () => {
  it("says how it goes, with what, at what cost", async () => {
    const { kernel, root } = scene();
    expect(text(root, ".state")).toBe("Starting…");
    expect(find(root, ".stop").hidden).toBe(true);
    kernel.say({ ...RUN, mode: "plan" } as Op, turn, turn);
    await drawn();
    expect(text(root, ".state")).toMatch(/^Working… \d+ s$/);
    const facts = [...root.querySelectorAll(".facts span")].map((fact) => fact.textContent).filter((fact) => fact !== "Copy");
    expect([...root.querySelectorAll<HTMLElement>(".facts span[title]")].map(({ title }) => title)).toEqual(["claude-opus-5-5", "8.0k tokens in, 424 out"]);
    expect(facts).toEqual(["Opus 5.5", "$0.043"]);
    kernel.say(END);
    await drawn();
    expect(text(root, ".state")).toBe("Done · 3.2 s");
    expect(text(root, ".facts")).toContain("$0.020");
    expect([...root.querySelectorAll<HTMLElement>(".facts span[title]")].at(-1)?.title).toBe("8.0k tokens in, 424 out · session $0.50");
    expect(find(root, ".stop").hidden).toBe(true);
  });

  it("names the model that took over", async () => {
    const { kernel, root } = scene();
    kernel.say(RUN, { op: "model", model: "claude-sonnet-5-5" });
    await drawn();
    expect(text(root, ".facts")).toMatch(/^Sonnet 5\.5/);
  });

  it("stops the run", async () => {
    const { kernel, root } = scene();
    kernel.say(RUN);
    await drawn();
    const stop = find<HTMLButtonElement>(root, ".stop");
    stop.click();
    expect(kernel.received.at(-1)).toEqual({ type: "stop" });
    expect([stop.disabled, stop.textContent]).toEqual([true, "Stopping…"]);
  });

  it.each([
    [{ stop_reason: "interrupted", error: { code: "INTERRUPTED", message: "" } }, "Stopped", "interrupted", ""],
    [{ stop_reason: "max_turns", error: { code: "MAX_TURNS_REACHED", message: "m" } }, "Stopped: step limit reached", "failed", "Step limit reached"],
    [{ stop_reason: "error", error: { code: "API_OVERLOADED", message: "m" } }, "Failed", "failed", "Claude is overloaded"],
    [{ stop_reason: "pause_turn", error: null }, "Done", "done", ""],
  ])("names the end %j", async (changes, words, state, error) => {
    const { kernel, root } = scene();
    kernel.say(RUN, { ...END, ...changes });
    await drawn();
    expect(text(root, ".state").split(" · ")[0]).toBe(words);
    expect(find(root, "footer").dataset.state).toBe(state);
    const failure = find(root, ".failure");
    expect(failure.hidden ? "" : text(failure, "b")).toBe(error);
  });

  it("counts down to the next try", async () => {
    const { kernel, root } = scene();
    kernel.say(RUN, { op: "retry", attempt: 2, of: 8, wait: 12, code: "API_OVERLOADED", message: "Busy.", at: Date.now() / 1000 - 2 });
    await drawn();
    expect(text(root, ".state")).toBe("Trying again in 10 s");
    expect(text(root, ".notice")).toBe("Busy. Retrying (2 of 8).");
    kernel.say({ op: "text", block: 0, text: "a" });
    await drawn();
    expect(find(root, ".ending > .notice").hidden).toBe(true);
  });
});

describe("for screen readers", () => {
  it("announces questions and the end, never the stream", async () => {
    const { kernel, root } = scene();
    const said: string[] = [];
    const announcer = find(root, "[aria-live=polite]");
    const observer = new MutationObserver(() => said.push(announcer.textContent));
    observer.observe(announcer, { childList: true, characterData: true, subtree: true });
    kernel.say(RUN);
    await drawn();
    for (let n = 0; n < 20; n++) {
      kernel.say({ op: "text", block: 0, text: "word " });
      await drawn();
    }
    kernel.say(ask("q", { title: "Run ls" }));
    await drawn();
    kernel.say(END);
    await drawn();
    expect(said).toEqual(["Claude is working", "Claude asks: Run ls", "Claude: Done"]);
    observer.disconnect();
  });

  it("has no live region around what streams, and is busy while it does", async () => {
    const { kernel, root } = scene();
    kernel.say(RUN, { op: "text", block: 0, text: "a" });
    await drawn();
    expect(find(root, ".transcript").getAttribute("aria-busy")).toBe("true");
    expect(find(root, ".prose").closest("[aria-live], [role=log], [role=status]")).toBeNull();
    kernel.say(END);
    await drawn();
    expect(find(root, ".transcript").getAttribute("aria-busy")).toBe("false");
  });

  it("does not announce what was over before", async () => {
    const { kernel, transcript } = scene();
    kernel.say(RUN, END);
    const later = document.createElement("div");
    document.body.append(later);
    transcript.mount(later);
    await drawn();
    expect(text(shadowOf(later), "[aria-live=polite]")).toBe("");
  });
});

describe("views and the channel", () => {
  it("says ready once at the start, with what it holds, and again for a late view", () => {
    const { kernel, transcript } = scene();
    expect(kernel.received).toEqual([{ type: "ready", have: 0, protocol: 1 }]);
    kernel.say(RUN, { op: "text", block: 0, text: "a" });
    transcript.mount(document.createElement("div"));
    expect(kernel.received.at(-1)).toEqual({ type: "ready", have: 2, protocol: 1 });
  });

  it("asks once for what it missed, and shows all of it", async () => {
    const { kernel, root } = scene();
    kernel.say(RUN);
    const pieces = Array.from({ length: 10 }, (_, n): Op => ({ op: "text", block: 0, text: `${n} ` }));
    kernel.log.push(...pieces.slice(0, 2));
    for (const piece of pieces.slice(2)) kernel.say(piece);
    const asked = kernel.received.filter((message) => message.type === "ready");
    expect(asked.slice(1)).toEqual([{ type: "ready", have: 1, protocol: 1 }]);
    kernel.send(1);
    await drawn();
    expect(text(root, ".prose p")).toBe("0 1 2 3 4 5 6 7 8 9 ");
  });

  it("several views draw one store, and one that goes leaves the others", async () => {
    const { kernel, transcript, root } = scene();
    const second = document.createElement("div");
    document.body.append(second);
    const unmount = transcript.mount(second);
    kernel.say(RUN, { op: "text", block: 0, text: "both" });
    await drawn();
    expect([text(root, ".prose"), text(shadowOf(second), ".prose")]).toEqual(["both", "both"]);
    unmount();
    kernel.say({ op: "text", block: 0, text: " more" });
    await drawn();
    expect(text(root, ".prose")).toBe("both more");
    expect(second.shadowRoot?.childElementCount).toBe(0);
  });

  it("closes with its one view when it was mounted alone", () => {
    const kernel = new Kernel();
    const host = document.createElement("div");
    const dispose = mount(host, kernel.channel);
    dispose();
    kernel.say(RUN);
    kernel.tell("nonsense");
    expect(host.shadowRoot?.childElementCount).toBe(0);
  });

  it("drops what a failed request streamed", async () => {
    const { kernel, root } = scene();
    kernel.say(RUN, { op: "text", block: 0, text: "void" }, { op: "tool_input", id: "t", name: "Read", chars: 1 });
    await drawn();
    expect(root.querySelectorAll(".items > *")).toHaveLength(2);
    kernel.say({ op: "drop", blocks: [0], tools: ["t"] }, { op: "text", block: 1, text: "again" });
    await drawn();
    expect(text(root, ".items")).toBe("again");
  });

  it("draws at most once a frame", async () => {
    const { kernel, root } = scene();
    kernel.say(RUN, { op: "text", block: 0, text: "x" });
    await drawn();
    const prose = find(root, ".prose");
    const changes = vi.fn();
    const observer = new MutationObserver(changes);
    observer.observe(prose, { childList: true, subtree: true, characterData: true });
    for (let n = 0; n < 100; n++) kernel.say({ op: "text", block: 0, text: "y" });
    await drawn();
    expect(changes).toHaveBeenCalledTimes(1);
    expect(prose.textContent).toBe(`x${"y".repeat(100)}`);
    observer.disconnect();
  });
});

describe("the notebook around it", () => {
  it("does not hear keys that work a button, a fold, a scrollable box or a text field", async () => {
    const { kernel, root } = scene();
    kernel.say(RUN, begun("t"), { op: "output", id: "t", text: "x" }, ask("q", { choices: CHOICES }));
    await drawn();
    expect(press(find(root, ".stop"), "Enter")).toBe(false);
    expect(press(find(root, "summary"), " ")).toBe(false);
    expect(press(find(root, ".live"), "ArrowDown")).toBe(false);
    expect(press(find(root, ".stop"), "s", { ctrlKey: true })).toBe(true);
    expect(press(find(root, ".stop"), "a")).toBe(true);
    expect(press(find(root, ".items"), "Enter")).toBe(true);
  });
});

it("shows notices by their level", async () => {
  const { kernel, root } = scene();
  kernel.say(RUN, { op: "notice", level: "warning", text: "Nearly used." }, { op: "notice", level: "error", text: "Broken." });
  await drawn();
  const notices = [...root.querySelectorAll(".items > .notice")];
  expect(notices.map((one) => [one.textContent, one.getAttribute("role")])).toEqual([
    ["Warning: Nearly used.", "note"],
    ["Error: Broken.", "alert"],
  ]);
});

it("shows a notice that is said again once, with how often", async () => {
  const { kernel, root } = scene();
  const cut = { op: "notice", level: "warning", text: "The answer was cut off." } as const;
  kernel.say(RUN, cut, { op: "text", block: 0, text: "On it goes." }, cut, { ...cut, level: "info" }, cut);
  await drawn();
  expect([...root.querySelectorAll(".items > .notice")].map((one) => one.textContent)).toEqual([
    "Warning: The answer was cut off. (3 times)",
    "Note: The answer was cut off.",
  ]);
});

it("has no clock and listens to no key of the page any more when the run has ended, nor where it had ended before", async () => {
  const listened = { added: vi.spyOn(document, "addEventListener"), removed: vi.spyOn(document, "removeEventListener") };
  const clocks = { set: vi.spyOn(globalThis, "setInterval"), cleared: vi.spyOn(globalThis, "clearInterval") };
  const open = (): unknown[] => {
    const gone = new Set(clocks.cleared.mock.calls.map(([clock]) => clock));
    // jsdom's own, of animation frames, come and go
    const set = clocks.set.mock.results.filter((_, at) => (clocks.set.mock.calls[at]?.[1] ?? 0) >= 1000);
    const removed = new Set(listened.removed.mock.calls.map(([, listener]) => listener));
    return [
      ...set.map(({ value }) => value as number).filter((clock) => !gone.has(clock)),
      ...listened.added.mock.calls.map(([, listener]) => listener).filter((listener) => !removed.has(listener)),
    ];
  };
  const { kernel, transcript } = scene();
  kernel.say(RUN, begun("t"));
  await drawn();
  expect(open()).toHaveLength(5); // a clock, and twice, by key and by mouse: whether the user goes on elsewhere, and where the keyboard stays
  kernel.say(ended("t"), END);
  await drawn();
  expect(open()).toEqual([]);
  transcript.mount(document.createElement("div"));
  expect(open()).toEqual([]);
  vi.restoreAllMocks();
});

describe("the footer in a page with actions", () => {
  it("shows two links, and the rest when asked to, with the keyboard in the first of them", async () => {
    const { kernel, root } = scene();
    offerPageActions();
    const numbers: NumberSaid[] = [
      { text: "2.4", words: "Python, call 1", verdict: "seen", marked: false, from_end: 0, source: null },
      { text: "7", words: "not found", verdict: "not_found", marked: true, from_end: 0, source: null },
    ];
    kernel.say(RUN, { op: "told", tokens: 1540, parts: [{ title: "Memory", kind: "memory", text: "a", chars: 1, tokens: 1 }] });
    showStale([{ answer: "a1", numbers: [{ text: "2.4", from_end: 0, words: "2.6 now", cell: "c", path: "" }], refresh: "Write it anew" }]);
    kernel.say({ op: "text", block: 0, text: "It is 2.4, not 7." }, { op: "numbers", answer: "a1", check: "Check 1 number", checked: null, numbers }, END);
    await drawn();
    const links = (): (string | null)[] => [...root.querySelectorAll(".facts button")].map((link) => link.textContent).filter((link) => link !== "Copy");
    expect(links()).toEqual(["0 of 2 numbers traced, 1 stale", "Refresh", "More"]);
    [...root.querySelectorAll<HTMLButtonElement>(".facts button")].find((link) => link.textContent === "More")?.click();
    expect(links().slice(2)).toEqual(["Context sent (1.5k tokens)"]);
    expect(root.activeElement?.textContent).toBe("Context sent (1.5k tokens)");
    showStale([], ["a1"]);
  });
});
