import type { Widget } from "@lumino/widgets";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { ChangedFiles, REFRESH_DELAY_MS } from "../../src/documents/changed_files";
import type { RunNotification } from "../../src/sidebar/notifications";
import { watchRuns } from "../../src/sidebar/notifications";
import { panelSettings } from "../../src/sidebar/sidebar_plugin";
import type { LiveAnswer } from "../../src/notebook/answers/live_answers";
import { addLiveAnswer, onAnswerEnd } from "../../src/notebook/answers/live_answers";
import { addStatusItem, statusOf } from "../../src/sidebar/status_bar";
import { TranscriptStore } from "../../src/transcript/store";
import { open } from "../../src/transcript/transcript";
import { transOf } from "../../src/translation";
import type { Run, RunState } from "../../src/transport/chat_protocol";
import { standIn } from "../support/stand_in";
import { answered, ask, END, find, Kernel, RUN } from "../transcript/scene";
import { Emitter, runOf, stateOf } from "../transport/chat_kernel";
import { OneChat } from "./panel_scene";

const trans = transOf(null);

describe("news", () => {
  const scene = (seen: { page: boolean; panel: boolean }): { told: RunNotification[]; ended: string[]; set: (state: RunState, more?: Partial<Run>) => void } => {
    const chat = new OneChat();
    const told: RunNotification[] = [];
    const ended: string[] = [];
    watchRuns(chat, { trans, visibility: () => seen, isAtCell: () => false, tell: (news) => void told.push(news), ended: (_, run) => void ended.push(run) });
    const transcript = new TranscriptStore();
    return { told, ended, set: (state, more = {}) => { chat.change({ runs: [{ run: runOf("r1", { state, ...more }), transcript }] }); } };
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
    const { told, ended, set } = scene({ page: true, panel: false });
    set("running", { place: "[3]", background: false });
    expect(ended).toEqual([]);
    set("done", { place: "[3]", background: false });
    expect([told, ended]).toEqual([[], ["r1"]]);
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
  const answer = (progress: "working" | "asking", count: number | null = 7): LiveAnswer =>
    ({ transcript: standIn({}), node: document.createElement("div"), count, progress });

  it("says who has to do what", () => {
    const chat = new OneChat();
    const textFor = (changes: Parameters<typeof stateOf>[0]): string => {
      chat.state = stateOf(changes);
      return statusOf(chat, [], trans).text;
    };
    expect(textFor({})).toBe("Claude: idle");
    expect(textFor({ current: "r1" })).toBe("Claude is working");
    expect(textFor({ current: "r1", asking: ["q1"] })).toBe("Claude is waiting for you");
    chat.runs = [{ run: runOf("r1", { place: "[3]" }), transcript: new TranscriptStore() }];
    expect(textFor({ current: "r1" })).toBe("Claude is working · cell [3]");
    chat.needsKey = true;
    expect(textFor({})).toBe("Claude needs a key");
    chat.needsKey = false;
    chat.connection = "connecting";
    expect(statusOf(chat, [], trans).state).toBe("off");
  });

  it("names the cell that Claude works in without the panel, from the first run on", () => {
    const chat = new OneChat();
    chat.connection = "none";
    expect(statusOf(chat, [answer("working")], trans)).toMatchObject({ state: "working", text: "Claude is working · cell [7]" });
    expect(statusOf(chat, [answer("asking", null)], trans)).toMatchObject({ state: "asking", text: "Claude is waiting for you" });
    expect(statusOf(chat, [], trans, true).text).toBe("Claude: idle");
  });

  it("has Stop while Claude works in a cell, and none while nothing runs", () => {
    const chat = new OneChat();
    chat.connection = "none";
    let item: Widget | undefined;
    const bar = { registerStatusItem: (_: string, { item: made }: { item: Widget }) => { item = made; } };
    const shown: HTMLElement[] = [];
    const overview = vi.fn();
    const elsewhere = addStatusItem(standIn(bar), standIn(chat), trans, { open: vi.fn(), showRun: vi.fn(), showAnswer: (node) => void shown.push(node), overview });
    if (!item) throw new Error("no item");
    const go = find<HTMLButtonElement>(item.node, ".cellwright-status");
    const stop = find<HTMLButtonElement>(item.node, ".cellwright-status-stop");
    expect([go.hidden, stop.hidden]).toEqual([true, true]);
    const kernel = new Kernel();
    const transcript = open(kernel.channel);
    const node = document.createElement("div");
    const ends: unknown[] = [];
    onAnswerEnd((ended) => void ends.push(ended));
    const forget = addLiveAnswer(transcript, node, 7);
    kernel.say(RUN);
    expect(go.textContent).toBe("Claude is working · cell [7]");
    go.click();
    expect(shown).toEqual([node]);
    stop.click();
    expect(kernel.received).toContainEqual({ type: "stop" });
    kernel.say(ask("q"));
    expect([go.textContent, stop.hidden]).toEqual(["Claude is waiting for you · cell [7]", true]);
    kernel.say(answered("q"), END);
    expect([go.textContent, stop.hidden]).toEqual(["Claude: idle", true]);
    expect(ends).toEqual([{ node, count: 7 }]);
    // a question elsewhere takes the place of the word that nothing goes on
    const other = find<HTMLButtonElement>(item.node, ".cellwright-elsewhere");
    expect(other.hidden).toBe(true);
    const asking = { id: "q", kind: "permission", title: "Run a shell command", about: "rm -r build" } as const;
    elsewhere([standIn({ overview: { questions: [asking], runs: [] } })]);
    expect([other.textContent, other.hidden, other.dataset.state, go.hidden]).toEqual(["1 question elsewhere", false, "asking", true]);
    other.click();
    expect(overview).toHaveBeenCalledOnce();
    elsewhere([]);
    expect([other.hidden, go.hidden]).toEqual([true, false]);
    forget();
  });
});

describe("files that tools wrote", () => {
  class OneDocument {
    isReady = true;
    model = { dirty: false };
    contentsModel = { last_modified: "2026-11-22T08:00:00Z" };
    sessionContext = { session: { kernel: { status: "idle" } } };
    readonly disposed = new Emitter();
    readonly revert = vi.fn(() => Promise.resolve());

    constructor(readonly path: string) {}
  }

  const scene = (): { files: ChangedFiles; document: OneDocument; refreshBrowser: () => Promise<void>; times: Record<string, string> } => {
    const times: Record<string, string> = { "a.py": "2026-11-22T08:00:09Z" };
    const refreshBrowser = vi.fn(() => Promise.resolve());
    const lastModified = (path: string): Promise<string> => {
      const time = times[path];
      return time ? Promise.resolve(time) : Promise.reject(new Error("it is gone"));
    };
    const files = new ChangedFiles({ refreshBrowser, lastModified });
    const document = new OneDocument("a.py");
    files.add(standIn(document));
    return { files, document, refreshBrowser, times };
  };

  beforeEach(() => { vi.useFakeTimers(); });
  afterEach(() => { vi.useRealTimers(); });

  it("are there at once: in the file browser, and in an editor without changes", async () => {
    const { files, document, refreshBrowser } = scene();
    files.changed();
    await vi.advanceTimersByTimeAsync(REFRESH_DELAY_MS);
    expect(refreshBrowser).toHaveBeenCalledOnce();
    expect(document.revert).toHaveBeenCalledOnce();
  });

  it("are looked at together, and not put off by each that follows", async () => {
    const { files, refreshBrowser } = scene();
    for (let times = 0; times < 4; times++) {
      files.changed();
      await vi.advanceTimersByTimeAsync(REFRESH_DELAY_MS / 2);
    }
    expect(refreshBrowser).toHaveBeenCalledTimes(2);
  });

  it.each<[string, (document: OneDocument, times: Record<string, string>) => void]>([
    ["the user has changed it", (document) => { document.model.dirty = true; }],
    ["it is the same on disk", (_, times) => { times["a.py"] = "2026-11-22T08:00:00Z"; }],
    ["it was deleted", (_, times) => { delete times["a.py"]; }],
    ["a cell runs in it", (document) => { document.sessionContext.session.kernel.status = "busy"; }],
    ["it is being loaded", (document) => { document.isReady = false; }],
    ["it was closed", (document) => { document.disposed.emit(undefined); }],
  ])("leave an open document alone where %s", async (_, prepare) => {
    const { files, document, times } = scene();
    prepare(document, times);
    files.changed();
    await vi.advanceTimersByTimeAsync(REFRESH_DELAY_MS);
    expect(document.revert).not.toHaveBeenCalled();
  });
});

describe("settings and texts", () => {
  it("have their defaults until the registry has said what the user wants", async () => {
    const composite: Record<string, unknown> = { fontSize: 16 };
    const changed = new Emitter();
    const heard = vi.fn();
    const settings = panelSettings(standIn({ load: () => Promise.resolve({ composite, changed }) }), "cellwright:panel", heard);
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
    expect(transOf(standIn({ load: (domain: string) => ({ __: () => domain }) })).__("x")).toBe("cellwright");
  });
});
