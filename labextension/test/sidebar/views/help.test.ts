/** Help and log: every key that is handled is in the table, commands are the kernel's, the log can be read and copied. */

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import composerKeys from "../../../src/composer/keys.ts?raw";
import type { Json } from "../../../src/json";
import type { Shortcut } from "../../../src/panel_view";
import sessionKeys from "../../../src/sessions/sessions.ts?raw";
import { keyCaps, keyTable, mountHelp } from "../../../src/sidebar/views/help";
import { mountLogView } from "../../../src/sidebar/views/log_view";
import { find } from "../../transcript/scene";
import type { Mounted } from "../panel_scene";
import { expectAccessible, focused, mounted, OneChat, OnePanel, settled } from "../panel_scene";

let answer: () => Json | Promise<Json>;

const COMMANDS = [
  { insert: "/context ", label: "/context", about: "what fills the context", kind: "command" },
  { insert: "tides", label: "/tides", about: "my own", kind: "command" },
];

const groups = ({ host }: Mounted): Map<string, string[][]> =>
  new Map(
    [...host.querySelectorAll("table")].map((table) => [
      table.getAttribute("aria-label") ?? "",
      [...table.querySelectorAll("tr")].map((row) => [...row.children].map((cell) => cell.textContent)),
    ]),
  );

afterEach(() => {
  vi.unstubAllGlobals();
});

describe("help", () => {
  const help = async (chat = new OneChat({ complete: () => answer() })): Promise<Mounted> => {
    const scene = mounted(mountHelp, chat);
    await settled();
    return scene;
  };

  beforeEach(() => {
    answer = () => ({ items: COMMANDS });
  });

  it("has every key, with those that the user has set", async () => {
    const scene = await help();
    const shown = groups(scene);
    expect([...shown.keys()]).toEqual(["Anywhere in JupyterLab", "Anywhere in the panel", "Composer", "When Claude asks", "Sessions", "Slash commands"]);
    expect(shown.get("Anywhere in JupyterLab")).toEqual([["Ctrl+Shift+Y", "Ask Claude"]]);
    expect(shown.get("Anywhere in the panel")).toEqual([["F6", "Next Part of the Panel"]]);
    expect(shown.get("Composer")?.[0]).toEqual(["Enter or Ctrl+Enter", "Send"]);
    expect(shown.get("When Claude asks")?.map(([keys]) => keys)).toEqual(["Enter", "1", "2", "3", "4 or Esc", "e"]);
    expect(focused()).toBe(find(scene.host, ".body"));
    await expectAccessible(scene.host);
  });

  it.each([
    ["the composer", composerKeys, "Composer"],
    ["the list of sessions", sessionKeys, "Sessions"],
  ])("leaves out no key that %s handles", (_, source, title) => {
    const handled = [...source.matchAll(/case "([^"]+)":/g)].map(([, key]) => key ?? "").filter((key) => key !== "ContextMenu");
    expect(handled.length).toBeGreaterThan(4);
    const { deps } = new OnePanel();
    const group = keyTable(deps.trans, deps.settings(), deps.shortcuts()).find((each) => each.title === title);
    const told = new Set(group?.lines.flatMap(({ keys }) => keys.split(/, |\+/)));
    expect(handled.filter((key) => !told.has(key))).toEqual([]);
  });

  it("says which key sends, as it is set", () => {
    const { deps } = new OnePanel();
    const [send, line] = keyTable(deps.trans, { sendKey: "Shift+Enter" }, [])[0]?.lines ?? [];
    expect([send, line]).toEqual([{ keys: "Shift+Enter, Ctrl+Enter", does: "Send" }, { keys: "Enter", does: "A new line" }]);
  });

  it("has one row for a command with several keys, what is used most first, and no key twice", () => {
    const { deps } = new OnePanel();
    const command = (name: string, keys: string, inPanel = false): Shortcut => ({ command: `cellwright:${name}`, keys, label: name, inPanel });
    const shortcuts = [
      command("mark-output", "Alt+Shift+M"), command("next-change", "F8"), command("next-change", "F8", true), command("next-region", "F6", true),
      command("edit-cell", "Alt+K"), command("edit-cell", "Ctrl+K"), command("edit-cell", "Alt+K"), command("fix-cell", "Alt+F"),
    ];
    const [anywhere, inPanel] = keyTable(deps.trans, deps.settings(), shortcuts);
    expect(anywhere?.lines).toEqual([
      { keys: "Alt+F", does: "fix-cell" }, { keys: "Alt+K, Ctrl+K", does: "edit-cell" }, { keys: "F8", does: "next-change" }, { keys: "Alt+Shift+M", does: "mark-output" },
    ]);
    expect(inPanel?.lines).toEqual([{ keys: "F6", does: "next-region" }]);
  });

  it("draws keys as people know them", () => {
    expect(keyCaps("Shift+ArrowUp, Escape")).toEqual([["Shift", "↑"], ["Esc"]]);
    expect(keyCaps("Ctrl++")).toEqual([["Ctrl", "+"]]);
  });

  it("lists the kernel's commands, and writes one into the composer", async () => {
    const scene = await help();
    expect(scene.chat.asked).toEqual([["complete", { kind: "command", text: "", notebook: "tides/notebook.ipynb" }]]);
    expect(groups(scene).get("Slash commands")).toEqual([["/context", "what fills the context"], ["/tides", "my own"]]);
    const [first, second] = scene.host.querySelectorAll<HTMLElement>(".use");
    first?.click();
    expect([scene.panel.composed, scene.panel.closed]).toEqual(["/context ", 1]);
    second?.click();
    expect(scene.panel.composed).toBe("/tides");
  });

  it("has its keys without a kernel, and the commands when there is one", async () => {
    const chat = new OneChat({ complete: () => answer() });
    chat.connection = "none";
    const scene = await help(chat);
    expect(find(scene.host, ".commands").textContent).toContain("connected to a kernel");
    expect(groups(scene).has("Composer")).toBe(true);
    chat.change({ connection: "connected" });
    await settled();
    expect(groups(scene).get("Slash commands")).toHaveLength(2);
    scene.part.dispose();
    expect([scene.host.childElementCount, chat.listening]).toEqual([0, 0]);
  });

  it("says why the commands cannot be listed", async () => {
    answer = () => { throw new Error("The kernel does not answer."); };
    const scene = await help();
    expect(find(scene.host, ".commands [role=alert]").textContent).toBe("The kernel does not answer.");
  });
});

describe("the log", () => {
  const LINES = ["2026-11-22 08:00:00,123 INFO 41 cellwright.runs: run-1: begins", "2026-11-22 08:00:01,000 ERROR 41 cellwright: failed", "Traceback: <b>"];
  const log = async (): Promise<Mounted> => {
    const scene = mounted(mountLogView, new OneChat({ log: () => answer() }));
    await settled();
    return scene;
  };

  beforeEach(() => {
    answer = () => ({ lines: LINES });
  });

  it("shows the last lines, what went wrong among them marked, as text", async () => {
    const scene = await log();
    expect(find(scene.host, "pre").textContent).toBe(`${LINES.join("\n")}\n`);
    expect([...scene.host.querySelectorAll(".line")].map((line) => line.className)).toEqual(["line", "line error", "line"]);
    expect(scene.chat.asked).toEqual([["log", { limit: 500 }]]);
    await expectAccessible(scene.host);
  });

  it("copies them, reads them again, and closes", async () => {
    const copied: string[] = [];
    vi.stubGlobal("navigator", { clipboard: { writeText: (text: string) => Promise.resolve(copied.push(text)) } });
    const scene = await log();
    find(scene.host, ".copy").click();
    await settled();
    expect(copied).toEqual([LINES.join("\n")]);
    answer = () => ({ lines: [...LINES, "one more"] });
    find(scene.host, ".top button").click();
    await settled();
    expect(scene.host.querySelectorAll(".line")).toHaveLength(4);
    find(scene.host, ".close").click();
    expect(scene.panel.closed).toBe(1);
  });

  it("says that it is empty, or why it cannot be read", async () => {
    answer = () => ({ lines: [] });
    expect(find((await log()).host, "[role=status]").textContent).toBe("Nothing has been logged yet.");
    answer = () => { throw new Error("The kernel is gone."); };
    const scene = await log();
    expect(find(scene.host, "[role=status]").textContent).toBe("The kernel is gone.");
  });
});
