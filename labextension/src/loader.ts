/**
 * The `_esm` of each cell's widget. It is sent with every cell, so it does only this: listen from the first moment, and fetch
 * the renderer from the page, else once from the kernel's hidden widget.
 */

import { randomName } from "./page";
import type { Renderer } from "./renderer_registry";
import { buildHash, rendererRegistry, runEntry } from "./renderer_registry";
import type { Transcript } from "./transcript/transcript";

type Model = {
  get(name: string): unknown;
  on(event: "msg:custom", listener: (content: unknown) => void): void;
  send(content: object): void;
  widget_manager: { get_model(id: unknown): Promise<{ get(name: string): BlobPart }> };
};

/** When a page is restored the hidden widget may come after the cell's. */
async function codeModel(model: Model, tries = 50): ReturnType<Model["widget_manager"]["get_model"]> {
  try {
    return await model.widget_manager.get_model(model.get("code_model"));
  } catch (error) {
    if (!tries) throw error;
    await new Promise((resolve) => setTimeout(resolve, 100));
    return codeModel(model, tries - 1);
  }
}

async function fromKernel(model: Model): Promise<Renderer> {
  const code = (await codeModel(model)).get("code");
  const plain = new Blob([code]).stream().pipeThrough(new DecompressionStream("gzip"));
  const url = URL.createObjectURL(new Blob([await new Response(plain).arrayBuffer()], { type: "text/javascript" }));
  return import(/* webpackIgnore: true */ url) as Promise<Renderer>;
}

function load(model: Model): Promise<Renderer> {
  const page = rendererRegistry();
  const own = (): Promise<Renderer> => {
    const loading = fromKernel(model);
    page[buildHash] = () => loading;
    return loading;
  };
  // what another put there may fail: the extension's file when it was upgraded meanwhile, a kernel's widget when it ended
  return page[buildHash]?.().catch(own) ?? own();
}

export default () => {
  let transcript: Promise<Transcript>;
  let part = 0;
  return {
    // anywidget gives this two seconds and drops messages that come before it: so nothing is awaited here
    initialize({ model }: { model: Model }): void {
      const run = runEntry(model.get("run") as string);
      part = model.get("part") as number;
      if (part) {
        transcript = run.promise;
        return;
      }
      // at once, before another script can find the model: only messages with it count as ours from then on
      const secret = randomName();
      model.send({ type: "hello", secret });
      const early: unknown[] = [];
      let deliver = (content: unknown): void => void early.push(content);
      model.on("msg:custom", (content) => { deliver(content); });
      transcript = load(model).then((renderer) =>
        renderer.open({
          send: (message) => { model.send({ ...message, secret }); },
          onMessage(listener) {
            deliver = listener;
            early.forEach(listener);
            return () => (deliver = () => undefined);
          },
        }, run),
      );
    },
    render: ({ el }: { el: HTMLElement }) =>
      transcript.then(
        (opened) => opened.mount(el, part),
        (error: unknown) => {
          el.textContent = `Cellwright cannot show this transcript: ${String(error)}`;
        },
      ),
  };
};
