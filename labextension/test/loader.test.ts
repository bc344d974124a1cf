import { afterEach, describe, expect, it, vi } from "vitest";

import plugins from "../src";
import makeWidget from "../src/loader";
import type { Renderer } from "../src/renderer_registry";
import { buildHash, rendererRegistry } from "../src/renderer_registry";
import type { BrowserMessage, OpsMessage } from "../src/transcript/protocol";
import { standIn } from "./support/stand_in";
import { Kernel, RUN, shadowOf, text } from "./transcript/scene";

type Props = Parameters<ReturnType<typeof makeWidget>["initialize"]>[0];

/** A widget's model as anywidget gives it, in a page to which the kernel's hidden widget never comes. */
function modelOf(kernel: Kernel): { props: Props; lookups: () => number } {
  const lookup = vi.fn(() => Promise.reject(new Error("widget model not found")));
  const props: Props = {
    model: {
      get: (name) => (name === "part" ? 0 : `model id of ${name}`),
      on: (_, listener) => { kernel.channel.onMessage(listener); },
      send: (content) => { kernel.channel.send(content as BrowserMessage); },
      widget_manager: { get_model: lookup },
    },
  };
  return { props, lookups: () => lookup.mock.calls.length };
}

/** The messages after the loader's first, without the secret that it says there and each of them must carry. */
function heard(kernel: Kernel): object[] {
  const [hello, ...rest] = kernel.received as unknown as { type: string; secret: string }[];
  expect(hello).toEqual({ type: "hello", secret: expect.stringMatching(/^[0-9a-f]{32}$/) as string });
  return rest.map(({ secret, ...message }) => {
    expect(secret).toBe(hello?.secret);
    return message;
  });
}

const EARLY: OpsMessage = { type: "ops", first: 0, now: 0, ops: [RUN, { op: "text", block: 0, text: "early" }] };

afterEach(() => {
  vi.useRealTimers();
  rendererRegistry()[buildHash] = undefined;
});

describe("the renderer comes from the page when the extension has put it there", () => {
  it("loses nothing that came before it was loaded, and goes with its view", async () => {
    for (const plugin of plugins) void plugin.activate(standIn(undefined), null);
    const kernel = new Kernel();
    const widget = makeWidget();
    const { props, lookups } = modelOf(kernel);
    widget.initialize(props);
    kernel.tell(EARLY);
    expect(heard(kernel)).toEqual([]);
    const el = document.createElement("div");
    document.body.replaceChildren(el);
    const dispose = await widget.render({ el });
    const root = shadowOf(el);
    expect(text(root, ".prose")).toBe("early");
    expect(heard(kernel)[0]).toEqual({ type: "ready", have: 2, protocol: 1 });
    expect(lookups()).toBe(0);
    dispose?.();
    expect(root.childElementCount).toBe(0);
  });

  it("is asked for at once, though no view is there", async () => {
    for (const plugin of plugins) void plugin.activate(standIn(undefined), null);
    const kernel = new Kernel();
    makeWidget().initialize(modelOf(kernel).props);
    await vi.waitFor(() => { expect(heard(kernel)).toEqual([{ type: "ready", have: 0, protocol: 1 }]); });
  });
});

describe("without the extension the kernel's hidden widget is asked", () => {
  it("for a while, and then the cell says what is missing", async () => {
    vi.useFakeTimers();
    const widget = makeWidget();
    const { props, lookups } = modelOf(new Kernel());
    widget.initialize(props);
    const el = document.createElement("div");
    const rendered = widget.render({ el });
    await vi.advanceTimersByTimeAsync(6000);
    await rendered;
    expect(lookups()).toBe(51);
    expect(el.textContent).toBe("Cellwright cannot show this transcript: Error: widget model not found");
  });

  it("also when what the extension promised cannot be loaded", async () => {
    vi.useFakeTimers();
    rendererRegistry()[buildHash] = () => Promise.reject<Renderer>(new Error("the file is gone"));
    const { props, lookups } = modelOf(new Kernel());
    const widget = makeWidget();
    widget.initialize(props);
    const rendered = widget.render({ el: document.createElement("div") });
    await vi.advanceTimersByTimeAsync(0);
    expect(lookups()).toBe(1);
    await vi.advanceTimersByTimeAsync(6000);
    await rendered;
  });
});

it("the plugins have their ids and start by themselves", () => {
  expect(plugins.map(({ id, autoStart }) => [id, autoStart])).toEqual([
    ["cellwright:transcript", true],
    ["cellwright:rendering", true],
    ["cellwright:answers", true],
    ["cellwright:answer-search", true],
    ["cellwright:answer-copy", true],
    ["cellwright:saved-output", true],
    ["cellwright:foreign-widgets", true],
    ["cellwright:unsaved-documents", true],
    ["cellwright:notebooks", true],
    ["cellwright:proposals", true],
    ["cellwright:magic-cells", true],
    ["cellwright:prompt-cells", true],
    ["cellwright:cell-toolbar", true],
    ["cellwright:outputs", true],
    ["cellwright:stale-numbers", true],
    ["cellwright:answer-actions", true],
    ["cellwright:undo", true],
    ["cellwright:panel", true],
    ["cellwright:completion", true],
    ["cellwright:code-actions", true],
  ]);
});
