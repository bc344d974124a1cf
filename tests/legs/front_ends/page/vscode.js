/**
 * A page that treats a notebook as Visual Studio Code does, as far as its sources say (microsoft/vscode-jupyter 2026.6).
 *
 * Its own packages: the widget manager (`@vscode/jupyter-ipywidgets8`), `markdown-it` with its formulas, DOMPurify. An
 * imitation: the editor, the order of MIME types, what becomes of messages, the input box; where the original passes a
 * message between its processes, one turn of the page's event loop stands.
 */

import { activate } from "ipywidgets8";
import DOMPurify from "dompurify";
import MarkdownIt from "markdown-it";
import katex from "@vscode/markdown-it-katex";
import { element, inputField, joined, outputsOf, runSilently, savedNotebook, serve, startKernel, withoutColours } from "./kernel.js";

const WIDGET = "application/vnd.jupyter.widget-view+json";
const ORDER = [
  "application/vnd.",
  "application/vdom.",
  "application/geo+json",
  "text/html",
  "application/javascript",
  "image/gif",
  "text/latex",
  "text/markdown",
  "image/png",
  "image/svg+xml",
  "image/jpeg",
  "application/json",
  "text/plain",
];
// what a notebook of a workspace that is not trusted may show; no fields and no buttons
const ALLOWED_TAGS =
  "a b blockquote br code dd del details div dl dt em h1 h2 h3 h4 h5 h6 hr i img ins kbd li ol p pre q s samp small span strike strong sub summary sup svg path table tbody td tfoot th thead tr tt ul var".split(" ");
const ALLOWED_ATTRIBUTES = ["align", "alt", "checked", "class", "colspan", "height", "href", "id", "open", "rowspan", "src", "style", "title", "width"];

const markdown = new MarkdownIt({ html: true }).use(katex.default ?? katex);
const anOutput = (message) => ({
  type: message.header.msg_type,
  items: { ...message.content.data },
  metadata: message.content.metadata ?? {},
  displayId: message.content.transient?.display_id,
});

function sortedTypes(items) {
  const place = (type) => {
    if (!RENDERERS[type]) return 200;
    const index = ORDER.findIndex((start) => type.startsWith(start));
    return index < 0 ? 100 : index;
  };
  return Object.keys(items).sort((one, other) => place(one) - place(other));
}

const RENDERERS = {
  [WIDGET]: (value, node, book) => book.drawWidget(value, node),
  "text/html": (value, node) => {
    node.append(document.createRange().createContextualFragment(joined(value)));
  },
  "text/markdown": (value, node, book) => {
    const root = node.attachShadow({ mode: "open" });
    const html = markdown.render(joined(value));
    const preview = element("div", "preview");
    preview.innerHTML = book.trusted ? html : DOMPurify.sanitize(html, { ALLOWED_TAGS, ALLOWED_ATTR: ALLOWED_ATTRIBUTES });
    root.append(document.querySelector("#markdown-style").content.cloneNode(true), preview);
  },
  "text/latex": (value, node) => {
    node.innerHTML = markdown.render(joined(value));
  },
  "image/png": (value, node) => node.append(Object.assign(new Image(), { src: `data:image/png;base64,${value}` })),
  "image/svg+xml": (value, node) => node.append(Object.assign(new Image(), { src: `data:image/svg+xml,${encodeURIComponent(joined(value))}` })),
  "text/plain": (value, node) => node.append(element("pre", "text", joined(value))),
};

class Notebook {
  constructor(content, kernelName, path, { trusted = true, scripts = true, asks = false }) {
    this.content = content;
    this.trusted = trusted;
    this.scripts = scripts;
    this.asks = asks;
    this.consent = asks ? new Promise((given) => (this.allowScripts = given)) : Promise.resolve();
    this.kernelName = kernelName;
    this.path = path;
    this.cells = content.cells.map((cell, index) => ({ cell, index, outputs: [], lastStream: null, clearNext: false }));
    this.edits = Promise.resolve();
    this.models = new Set();
  }

  async start() {
    // what was saved is there before a kernel is
    for (const each of this.cells) {
      each.outputs = outputsOf(each.cell);
      this.draw(each);
    }
    if (!this.kernelName) return this;
    const kernel = (this.kernel = await startKernel(this.kernelName, this.path));
    // both of its kernel proxies say so
    Object.defineProperty(kernel, "supportsSubshells", { get: () => false });
    kernel.commsOverSubshells = "disabled";
    kernel.iopubMessage.connect((_, message) => this.onAnyMessage(message));
    if (this.asks) {
      // while a script is waited for, the extension's own connection goes on: it is another one than the widgets'
      const register = kernel.registerCommTarget.bind(kernel);
      kernel.registerCommTarget = (target, opened) => register(target, (comm, message) => void opened(comm, message));
    }
    activate();
    window.vscIPyWidgets8.load();
    const loader = {
      widgetsRegisteredInRequireJs: new Set(),
      loadWidgetScript: async (name) => {
        // the copy of the kernel's own environment, which a remote one has not; a CDN comes first where the user allows one
        await this.consent;
        if (!this.scripts) throw new Error(`Source for IPyWidget ${name} not found.`);
        window.requirejs.config({ paths: { [name]: `${location.origin}/static/nbextensions/${name}/index` } });
      },
      errorHandler: (className, module, _version, error) => console.error(`${module}.${className} could not be loaded`, error),
      successHandler: () => undefined,
    };
    this.manager = new window.vscIPyWidgets.WidgetManager(kernel, document.querySelector("#widgets"), loader, () => undefined);
    await runSilently(kernel, `__vsc_ipynb_file__ = ${JSON.stringify(this.content.metadata.file ?? "")}`);
    return this;
  }

  onAnyMessage(message) {
    if (message.header.msg_type === "comm_open" && message.content.target_name === "jupyter.widget") {
      this.models.add(message.content.comm_id);
    }
  }

  /** Edits of a notebook are made in another process: in order, and what the extension reads is what has been made. */
  edit(change) {
    this.edits = this.edits.then(() => new Promise((done) => setTimeout(done))).then(change);
  }

  async run(index) {
    const each = this.cells[index];
    Object.assign(each, { outputs: [], lastStream: null, clearNext: false });
    this.draw(each, "running");
    const metadata = { ...each.cell.metadata, cellId: `vscode-notebook-cell:${this.path}#W${index}sZmlsZQ%3D%3D` };
    const request = { code: joined(each.cell.source), silent: false, stop_on_error: false, allow_stdin: true, store_history: true };
    const future = this.kernel.requestExecute(request, false, metadata);
    future.onIOPub = (message) => this.onMessage(each, message);
    future.onStdin = (message) => this.askInput(message);
    const reply = await future.done;
    document.querySelectorAll("#input-box").forEach((box) => box.remove());
    each.cell.execution_count = reply.content.execution_count;
    for (const payload of reply.content.payload ?? []) {
      if (payload.source === "set_next_input") this.cells[index + 1]?.node.before(element("pre", "next-input", payload.text));
    }
    await this.edits;
    this.draw(each, reply.content.status);
  }

  clearIfWanted(each) {
    if (each.clearNext) {
      Object.assign(each, { outputs: [], lastStream: null, clearNext: false });
    }
  }

  onMessage(each, message) {
    const { content, header } = message;
    switch (header.msg_type) {
      case "stream":
        if (message.parent_header.msg_type === "comm_msg") return;
        this.edit(() => {
          this.clearIfWanted(each);
          if (each.lastStream?.name !== content.name) {
            each.outputs.push((each.lastStream = { type: "stream", name: content.name, text: "" }));
          }
          each.lastStream.text += content.text;
          this.draw(each);
        });
        break;
      case "display_data":
      case "execute_result":
        this.edit(() => {
          this.clearIfWanted(each);
          each.lastStream = null;
          each.outputs.push(anOutput(message));
          this.draw(each);
        });
        break;
      case "update_display_data":
        this.update(message);
        break;
      case "clear_output":
        if (content.wait) each.clearNext = true;
        else this.edit(() => Object.assign(each, { outputs: [], lastStream: null }) && this.draw(each));
        break;
      case "error":
        this.edit(() => {
          each.outputs.push({ type: "error", ...content });
          this.draw(each);
        });
    }
  }

  /** An update of an output of any cell; one that changes its metadata replaces all outputs that there are known to be. */
  update(message) {
    const changed = anOutput(message);
    const same = (output) => output.displayId && output.displayId === changed.displayId;
    const known = this.cells.find((each) => each.outputs.some(same));
    if (!known) {
      // displayed a moment ago, and tracked in the original from then on
      this.edit(() => {
        const each = this.cells.find((some) => some.outputs.some(same));
        if (!each) return;
        Object.assign(each.outputs.find(same), { items: changed.items, metadata: changed.metadata });
        this.draw(each);
      });
      return;
    }
    const before = known.outputs.find(same);
    if (JSON.stringify(before.metadata) !== JSON.stringify(changed.metadata)) {
      const all = known.outputs.map((output) => (same(output) ? { ...output, ...changed, type: output.type } : output));
      this.edit(() => {
        known.outputs = all;
        this.draw(known);
      });
    } else {
      this.edit(() => {
        const output = known.outputs.find(same);
        if (output) output.items = changed.items;
        this.draw(known);
      });
    }
  }

  /** One line at the top of the window. Escape sends an empty text, as if that had been typed. */
  askInput(message) {
    const box = element("div", "quick-input");
    box.id = "input-box";
    const field = inputField(message, ["Enter", "Escape"], (value, key) => {
      box.remove();
      this.kernel.sendInputReply({ value: key === "Enter" ? value : "", status: "ok" }, message.header);
    });
    const prompt = element("div", "prompt", `${message.content.prompt} (Press 'Enter' to confirm or 'Escape' to cancel)`);
    box.append(field, prompt);
    document.body.append(box);
    field.focus();
  }

  async drawWidget(value, node) {
    if (!this.models.has(value.model_id)) return false;
    const model = await this.manager.get_model(value.model_id).catch(() => null);
    if (!model) return this.drawMissing(value, node);
    node.classList.add("cell-output-ipywidget-background");
    const view = await this.manager.create_view(model, { el: node });
    await this.manager.display_view(value, view, { node });
    return true;
  }

  drawMissing(_value, node) {
    // its module could not be loaded: the original shows an error in a message of its own and nothing here
    node.append(element("pre", "text", "Error loading widget"));
    return true;
  }

  draw(each, state) {
    each.node ??= this.newNode(each);
    if (state) each.node.dataset.state = state;
    const area = each.node.querySelector(".outputs");
    each.drawn = (each.drawn ?? []).filter(({ node, output, key }) => {
      const kept = each.outputs.includes(output) && JSON.stringify(output.items ?? output.text ?? "") === key;
      if (!kept) node.remove();
      return kept;
    });
    each.drawn = each.outputs.map((output, index) => {
      const drawn = each.drawn.find((one) => one.output === output) ?? {
        output,
        key: JSON.stringify(output.items ?? output.text ?? ""),
        node: this.newOutput(output),
      };
      if (area.children[index] !== drawn.node) area.insertBefore(drawn.node, area.children[index] ?? null);
      return drawn;
    });
  }

  newNode(each) {
    const node = element("section", "cell");
    node.append(element("pre", "source", joined(each.cell.source)), element("div", "outputs"));
    document.querySelector("#notebook").append(node);
    return node;
  }

  newOutput(output) {
    if (output.type === "stream") return element("pre", `output ${output.name}`, withoutColours(output.text));
    if (output.type === "error") {
      const text = [`${output.ename}: ${output.evalue}`, ...(output.traceback ?? [])].join("\n");
      return element("pre", "output error", withoutColours(text));
    }
    const node = element("div", "output");
    void this.drawOne(node, output.items, sortedTypes(output.items));
    return node;
  }

  async drawOne(node, items, [type, ...others]) {
    if (!type) return;
    if (!RENDERERS[type]) {
      node.append(element("div", "no-renderer", `No renderer could be found for mimetype ${type}`));
      return;
    }
    node.dataset.type = type;
    const part = element("div", "item");
    node.append(part);
    if ((await RENDERERS[type](items[type], part, this)) === false) {
      part.remove();
      await this.drawOne(node, items, others);
    }
  }

  interrupt() {
    return this.kernel.interrupt();
  }

  saved() {
    return savedNotebook(this.content, this.cells);
  }
}

serve((content, kernelName, path, how) => new Notebook(content, kernelName, path, how).start());
