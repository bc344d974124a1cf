import { Signal } from "@lumino/signaling";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import type { CompletionSettings, CompletionContext } from "../../src/completion/claude_completion";
import { ClaudeCompletion, PAUSE_MS, SuggestionCache } from "../../src/completion/claude_completion";
import { completionContext } from "../../src/completion/completion_context";
import { completionPlugin, ExtensionLoader } from "../../src/completion/completion_plugin";
import type { JsonObject } from "../../src/json";
import type { RpcLink } from "../../src/transport/rpc";
import { RequestError } from "../../src/transport/rpc";
import type { CodePanel, InlineProvider } from "../support/completion_shapes";
import { Notification } from "../support/jupyterlab/apputils";
import { standIn } from "../support/stand_in";

const AUTOMATIC = 1, INVOKED = 0, DELAY = 300;

type Asked = { params: JsonObject; resolve(result: JsonObject): void; reject(error: Error): void };

/** A kernel that answers when the test says what. */
class OneLink {
  readonly asked: Asked[] = [];
  stopped = 0;

  request(method: string, params: JsonObject): Promise<JsonObject | null> {
    if (method === "code_stop") {
      this.stopped++;
      return Promise.resolve(null);
    }
    return new Promise((resolve, reject) => { this.asked.push({ params, resolve, reject }); });
  }

  answer(text: string, stopped = false): Promise<void> {
    this.asked.at(-1)?.resolve({ text, cost_usd: 0.0001, stopped });
    return settled();
  }
}

const settled = (): Promise<void> => vi.advanceTimersByTimeAsync(0).then(() => undefined);

/** The provider in a cell that is typed into; `|` is the cursor. */
function scene(choices: Partial<CompletionSettings> = {}) {
  const link = new OneLink();
  const told: string[] = [];
  const chosen = { enabled: true, delay: DELAY, ...choices };
  const completion = new ClaudeCompletion(
    () => chosen,
    ({ text, offset }): CompletionContext => ({
      cell: "a.ipynb c1", prefix: text.slice(0, offset), suffix: text.slice(offset), cells: [], language: "python", link: link as unknown as RpcLink,
    }),
    (message) => { told.push(message); },
    () => Date.now(),
  );
  const shown: string[][] = [];
  const type = (cell: string, triggerKind = AUTOMATIC): Promise<void> => {
    const offset = cell.indexOf("|");
    const at = shown.push(["?"]) - 1;
    return completion.fetch({ text: cell.replace("|", ""), offset }, standIn({ widget: null, triggerKind })).then(({ items }) => {
      shown[at] = items.map(({ insertText }) => insertText);
    });
  };
  return { link, completion, type, shown, told, chosen };
}

beforeEach(() => { vi.useFakeTimers(); });
afterEach(() => { vi.useRealTimers(); });

describe("what is suggested", () => {
  it("is asked for once, when its user pauses", async () => {
    const { link, type, shown } = scene();
    void type("d|");
    await vi.advanceTimersByTimeAsync(DELAY - 1);
    void type("df|");
    await vi.advanceTimersByTimeAsync(DELAY - 1);
    expect(link.asked).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    expect(link.asked.map(({ params }) => params)).toEqual([{ prefix: "df", suffix: "", cells: [], language: "python" }]);
    await link.answer(".head()");
    expect(shown).toEqual([[], [".head()"]]);
  });

  it("comes at once where it is asked for by hand, also in an empty cell", async () => {
    const { link, type, shown } = scene();
    void type("|", INVOKED);
    await settled();
    await link.answer("import pandas as pd");
    expect(shown).toEqual([["import pandas as pd"]]);
  });

  it("is not asked for in an empty cell, or where it is switched off", async () => {
    const { link, type, shown, chosen } = scene();
    void type("  |");
    chosen.enabled = false;
    void type("x|");
    void type("x|", INVOKED);
    await vi.advanceTimersByTimeAsync(DELAY);
    expect(link.asked).toEqual([]);
    expect(shown).toEqual([[], [], []]);
  });

  it("is stopped in the kernel by the next key, and its answer is not shown", async () => {
    const { link, type, shown } = scene();
    void type("x|");
    await vi.advanceTimersByTimeAsync(DELAY);
    expect(link.stopped).toBe(0);
    void type("xy|");
    expect(link.stopped).toBe(1);
    await link.answer("too late");
    await vi.advanceTimersByTimeAsync(DELAY);
    await link.answer(" = 1");
    expect(shown).toEqual([[], [" = 1"]]);
    expect(link.stopped).toBe(1);
  });

  it("needs no request while its user types along, or comes back", async () => {
    const { link, type, shown } = scene();
    void type("df|");
    await vi.advanceTimersByTimeAsync(DELAY);
    await link.answer(".head(10)");
    void type("df.|");
    void type("df.head(|)");
    void type("df|");
    await settled();
    expect(shown).toEqual([[".head(10)"], ["head(10)"], ["10"], [".head(10)"]]);
    expect(link.asked).toHaveLength(1);
  });

  it("is nothing, and is known to be nothing, where the model knows nothing", async () => {
    const { link, type, shown } = scene();
    void type("x|");
    await vi.advanceTimersByTimeAsync(DELAY);
    await link.answer("");
    void type("x|");
    await settled();
    expect(shown).toEqual([[], []]);
    expect(link.asked).toHaveLength(1);
  });
});

it("is asked for again where another page's request has stopped it", async () => {
  const { link, type, shown } = scene();
  void type("x|");
  await vi.advanceTimersByTimeAsync(DELAY);
  await link.answer("", true);
  void type("x|");
  await vi.advanceTimersByTimeAsync(DELAY);
  await link.answer(" = 1");
  expect(shown).toEqual([[], [" = 1"]]);
});

describe("what goes wrong", () => {
  it("is told once, and nothing is asked for a while", async () => {
    const { link, type, told } = scene();
    const failing = async (cell: string): Promise<void> => {
      void type(cell);
      await vi.advanceTimersByTimeAsync(DELAY);
      link.asked.at(-1)?.reject(new RequestError("BUDGET_EXCEEDED", "A dollar is spent."));
      await settled();
    };
    await failing("a|");
    await failing("ab|");
    expect(link.asked).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(PAUSE_MS);
    await failing("abc|");
    expect(link.asked).toHaveLength(2);
    expect(told).toEqual(["A dollar is spent."]);
  });

  it("is tried anew when the settings have changed", async () => {
    const { link, completion, type, told } = scene();
    for (const cell of ["a|", "ab|"]) {
      void type(cell);
      await vi.advanceTimersByTimeAsync(DELAY);
      link.asked.at(-1)?.reject(new RequestError("API_KEY_MISSING", "No key."));
      await settled();
      completion.reset();
    }
    expect(told).toEqual(["No key.", "No key."]);
  });

  it("is nothing to tell where the kernel went away", async () => {
    const { link, type, told, shown } = scene();
    void type("a|");
    await vi.advanceTimersByTimeAsync(DELAY);
    link.asked[0]?.reject(new RequestError("gone", "The kernel is gone."));
    await settled();
    expect([told, shown]).toEqual([[], [[]]]);
  });
});

describe("what is known", () => {
  const at = (prefix: string, suffix = "", cell = "c1") => ({ cell, prefix, suffix });

  it("belongs to a cell, and to what stands behind the cursor", () => {
    const known = new SuggestionCache();
    known.put(at("f", ")"), "oo(x)");
    expect(known.find(at("f", ")", "c2"))).toBeUndefined();
    expect(known.find(at("f", "]"))).toBeUndefined();
    expect(known.find(at("fo", ")"))).toBe("o(x)");
    expect(known.find(at("fx", ")"))).toBeUndefined();
  });

  it("ends where all of it was typed: what comes then is asked for", () => {
    const known = new SuggestionCache();
    known.put(at("f"), "oo");
    expect(known.find(at("foo"))).toBeUndefined();
  });

  it("forgets what was long ago", () => {
    const known = new SuggestionCache();
    for (let n = 0; n < 61; n++) known.put(at(`${n}x`), "y");
    expect(known.find(at("0x"))).toBeUndefined();
    expect(known.find(at("60x"))).toBe("y");
  });
});

describe("a notebook", () => {
  const cellOf = (id: string, source: string, type = "code") => ({
    editor: { of: id }, model: { id, type, sharedModel: { getSource: () => source } },
  });
  const link = new OneLink() as unknown as RpcLink;

  function open(...cells: ReturnType<typeof cellOf>[]) {
    const panel = { context: { path: "tides.ipynb" }, content: { widgets: cells, model: { getMetadata: () => ({ name: "python" }) } } };
    const tracker = { forEach: (each: (panel: CodePanel) => void) => { each(panel as unknown as CodePanel); } };
    return (at: number, offset: number, linkOf: () => RpcLink | undefined = () => link) => {
      const cell = cells[at];
      if (!cell) throw new RangeError(String(at));
      const { editor, model } = cell;
      return completionContext(standIn(tracker), linkOf, { text: model.sharedModel.getSource(), offset }, standIn({ widget: panel, editor }));
    };
  }

  it("gives what stands around the cursor, and which cells are above and below", () => {
    const gap = open(cellOf("a", "# Tides", "markdown"), cellOf("b", "x = 1; print('🌊', x)"), cellOf("c", "y = 2"))(1, 15);
    expect(gap).toMatchObject({
      cell: "tides.ipynb b",
      prefix: "x = 1; print('🌊",
      suffix: "', x)",
      cells: [
        { source: "# Tides", cell_type: "markdown", below: false },
        { source: "y = 2", cell_type: "code", below: true },
      ],
    });
  });

  it("asks nobody in a prompt, in Markdown, in another language, and where the kernel does not hold us", () => {
    const gap = open(cellOf("a", "%%claude\nfix it"), cellOf("b", "# Tides", "markdown"), cellOf("c", "%%bash\nls"), cellOf("d", "%%time\nx"));
    expect([gap(0, 3), gap(1, 3), gap(2, 3), gap(3, 3, () => undefined)]).toEqual([null, null, null, null]);
    expect(gap(3, 3)).not.toBeNull();
  });
});

describe("a kernel without us", () => {
  const panelWith = (kernel: object | null, language: string) => ({
    context: { sessionContext: { session: kernel && { kernel } } },
    content: { model: { getMetadata: (key: string) => (key === "language_info" ? { name: language } : undefined) } },
  }) as unknown as CodePanel;

  it("is asked once to load us, where it runs Python", async () => {
    const load = vi.fn(() => Promise.resolve(null));
    const loading = new ExtensionLoader(load);
    const [python, other] = [{ id: "k" }, { id: "r" }];
    for (const panel of [panelWith(python, "python"), panelWith(python, "python"), panelWith(other, "R"), panelWith(null, "python")]) {
      loading.begin(standIn(panel));
    }
    await settled();
    expect(load.mock.calls).toEqual([[python]]);
  });
});

describe("the plugin", () => {
  it("is off until its user switches it on, and says then what that means", async () => {
    const composite = { enabled: false, loadExtension: false, delay: DELAY };
    const changed = new Signal<object, unknown>({});
    const registry = {
      load: () => Promise.resolve({ composite, changed }),
      set: vi.fn((_id: string, key: "enabled", value: boolean) => {
        composite[key] = value;
        changed.emit(undefined);
        return Promise.resolve();
      }),
    };
    type Command = { isToggled(): boolean; execute(): Promise<void> };
    const commands = { added: new Map<string, Command>(), addCommand(id: string, command: Command) { this.added.set(id, command); }, notifyCommandChanged: vi.fn() };
    const providers: InlineProvider[] = [];
    const palette = { addItem: vi.fn() };
    void completionPlugin.activate(
      standIn({ commands }), { registerInlineProvider: (each: InlineProvider) => providers.push(each) }, { forEach: () => undefined }, registry, palette, null,
    );
    await settled();
    const toggle = commands.added.get("cellwright:toggle-inline-completion");
    expect(providers.map(({ identifier }) => identifier)).toEqual(["cellwright:completion"]);
    expect(toggle?.isToggled()).toBe(false);
    Notification.shown.length = 0;
    await toggle?.execute();
    expect(toggle?.isToggled()).toBe(true);
    expect(Notification.shown).toEqual([expect.stringContaining("$1")]);
    await toggle?.execute();
    expect(toggle?.isToggled()).toBe(false);
    expect(Notification.shown).toHaveLength(1);
  });

  it("stays away where the page has no such thing", () => {
    expect(() => { void completionPlugin.activate(standIn({}), null, null, null, null, null); }).not.toThrow();
  });
});
