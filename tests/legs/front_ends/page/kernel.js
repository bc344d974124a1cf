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
