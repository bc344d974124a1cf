/**
 * A page that treats a notebook as Google Colab does, as far as that is known: Colab's page is not published.
 *
 * An imitation in all of it: each output in an iframe of its own without a comm to the kernel, no widgets until a cell has
 * enabled them, `input()` as a field below the output, requests that name their cell as Colab's do.
 */

import DOMPurify from "dompurify";
import { marked } from "marked";
import { element, inputField, joined, outputsOf, savedNotebook, serve, startKernel, withoutColours } from "./kernel.js";

const ORDER = ["text/html", "text/markdown", "image/svg+xml", "image/png", "image/jpeg", "text/latex", "text/plain"];
const STYLE =
  "body{margin:0;display:flow-root;font:14px/1.5 Roboto,Arial,sans-serif;color:#212121}pre{white-space:pre-wrap;font:13px/1.4 monospace;margin:0}" +
  "table{border-collapse:collapse}td,th{padding:4px 8px;border:1px solid #dadce0}code{font:12px monospace;background:#f1f3f4}img{max-width:100%}";
// an output is a page of its own, which is told of the theme by an attribute, and has the light one's colours but for these
const DARK = "[theme=dark]{color-scheme:dark;background:#383838}[theme=dark] body{color:#d5d5d5}[theme=dark] :is(td,th){border-color:#5f6368}" +
  "[theme=dark] code{background:#202124}[theme=dark] a{color:#8ab4f8}";

const escaped = (text) => text.replace(/[&<>]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[sign]);

const RENDERERS = {
  "text/html": (text) => text,
  // sanitised in the page, as its text cells are
  "text/markdown": (text) => DOMPurify.sanitize(marked.parse(text)),
  "image/svg+xml": (text) => text,
  "image/png": (text) => `<img alt="" src="data:image/png;base64,${text}">`,
  "image/jpeg": (text) => `<img alt="" src="data:image/jpeg;base64,${text}">`,
  "text/latex": (text) => `<pre>${escaped(text)}</pre>`,
  "text/plain": (text) => `<pre>${escaped(text)}</pre>`,
};

function htmlOf(output) {
  if (output.type === "stream") return `<pre>${escaped(withoutColours(output.text))}</pre>`;
  if (output.type === "error") return `<pre>${escaped(withoutColours(output.traceback.join("\n")))}</pre>`;
  const type = ORDER.find((one) => one in output.items);
  return type ? RENDERERS[type](joined(output.items[type])) : "";
}

class Notebook {
  constructor(content) {
    this.content = content;
    this.cells = content.cells.map((cell) => {
      const node = element("section", "cell");
      node.append(element("pre", "source", joined(cell.source)), element("div", "outputs"), element("div", "input"));
      document.querySelector("#notebook").append(node);
      return { cell, node, outputs: outputsOf(cell) };
    });
    this.cells.forEach((each) => each.outputs.forEach((output) => this.draw(each, output)));
  }

  async start(kernelName, path) {
    if (kernelName) this.kernel = await startKernel(kernelName, path);
    return this;
  }

  async run(index) {
    const each = this.cells[index];
    each.outputs = [];
    each.node.querySelector(".outputs").replaceChildren();
    each.node.dataset.state = "running";
    const request = { code: joined(each.cell.source), silent: false, stop_on_error: true, allow_stdin: true, store_history: true };
    const future = this.kernel.requestExecute(request, false, { colab: { cell_id: `cell${index}` } });
    future.onIOPub = (message) => this.onMessage(each, message);
    future.onStdin = (message) => this.askInput(each, message);
    const reply = await future.done;
    each.node.querySelector(".input").replaceChildren();
    each.cell.execution_count = reply.content.execution_count;
    each.node.dataset.state = reply.content.status;
  }

  onMessage(each, { header, content }) {
    switch (header.msg_type) {
      case "stream": {
        const last = each.outputs.at(-1);
        if (last?.type === "stream" && last.name === content.name) last.text += content.text;
        else each.outputs.push({ type: "stream", name: content.name, text: content.text });
        this.draw(each, each.outputs.at(-1));
        break;
      }
      case "display_data":
      case "execute_result": {
        const { data: items, metadata, transient } = content;
        each.outputs.push({ type: header.msg_type, items, metadata, displayId: transient?.display_id });
        this.draw(each, each.outputs.at(-1));
        break;
      }
      case "update_display_data":
        for (const cell of this.cells) {
          for (const output of cell.outputs) {
            if (!output.displayId || output.displayId !== content.transient.display_id) continue;
            Object.assign(output, { items: content.data, metadata: content.metadata });
            this.draw(cell, output);
          }
        }
        break;
      case "clear_output":
        each.outputs = [];
        each.node.querySelector(".outputs").replaceChildren();
        break;
      case "error":
        each.outputs.push({ type: "error", ...content });
        this.draw(each, each.outputs.at(-1));
    }
  }

  draw(each, output) {
    const area = each.node.querySelector(".outputs");
    if (!output.frame) {
      output.frame = Object.assign(element("iframe", "output"), { title: "Output" });
      output.frame.setAttribute("sandbox", "allow-scripts allow-same-origin");
      output.frame.srcdoc = `<!doctype html><style>${STYLE}${DARK}</style><body></body>`;
      output.loaded = new Promise((done) => output.frame.addEventListener("load", done, { once: true }));
      area.append(output.frame);
    }
    void output.loaded.then(() => {
      const page = output.frame.contentDocument;
      page.body.innerHTML = htmlOf(output);
      const fit = () => (output.frame.style.height = `${page.body.getBoundingClientRect().height + 2}px`);
      page.querySelectorAll("details").forEach((fold) => fold.addEventListener("toggle", fit));
      page.querySelectorAll("img").forEach((image) => image.addEventListener("load", fit));
      fit();
    });
  }

  askInput(each, message) {
    const place = each.node.querySelector(".input");
    const field = inputField(message, ["Enter"], (value) => {
      place.replaceChildren();
      this.kernel.sendInputReply({ value, status: "ok" }, message.header);
    });
    place.replaceChildren(element("span", "", message.content.prompt), field);
    field.focus();
  }

  interrupt() {
    return this.kernel.interrupt();
  }

  saved() {
    return savedNotebook(this.content, this.cells);
  }
}

serve((content, kernelName, path) => new Notebook(content).start(kernelName, path));
