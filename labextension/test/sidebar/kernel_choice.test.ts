import { beforeEach, describe, expect, it, vi } from "vitest";

import { activeCell, goToCell, onActiveCell, promptCell } from "../../src/sidebar/active_cell";
import { KernelChoice } from "../../src/sidebar/kernel_choice";
import { OwnKernel } from "../../src/sidebar/own_kernel";
import type { KernelInfo } from "../../src/transport/chat";
import type { ChatKernel } from "../support/kernel_shapes";
import type { Cell, NotebookPanel, NotebookTracker, Services, SessionConnection, SessionModel } from "../support/panel_shapes";
import { standIn } from "../support/stand_in";
import { Emitter, OneKernel } from "../transport/chat_kernel";

class OnePanel implements NotebookPanel {
  readonly id = "panel";
  isDisposed = false;
  metadata: unknown = undefined;
  readonly context;
  readonly sessionContext;
  readonly content: NotebookPanel["content"] & { activeCell: Cell | null };

  constructor(path: string, kernel: ChatKernel | null, ...cells: Cell[]) {
    this.context = { path, pathChanged: new Emitter(), model: { getMetadata: () => this.metadata } };
    this.sessionContext = { session: { kernel }, kernelChanged: new Emitter<{ newValue: ChatKernel | null }>() };
    this.content = { widgets: cells, activeCell: cells[0] ?? null, activeCellIndex: 0, activeCellChanged: new Emitter(), activate: vi.fn() };
  }

  change(kernel: ChatKernel | null): void {
    this.sessionContext.session.kernel = kernel;
    this.sessionContext.kernelChanged.emit({ newValue: kernel });
  }
}

class OneTracker implements NotebookTracker {
  currentWidget: OnePanel | null = null;
  readonly panels: OnePanel[] = [];
  readonly currentChanged = new Emitter<NotebookPanel | null>();
  readonly widgetAdded = new Emitter<NotebookPanel>();
  readonly activeCellChanged = new Emitter<Cell | null>();

  forEach(each: (panel: NotebookPanel) => void): void {
    this.panels.forEach(each);
  }

  open(panel: OnePanel): OnePanel {
    this.panels.push(panel);
    this.widgetAdded.emit(panel);
    return this.show(panel);
  }

  show<Panel extends OnePanel | null>(panel: Panel): Panel {
    this.currentWidget = panel;
    this.currentChanged.emit(panel);
    return panel;
  }
}

/** A connection that is made for the panel alone. */
class FarKernel extends OneKernel {
  left = false;

  dispose(): void {
    this.left = true;
  }
}

class OneServer {
  readonly connected: FarKernel[] = [];
  readonly running: SessionModel[] = [];
  readonly started: { path: string; type: string; kernel: { name: string } }[] = [];
  specs: Services["kernelspecs"]["specs"] = {
    default: "ir",
    kernelspecs: { ir: { language: "R", display_name: "R" }, python3: { language: "python", display_name: "Python 3" } },
  };
  readonly shut: string[] = [];

  get services(): Services {
    const { running, started } = this;
    return {
      sessions: {
        refreshRunning: () => Promise.resolve(),
        running: () => running,
        startNew: (options) => {
          started.push(options);
          return Promise.resolve(this.session({ id: `session-${started.length}`, path: options.path, type: options.type }));
        },
        connectTo: ({ model }) => this.session(model),
      },
      kernels: {
        connectTo: ({ model }) => {
          const kernel = new FarKernel(model.id);
          this.connected.push(kernel);
          return kernel;
        },
      },
      kernelspecs: { ready: Promise.resolve(), specs: this.specs },
    };
  }

  private session({ id, path }: SessionModel): SessionConnection {
    return {
      id, path, kernel: new OneKernel(`kernel of ${id}`), isDisposed: false, disposed: new Emitter(), kernelChanged: new Emitter(),
      shutdown: () => Promise.resolve(void this.shut.push(id)),
      dispose: () => undefined,
    };
  }
}

type Connected = [kernel: string | null, notebook: string | null];

function scene(follows = true): { tracker: OneTracker; server: OneServer; own: OwnKernel; choice: KernelChoice; now: () => Connected; count: () => number } {
  const tracker = new OneTracker();
  const server = new OneServer();
  const connected: Connected[] = [];
  const store = {
    connect: (kernel: ChatKernel | null, place: KernelInfo | null) => void connected.push([kernel?.id ?? null, place?.notebook ?? null]),
  };
  const own = new OwnKernel(standIn(server.services), sessionStorage, () => { choice.update(); });
  const choice: KernelChoice = new KernelChoice(standIn(tracker), standIn(server.services), own, standIn(store), () => follows);
  return { tracker, server, own, choice, now: () => connected.at(-1) ?? [null, null], count: () => connected.length };
}

beforeEach(() => { sessionStorage.clear(); });

describe("which kernel", () => {
  it("none is touched before somebody wants to talk", () => {
    const { tracker, choice, now, count } = scene();
    tracker.open(new OnePanel("a.ipynb", new OneKernel("a")));
    expect(count()).toBe(0);
    choice.activate();
    expect(now()).toEqual(["a", "a.ipynb"]);
  });

  it("but the demo's is, so that the page says what answers there, and is left again", () => {
    const { tracker, now } = scene();
    const demo = new OnePanel("demo.ipynb", new OneKernel("demo"));
    demo.metadata = { demo: true };
    tracker.open(demo);
    expect(now()).toEqual(["demo", "demo.ipynb"]);
    tracker.open(new OnePanel("a.ipynb", new OneKernel("a")));
    expect(now()).toEqual([null, null]);
  });

  it("goes along with the current notebook, and stays where that is none", () => {
    const { tracker, choice, now } = scene();
    const first = tracker.open(new OnePanel("a.ipynb", new OneKernel("a")));
    choice.activate();
    tracker.open(new OnePanel("b.ipynb", new OneKernel("b")));
    expect(now()).toEqual(["b", "b.ipynb"]);
    tracker.show(first);
    expect(now()).toEqual(["a", "a.ipynb"]);
    tracker.show(null);
    expect(now()).toEqual(["a", "a.ipynb"]);
    first.isDisposed = true;
    choice.update();
    expect(now()).toEqual([null, null]);
  });

  it("stays with one notebook where the user wants that", () => {
    const { tracker, choice, now } = scene(false);
    tracker.open(new OnePanel("a.ipynb", new OneKernel("a")));
    choice.activate();
    tracker.open(new OnePanel("b.ipynb", new OneKernel("b")));
    expect(now()).toEqual(["a", "a.ipynb"]);
  });

  it("is another when the notebook gets another, and none when that speaks no Python", () => {
    const { tracker, choice, now } = scene();
    const panel = tracker.open(new OnePanel("a.ipynb", null));
    choice.activate();
    expect(now()).toEqual([null, null]);
    panel.change(new OneKernel("a"));
    expect(now()).toEqual(["a", "a.ipynb"]);
    panel.change(Object.assign(new OneKernel("r"), { name: "ir" }));
    expect(now()).toEqual([null, null]);
  });

  it("is the one that was chosen, until its notebook has another name or another is chosen", () => {
    const { tracker, choice, now } = scene();
    const first = tracker.open(new OnePanel("a.ipynb", new OneKernel("a")));
    tracker.open(new OnePanel("b.ipynb", new OneKernel("b")));
    choice.activate();
    const options = choice.options({ own: "Own", start: "Start" }, () => undefined);
    expect(options.map(({ label, about, chosen }) => [label, about, chosen])).toEqual([
      ["a.ipynb", "Python 3", false], ["b.ipynb", "Python 3", true], ["Start", "", false],
    ]);
    options[0]?.choose();
    tracker.show(tracker.panels[1] ?? null);
    expect(now()).toEqual(["a", "a.ipynb"]);
    first.context.path = "c.ipynb";
    first.context.pathChanged.emit(undefined);
    expect(now()).toEqual(["b", "b.ipynb"]);
  });
});

describe("a kernel that the list of all sessions names", () => {
  it("is its notebook's where that is open here, else one with a connection of the panel's, until it dies or is left", () => {
    const { tracker, choice, now, server } = scene();
    tracker.open(new OnePanel("a.ipynb", new OneKernel("a")));
    tracker.open(new OnePanel("b.ipynb", new OneKernel("b")));
    choice.activate();
    choice.chooseKernel("a", "python3", "a.ipynb");
    expect([choice.pinned, now()]).toEqual([{ notebook: "a.ipynb" }, ["a", "a.ipynb"]]);
    choice.chooseKernel("far", "python3", "far.ipynb");
    expect(now()).toEqual(["far", "far.ipynb"]);
    expect(choice.options({ own: "Own", start: "Start" }, () => undefined).find(({ chosen }) => chosen)?.label).toBe("far.ipynb");
    const [far] = server.connected;
    choice.choose({ notebook: "b.ipynb" });
    expect([now(), far?.left]).toEqual([["b", "b.ipynb"], true]);
    choice.chooseKernel("far", "python3", null);
    server.connected[1]?.statusChanged.emit("dead");
    expect([choice.pinned, now()]).toEqual([null, ["b", "b.ipynb"]]);
  });
});

describe("a kernel of its own", () => {
  it("is Python, in the folder, and the conversation goes there", async () => {
    const { choice, own, server, now } = scene();
    choice.activate();
    await own.start("work/tides");
    expect(server.started).toMatchObject([{ type: "cellwright", kernel: { name: "python3" } }]);
    expect(server.started[0]?.path).toMatch(/^work\/tides\/claude-/);
    expect([now(), own.folder]).toEqual([["kernel of session-1", null], "work/tides"]);
    await own.shutdown();
    expect([server.shut, now()]).toEqual([["session-1"], [null, null]]);
  });

  it("is started once, however often it is asked for", async () => {
    const { own, server } = scene();
    await Promise.all([own.start(""), own.start("")]);
    await own.start("");
    expect(server.started).toHaveLength(1);
  });

  it("gives way to a notebook unless it was chosen", async () => {
    const { tracker, choice, own, now } = scene();
    choice.activate();
    await own.start("");
    tracker.open(new OnePanel("a.ipynb", new OneKernel("a")));
    expect(now()).toEqual(["a", "a.ipynb"]);
    choice.choose("own");
    expect(now()).toEqual(["kernel of session-1", null]);
  });

  it("is found again by the tab that had it, and not by another", async () => {
    const first = scene();
    await first.own.start("");
    const again = scene();
    again.server.running.push({ id: "session-1", path: "claude-x", type: "cellwright", kernel: { id: "k", connections: 1 } });
    again.choice.activate();
    await again.own.restore();
    expect(again.now()).toEqual(["kernel of session-1", null]);
    sessionStorage.clear();
    const other = scene();
    other.server.running.push(...again.server.running);
    await other.own.restore();
    expect(other.own.current).toBeNull();
  });

  it("is the one that a closed page has left in that folder, where there is one", async () => {
    const { own, server } = scene();
    server.running.push(
      { id: "in use", path: "work/claude-1", type: "cellwright", kernel: { id: "k1", connections: 1 } },
      { id: "elsewhere", path: "claude-2", type: "cellwright", kernel: { id: "k2", connections: 0 } },
      { id: "left", path: "work/claude-3", type: "cellwright", kernel: { id: "k3", connections: 0 } },
    );
    await own.start("work");
    expect([own.current?.id, server.started]).toEqual(["left", []]);
  });

  it("cannot be where there is no Python", async () => {
    const { server } = scene();
    server.specs = { default: "ir", kernelspecs: { ir: { language: "R", display_name: "R" } } };
    const own = new OwnKernel(standIn(server.services), sessionStorage, () => undefined);
    await expect(own.start("")).rejects.toMatchObject({ code: "no_python" });
  });
});

describe("the cell that the user is at", () => {
  const signals = { source: new Emitter(), selection: new Emitter() };
  const cellOf = (id: string, source: string, count: number | null, selection: [number, number] = [0, 0]): Cell => ({
    node: Object.assign(document.createElement("div"), { scrollIntoView: vi.fn() }),
    editor: {
      getSelection: () => ({ start: { line: 0, column: selection[0] }, end: { line: 0, column: selection[1] } }),
      model: { selections: { changed: signals.selection } },
      getOffsetAt: ({ column }) => column,
    },
    model: { id, type: "code", executionCount: count, sharedModel: { getSource: () => source }, contentChanged: signals.source },
  });

  it("goes along with what is selected in it, whichever way that was done", () => {
    const panel = new OnePanel("a.ipynb", null, cellOf("c1", "tide = 4.2", 3, [7, 0]));
    expect(activeCell(standIn(panel))).toEqual({ path: "a.ipynb", id: "c1", selection: "tide = ", source: "tide = 4.2", executionCount: 3, position: 0 });
    expect(activeCell(null)).toBeNull();
  });

  it("is followed as long as somebody looks", () => {
    const tracker = new OneTracker();
    const cell = cellOf("c1", "x", null);
    tracker.open(new OnePanel("a.ipynb", null, cell));
    const heard = vi.fn();
    const stop = onActiveCell(standIn(tracker), heard);
    signals.source.emit(undefined);
    signals.selection.emit(undefined);
    expect(heard).toHaveBeenCalledTimes(3);
    stop();
    signals.source.emit(undefined);
    tracker.activeCellChanged.emit(cell);
    expect(heard).toHaveBeenCalledTimes(3);
  });

  it("is found by its count", () => {
    const panel = new OnePanel("a.ipynb", null, cellOf("c1", "x", 3), cellOf("c2", "y", 7));
    expect([goToCell(standIn(panel), "[7]"), panel.content.activeCellIndex]).toEqual([true, 1]);
    expect([goToCell(standIn(panel), "[8]"), goToCell(standIn(panel), "sidebar"), goToCell(null, "[7]")]).toEqual([false, false, false]);
  });

  it("is asked again while it still asks the same, with other options, too", () => {
    const cells = [cellOf("c1", "%%claude --budget 0.5\nPlot it.\n", 3), cellOf("c2", "tide = 4", 7)];
    const found = (place: string, prompt: string): unknown => promptCell(standIn(new OnePanel("a.ipynb", null, ...cells)), place, prompt);
    expect(found("[3]", "Plot it.")).toBe(cells[0]);
    expect([found("[3]", "Explain it."), found("[7]", "tide"), found("sidebar", "Plot it.")]).toEqual([null, null, null]);
  });
});
