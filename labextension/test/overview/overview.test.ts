import { afterEach, describe, expect, it, vi } from "vitest";

import type { KernelRow, OverviewReport, OverviewRun } from "../../src/overview/overview_feed";
import { elsewhereText, OverviewFeed, RENEW_MS } from "../../src/overview/overview_feed";
import type { OverviewNotices } from "../../src/overview/overview_notices";
import { overviewNotices } from "../../src/overview/overview_notices";
import { mountOverview } from "../../src/overview/overview_view";
import type { RunNotification } from "../../src/sidebar/notifications";
import { transOf } from "../../src/translation";
import { expectAccessible, OneChat, OnePanel } from "../sidebar/panel_scene";

const trans = transOf(null);
const NOW = 1_790_000_100;

const run = (id: string, changes: Partial<OverviewRun> = {}): OverviewRun => ({
  id, title: "Clean the data", place: "[3]", state: "running", asked: NOW - 63, ended: null, background: false, replayed: false, ...changes,
});
const row = (id: string, overview: Partial<NonNullable<KernelRow["overview"]>> = {}, changes: Partial<KernelRow> = {}): KernelRow => ({
  id, name: "python3", path: `${id}.ipynb`, type: "notebook", session_name: id, state: "busy",
  overview: { session: { id: "s", title: "", cost_usd: 0.25 }, cwd: "/home/ada", runs: [], last: null, questions: [], tasks: [], ...overview },
  ...changes,
});
const ASKING = row("sales", { runs: [run("r1", { state: "asking" })], questions: [{ id: "q1", kind: "permission", title: "Run a shell command", about: "rm -r build" }] });

class OneServer {
  rows: readonly KernelRow[] = [];
  asked = 0;
  stopped: [string, string][] = [];
  tell: () => void = () => undefined;
  readonly feed = new OverviewFeed(
    {
      overview: (): Promise<OverviewReport> => Promise.resolve({ revision: ++this.asked, now: NOW, kernels: this.rows }),
      stopTask: (kernel, id) => {
        this.stopped.push([kernel, id]);
        return Promise.resolve();
      },
    },
    (listener) => { this.tell = listener; },
  );

  async become(...rows: KernelRow[]): Promise<void> {
    this.rows = rows;
    this.tell();
    await settled();
  }
}

const settled = async (): Promise<void> => { for (let turn = 0; turn < 8; turn++) await Promise.resolve(); };

afterEach(() => { vi.useRealTimers(); });

describe("the feed", () => {
  it("asks at each event while it is used, renews the server's watch, and is still when nobody uses it", async () => {
    vi.useFakeTimers();
    const server = new OneServer();
    server.tell();
    expect(server.asked).toBe(0);
    const leave = server.feed.use(() => undefined, false);
    await settled();
    server.tell();
    server.tell();
    await settled();
    expect(server.asked).toBe(3); // the events that came meanwhile are one
    await vi.advanceTimersByTimeAsync(RENEW_MS);
    expect(server.asked).toBe(4);
    leave();
    server.tell();
    await vi.advanceTimersByTimeAsync(RENEW_MS * 3);
    expect(server.asked).toBe(4);
  });
});

describe("the screen", () => {
  const scene = async (...rows: KernelRow[]): Promise<{ server: OneServer; panel: OnePanel; host: HTMLElement; button: (name: RegExp) => HTMLButtonElement }> => {
    vi.useFakeTimers({ now: NOW * 1000, toFake: ["Date", "setInterval", "clearInterval"] });
    const server = new OneServer();
    server.rows = rows;
    const panel = new OnePanel();
    panel.overview = server.feed;
    const host = document.createElement("div");
    document.body.replaceChildren(host);
    mountOverview(host, new OneChat(), panel.deps);
    await settled();
    const button = (name: RegExp): HTMLButtonElement =>
      [...host.querySelectorAll("button")].find((each) => name.test(each.getAttribute("aria-label") ?? each.textContent)) as unknown as HTMLButtonElement;
    return { server, panel, host, button };
  };

  it("shows who asks first, with the question and the time, and what it costs", async () => {
    const { host } = await scene(row("zebra", { last: run("r0", { state: "failed", ended: NOW - 125 }) }), row("model", { runs: [run("r2")], tasks: [{ id: "bash-1", kind: "command", title: "make serve", began: NOW - 4 }] }), ASKING);
    expect([...host.querySelectorAll(".kernel-row")].map((each) => (each as HTMLElement).dataset.state)).toEqual(["asking", "working", "idle"]);
    const text = host.textContent;
    for (const words of ["waiting for you · 1 min 3 s", "Run a shell command rm -r build", "running for 1 min 3 s", "make serve", "failed 2 min 5 s ago", "$0.25", "1 waiting for you · 1 at work · 3 kernels"]) expect(text).toContain(words);
    await expectAccessible(host);
  });

  it("answers, stops and opens, and keeps the focus when the rows change", async () => {
    const { server, panel, button, host } = await scene(ASKING, row("model", { runs: [run("r2")] }));
    button(/^Answer in/).click();
    button(/^sales\.ipynb$/).click();
    const stop = button(/^Stop .* in model/);
    stop.focus();
    stop.click();
    await settled();
    expect(panel.gone).toEqual([["sales", "panel", "r1"], ["sales", "notebook", "r1"]]);
    expect(server.stopped).toEqual([["model", "r2"]]);
    await server.become(ASKING, row("model", { last: run("r2", { state: "interrupted", ended: NOW }) }));
    expect(host.contains(document.activeElement)).toBe(true);
    expect((document.activeElement as HTMLElement).dataset.key).toBe("model open");
  });

  it("switches notifications on by a click", async () => {
    const { host, panel } = await scene();
    host.querySelector("input")?.click();
    expect(panel.settings.desktopNotifications).toBe(true);
    expect(host.textContent).toContain("No kernel of this server has loaded Cellwright yet.");
  });
});

describe("notices of other kernels", () => {
  const scene = (seen: { page: boolean; notebook: boolean }): { server: OneServer; told: RunNotification[]; sawEnd: OverviewNotices["sawEnd"]; begin: () => Promise<void> } => {
    vi.useFakeTimers({ now: NOW * 1000, toFake: ["Date"] });
    const server = new OneServer();
    const told: RunNotification[] = [];
    const notices = overviewNotices(server.feed, { trans, panelKernel: () => "own", isSeen: () => seen, isAtCell: (kernel) => kernel === "asked-at-cell", tell: (news) => void told.push(news) });
    return { server, told, sawEnd: (kernel: string, run: string) => { notices.sawEnd(kernel, run); }, begin: async () => { server.feed.use(() => { notices.look(); }, false); await settled(); } };
  };

  it("come once for a question and an end, and say which notebook", async () => {
    const { server, told, begin } = scene({ page: false, notebook: false });
    await server.become(row("sales", { runs: [run("r1")] }));
    await begin();
    await server.become(ASKING);
    await server.become(ASKING);
    await server.become(row("sales", { last: run("r1", { state: "done", ended: NOW }) }));
    expect(told.map(({ title, body, kernel }) => [title, body, kernel])).toEqual([
      ["Claude waits for your answer", "sales.ipynb: Run a shell command: rm -r build", "sales"],
      ["Claude is done", "sales.ipynb: Clean the data", "sales"],
    ]);
  });

  it("come for a run that began and ended between two looks, and for none that was over before", async () => {
    const { server, told, begin } = scene({ page: false, notebook: false });
    server.rows = [row("sales", { last: run("r0", { state: "done", ended: NOW - 60 }) })];
    await begin();
    expect(told).toEqual([]);
    await server.become(row("sales", { last: run("r1", { state: "failed", asked: NOW + 1, ended: NOW + 2 }) }));
    expect(told).toHaveLength(1);
  });

  it.each<[string, { page: boolean; notebook: boolean }, string, Partial<OverviewRun>]>([
    ["the panel's own kernel", { page: false, notebook: false }, "own", {}],
    ["a replay", { page: false, notebook: false }, "sales", { replayed: true }],
    ["a cell that the user sees", { page: true, notebook: true }, "sales", {}],
    ["what was asked for at a cell that the user sees", { page: true, notebook: true }, "asked-at-cell", { place: "", background: true }],
  ])("do not come for %s", async (_, seen, kernel, changes) => {
    const { server, told, begin } = scene(seen);
    server.rows = [row(kernel, { runs: [run("r1", changes)] })];
    await begin();
    await server.become(row(kernel, { last: run("r1", { state: "done", ended: NOW, ...changes }) }));
    expect(told).toEqual([]);
  });

  const ended = (changes: Partial<OverviewRun> = {}): KernelRow => row("sales", { last: run("r1", { state: "done", ended: NOW + 1, ...changes }) });

  it.each<[string, string, string, number]>([
    ["at its cell, though its notebook is closed by now", "sales", "[3]", 0],
    ["at a cell of which the number is not known", "sales", "", 0],
    ["in the panel, which is at another kernel by now", "sales", "r1", 0],
    ["in another notebook", "model", "[3]", 1],
    ["in another cell", "sales", "[4]", 1],
  ])("of an end that the user saw %s", async (_, kernel, name, notices) => {
    const { server, told, sawEnd, begin } = scene({ page: true, notebook: false });
    server.rows = [row("sales", { runs: [run("r1")] }), row("model")];
    await begin();
    vi.setSystemTime((NOW + 1) * 1000);
    sawEnd(kernel, name);
    server.rows = [ended(), row("model")];
    await server.become(...server.rows);
    expect(told).toHaveLength(notices);
  });

  it("come for a run of the same place that ends after what was seen: the kernel was restarted", async () => {
    const { server, told, sawEnd, begin } = scene({ page: true, notebook: false });
    await begin();
    sawEnd("sales", "[3]");
    await server.become(row("sales", { runs: [run("r1", { asked: NOW + 60 })] }));
    await server.become(ended({ asked: NOW + 60, ended: NOW + 70 }));
    expect(told).toHaveLength(1);
  });

  it("name the notebook once", async () => {
    const { server, told, begin } = scene({ page: false, notebook: false });
    await begin();
    const question = { id: "q1", kind: "permission", title: "Edit cell [1] in sales.ipynb (+1 −1)", about: "sales.ipynb" };
    await server.become(row("sales", { runs: [run("r1", { state: "asking", asked: NOW + 1 })], questions: [question] }));
    expect(told.map(({ body }) => body)).toEqual(["Edit cell [1] in sales.ipynb (+1 −1)"]);
  });

  it("stand in the status bar as a number", () => {
    expect(elsewhereText([ASKING, row("model", { runs: [run("r2")] })], trans)).toBe("1 question elsewhere");
    expect(elsewhereText([row("model", { runs: [run("r2")] })], trans)).toBe("1 at work elsewhere");
    expect(elsewhereText([row("idle")], trans)).toBe("");
  });
});
