/** A kernel as front ends reach it: by Jupyter Server and its websocket. */

import { KernelManager, ServerConnection } from "@jupyterlab/services";

export async function startKernel(name, path) {
  const serverSettings = ServerConnection.makeSettings({ baseUrl: `${location.origin}/`, wsUrl: `${location.origin.replace("http", "ws")}/`, token: "" });
  // the folder of the notebook is the kernel's
  const reply = await ServerConnection.makeRequest(
    `${location.origin}/api/kernels`,
    { method: "POST", body: JSON.stringify({ name, path }) },
    serverSettings,
  );
  if (!reply.ok) throw new Error(`the kernel ${name} does not start: ${await reply.text()}`);
  const manager = new KernelManager({ serverSettings });
  const kernel = manager.connectTo({ model: await reply.json(), handleComms: true });
  await kernel.info;
  return kernel;
}

/** Run code that no cell shows. */
export async function runSilently(kernel, code) {
  await kernel.requestExecute({ code, silent: true, store_history: false }).done;
}

export const element = (name, className, text = "") => {
  const made = document.createElement(name);
  made.className = className;
  made.textContent = text;
  return made;
};

export const joined = (text) => (Array.isArray(text) ? text.join("") : text);

export const withoutColours = (text) => text.replace(/\x1b\[[0-9;]*m/g, "");

/** The outputs that a notebook's file has for a cell, as the pages keep them. */
export const outputsOf = (cell) =>
  (cell.outputs ?? []).map((output) =>
    output.output_type === "stream"
      ? { type: "stream", name: output.name, text: joined(output.text) }
      : output.output_type === "error"
        ? { type: "error", ...output }
        : { type: output.output_type, items: output.data, metadata: output.metadata ?? {} },
  );

/** The notebook as its file: what is transient is left out, every MIME type stays. */
export function savedNotebook(content, cells) {
  const saved = (output, cell) => {
    if (output.type === "stream") return { output_type: "stream", name: output.name, text: output.text };
    if (output.type === "error") {
      return { output_type: "error", ename: output.ename, evalue: output.evalue, traceback: output.traceback };
    }
    const count = output.type === "execute_result" ? { execution_count: cell.execution_count ?? null } : {};
    return { output_type: output.type, data: output.items, metadata: output.metadata, ...count };
  };
  return { ...content, cells: cells.map(({ cell, outputs }) => ({ ...cell, outputs: outputs.map((output) => saved(output, cell)) })) };
}

/** A field for what a kernel asks by `input()`; `answer(text, key)` when one of `keys` is pressed. */
export function inputField({ content: { prompt, password } }, keys, answer) {
  const field = element("input", "");
  field.type = password ? "password" : "text";
  field.setAttribute("aria-label", prompt);
  field.addEventListener("keydown", ({ key }) => {
    if (keys.includes(key)) answer(field.value, key);
  });
  return field;
}

/** The window's theme; an output that is a page of its own is told by an attribute. */
function setTheme(dark) {
  document.body.classList.toggle("dark", dark);
  for (const { contentDocument } of document.querySelectorAll("iframe")) {
    contentDocument.documentElement.setAttribute("theme", dark ? "dark" : "light");
  }
}

/** What each page offers to the tests; `open` makes a notebook of its own kind. */
export function serve(open) {
  window.setTheme = setTheme;
  window.openNotebook = async (content, kernelName, path, how) => {
    document.querySelector("#notebook").replaceChildren();
    window.book = await open(content, kernelName, path, how);
  };
}
