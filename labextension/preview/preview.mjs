/** Plays a scene into the renderer, over a channel like the kernel's. */

import { scenes } from "./scenes.mjs";
import { themes } from "./themes.mjs";
import { mount } from "./transcript.js";

const query = new URLSearchParams(location.search);
const scene = query.get("scene") ?? "edit";
const theme = query.get("theme") ?? "light";
const main = document.querySelector("main");

for (const [name, value] of Object.entries(themes[theme])) document.documentElement.style.setProperty(name, value);
if (query.has("width")) main.style.width = `${query.get("width")}px`;

const link = (label, changes) => {
  const node = document.createElement("a");
  node.href = `?${new URLSearchParams({ ...Object.fromEntries(query), ...changes })}`;
  node.textContent = label;
  return node;
};
document.querySelector("nav").append(
  ...Object.keys(scenes).map((name) => link(name, { scene: name })),
  "| ",
  ...Object.keys(themes).map((name) => link(name, { theme: name })),
  "| ",
  link("narrow", { width: "400" }),
);
if (query.has("plain")) document.querySelector("nav").remove();

const now = () => Date.now() / 1000;
let tell = () => undefined;
let sent = 0;

function say(op) {
  tell({ type: "ops", first: sent, now: now(), ops: [op] });
  sent += 1;
}

/** Long texts come in pieces, as from a model; a question waits for its answer. */
async function play(ops, pace) {
  for (const op of ops) {
    const { text } = op;
    if ((op.op === "text" || op.op === "thinking") && pace > 0) {
      for (let from = 0; from < text.length; from += 9) {
        say({ ...op, text: text.slice(from, from + 9), ...(op.op === "thinking" ? { at: now() } : {}) });
        await new Promise((resolve) => setTimeout(resolve, pace));
      }
      continue;
    }
    say("at" in op ? { ...op, at: now() - (op.at ?? 0) } : op);
    if (pace > 0) await new Promise((resolve) => setTimeout(resolve, pace * 10));
  }
}

const channel = {
  send(message) {
    console.log("to the kernel", message);
    if (message.type !== "answer") return;
    tell({ type: "ack", question: message.question });
    say({ op: "answered", tool: message.question, by: "widget", rule: "", edited: message.input !== null, ...message });
  },
  onMessage(listener) {
    tell = listener;
    return () => undefined;
  },
};
mount(main, channel);
play(scenes[scene](now()), query.has("instant") ? 0 : 30);
