import { describe, expect, it } from "vitest";

import type { Op } from "../../src/transcript/protocol";
import type { TextItem, ThinkingItem, ToolItem } from "../../src/transcript/store";
import { TranscriptStore } from "../../src/transcript/store";
import { answered, ask, begun, END, ended, RUN } from "./scene";

const message = (first: number, ops: Op[], now = 0) => ({ type: "ops" as const, first, now, ops });
const text = (block: number, piece: string): Op => ({ op: "text", block, text: piece });

const RETRY: Op = { op: "retry", attempt: 1, of: 8, wait: 1, code: "API_NETWORK_ERROR", message: "It broke off.", at: 1 };

function filled(...ops: Op[]): TranscriptStore {
  const store = new TranscriptStore();
  store.receive(message(0, ops));
  return store;
}

describe("operations arrive in order, once", () => {
  it("ignores what it has", () => {
    const store = filled(RUN, text(0, "a"));
    expect(store.receive(message(0, [RUN, text(0, "a"), text(0, "b")]))).toBe(true);
    expect(store.have).toBe(3);
    expect((store.items[0] as TextItem).text).toBe("ab");
  });

  it("takes nothing after a gap", () => {
    const store = filled(RUN);
    expect(store.receive(message(2, [text(0, "b")]))).toBe(false);
    expect([store.have, store.items.length]).toEqual([1, 0]);
    expect(store.receive(message(1, [text(0, "a"), text(0, "b")]))).toBe(true);
    expect((store.items[0] as TextItem).text).toBe("ab");
  });

  it("comes to the same whatever the messages were cut into", () => {
    const ops: Op[] = [RUN, text(0, "a"), begun("t"), { op: "output", id: "t", text: "x" }, ended("t"), text(1, "b"), END];
    const whole = filled(...ops);
    for (let size = 1; size < ops.length; size++) {
      const store = new TranscriptStore();
      for (let from = 0; from < ops.length; from += size) {
        // each message repeats the operation before it
        store.receive(message(Math.max(0, from - 1), ops.slice(Math.max(0, from - 1), from + size)));
      }
      const plain = (one: TranscriptStore): unknown => one.items.map((item) => ({ ...item, revision: 0 }));
      expect(plain(store)).toEqual(plain(whole));
    }
  });

  it("counts an operation of a later protocol without drawing it", () => {
    const store = filled({ op: "hologram", id: "x" } as unknown as Op, text(0, "a"));
    expect([store.have, store.items.length]).toEqual([2, 1]);
  });

  it("tells its listeners, until they leave", () => {
    const store = new TranscriptStore();
    let calls = 0;
    const leave = store.subscribe(() => calls++);
    store.receive(message(0, [RUN]));
    store.receive(message(0, [RUN]));
    leave();
    store.receive(message(1, [END]));
    expect(calls).toBe(1);
  });
});

describe("blocks of text", () => {
  it("are open until something follows", () => {
    const store = filled(text(0, "a"), { op: "thinking", block: 1, text: "hm", at: 3 }, { op: "thinking", block: 1, text: "!", at: 5 });
    const [first, second] = store.items as [TextItem, ThinkingItem];
    expect([first.open, second.open]).toEqual([false, true]);
    expect([second.text, second.from, second.to]).toEqual(["hm!", 3, 5]);
    store.receive(message(3, [END]));
    expect(second.open).toBe(false);
  });

  it("of a failed request are dropped, and so are its calls", () => {
    const store = filled(text(0, "kept"), text(1, "void"), { op: "tool_input", id: "t", name: "Read", chars: 3 });
    store.receive(message(3, [{ op: "drop", blocks: [1], tools: ["t"] }, text(2, "again")]));
    expect(store.items.map((item) => (item as TextItem).text)).toEqual(["kept", "again"]);
  });

  it("of a request that is sent again stay until as much has come of the new answer", () => {
    const store = filled(text(0, "kept"), text(1, "half of it"));
    const shown = (): string[] => store.items.map((item) => `${(item as TextItem).stale ? "stale " : ""}${(item as TextItem).text}`);
    store.receive(message(2, [{ op: "drop", blocks: [1], tools: [] }, RETRY]));
    expect(shown()).toEqual(["kept", "stale half of it"]);
    store.receive(message(4, [text(2, "half")]));
    expect(shown()).toEqual(["kept", "stale half of it", "half"]);
    // a second try that came to less takes nothing away
    store.receive(message(5, [{ op: "drop", blocks: [2], tools: [] }, RETRY]));
    expect(shown()).toEqual(["kept", "stale half of it"]);
    store.receive(message(7, [text(3, "half of"), text(3, " the")]));
    expect(shown()).toEqual(["kept", "half of the"]);
  });
});

describe("calls", () => {
  const turn: Op = {
    op: "turn", cost_usd: 0.5, context_tokens: 10, context_window: 100, input_tokens: 3, output_tokens: 4, cache_read_tokens: 1,
  };

  it("go from writing to their end", () => {
    const store = new TranscriptStore();
    const statuses: string[] = [];
    const steps: Op[] = [{ op: "tool_input", id: "t", name: "Bash", chars: 7 }, turn, begun("t"), ended("t", { status: "timeout" })];
    steps.forEach((op, index) => {
      store.receive(message(index, [op]));
      statuses.push((store.items[0] as ToolItem).status);
    });
    expect(statuses).toEqual(["writing", "waiting", "running", "timeout"]);
    expect(store.items).toHaveLength(1);
  });

  it("keep the end of a long output", () => {
    const store = filled(begun("t"), { op: "output", id: "t", text: "x".repeat(70_000) }, { op: "output", id: "t", text: "end" });
    const { output } = store.items[0] as ToolItem;
    expect(output.length).toBeLessThan(70_000);
    expect(output.endsWith("xend")).toBe(true);
  });

  it("that had not ended when the run did are interrupted", () => {
    const store = filled(begun("t"), END);
    expect((store.items[0] as ToolItem).status).toBe("interrupted");
  });

  it("of which only the question was told, as in a quiet cell, end without a word on how", () => {
    const store = filled(ask("a"), answered("a"));
    const tool = store.items[0] as ToolItem;
    expect(tool.status).toBe("waiting");
    store.receive(message(2, [END]));
    expect(tool.status).toBe("untold");
  });

  it("carry the notice that they are stuck until they end", () => {
    const store = filled(begun("t"), { op: "stuck", id: "t", text: "no reaction" });
    const tool = store.items[0] as ToolItem;
    expect(tool.stuck).toBe("no reaction");
    store.receive(message(2, [ended("t", { status: "interrupted" })]));
    expect(tool.stuck).toBe("");
  });

  it("add up what messages cost; one unknown price makes the sum unknown", () => {
    const store = filled(turn, turn);
    expect(store.totals).toEqual({ cost: 1, input: 8, output: 8, context: 10, window: 100 });
    store.receive(message(2, [{ ...turn, cost_usd: null }, turn]));
    expect(store.totals.cost).toBeNull();
  });
});

describe("questions", () => {
  it("wait in the order in which they were asked", () => {
    const store = filled(ask("a"), ask("b"));
    expect(store.pending().map((question) => question.ask.question)).toEqual(["a", "b"]);
    store.receive(message(2, [answered("a")]));
    expect(store.pending().map((question) => question.ask.question)).toEqual(["b"]);
    store.receive(message(3, [END]));
    expect(store.pending()).toEqual([]);
  });

  it("are marked when the kernel has the answer", () => {
    const store = filled(ask("a"));
    const revision = store.items[0]?.revision ?? 0;
    store.acknowledge("a");
    store.acknowledge("unknown");
    expect(store.pending()[0]?.taken).toBe(true);
    expect(store.items[0]?.revision).toBe(revision + 1);
  });
});

it("tells time by the kernel's clock", () => {
  let time = 1000;
  const store = new TranscriptStore(() => time);
  store.receive(message(0, [RUN], 5000));
  time += 7;
  expect(store.now()).toBe(5007);
});

it("forgets a retry when the next try streams", () => {
  const retry: Op = { op: "retry", attempt: 1, of: 8, wait: 2, code: "API_OVERLOADED", message: "busy", at: 0 };
  const store = filled(retry);
  expect(store.retry).toEqual(retry);
  store.receive(message(1, [text(0, "a")]));
  expect(store.retry).toBeNull();
});
