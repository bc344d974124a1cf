import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import type { Composer } from "../../../src/composer/composer_deps";
import { Marks } from "../../../src/notebook/outputs/marks";
import type { MountComposer } from "../../../src/panel_view";
import type { PanelHost } from "../../../src/sidebar/panel/panel";
import { Panel } from "../../../src/sidebar/panel/panel";
import { focused } from "../../../src/transcript/focus";
import { ACTION_EVENT, offerPageActions } from "../../../src/transcript/items/page_actions";
import type { Op } from "../../../src/transcript/protocol";
import { view } from "../../../src/transcript/view";
import type { KernelInfo } from "../../../src/transport/chat";
import { ChatStore } from "../../../src/transport/chat_store";
import { standIn } from "../../support/stand_in";
import { answered, ask, begun, END, find, RUN, text as textOf } from "../../transcript/scene";
import { OneKernel, ops, run, state, stateOf, text } from "../../transport/chat_kernel";
import { expectAccessible, press } from "../panel_scene";

const NOTEBOOK: KernelInfo = { kernelId: "kernel-1", name: "Python 3", notebook: "work/tides.ipynb" };
const SETTINGS = {
  notifications: "away", desktopNotifications: false, followNotebook: true, sendKey: "Enter", whileRunning: "steer", context: "auto", fontSize: 13, density: "comfortable",
} as const;

/** A composer of one field. */
function field(): { mount: MountComposer; area: HTMLTextAreaElement } {
  const area = document.createElement("textarea");
  area.setAttribute("aria-label", "Prompt");
  const composer: Composer = {
    aside: document.createElement("div"),
    focus: () => { area.focus(); },
    get hasText() { return area.value !== ""; },
    insert: (words) => { area.value += words; },
    attach: () => undefined,
    dispose: () => { area.remove(); },
  };
  return { area, mount: (host) => (host.append(area), composer) };
}

type Scene = { panel: Panel; host: HTMLElement; kernel: OneKernel; chat: ChatStore; area: HTMLTextAreaElement; home: { [Name in keyof PanelHost]: PanelHost[Name] } };

let current: Panel | null = null;
let settled = true;

async function scene(prepare: (kernel: OneKernel) => void = () => undefined, place: KernelInfo | null = NOTEBOOK): Promise<Scene> {
  const host = document.createElement("div");
  document.body.replaceChildren(host);
  const kernel = new OneKernel();
  prepare(kernel);
  const chat = new ChatStore("JupyterLab 4.6.6", () => Promise.resolve());
  const { area, mount } = field();
  const home: PanelHost = {
    trans: { __: (words, ...args) => words.replace(/%(\d)/g, (_, number: string) => String(args[Number(number) - 1])) },
    parts: {
      composer: () => Promise.resolve(mount),
      contextBar: () => Promise.resolve(() => ({ dispose: () => undefined })),
      view: (name) => Promise.resolve((into) => {
        into.textContent = `the ${name}`;
        return { dispose: () => undefined };
      }),
      transcript: () => Promise.resolve(view),
    },
    composer: {
      settings: () => SETTINGS, cell: () => null, onCell: () => () => undefined, serverRoot: "", memory: localStorage, marks: new Marks(),
    },
    settings: () => SETTINGS,
    kernels: () => [{ label: "Follow the active notebook", chosen: true, choose: vi.fn() }, { label: "other.ipynb", about: "Python 3", chosen: false, choose: chosen }],
    startKernel: vi.fn(),
    server: { key: () => Promise.resolve(null), keepKey: () => Promise.reject(new Error("not here")), clouds: () => Promise.resolve([]), keepCloud: () => Promise.reject(new Error("not here")), demo: () => Promise.reject(new Error("not here")), overview: () => Promise.reject(new Error("not here")), stopTask: () => Promise.resolve(), staleNumbers: () => Promise.resolve([]) },
    isSettled: () => settled,
    notebookFacts: () => ({ cells: 3, code: 2, ran: 2, hasProse: true, failed: { count: 4, error: "KeyError" }, table: { count: 2 } }),
    more: () => [],
    showCell: vi.fn(),
    runCell: vi.fn(() => false),
    leave: vi.fn(),
    run: vi.fn(() => Promise.resolve()),
    shortcuts: () => [{ command: "cellwright:focus-composer", label: "Ask Claude", keys: "Ctrl+Shift+Y", inPanel: false }],
    tell: vi.fn(),
    forViews: { setSetting: vi.fn(), overview: () => { throw new Error("not here"); }, goToKernel: () => Promise.resolve() },
  };
  const panel = (current = new Panel(host, chat, home));
  if (place) chat.connect(standIn(kernel), place);
  await drawn();
  return { panel, host, kernel, chat, area, home };
}

const chosen = vi.fn();

/** Waits for what is drawn in the next frames. */
async function drawn(): Promise<void> {
  await vi.advanceTimersByTimeAsync(200);
}

beforeEach(() => { vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "requestAnimationFrame", "cancelAnimationFrame", "queueMicrotask"] }); });
afterEach(() => {
  current?.dispose();
  vi.useRealTimers();
});

describe("the panel says where it is", () => {
  it("by the session's title, the notebook and the folder", async () => {
    const { host, kernel } = await scene();
    kernel.tell(state({ cwd: "/home/ada/sea/tides" }));
    await drawn();
    expect([textOf(host, ".title"), textOf(host, ".where"), textOf(host, ".cwd")]).toEqual(["Tides", "tides.ipynb", "…/sea/tides"]);
    // one prompt stands right below: its words are no title
    kernel.tell(run("r1", { prompt: "Tides  of\nBrest" }));
    await drawn();
    expect(textOf(host, ".title")).toBe("Claude");
    kernel.tell(run("r2", { prompt: "And of Dover" }));
    await drawn();
    expect(textOf(host, ".title")).toBe("Tides");
    expect(find(host, ".kernel").getAttribute("aria-label")).toContain("tides.ipynb");
    expect(find(host, ".kernel").title).toContain("/env/bin/python");
  });

  it("and lets one choose another kernel, by keys alone", async () => {
    const { host } = await scene();
    const kernel = find(host, ".kernel");
    kernel.focus();
    press(kernel, "ArrowDown");
    expect(kernel.getAttribute("aria-expanded")).toBe("true");
    expect(document.activeElement?.textContent).toContain("Follow the active notebook");
    await real(() => expectAccessible(host));
    press(document.activeElement ?? kernel, "ArrowDown");
    (document.activeElement as HTMLElement).click();
    expect(chosen).toHaveBeenCalledOnce();
    expect(host.querySelector(".menu")).toBeNull();
    expect(document.activeElement).toBe(kernel);
    kernel.click();
    press(document.activeElement ?? kernel, "Escape");
    expect(host.querySelector(".menu")).toBeNull();
  });
});

/** Does what needs real timers. */
async function real(work: () => Promise<void>): Promise<void> {
  vi.useRealTimers();
  await work();
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "requestAnimationFrame", "cancelAnimationFrame", "queueMicrotask"] });
}

const LACKING = { status: "error", ename: "ModuleNotFoundError", evalue: "No module named 'cellwright'" };
const never = new Promise<never>(() => undefined);

describe.each<[string, (kernel: OneKernel) => void, string, string[]]>([
  ["empty", () => undefined, ".first", ["tides.ipynb (3 cells)", "Fix the KeyError in cell [4]", "Plot the table of cell [2]", "Explain what this notebook does", "Ctrl+Shift+Y"]],
  ["missing", (kernel) => { kernel.loading = LACKING; }, ".note", ["/env/bin/python -m pip install cellwright", "Copy", "Try again"]],
  ["broken", (kernel) => { kernel.loading = { status: "error", ename: "ImportError", evalue: "libssl" }; }, ".note", ["ImportError: libssl", "Try again"]],
  ["old", (kernel) => { kernel.greeting = []; kernel.refuses = true; }, ".note", ["version 0.1.0", "protocol 0", "speaks protocol 1", "--upgrade", "Restart kernel"]],
  ["new", (kernel) => { kernel.greeting = [{ type: "unsupported", protocol: 9, version: "2.0" }]; }, ".note", ["protocol 9", "Reload the page"]],
  ["waiting", (kernel) => { kernel.supportsSubshells = false; kernel.loading = never; }, ".note", ["running a cell"]],
  ["lost", (kernel) => { kernel.connectionStatus = "disconnected"; }, ".note", ["The kernel is gone", "The connection to the server is lost.", "Try again", "Start a kernel here"]],
])("a panel that is %s", (_, prepare, part, words) => {
  it("says what is and what to do, accessibly", async () => {
    const { host, kernel } = await scene(prepare);
    if (part === ".first") await answersStart(kernel);
    for (const each of words) expect(textOf(host, part)).toContain(each);
    expect(find(host, part).hidden).toBe(false);
    await real(() => expectAccessible(host));
  });
});

/** The kernel says its state, and what the start page shows. */
async function answersStart(kernel: OneKernel, turns = 0): Promise<void> {
  const asked = kernel.comm.sent.find(({ message }) => message.method === "start");
  const { session } = stateOf();
  kernel.tell(state({ session: { ...session, turns } }), { type: "reply", id: asked?.message.id ?? null, result: { key: { source: "env", own_credentials: true, address: "" }, variables: [], variable_count: 0, earlier: null } });
  await drawn();
}

describe("a panel that opens", () => {
  const parts = (host: HTMLElement): boolean[] => [".loading", ".first", ".first-page"].map((part) => find(host, part).hidden);

  it("says that it loads until the kernel has said whether anything is there", async () => {
    const { host, kernel } = await scene((slow) => { slow.info = new Promise((resolve) => { slow.setInfo = resolve; }); });
    expect([parts(host), find(host, ".note").hidden]).toEqual([[false, true, false], true]);
    kernel.setInfo({});
    await drawn();
    expect(parts(host)).toEqual([false, true, false]);
    await answersStart(kernel);
    expect(parts(host)).toEqual([true, false, false]);
  });

  it("waits for the turns of a transcript, but not for ever", async () => {
    const { host, kernel } = await scene();
    await answersStart(kernel, 3);
    expect(parts(host)).toEqual([false, true, false]);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(parts(host)).toEqual([true, false, false]);
    kernel.tell(run("past-s-1", { kind: "past", state: "done" }));
    await drawn();
    expect(find(host, ".first-page").hidden).toBe(true);
  });

  it("waits for the notebook that the page still opens", async () => {
    settled = false;
    const { host, chat } = await scene(undefined, null);
    expect(parts(host)).toEqual([false, true, false]);
    settled = true;
    chat.notify();
    await drawn();
    expect(parts(host)).toEqual([true, false, false]);
  });
});

describe("branches", () => {
  const requests = (kernel: OneKernel, method: string): Record<string, unknown>[] => kernel.comm.sent.filter(({ message }) => message.method === method).map(({ message }) => message);
  const inSession = (id: string, turns: number): ReturnType<typeof state> => state({ session: { ...stateOf().session, id, turns } });
  const answer = async (kernel: OneKernel, method: string, result: unknown): Promise<void> => {
    kernel.tell({ type: "reply", id: (requests(kernel, method).at(-1)?.id ?? null) as string, result: result as null });
    await drawn();
  };

  async function twoTurns(): Promise<Scene> {
    const opened = await scene();
    opened.kernel.tell(inSession("b", 2), ...[1, 2].map((turn) => run(`r${turn}`, { session: "b", turn, state: "done", prompt: `prompt ${turn}` })));
    await drawn();
    await answer(opened.kernel, "session_branches", { turns: { 2: ["a", "b", "c"] } });
    return opened;
  }

  it("are a switch at their prompt, which goes from one to the next by keys and keeps the focus", async () => {
    const { host, kernel } = await twoTurns();
    const groups = [...host.querySelectorAll<HTMLElement>(".branches")];
    expect(groups.map(({ hidden }) => hidden)).toEqual([true, false]);
    expect([groups[1]?.getAttribute("aria-label"), groups[1]?.textContent]).toEqual(["Branch 2 of 3", "‹2/3›"]);
    await real(() => expectAccessible(host));
    const next = groups[1]?.querySelectorAll("button")[1];
    next?.focus();
    press(next ?? host, "ArrowLeft");
    expect(requests(kernel, "session_resume").at(-1)?.params).toEqual({ id: "a" });
    kernel.tell({ type: "gone", runs: ["r1", "r2"] }, inSession("a", 2), ...[1, 2].map((turn) => run(`a${turn}`, { session: "a", turn, state: "done", kind: "past" })));
    await drawn();
    await answer(kernel, "session_branches", { turns: { 2: ["a", "b", "c"] } });
    expect(find(host, "[data-run=a2] .branches").getAttribute("aria-label")).toBe("Branch 1 of 3");
    expect(document.activeElement?.getAttribute("aria-label")).toBe("Next branch");
  });

  it("begin with an edited prompt, which Enter sends and Escape leaves", async () => {
    const { host, kernel } = await twoTurns();
    const edit = find(host, "[data-run=r2] .edit");
    edit.click();
    await drawn();
    const area = find<HTMLTextAreaElement>(host, ".prompt-editor textarea");
    expect([area.value, document.activeElement]).toEqual(["prompt 2", area]);
    press(area, "Escape");
    expect([host.querySelector(".prompt-editor"), document.activeElement]).toEqual([null, edit]);
    edit.click();
    await drawn();
    const again = find<HTMLTextAreaElement>(host, ".prompt-editor textarea");
    again.value = "other words";
    press(again, "Enter", { shiftKey: true });
    press(again, "Enter", { isComposing: true });
    expect(requests(kernel, "session_fork")).toEqual([]);
    press(again, "Enter");
    expect(requests(kernel, "session_fork").at(-1)?.params).toEqual({ id: "b", turn: 1 });
    await answer(kernel, "session_fork", null);
    expect(requests(kernel, "prompt").at(-1)?.params).toMatchObject({ text: "other words", like: "r2" });
  });

  it("begin with a good answer that is asked for again", async () => {
    const { host, kernel } = await twoTurns();
    find(host, "[data-run=r1] .retry").click();
    expect(requests(kernel, "session_fork").at(-1)?.params).toEqual({ id: "b", turn: 0 });
    await answer(kernel, "session_fork", null);
    expect(requests(kernel, "prompt").at(-1)?.params).toMatchObject({ text: "prompt 1", like: "r1" });
    kernel.tell(run("r3", { session: "b", turn: 3, state: "failed" }));
    await drawn();
    expect(find(host, "[data-run=r3] .retry").hidden).toBe(true);
  });
});

describe("without a kernel", () => {
  it("offers to start one, and starts none by itself", async () => {
    const { host, home } = await scene(undefined, null);
    expect(textOf(host, ".first")).toContain("Your first prompt starts a kernel");
    expect(textOf(host, ".where")).toBe("No kernel");
    expect(home.startKernel).not.toHaveBeenCalled();
    find(host, ".start").click();
    expect(home.startKernel).toHaveBeenCalledOnce();
    await real(() => expectAccessible(host));
  });

  it("puts an example into the composer, and sends nothing", async () => {
    const { host, area } = await scene(undefined, null);
    find(host, ".examples button").click();
    expect(area.value).toBe("What is in this folder?");
    expect(document.activeElement).toBe(area);
  });
});

describe("a conversation", () => {
  it("shows each run with the user's words, where they were said, and what came of them", async () => {
    const { host, kernel, home } = await scene();
    kernel.tell(
      state(), run("r1", { prompt: "Plot it", place: "[3]", state: "done", background: false }), ops("r1", 0, RUN, text("Here **it** is."), END),
      run("r2", { prompt: "/cost", kind: "command", state: "waiting" }),
    );
    await drawn();
    const [first, second] = host.querySelectorAll<HTMLElement>(".run");
    if (!first || !second) throw new Error("no runs");
    expect(textOf(first, ".words")).toBe("Plot it");
    // a heading of the conversation, whose buttons come after it
    expect(find(first, ".words").getAttribute("role")).toBe("heading");
    expect(find(first, ".words").compareDocumentPosition(find(first, ".prompt-actions"))).toBe(Node.DOCUMENT_POSITION_FOLLOWING);
    expect(find(first, ".answer").shadowRoot?.textContent).toContain("Here it is.");
    find(first, ".said .place").click();
    expect(home.showCell).toHaveBeenCalledWith("[3]");
    expect(textOf(second, ".waits")).toContain("Queued");
    find(second, ".waits button").click();
    expect(kernel.comm.sent.at(-1)?.message).toEqual({ type: "stop", run: "r2" });
    expect(find(host, ".first-page").hidden).toBe(true);
    await real(() => expectAccessible(host));
  });

  it("asks a cell's prompt again in its cell, with the options that it has there, and here where the cell is gone", async () => {
    const { host, kernel, home } = await scene();
    offerPageActions();
    kernel.tell(
      state(), run("r1", { prompt: "Plot it", place: "[3]", state: "failed" }),
      ops("r1", 0, RUN, { op: "end", stop_reason: "budget", cost_usd: null, session_cost_usd: null, ms: 9, error: { code: "BUDGET_EXCEEDED", message: "m" } }),
    );
    await drawn();
    const again = async (isThere: boolean): Promise<string> => {
      vi.mocked(home.runCell).mockReturnValueOnce(isThere);
      const buttons = [...(find(host, ".answer").shadowRoot?.querySelectorAll<HTMLElement>(".failure button") ?? [])];
      buttons.find(({ textContent }) => textContent === "Try again")?.click();
      await drawn();
      return JSON.stringify(kernel.comm.sent.map(({ message }) => message));
    };
    expect(await again(true)).not.toContain("Plot it");
    expect(home.runCell).toHaveBeenLastCalledWith("[3]", "Plot it");
    expect(await again(false)).toContain("Plot it");
  });

  it("asks for an action on a cell again as that action, and goes to its cell wherever that is now", async () => {
    const { host, kernel, home } = await scene();
    offerPageActions();
    const action = { name: "fix" as const, path: "study.ipynb", id: "a1", label: "cell [3]", error: "KeyError", words: "" };
    kernel.tell(
      state(), run("r1", { prompt: "Fix the KeyError in cell [3]", place: "[3]", state: "failed", action }),
      ops("r1", 0, RUN, { op: "end", stop_reason: "budget", cost_usd: null, session_cost_usd: null, ms: 9, error: { code: "BUDGET_EXCEEDED", message: "m" } }),
    );
    await drawn();
    const asked: unknown[] = [];
    host.addEventListener(ACTION_EVENT, (event) => { asked.push((event as CustomEvent).detail); });
    find(host, ".said .place").click();
    expect(asked).toEqual([{ action: "cell", path: "study.ipynb", cell: "a1" }]);
    expect(home.showCell).not.toHaveBeenCalled();
    // it was never the user's text
    expect(find(host, ".prompt-actions").hidden).toBe(true);
    const buttons = [...(find(host, ".answer").shadowRoot?.querySelectorAll<HTMLElement>(".failure button") ?? [])];
    buttons.find(({ textContent }) => textContent === "Try again")?.click();
    await drawn();
    const { path, id, ...rest } = action;
    expect(kernel.comm.sent.at(-1)?.message).toMatchObject({ method: "prompt", params: { text: "", cell: { path, id }, action: rest } });
  });

  it("folds a long prompt, and shows all of it when asked to", async () => {
    const { host, kernel } = await scene();
    kernel.tell(run("r1", { prompt: "line\n".repeat(40) }));
    await drawn();
    expect(find(host, ".words").classList).toContain("folded");
    find(host, ".fold").click();
    expect(find(host, ".words").classList).not.toContain("folded");
  });

  it("is not drawn again when something of a run has changed", async () => {
    const { host, kernel } = await scene();
    kernel.tell(run("r1"), ops("r1", 0, RUN, text("one")));
    await drawn();
    const [node, body] = [find(host, ".run"), find(host, ".answer").shadowRoot?.querySelector(".transcript")];
    kernel.tell(run("r1", { state: "asking" }), ops("r1", 2, text(" two")), run("r2"));
    await drawn();
    expect(find(host, ".run")).toBe(node);
    expect(find(host, ".answer").shadowRoot?.querySelector(".transcript")).toBe(body);
    kernel.tell({ type: "gone", runs: ["r1"] });
    await drawn();
    expect(node.isConnected).toBe(false);
  });

  it("has one place to write: the transcript's own field is for cells", async () => {
    const { host, kernel } = await scene();
    kernel.tell(run("r1"), ops("r1", 0, RUN, text("one")));
    await drawn();
    expect(find(find(host, ".answer").shadowRoot ?? host, ".steer").hidden).toBe(true);
  });
});

describe("a turn that changed files", () => {
  const CHANGES: Op = { op: "changes", turn: 3, files: [{ where: "tides.py", kind: "changed", added: 1, removed: 1 }], cells: [], effects: [], not_kept: [] };

  it("offers to take it back as it ends, and is asked about where it ended before the panel came", async () => {
    const { host, kernel } = await scene();
    kernel.tell(state(), run("r1"));
    await drawn();
    kernel.tell(ops("r1", 0, CHANGES, END), run("r1", { state: "done" }));
    for (const turn of [1, 2]) kernel.tell(run(`old-${turn}`, { state: "done", turn }), ops(`old-${turn}`, 0, { ...CHANGES, turn }, END));
    await drawn();
    const offers = (): (string | undefined)[] => [...host.querySelectorAll<HTMLElement>(".run:has(.cellwright-undo)")].map((each) => each.dataset.run);
    expect(offers()).toEqual(["r1"]);
    const asked = kernel.comm.sent.map(({ message }) => message).filter(({ method }) => method === "undo_turns");
    expect(asked).toHaveLength(1);
    kernel.tell({ type: "reply", id: asked[0]?.id ?? null, result: { session: "s", turns: [2, 3] } });
    await drawn();
    expect(offers()).toEqual(["r1", "old-2"]);
  });
});

describe("a question", () => {
  const asking = async (): Promise<Scene> => {
    const made = await scene();
    made.area.focus();
    made.kernel.tell(run("r1", { state: "asking" }), ops("r1", 0, RUN, ask("q1")), state({ current: "r1", asking: ["q1"] }));
    return made;
  };

  it("comes to who has just asked, is answered by a key, and tells the kernel", async () => {
    const { host, kernel } = await asking();
    await vi.advanceTimersByTimeAsync(1_000);
    const root = find(host, ".answer").shadowRoot;
    const card = root && find(root, ".ask");
    expect(root?.activeElement).toBe(card);
    if (card) press(card, "1");
    expect(kernel.comm.sent.at(-1)?.message).toMatchObject({ type: "answer", question: "q1", behavior: "allow", scope: "once" });
  });

  it("leaves the keyboard to who is writing", async () => {
    const made = await scene();
    made.area.value = "half a sentence";
    made.area.focus();
    made.kernel.tell(run("r1", { state: "asking" }), ops("r1", 0, RUN, ask("q1")), state({ current: "r1", asking: ["q1"] }));
    await vi.advanceTimersByTimeAsync(1_000);
    expect(document.activeElement).toBe(made.area);
  });

  it("that was answered elsewhere is answered here", async () => {
    const { host, kernel } = await asking();
    await vi.advanceTimersByTimeAsync(1_000);
    kernel.tell(ops("r1", 2, answered("q1")), state({ current: "r1" }));
    await drawn();
    expect(find(host, ".answer").shadowRoot?.querySelector(".ask")).toBeNull();
  });
});

describe("keys and views", () => {
  it("a view takes the place of the runs; Escape goes back to the composer, and then to the notebook", async () => {
    const { panel, host, area, home } = await scene();
    panel.open("help");
    await drawn();
    expect(textOf(host, ".view")).toBe("the help");
    expect(find(host, ".conversation").hidden).toBe(true);
    press(find(host, ".view"), "Escape");
    expect([find(host, ".view").hidden, document.activeElement]).toEqual([true, area]);
    press(area, "Escape");
    expect(home.leave).toHaveBeenCalledOnce();
  });

  it("the focus stays in the composer when a notebook takes it back unasked, and goes where the user goes", async () => {
    const { panel, area } = await scene();
    const cell = document.createElement("div");
    cell.className = "jp-Cell";
    cell.tabIndex = 0;
    document.body.append(cell);
    panel.focusComposer();
    cell.focus();
    await vi.advanceTimersByTimeAsync(50);
    expect(document.activeElement).toBe(area);
    press(area, "Tab");
    cell.focus();
    await vi.advanceTimersByTimeAsync(50);
    expect(document.activeElement).toBe(cell);
  });

  it("F6 goes through its parts, there and back, and into the question that waits", async () => {
    const { kernel, panel, area } = await scene();
    kernel.tell(state({ current: "r1", asking: ["q1"] }), run("r1", { state: "asking" }), ops("r1", 0, RUN, begun("t1"), ask("q1")));
    await drawn();
    await drawn();
    const here = (): string => {
      const active = focused();
      if (active?.closest(".ask")) return "question";
      return active === area ? "composer" : (active?.closest(".head, .scroller, .note")?.className ?? "elsewhere");
    };
    area.focus();
    const visited = [1, 1, 1, 1, -1, -1].map((step) => {
      panel.goToRegion(step as 1 | -1);
      return here();
    });
    expect(visited).toEqual(["head", "scroller", "question", "composer", "question", "scroller"]);
  });

  it("has Stop once: beside where one writes, and not in the answer", async () => {
    const { host, kernel } = await scene();
    kernel.tell(state({ current: "r1" }), run("r1", { state: "running" }), ops("r1", 0, RUN));
    await drawn();
    expect(find(find(host, ".answer").shadowRoot ?? host, "footer .stop").hidden).toBe(true);
  });

  it("the head is one stop for Tab, with arrows inside", async () => {
    const { host } = await scene();
    const tools = [...host.querySelectorAll<HTMLButtonElement>(".tools button")];
    expect(tools.filter(({ tabIndex }) => tabIndex === 0)).toHaveLength(1);
    tools[0]?.focus();
    press(tools[0] ?? host, "ArrowRight");
    expect(document.activeElement).toBe(tools[1]);
    press(tools[1] ?? host, "ArrowLeft");
    press(tools[0] ?? host, "ArrowLeft");
    expect(document.activeElement).toBe(tools.at(-1));
  });

  it("a new session is asked for, and what the kernel says against it is told", async () => {
    const { panel, kernel, home } = await scene();
    panel.newSession();
    const request = kernel.comm.sent.at(-1)?.message;
    expect(request).toMatchObject({ method: "session_new" });
    kernel.tell({ type: "reply", id: request?.id ?? "", error: { code: "failed", message: "A run goes on." } });
    await drawn();
    expect(home.tell).toHaveBeenCalledWith("A run goes on.");
  });

  it("says aloud how the connection is, once", async () => {
    const { host, kernel } = await scene();
    const said = (): string => textOf(host, ".unseen");
    expect(said()).toBe("Connected to the kernel of work/tides.ipynb");
    kernel.isDisposed = true;
    kernel.setStatus("dead");
    await drawn();
    expect(said()).toBe("The kernel is gone");
  });

  it("takes all of itself away", async () => {
    const { panel, host, kernel } = await scene();
    kernel.tell(run("r1"), ops("r1", 0, RUN));
    await drawn();
    panel.dispose();
    expect(host.childElementCount).toBe(0);
    kernel.tell(run("r2"));
    await drawn();
    expect(host.childElementCount).toBe(0);
  });
});
