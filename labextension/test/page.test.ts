import { afterEach, beforeEach, expect, test } from "vitest";

import { completionPlugin } from "../src/completion/completion_plugin";
import { isForcedOff } from "../src/page";

const config = document.createElement("script");
config.id = "jupyter-config-data";
config.type = "application/json";

beforeEach(() => { document.body.append(config); });
afterEach(() => { config.remove(); });

function say(policy: unknown): void {
  config.textContent = JSON.stringify({ serverRoot: "/root", cellwrightPolicy: policy });
}

test("what the administrator switched off is off, and nothing else", () => {
  say({ choices: { inline_completion: "force-off", bash: "user-choice", redact_secrets: "force-on" } });
  expect(["inline_completion", "bash", "redact_secrets", "mcp"].map(isForcedOff)).toEqual([true, false, false, false]);
});

test("a server without a policy switches nothing off", () => {
  say(undefined);
  expect(isForcedOff("inline_completion")).toBe(false);
  config.remove();
  expect(isForcedOff("inline_completion")).toBe(false);
});

/** The names of what the plugin adds to JupyterLab. */
function added(): string[] {
  const names: string[] = [];
  const commands = { addCommand: (id: string) => names.push(id), notifyCommandChanged: () => undefined };
  const settings = { composite: { enabled: false }, changed: { connect: () => undefined } };
  const manager = { registerInlineProvider: () => names.push("provider") };
  const registry = { load: () => Promise.resolve(settings), set: () => Promise.resolve() };
  const activate = completionPlugin.activate as (...given: unknown[]) => void;
  activate({ commands }, manager, {}, registry, { addItem: () => names.push("palette") });
  return names;
}

test("suggestions that are forbidden are in no menu, no palette, and not offered", () => {
  say({ choices: { inline_completion: "force-off" } });
  expect(added()).toEqual([]);
  say({ choices: { inline_completion: "user-choice" } });
  expect(added()).toContain("provider");
});
