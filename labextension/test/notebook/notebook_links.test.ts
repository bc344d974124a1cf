import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import type { JsonObject } from "../../src/json";
import { NotebookLinks, NOTEBOOK_TARGET } from "../../src/notebook/notebook_links";
import { LOADED_TARGET, RpcLink, CHUNK_CHARS, RequestError } from "../../src/transport/rpc";
import { INFO_TIMEOUT_MS, SUBSHELL_TIMEOUT_MS } from "../../src/transport/subshells";
import type { Comm, Kernel, NotebookModel, NotebookPanel, Signal } from "../support/notebook_shapes";
import { standIn } from "../support/stand_in";
import { code, OneSharedNotebook } from "./shared_notebook";

class Emitter<Value = unknown> implements Signal<unknown, Value> {
  private readonly slots: ((sender: unknown, value: Value) => void)[] = [];

  connect(slot: (sender: unknown, value: Value) => void): boolean {
    this.slots.push(slot);
    return true;
  }

  emit(value: Value): void {
    this.slots.forEach((slot) => { slot(this, value); });
  }
}

class OneComm implements Comm {
  opened: JsonObject | null = null;
  readonly sent: JsonObject[] = [];
  onMsg: Comm["onMsg"] = () => undefined;
  onClose = (): void => undefined;

  constructor(readonly subshellStarted = Promise.resolve()) {}

  /** Said in the first message; what comes without it is another script's. */
  private secret: unknown;

  open({ secret, ...data }: JsonObject): void {
    this.secret = secret;
    this.opened = data;
  }

  send({ secret, ...data }: JsonObject): void {
    if (secret !== this.secret) throw new Error("not the page's secret");
    this.sent.push(data);
  }

  close(): void {
    this.onClose();
  }

  tell(data: JsonObject): void {
    this.onMsg({ content: { data } });
  }

  reply(id: string): JsonObject | undefined {
    return this.sent.find((message) => message.type === "reply" && message.id === id);
  }
}

class OneKernel implements Kernel {
  readonly clientId: string;
  isDisposed = false;
  status = "idle";
  supportsSubshells = true;
  readonly disposed = new Emitter();
  readonly statusChanged = new Emitter<string>();
  readonly iopubMessage = new Emitter<{ header: { msg_type: string }; content: Record<string, unknown> }>();
  readonly comms: OneComm[] = [];
  /** Whether it holds us; null: it is busy and does not say. */
  holdsUs: boolean | null = false;
  subshell = Promise.resolve();

  constructor(readonly id: string) {
    this.clientId = `session of ${id}`;
  }

  createComm(target: string): Comm {
    expect(target).toBe(NOTEBOOK_TARGET);
    const comm = new OneComm(this.subshell);
    this.comms.push(comm);
    return comm;
  }

  requestCommInfo(): Promise<{ content: { comms: Record<string, unknown> } }> {
    if (this.holdsUs === null) return new Promise(() => undefined);
    return Promise.resolve({ content: { comms: this.holdsUs ? { one: {} } : {} } });
  }

  load(): void {
    this.iopubMessage.emit({ header: { msg_type: "comm_open" }, content: { target_name: LOADED_TARGET } });
  }

  get comm(): OneComm {
    const comm = this.comms.at(-1);
    if (!comm?.opened) throw new Error("not connected");
    return comm;
  }
}

class OnePanel implements NotebookPanel {
  readonly content = { disposed: new Emitter() };
  readonly shared: OneSharedNotebook;
  readonly context;

  constructor(path: string, kernel: OneKernel | null, ...sources: string[]) {
    this.shared = new OneSharedNotebook(...sources.map((source, at) => code(`c${at}`, source)));
    const added: JsonObject[] = [];
    const cells = this.shared.cells.map(({ id }) => ({
      id,
      type: "code",
      trusted: true,
      executionCount: null,
      executionState: "idle",
      outputs: { clear: () => void added.splice(0), add: (output: JsonObject) => added.push(output) },
    }));
    const model: NotebookModel & { dirty: boolean; added: JsonObject[]; stateChanged: Emitter } = {
      cells, sharedModel: this.shared, readOnly: false, dirty: false, stateChanged: new Emitter(), added,
    };
    this.context = {
      path,
      isReady: true,
      ready: Promise.resolve(),
      model,
      pathChanged: new Emitter(),
      sessionContext: { session: kernel && { kernel }, kernelChanged: new Emitter<{ newValue: Kernel | null }>() },
    };
  }
}

const settled = (): Promise<void> => vi.advanceTimersByTimeAsync(0).then(() => undefined);

beforeEach(() => { vi.useFakeTimers(); });
afterEach(() => { vi.useRealTimers(); });

describe("a link", () => {
  const linked = (): [RpcLink, OneComm] => {
    const comm = new OneComm();
    const link = new RpcLink(comm, new Map([["double", ({ n }) => Number(n) * 2]]));
    comm.onMsg = ({ content }) => { link.receive(content.data); };
    return [link, comm];
  };

  it("answers requests, and asks its own", async () => {
    const [link, comm] = linked();
    comm.tell({ type: "request", id: "k1", method: "double", params: { n: 21 } });
    comm.tell({ type: "request", id: "k2", method: "dance", params: {} });
    const answer = link.request("ping", {});
    await settled();
    expect(comm.reply("k1")?.result).toBe(42);
    expect(comm.reply("k2")?.error).toMatchObject({ code: "unknown_method" });
    comm.tell({ type: "reply", id: "p1", result: "here" });
    expect(await answer).toBe("here");
  });

  it("rejects what the kernel refuses, what it does not answer, and what nobody can answer any more", async () => {
    const [link, comm] = linked();
    const [refused, unanswered, orphaned] = [link.request("a", {}), link.request("b", {}, 50), link.request("c", {})];
    const codes = Promise.all([refused, unanswered, orphaned].map((each) => each.catch((error: unknown) => (error as RequestError).code)));
    comm.tell({ type: "reply", id: "p1", error: { code: "no", message: "No." } });
    await vi.advanceTimersByTimeAsync(50);
    link.end();
    expect(await codes).toEqual(["no", "timeout", "gone"]);
  });

  it("sends what is long in pieces, and puts pieces together", async () => {
    const [link, comm] = linked();
    const text = "ä".repeat(CHUNK_CHARS * 2);
    link.send({ type: "hello", text });
    expect(comm.sent.map(({ type, last }) => [type, last])).toEqual([["part", false], ["part", false], ["part", true]]);
    expect(JSON.parse(comm.sent.map((piece) => piece.text as string).join(""))).toEqual({ type: "hello", text });
    const whole = JSON.stringify({ type: "request", id: "k1", method: "double", params: { n: 1 } });
    comm.tell({ type: "part", of: 1, text: whole.slice(0, 9), last: false });
    comm.tell({ type: "part", of: 1, text: whole.slice(9), last: true });
    await settled();
    expect(comm.reply("k1")?.result).toBe(2);
  });
});

describe("a page connects to a kernel", () => {
  it("that loads us, and says what it shows", async () => {
    const [links, kernel, other] = [new NotebookLinks(), new OneKernel("k"), new OneKernel("other")];
    links.setFrontEnd({ frontEnd: "JupyterLab 4.6.6", root: "/root" });
    links.add(standIn(new OnePanel("a.ipynb", kernel, "x")));
    links.add(standIn(new OnePanel("b.ipynb", other, "x")));
    await settled();
    kernel.load();
    await settled();
    expect(kernel.comm.opened).toMatchObject({
      protocol: 1,
      front_end: "JupyterLab 4.6.6",
      root: "/root",
      draws_key_card: false,
      notebooks: [
        { path: "a.ipynb", own: true, session: "session of k", trusted: true, unsaved: false },
        { path: "b.ipynb", own: false, session: "session of other" },
      ],
    });
    expect(other.comms).toEqual([]);
    links.offerKeyCard();
    await settled();
    expect(kernel.comm.sent).toContainEqual(expect.objectContaining({ type: "hello", draws_key_card: true }));
  });

  it("that held us before it came, and once more where that was restarted unseen", async () => {
    const [links, kernel] = [new NotebookLinks(), new OneKernel("k")];
    kernel.holdsUs = true;
    const panel = new OnePanel("a.ipynb", kernel, "x");
    links.add(standIn(panel));
    await settled();
    expect(kernel.comm.opened).not.toBeNull();
    kernel.load();
    await settled();
    expect(kernel.comms.map(({ opened }) => opened !== null)).toEqual([true, true]);
    expect(links.linkFor(standIn(panel))).toBeDefined();
  });

  it.each([["%%claude\nhelp", 1], ["x = 1", 0]])("that is too busy to say it, where the notebook has to do with us: %j", async (source, connected) => {
    const [links, kernel] = [new NotebookLinks(), new OneKernel("k")];
    kernel.holdsUs = null;
    links.add(standIn(new OnePanel("a.ipynb", kernel, source)));
    await vi.advanceTimersByTimeAsync(INFO_TIMEOUT_MS + 1);
    expect(kernel.comms).toHaveLength(connected);
  });

  it("that runs no notebook, as long as it is there", async () => {
    const [links, kernel, own] = [new NotebookLinks(), new OneKernel("k"), new OneKernel("own")];
    const panel = new OnePanel("a.ipynb", kernel, "x");
    links.add(standIn(panel));
    links.addKernel(standIn(own));
    await settled();
    own.load();
    await settled();
    expect(own.comm.opened).toMatchObject({ notebooks: [{ path: "a.ipynb", own: false }] });
    panel.content.disposed.emit(undefined);
    await settled();
    expect(own.comm.sent).not.toContainEqual({ type: "bye" });
    expect(own.comm.sent).toContainEqual(expect.objectContaining({ type: "hello", notebooks: [] }));
  });

  it("whose subshell does not start, after a while", async () => {
    const [links, kernel] = [new NotebookLinks(), new OneKernel("k")];
    kernel.subshell = new Promise(() => undefined);
    links.add(standIn(new OnePanel("a.ipynb", kernel, "x")));
    await settled();
    kernel.load();
    await vi.advanceTimersByTimeAsync(SUBSHELL_TIMEOUT_MS + 1);
    expect(kernel.comm.opened).not.toBeNull();
  });

  it("again when it was restarted, or closed the comm", async () => {
    const [links, kernel] = [new NotebookLinks(), new OneKernel("k")];
    const panel = new OnePanel("a.ipynb", kernel, "x");
    links.add(standIn(panel));
    await settled();
    for (const lose of [() => { kernel.statusChanged.emit("restarting"); }, () => { kernel.comm.onClose(); }]) {
      kernel.load();
      await settled();
      expect(links.linkFor(standIn(panel))).toBeDefined();
      lose();
      expect(links.linkFor(standIn(panel))).toBeUndefined();
    }
    kernel.load();
    await settled();
    expect(kernel.comms).toHaveLength(3);
  });
});

describe("a connected page", () => {
  const connected = async (): Promise<[NotebookLinks, OneKernel, OnePanel]> => {
    const [links, kernel] = [new NotebookLinks(), new OneKernel("k")];
    const panel = new OnePanel("a.ipynb", kernel, "x = 1");
    links.add(standIn(panel));
    await settled();
    kernel.load();
    await settled();
    return [links, kernel, panel];
  };

  it("tells once what changes together", async () => {
    const [, { comm }, { context }] = await connected();
    context.path = "renamed.ipynb";
    context.model.dirty = true;
    context.pathChanged.emit(undefined);
    context.model.stateChanged.emit(undefined);
    context.model.stateChanged.emit(undefined);
    await settled();
    expect(comm.sent).toHaveLength(1);
    expect(comm.sent[0]).toMatchObject({ type: "hello", notebooks: [{ path: "renamed.ipynb", unsaved: true }] });
  });

  it("says goodbye with its last notebook of the kernel, and when it goes away", async () => {
    const [links, kernel, panel] = await connected();
    const { comm } = kernel;
    const again = new OnePanel("a.ipynb", kernel, "x");
    links.add(standIn(Object.assign(again, { context: panel.context })));
    panel.content.disposed.emit(undefined);
    await settled();
    expect(comm.sent.filter(({ type }) => type === "bye")).toEqual([]);
    again.content.disposed.emit(undefined);
    expect(comm.sent.at(-1)).toEqual({ type: "bye" });
    const [leaving, other] = await connected();
    const left = other.comm;
    leaving.close();
    expect(left.sent.at(-1)).toEqual({ type: "bye", page_left: true });
  });

  it("reads and changes cells, and puts outputs into them", async () => {
    const [, { comm }, { context, shared }] = await connected();
    const path = "a.ipynb";
    comm.tell({ type: "request", id: "k1", method: "cells", params: { path, outputs: true } });
    const change = { type: "replace", id: "c0", expect: "x = 1", source: "x = 2", cell_type: null, outputs: null, execution_count: null, attachments: null };
    comm.tell({ type: "request", id: "k2", method: "change", params: { path, changes: [change] } });
    const put = { id: "c0", expect: "x = 2", outputs: [{ output_type: "stream" }], execution_count: 4, clear: true, running: false };
    comm.tell({ type: "request", id: "k3", method: "outputs", params: { path, ...put } });
    comm.tell({ type: "request", id: "k4", method: "outputs", params: { path, ...put, expect: "x = 1" } });
    comm.tell({ type: "request", id: "k5", method: "cells", params: { path: "gone.ipynb", outputs: true } });
    await settled();
    expect(comm.reply("k1")?.result).toMatchObject({ cells: [{ id: "c0", source: "x = 1" }], unsaved: false });
    expect(comm.reply("k2")?.result).toMatchObject({ changed: [{ id: "c0", after: { source: "x = 2" } }] });
    expect(shared.cells[0]?.getSource()).toBe("x = 2");
    expect(comm.reply("k3")).toMatchObject({ result: null });
    expect(context.model.added).toEqual([{ output_type: "stream" }]);
    expect([...context.model.cells][0]).toMatchObject({ executionCount: 4, executionState: "idle" });
    expect(comm.reply("k4")?.error).toMatchObject({ code: "conflict", details: { conflicts: [{ id: "c0", now: "x = 2" }] } });
    expect(comm.reply("k5")?.error).toMatchObject({ code: "not_open" });
  });

  it("changes nothing that is open read-only", async () => {
    const [, { comm }, { context }] = await connected();
    Object.assign(context.model, { readOnly: true });
    comm.tell({ type: "request", id: "k1", method: "change", params: { path: "a.ipynb", changes: [] } });
    await settled();
    expect(comm.reply("k1")?.error).toMatchObject({ code: "read_only" });
  });
});
