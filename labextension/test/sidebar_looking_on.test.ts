import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import type { Run, RunState } from "../src/chat/protocol";
import type { OpenDocument } from "../src/sidebar/changed_files";
import { ChangedFiles, TOGETHER_MS } from "../src/sidebar/changed_files";
import type { News } from "../src/sidebar/run_news";
import { watchRuns } from "../src/sidebar/run_news";
import { panelSettings } from "../src/sidebar/settings";
import { statusOf } from "../src/sidebar/status_item";
import { transOf } from "../src/sidebar/translation";
import type { Op } from "../src/transcript/protocol";
import { TranscriptStore } from "../src/transcript/store";
import { Emitter, runOf, stateOf } from "./chat_kernel";
import { OneChat } from "./panel";
import { begun, END, ended, RUN } from "./scene";

const trans = transOf(null);

describe("news", () => {
  const scene = (seen: { page: boolean; panel: boolean }): { told: News[]; set: (state: RunState, more?: Partial<Run>) => void } => {
    const chat = new OneChat();
    const told: News[] = [];
    watchRuns(chat, { trans, seen: () => seen, tell: (news) => void told.push(news) });
    const transcript = new TranscriptStore();
    return { told, set: (state, more = {}) => { chat.change({ runs: [{ run: runOf("r1", { state, ...more }), transcript }] }); } };
  };

  it("are what has happened since, while the window is not in front: an end, and each question", () => {
    const { told, set } = scene({ page: false, panel: true });
    for (const state of ["running", "asking", "running", "asking", "done", "done"] as const) set(state);
    expect(told.map(({ title, urgent }) => [title, urgent])).toEqual([
      ["Claude waits for your answer", true], ["Claude waits for your answer", true], ["Claude is done", false],
    ]);
  });

  it("of what had ended before are none", () => {
    const { told, set } = scene({ page: false, panel: false });
    set("done");
    expect(told).toEqual([]);
  });

  it("of a cell are told at the cell, where that can be seen", () => {
    const { told, set } = scene({ page: true, panel: false });
    set("running", { place: "[3]", background: false });
    set("done", { place: "[3]", background: false });
    expect(told).toEqual([]);
  });

  it("of the panel are told when the panel is out of sight", () => {
    const { told, set } = scene({ page: true, panel: false });
    set("running");
    set("failed", { prompt: "word ".repeat(50) });
    expect(told).toMatchObject([{ title: "Claude could not finish", urgent: true, run: "r1" }]);
    expect(told[0]?.body).toHaveLength(81);
  });
});

describe("the status bar", () => {
  it("says who has to do what, and what it has cost", () => {
    const chat = new OneChat();
    const textFor = (changes: Parameters<typeof stateOf>[0]): string => {
      chat.state = stateOf(changes);
      return statusOf(chat, trans).text;
    };
    expect(textFor({})).toBe("Claude: idle · $0.12");
    expect(textFor({ current: "r1" })).toBe("Claude is working · $0.12");
    expect(textFor({ current: "r1", asking: ["q1"] })).toBe("Claude waits for you · $0.12");
    chat.connection = "connecting";
    expect(statusOf(chat, trans).state).toBe("off");
  });
});

describe("files that tools wrote", () => {
  class OneDocument implements OpenDocument {
    isReady = true;
    model = { dirty: false };
    contentsModel = { last_modified: "2026-11-22T08:00:00Z" };
    sessionContext = { session: { kernel: { status: "idle" } } };
    readonly disposed = new Emitter();
    readonly revert = vi.fn(() => Promise.resolve());

    constructor(readonly path: string) {}
  }

  const scene = (): { transcript: TranscriptStore; say: (first: number, ...ops: Op[]) => Promise<void>; document: OneDocument; refreshBrowser: () => Promise<void>; times: Record<string, string> } => {
    const transcript = new TranscriptStore();
    const chat = new OneChat();
    chat.change({ runs: [{ run: runOf("r1"), transcript }] });
    const times: Record<string, string> = { "a.py": "2026-11-22T08:00:09Z" };
    const refreshBrowser = vi.fn(() => Promise.resolve());
    const lastModified = (path: string): Promise<string> => {
      const time = times[path];
      return time ? Promise.resolve(time) : Promise.reject(new Error("it is gone"));
    };
    const files = new ChangedFiles(chat, { refreshBrowser, lastModified });
    const document = new OneDocument("a.py");
    files.add(document);
    const say: ReturnType<typeof scene>["say"] = async (first, ...ops) => {
      transcript.receive({ type: "ops", first, now: Date.now() / 1000, ops });
      await vi.advanceTimersByTimeAsync(TOGETHER_MS);
    };
    return { transcript, say, document, refreshBrowser, times };
  };

  beforeEach(() => { vi.useFakeTimers(); });
  afterEach(() => { vi.useRealTimers(); });

  it("are there at once: in the file browser, and in an editor without changes", async () => {
    const { say, document, refreshBrowser } = scene();
    await say(0, RUN, begun("t1", { name: "Write" }));
    expect(refreshBrowser).not.toHaveBeenCalled();
    await say(2, ended("t1"));
    expect(refreshBrowser).toHaveBeenCalledOnce();
    expect(document.revert).toHaveBeenCalledOnce();
    await say(3, { op: "text", block: 0, text: "and so on" });
    expect(refreshBrowser).toHaveBeenCalledOnce();
    await say(4, END);
    expect(refreshBrowser).toHaveBeenCalledTimes(2);
  });

  it("are not looked for after a call that reads", async () => {
    const { say, refreshBrowser } = scene();
    await say(0, RUN, begun("t1", { name: "Read" }), ended("t1"));
    expect(refreshBrowser).not.toHaveBeenCalled();
  });

  it.each<[string, (document: OneDocument, times: Record<string, string>) => void]>([
    ["the user has changed it", (document) => { document.model.dirty = true; }],
    ["it is the same on disk", (_, times) => { times["a.py"] = "2026-11-22T08:00:00Z"; }],
    ["it was deleted", (_, times) => { delete times["a.py"]; }],
    ["a cell runs in it", (document) => { document.sessionContext.session.kernel.status = "busy"; }],
    ["it is being loaded", (document) => { document.isReady = false; }],
    ["it was closed", (document) => { document.disposed.emit(undefined); }],
  ])("leave an open document alone where %s", async (_, prepare) => {
    const { say, document, times } = scene();
    prepare(document, times);
    await say(0, RUN, begun("t1", { name: "Bash" }), ended("t1"));
    expect(document.revert).not.toHaveBeenCalled();
  });
});

describe("settings and texts", () => {
  it("have their defaults until the registry has said what the user wants", async () => {
    const composite: Record<string, unknown> = { fontSize: 16 };
    const changed = new Emitter();
    const heard = vi.fn();
    const settings = panelSettings({ load: () => Promise.resolve({ composite, changed }) }, "cellwright:panel", heard);
    expect(settings()).toMatchObject({ fontSize: 13, sendKey: "Enter" });
    await Promise.resolve();
    expect(settings().fontSize).toBe(16);
    composite.sendKey = "Shift+Enter";
    changed.emit(undefined);
    expect(settings().sendKey).toBe("Shift+Enter");
    expect(heard).toHaveBeenCalledTimes(2);
  });

  it("stand as they are where nobody translates, with what belongs into them", () => {
    expect(trans.__("%2 of %1, %3", 5, "one")).toBe("one of 5, %3");
    expect(transOf({ load: (domain) => ({ __: () => domain }) }).__("x")).toBe("cellwright");
  });
});
