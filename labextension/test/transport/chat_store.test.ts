import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import examples from "../../../docs/protocol/chat-examples.json";
import type { JsonObject } from "../../src/json";
import type { TextItem } from "../../src/transcript/store";
import { RETRY_MS, ANSWER_TIMEOUT_MS, CLOSE_DELAY_MS, PING_INTERVAL_MS } from "../../src/transport/chat_connection";
import { ChatStore, PROMPT_TIMEOUT_MS } from "../../src/transport/chat_store";
import type { RequestError } from "../../src/transport/rpc";
import { LOADED_TARGET } from "../../src/transport/rpc";
import type { ChatKernel } from "../support/kernel_shapes";
import { standIn } from "../support/stand_in";
import { RUN } from "../transcript/scene";
import { OneKernel, ops, run, state, text } from "./chat_kernel";

const NOTEBOOK = { kernelId: "kernel-1", name: "Python 3", notebook: "tides.ipynb" };
const PROMPT = { text: "hello", attachments: [], context: "auto", cell: null, options: {} } as const;
const never = new Promise<never>(() => undefined);

const settled = (): Promise<unknown> => vi.advanceTimersByTimeAsync(0);

function store(kernel: ChatKernel | null = null, start = (): Promise<void> => Promise.reject(new Error("no kernel"))): ChatStore {
  const made = new ChatStore("JupyterLab 4.6.6", start);
  if (kernel) made.connect(standIn(kernel), NOTEBOOK);
  return made;
}

async function connected(kernel = new OneKernel()): Promise<{ chat: ChatStore; kernel: OneKernel }> {
  const chat = store(kernel);
  await settled();
  expect(chat.connection).toBe("connected");
  return { chat, kernel };
}

function wordsOf(chat: ChatStore, id: string): string {
  const transcript = chat.runs.find(({ run: { id: known } }) => known === id)?.transcript;
  return transcript?.items.map((item) => (item as TextItem).text).join("|") ?? "";
}

function shown(chat: ChatStore): string[] {
  return chat.runs.map(({ run: { id } }) => id);
}

beforeEach(() => { vi.useFakeTimers(); });
afterEach(() => {
  vi.useRealTimers();
  sessionStorage.clear();
});

describe("connecting", () => {
  it("loads the package through the comm's subshell, without history, and introduces the page", async () => {
    const { kernel } = await connected();
    expect(kernel.completed).toMatchObject([{ code: expect.stringContaining("load_on_completion") as string, subshell: "subshell-of-the-target" }]);
    expect(kernel.executed).toEqual([]);
    expect(kernel.subshellId).toBeNull();
    expect(kernel.comm.opened?.message).toMatchObject({ protocol: 1, client: "JupyterLab 4.6.6", view: "ops", log: "", have: {} });
  });

  it("makes a subshell itself where the kernel is too busy to say what it can", async () => {
    const kernel = new OneKernel();
    kernel.supportsSubshells = false;
    kernel.info = never;
    const chat = store(kernel);
    await vi.advanceTimersByTimeAsync(4_000);
    expect(chat.connection).toBe("connected");
    expect(kernel.comm.opened?.subshell).toBe("own-1");
    chat.send({ type: "stop", run: "r1" });
    expect(kernel.comm.sent).toEqual([{ message: { type: "stop", run: "r1" }, subshell: "own-1" }]);
    expect(kernel.subshellId).toBeNull();
  });

  it("waits for the cell that runs where there are no subshells, and says so", async () => {
    const kernel = new OneKernel();
    kernel.supportsSubshells = false;
    let loaded = (): void => undefined;
    kernel.loading = new Promise((resolve) => { loaded = () => { resolve({ status: "ok" }); }; });
    const chat = store(kernel);
    await vi.advanceTimersByTimeAsync(600_000);
    expect([chat.connection, chat.waitsForCell]).toEqual(["connecting", true]);
    expect(kernel.subshells).toBe(0);
    loaded();
    await settled();
    expect([chat.connection, chat.waitsForCell]).toEqual(["connected", false]);
  });

  it("says what this kernel's Python is where the package is missing, and tries again when asked to", async () => {
    const kernel = new OneKernel();
    kernel.loading = { status: "error", ename: "ModuleNotFoundError", evalue: "No module named 'cellwright'" };
    const chat = store(kernel);
    await settled();
    expect(chat.connection).toBe("missing");
    expect(chat.problem).toEqual({ executable: "/env/bin/python", version: "", protocol: 0, message: "" });
    kernel.setStatus("busy");
    kernel.setStatus("idle");
    expect(chat.connection).toBe("missing");
    kernel.loading = { status: "ok" };
    chat.reconnect();
    await settled();
    expect(chat.connection).toBe("connected");
  });

  it("connects by itself when a cell has loaded what was missing", async () => {
    const kernel = new OneKernel();
    kernel.loading = { status: "error", ename: "ModuleNotFoundError", evalue: "No module named 'cellwright'" };
    const chat = store(kernel);
    await settled();
    kernel.loading = { status: "ok" };
    kernel.iopubMessage.emit({ header: { msg_type: "comm_open" }, content: { target_name: LOADED_TARGET } });
    await settled();
    expect(chat.connection).toBe("connected");
  });

  it("tells a package that does not load from one that is missing", async () => {
    const kernel = new OneKernel();
    kernel.loading = { status: "error", ename: "ModuleNotFoundError", evalue: "No module named 'httpx2'" };
    const chat = store(kernel);
    await settled();
    expect([chat.connection, chat.problem?.message]).toEqual(["missing", "ModuleNotFoundError: No module named 'httpx2'"]);
  });

  it("shows broken settings in the kernel's words", async () => {
    const kernel = new OneKernel();
    kernel.greeting = [{ type: "failed", code: "CONFIG_INVALID", message: "settings.json: no such mode" }];
    kernel.refuses = true;
    const chat = store(kernel);
    await settled();
    expect([chat.connection, chat.problem?.message]).toEqual(["missing", "CONFIG_INVALID: settings.json: no such mode"]);
  });

  it.each([
    ["says so", [{ type: "unsupported", protocol: 7, version: "0.1.0" }], 7],
    ["closes the comm without a word", [], 0],
  ])("names both versions where the kernel %s", async (_, greeting, protocol) => {
    const kernel = new OneKernel();
    kernel.greeting = greeting;
    kernel.refuses = true;
    const chat = store(kernel);
    await vi.advanceTimersByTimeAsync(10);
    expect(chat.connection).toBe("unsupported");
    expect(chat.problem).toMatchObject({ version: "0.1.0", executable: "/env/bin/python", protocol });
    // nothing is executed on a subshell: its thread would run the user's hooks
    expect(kernel.executed.at(-1)?.subshell).toBeNull();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(kernel.comms).toHaveLength(1);
  });

  it("takes a new subshell when the one that the page knows is gone, and says when nothing helps", async () => {
    const kernel = new OneKernel();
    kernel.greeting = [];
    const chat = store(kernel);
    await vi.advanceTimersByTimeAsync(ANSWER_TIMEOUT_MS + 10);
    expect(kernel.comms).toHaveLength(2);
    expect(kernel.comm.opened?.subshell).toBe("own-1");
    await vi.advanceTimersByTimeAsync(ANSWER_TIMEOUT_MS);
    expect([chat.connection, chat.problem?.message]).toEqual(["lost", "The kernel does not answer."]);
  });

  it("does not wait for ever for a kernel that has closed the comm and says nothing", async () => {
    const kernel = new OneKernel();
    kernel.greeting = [];
    kernel.refuses = true;
    kernel.about = never;
    const chat = store(kernel);
    await vi.advanceTimersByTimeAsync(ANSWER_TIMEOUT_MS + 10);
    expect([chat.connection, chat.problem?.version]).toEqual(["unsupported", ""]);
  });

  it("leaves nothing behind in a kernel that it goes away from", async () => {
    const { chat, kernel } = await connected();
    chat.connect(null, null);
    expect(kernel.comm.sent.map(({ message }) => message.type)).toEqual(["bye"]);
    await vi.advanceTimersByTimeAsync(CLOSE_DELAY_MS);
    expect(kernel.comm.isClosed).toBe(true);
    expect(kernel.statusChanged.listeners + kernel.connectionStatusChanged.listeners + kernel.disposed.listeners + kernel.iopubMessage.listeners).toBe(0);
    expect(chat.connection).toBe("none");
  });
});

describe("one log, whenever one looks", () => {
  it("shows runs in the order in which they come, and each operation once", async () => {
    const { chat, kernel } = await connected();
    kernel.tell(state(), run("r1"), run("r2", { state: "waiting" }), ops("r1", 0, RUN, text("one ")), ops("r1", 1, text("one "), text("two")));
    expect(shown(chat)).toEqual(["r1", "r2"]);
    expect(wordsOf(chat, "r1")).toBe("one two");
    kernel.tell(run("r1", { state: "done" }));
    expect(shown(chat)).toEqual(["r1", "r2"]);
    expect(chat.runs[0]?.run.state).toBe("done");
    expect(wordsOf(chat, "r1")).toBe("one two");
  });

  it("asks once for what was missed, and again when nothing came", async () => {
    const { chat, kernel } = await connected();
    kernel.tell(run("r1"), ops("r1", 0, RUN), ops("r1", 2, text("three")), ops("r1", 3, text("four")));
    const asked = (): unknown[] => kernel.comm.sent.map(({ message }) => message);
    expect(asked()).toEqual([{ type: "again", run: "r1", have: 1 }]);
    await vi.advanceTimersByTimeAsync(2_500);
    kernel.tell(ops("r1", 4, text("five")));
    expect(asked()).toHaveLength(2);
    kernel.tell(ops("r1", 1, text("two "), text("three "), text("four")));
    expect(wordsOf(chat, "r1")).toBe("two three four");
  });

  it("forgets what is no part of the conversation any more", async () => {
    const { chat, kernel } = await connected();
    kernel.tell(run("r1"), run("r2"), { type: "gone", runs: ["r1"] });
    expect(shown(chat)).toEqual(["r2"]);
  });

  it("joins what came in pieces", async () => {
    const { chat, kernel } = await connected();
    const whole = JSON.stringify(run("r1"));
    kernel.tell({ type: "part", of: 1, text: whole.slice(0, 20), last: false }, { type: "part", of: 1, text: whole.slice(20), last: true });
    expect(shown(chat)).toEqual(["r1"]);
  });

  it("is told to who looks, and not to who has stopped looking", async () => {
    const { chat, kernel } = await connected();
    const [one, other] = [vi.fn(), vi.fn()];
    chat.subscribe(one);
    chat.subscribe(other)();
    kernel.tell(state(), run("r1"));
    expect(one).toHaveBeenCalledTimes(2);
    kernel.tell(ops("r1", 0, RUN));
    expect(one).toHaveBeenCalledTimes(2);
    expect(other).not.toHaveBeenCalled();
  });

  it("is the same in two pages of one kernel", async () => {
    const kernel = new OneKernel();
    const [one, other] = [(await connected(kernel)).chat, (await connected(kernel)).chat];
    const [first, second] = kernel.comms;
    expect(first?.opened?.message.page).not.toBe(second?.opened?.message.page);
    for (const comm of [first, second]) comm?.tell(run("r1"), ops("r1", 0, RUN, text("both")));
    expect([wordsOf(one, "r1"), wordsOf(other, "r1")]).toEqual(["both", "both"]);
  });
});

describe("coming back", () => {
  it("after a lost connection has the kernel send the rest alone", async () => {
    const { chat, kernel } = await connected();
    kernel.tell(run("r1"), ops("r1", 0, RUN, text("one ")));
    kernel.setConnection("connecting");
    expect(chat.connection).toBe("connecting");
    expect(wordsOf(chat, "r1")).toBe("one ");
    kernel.setConnection("connected");
    await settled();
    expect(chat.connection).toBe("connected");
    expect(kernel.comm.opened?.message).toMatchObject({ log: "log-1", have: { r1: 2 } });
    kernel.tell(run("r1"), ops("r1", 2, text("two")));
    expect(wordsOf(chat, "r1")).toBe("one two");
    expect(kernel.comms).toHaveLength(2);
  });

  it("sends the answers that were given meanwhile, the last one to each question, and none to another process", async () => {
    const { chat, kernel } = await connected();
    const answer = (question: string, behavior: "allow" | "deny") => ({ type: "answer", question, behavior, scope: "once", reason: "", input: null }) as const;
    for (const log of ["log-1", "log-2"]) {
      kernel.setConnection("connecting");
      chat.send(answer("q1", "deny"));
      chat.send(answer("q1", "allow"));
      kernel.greeting = kernel.greeting.map((message) => (message.type === "welcome" ? { ...message, log } : message));
      kernel.setConnection("connected");
      await settled();
      expect(kernel.comm.sent.map(({ message }) => message)).toEqual(log === "log-1" ? [answer("q1", "allow")] : []);
    }
  });

  it("says that the server is gone when the page has given up", async () => {
    const { chat, kernel } = await connected();
    kernel.setConnection("disconnected");
    expect([chat.connection, chat.problem?.message]).toEqual(["lost", "The connection to the server is lost."]);
  });

  /** A conversation of two turns, the second of which goes on, after a restart of its kernel. */
  async function restarted(status = "restarting"): Promise<{ chat: ChatStore; kernel: OneKernel }> {
    const { chat, kernel } = await connected();
    kernel.tell(state(), run("r1", { state: "done" }), ops("r1", 0, RUN, text("one")), run("r2", { turn: 2 }), ops("r2", 0, RUN, text("two")));
    const before = kernel.comm;
    kernel.setStatus(status);
    expect([chat.connection, shown(chat)]).toEqual(["connecting", ["r1", "r2"]]);
    before.tell(run("late"));
    kernel.greeting = [{ type: "welcome", protocol: 1, version: "0.1.0", log: "log-2", executable: "" }, inSession("empty", 0)];
    kernel.setStatus("idle");
    await settled();
    expect(before.isClosed).toBe(false);
    return { chat, kernel };
  }
  const inSession = (id: string, turns: number): JsonObject => ({ ...state(), session: { ...(state().session as JsonObject), id, turns } });
  const prompted = (chat: ChatStore): Promise<string> => chat.prompt({ ...PROMPT, attachments: [] });
  const requests = (kernel: OneKernel): unknown[] => kernel.comm.sent.map(({ message }) => message.method);
  const reply = (kernel: OneKernel, answer: JsonObject): void => { kernel.tell({ type: "reply", id: kernel.comm.sent.at(-1)?.message.id ?? null, ...answer }); };

  const BEFORE = ["log-1/r1", "log-1/r2"];

  it.each(["restarting", "autorestarting"])("keeps the conversation on the screen after a kernel is %s, and nothing of it runs", async (status) => {
    const { chat, kernel } = await restarted(status);
    expect([chat.connection, shown(chat), wordsOf(chat, "log-1/r2")]).toEqual(["connected", BEFORE, "two"]);
    expect(chat.runs.map(({ run: { state: now }, restarted: after, transcript }) => [now, after, transcript.end?.stop_reason])).toEqual([["done", undefined, undefined], ["interrupted", true, "interrupted"]]);
    expect(kernel.comm.opened?.message).toMatchObject({ log: "log-1", have: { r1: 2, r2: 2 } });
    // the new process counts its runs from 1, too
    kernel.tell(run("r1"), ops("r1", 0, RUN, text("again")));
    expect([shown(chat), wordsOf(chat, "log-1/r1"), wordsOf(chat, "r1")]).toEqual([[...BEFORE, "r1"], "one", "again"]);
  });

  it("resumes what is on the screen with the next prompt, once, and shows no turn twice", async () => {
    const { chat, kernel } = await restarted();
    const asked = prompted(chat);
    await settled();
    expect(kernel.comm.sent.at(-1)?.message).toMatchObject({ method: "session_resume", params: { id: "s" } });
    kernel.tell(inSession("s", 2), run("past-s-1", { kind: "past", state: "done" }), run("past-s-2", { kind: "past", state: "done", turn: 2 }));
    reply(kernel, { result: null });
    await settled();
    reply(kernel, { result: { run: "r1" } });
    expect(await asked).toBe("r1");
    kernel.tell(run("r1", { turn: 3 }));
    expect(shown(chat)).toEqual([...BEFORE, "r1"]);
    kernel.tell({ type: "gone", runs: ["past-s-2"] });
    expect(shown(chat)).toEqual(["log-1/r1", "r1"]);
    void prompted(chat);
    await settled();
    expect(requests(kernel)).toEqual(["session_resume", "prompt", "prompt"]);
  });

  it("says why it could not be resumed, and starts a new one when it is asked again", async () => {
    const { chat, kernel } = await restarted();
    const refused = prompted(chat).catch((error: unknown) => (error as RequestError).message);
    await settled();
    reply(kernel, { error: { code: "SESSION_NOT_FOUND", message: "It is gone." } });
    expect(await refused).toBe("The conversation could not be resumed: It is gone. Send again to start a new one.");
    void prompted(chat);
    await settled();
    expect(requests(kernel)).toEqual(["session_resume", "prompt"]);
  });

  it("is on the screen of a page that is loaded after the restart, or the page says why it is not", async () => {
    const { kernel } = await restarted();
    const again = store(kernel);
    await settled();
    expect([requests(kernel), again.isRestoring]).toEqual([["session_resume"], true]);
    expect(kernel.comm.sent.at(-1)?.message).toMatchObject({ params: { id: "s" } });
    kernel.tell(inSession("s", 2), run("past-s-1", { kind: "past", state: "done" }), run("past-s-2", { kind: "past", state: "done", turn: 2 }));
    reply(kernel, { result: null });
    await settled();
    expect(again.runs.map(({ run: { id }, restarted: after }) => [id, after])).toEqual([["past-s-1", undefined], ["past-s-2", true]]);
    expect([again.isRestoring, again.notRestored]).toEqual([false, ""]);

    kernel.greeting = [{ type: "welcome", protocol: 1, version: "0.1.0", log: "log-3", executable: "" }, inSession("empty", 0)];
    const third = store(kernel);
    await settled();
    reply(kernel, { error: { code: "SESSION_IN_USE", message: "Another kernel has it." } });
    await settled();
    expect([third.isRestoring, third.notRestored, shown(third)]).toEqual([false, "Another kernel has it.", []]);
    store(kernel);
    await settled();
    expect(requests(kernel)).toEqual([]);
  });

  it("is not brought back once a new session was chosen", async () => {
    const { kernel } = await restarted();
    kernel.tell(inSession("another", 0));
    store(kernel);
    await settled();
    expect(requests(kernel)).toEqual([]);
  });

  it("leaves it when another conversation is chosen, and resumes nothing in one that a cell has begun", async () => {
    const { chat, kernel } = await restarted();
    kernel.tell(inSession("empty", 1));
    void prompted(chat);
    await settled();
    expect(requests(kernel)).toEqual(["prompt"]);
    expect(shown(chat)).toEqual(BEFORE);
    kernel.tell(inSession("another", 0));
    expect(shown(chat)).toEqual([]);
  });

  it("notices a restart that somebody else has made", async () => {
    const { kernel } = await connected();
    kernel.setStatus("starting");
    await settled();
    expect(kernel.comms).toHaveLength(2);
  });

  it("notices a restart that nobody has told it of", async () => {
    const { chat, kernel } = await connected();
    await vi.advanceTimersByTimeAsync(10 * PING_INTERVAL_MS);
    expect(kernel.comms).toHaveLength(1);
    kernel.comm.answers = false;
    await vi.advanceTimersByTimeAsync(2 * PING_INTERVAL_MS);
    expect([chat.connection, kernel.comms.length]).toEqual(["connected", 2]);
  });

  it("says that a kernel has died", async () => {
    const { chat, kernel } = await connected();
    kernel.isDisposed = true;
    kernel.setStatus("dead");
    expect(chat.connection).toBe("lost");
  });

  it("after the kernel closed the connection tries less and less often", async () => {
    const { chat, kernel } = await connected();
    kernel.comm.onClose();
    expect(chat.connection).toBe("connecting");
    await vi.advanceTimersByTimeAsync(RETRY_MS);
    expect([chat.connection, kernel.comms.length]).toEqual(["connected", 2]);
  });

  it("to a kernel that was left shows what was there at once", async () => {
    const { chat, kernel } = await connected();
    kernel.tell(state(), run("r1"), ops("r1", 0, RUN, text("one ")));
    const other = new OneKernel("kernel-2");
    chat.connect(standIn(other), { ...NOTEBOOK, kernelId: "kernel-2", notebook: "other.ipynb" });
    await settled();
    expect(shown(chat)).toEqual([]);
    kernel.tell(run("unseen"));
    expect(shown(chat)).toEqual([]);
    chat.connect(standIn(kernel), NOTEBOOK);
    expect(wordsOf(chat, "r1")).toBe("one ");
    await settled();
    expect(kernel.comm.opened?.message).toMatchObject({ log: "log-1", have: { r1: 2 } });
  });
});

describe("asking", () => {
  it("sends a prompt and gives the run's id", async () => {
    const { chat, kernel } = await connected();
    const id = chat.prompt({ ...PROMPT, attachments: [] });
    await settled();
    const request = kernel.comm.sent.at(-1)?.message;
    expect(request).toMatchObject({ type: "request", method: "prompt", params: { text: "hello" } });
    kernel.tell({ type: "reply", id: request?.id ?? "", result: { run: "r1" } });
    expect(await id).toBe("r1");
  });

  it("starts a kernel with the first prompt where there is none", async () => {
    const kernel = new OneKernel();
    const chat: ChatStore = store(null, () => {
      chat.connect(standIn(kernel), { kernelId: kernel.id, name: "Python 3", notebook: null });
      return Promise.resolve();
    });
    const id = chat.prompt({ ...PROMPT, attachments: [] });
    await settled();
    kernel.tell({ type: "reply", id: kernel.comm.sent.at(-1)?.message.id ?? "", result: { run: "r1" } });
    expect(await id).toBe("r1");
  });

  it("says why it cannot", async () => {
    const refused = (promise: Promise<unknown>): Promise<string> => promise.then(() => "", (error: unknown) => (error as RequestError).code);
    const kernel = new OneKernel();
    kernel.loading = never;
    const chat = store(kernel);
    const [asked, prompted] = [refused(chat.request("context", {})), refused(chat.prompt({ ...PROMPT, attachments: [] }))];
    await vi.advanceTimersByTimeAsync(PROMPT_TIMEOUT_MS);
    expect([await asked, await prompted]).toEqual(["not_connected", "not_connected"]);
  });

  it("does not leave somebody waiting whose kernel restarts", async () => {
    const { chat, kernel } = await connected();
    const asked = chat.request("context", {}).catch((error: unknown) => (error as RequestError).code);
    kernel.setStatus("restarting");
    expect(await asked).toBe("gone");
  });
});

it("answers the kernel that asks whether the page is there, on the way that works", async () => {
  const kernel = new OneKernel();
  kernel.supportsSubshells = false;
  kernel.info = never;
  const chat = store(kernel);
  await vi.advanceTimersByTimeAsync(4_000);
  kernel.tell({ type: "request", id: "ping", method: "ping", params: {} });
  await settled();
  expect(kernel.comm.sent).toEqual([{ message: { type: "reply", id: "ping", result: null }, subshell: "own-1" }]);
  expect(chat.connection).toBe("connected");
});

describe("the examples of the protocol", () => {
  it("are taken, all that a kernel sends", async () => {
    const { chat, kernel } = await connected();
    for (const message of examples.kernel_to_panel) {
      if (!["welcome", "unsupported", "failed"].includes(message.type)) kernel.tell(message);
    }
    expect(chat.connection).toBe("connected");
    expect(chat.state?.session.title).toBe("Prices by city");
    expect(chat.runs.length).toBeGreaterThan(0);
  });

  it.each(["unsupported", "failed"])("end the connection where the kernel says %s", async (type) => {
    const kernel = new OneKernel();
    kernel.greeting = examples.kernel_to_panel.filter((message) => message.type === type);
    const chat = store(kernel);
    await vi.advanceTimersByTimeAsync(10);
    expect(chat.connection).toBe(type === "failed" ? "missing" : "unsupported");
  });
});
