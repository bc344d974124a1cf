import { describe, expect, it } from "vitest";

import type { JsonObject } from "../../src/json";
import { mountManage } from "../../src/manage/manage_view";
import type { Report } from "../../src/manage/report";
import { inputOf } from "../../src/manage/rules_section";
import { entryOf } from "../../src/manage/servers_section";
import { expectAccessible, mounted, OneChat } from "../sidebar/panel_scene";

const REPORT: Report = {
  cwd: "/home/ada/shop",
  home: "/home/ada",
  files: { user: "/home/ada/.claude/settings.json", project: "/home/ada/shop/.claude/settings.json", local: "/home/ada/shop/.claude/settings.local.json" },
  trust: { folder: "/home/ada/shop", trusted: false, waiting: ["allow rule Bash(make *)"], held_back: [] },
  mode: { value: "default", from: "", locked: "" },
  rules: [
    { rule: "Bash(pytest *)", behavior: "allow", meaning: "shell commands that match `pytest *`", from: "~/.claude/settings.json", file: "/home/ada/.claude/settings.json", scope: "user", locked: "", inactive: "" },
    { rule: "WebFetch", behavior: "deny", meaning: "every fetch of a page", from: "/etc/claude-code/managed-settings.json", file: "/etc/claude-code/managed-settings.json", scope: "managed", locked: "Set by your administrator.", inactive: "" },
  ],
  settings: { rows: [{ key: "model", value: "sonnet", from: "~/.claude/settings.json", locked: "", choices: [] }, { key: "permissions.defaultMode", value: "default", from: "", locked: "", choices: ["default", "plan"] }], known: ["model"] },
  servers: [
    { name: "docs", scope: "user", from: "~/.claude.json", address: "https://docs.example/mcp", transport: "http", state: "connected", problem: "", tools: ["a", "b"], enabled: true, signs_in: true, signed_in: false, pending: [], locked: "", entry: '{\n  "type": "http",\n  "url": "https://docs.example/mcp",\n  "headers": {"X-Key": "••••••"}\n}' },
    { name: "theirs", scope: "project", from: "/home/ada/shop/.mcp.json", address: "npx theirs", transport: "stdio", state: "waits for your approval", problem: "", tools: [], enabled: false, signs_in: false, signed_in: false, pending: ["runs: npx theirs"], locked: "", entry: null },
  ],
  server_files: { user: "/home/ada/.claude.json", local: "/home/ada/.claude.json", project: "/home/ada/shop/.mcp.json" },
  skills: [
    { name: "release", description: "Writes release notes.", from: "~/.claude/skills/release/SKILL.md", file: "/home/ada/.claude/skills/release/SKILL.md", scope: "user", locked: "", problems: [], enabled: true, off_by: [] },
    { name: "init", description: "Begins.", from: "", file: "/x/SKILL.md", scope: "built-in", locked: "Comes with Cellwright.", problems: [], enabled: false, off_by: [{ file: "/home/ada/.claude/settings.json", scope: "user", locked: "" }] },
  ],
  agents: [],
  definition_folders: { user: "/home/ada/.claude", project: "/home/ada/shop/.claude" },
  plugins: { rows: [{ id: "fmt@tools", version: "1.0", description: "Formats.", from: "https://x.example", enabled: true, installed: true, problem: "", locked: "" }], marketplaces: ["tools"] },
  notices: [],
};

const settled = async (): Promise<void> => { for (let turn = 0; turn < 12; turn++) await Promise.resolve(); };

const scene = async (refuse = ""): Promise<{ chat: OneChat; host: HTMLElement; tab: (name: string) => void; button: (name: string, at?: ParentNode) => HTMLButtonElement; fill: (label: RegExp, value: string) => void; submit: () => Promise<void> }> => {
  const chat = new OneChat({
    manage: () => REPORT as unknown as JsonObject,
    manage_change: () => { if (refuse) throw new Error(refuse); return { file: "/home/ada/.claude/settings.json", report: REPORT } as unknown as JsonObject; },
    manage_read: () => ({ behavior: "ask", reason: "No rule allows it.", rule: "", from: "", suggestions: ["Bash(make *)"], text: "---\nname: release\n---\n" }),
  });
  const { host } = mounted(mountManage, chat);
  await settled();
  const button = (name: string, at: ParentNode = host): HTMLButtonElement =>
    [...at.querySelectorAll("button")].find((each) => (each.getAttribute("aria-label") ?? each.textContent) === name) as unknown as HTMLButtonElement;
  const labelled = (label: RegExp): HTMLInputElement => {
    const found = [...host.querySelectorAll("label")].find((each) => label.test(each.textContent));
    return host.querySelector(`#${found?.htmlFor ?? "none"}`) as unknown as HTMLInputElement;
  };
  return {
    chat, host, button,
    tab: (name) => { button(name).click(); },
    fill: (label, value) => {
      const input = labelled(label);
      input.value = value;
      input.dispatchEvent(new Event("input", { bubbles: true }));
      input.dispatchEvent(new Event("change", { bubbles: true }));
    },
    submit: async () => {
      host.querySelector("form")?.dispatchEvent(new Event("submit", { bubbles: true, cancelable: true }));
      await settled();
    },
  };
};

describe("Manage", () => {
  it("names every part, and locks what the administrator has set, with the reason", async () => {
    const { host, tab, button } = await scene();
    expect(host.textContent).toContain("Locked: Set by your administrator.");
    expect(button("Remove the rule WebFetch")).toBeUndefined();
    expect(host.textContent).toContain("not in effect until you trust it");
    tab("MCP");
    button("Edit the server docs").click();
    await expectAccessible(host);
  });

  it("names the file before it writes a rule, for each scope", async () => {
    const { host, chat, button, fill, submit } = await scene();
    button("Add a rule…").click();
    expect(host.querySelector(".writes")?.textContent).toBe("Writes ~/.claude/settings.json");
    fill(/^For whom/, "project");
    expect(host.querySelector(".writes")?.textContent).toBe("Writes .claude/settings.json");
    fill(/^Rule$/, "Bash(make *)");
    await submit();
    expect(chat.last("manage_change")).toEqual({ what: "add_rule", scope: "project", behavior: "allow", rule: "Bash(make *)" });
    expect(host.querySelector("form")).toBeNull();
    expect(host.contains(document.activeElement)).toBe(true);
  });

  it("asks once more before it removes, and keeps the form and says why when it is refused", async () => {
    const { host, chat, button, submit } = await scene("settings.json is not valid JSON.");
    button("Remove the rule Bash(pytest *)").click();
    expect(chat.last("manage_change")).toBeUndefined();
    expect(host.querySelector("form")?.textContent).toContain("Writes ~/.claude/settings.json");
    await submit();
    expect(chat.last("manage_change")).toMatchObject({ what: "remove_rule", rule: "Bash(pytest *)", scope: "user" });
    expect(host.querySelector("[role=alert]")?.textContent).toBe("settings.json is not valid JSON.");
    expect(host.querySelector("form")).not.toBeNull();
    host.querySelector("form")?.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true, cancelable: true }));
    expect(document.activeElement).toBe(button("Remove the rule Bash(pytest *)"));
  });

  it("says why a call asks", async () => {
    const { host, chat, button, fill, submit } = await scene();
    button("Why was this asked?").click();
    fill(/^Command, path/, "make all");
    await submit();
    expect(chat.last("manage_read")).toEqual({ what: "why", tool: "Bash", input: { command: "make all" } });
    expect(host.querySelector(".output")?.textContent).toContain("Asks for your approvalNo rule allows it.Would be allowed by Bash(make *)");
  });

  it("adds, edits and approves servers: a folder's only as it was shown", async () => {
    const { host, chat, tab, button, fill, submit } = await scene();
    tab("MCP");
    button("Edit the server docs").click();
    expect(host.querySelector("textarea")?.value).toContain('"X-Key": "••••••"');
    await submit();
    expect(chat.last("manage_change")).toMatchObject({ what: "put_server", name: "docs", scope: "user", replace: true });
    button("Paste JSON…").click();
    fill(/^JSON/, '{"mcpServers": {"new": {"url": "https://new.example"}}}');
    await submit();
    expect(chat.last("manage_change")).toMatchObject({ what: "put_server", name: "", scope: "local" });
    expect(button("Switch theirs on for this conversation")).toBeUndefined();
    expect([button("Sign in to docs"), button("Sign out of docs")]).toEqual([expect.anything(), undefined]);
    expect(host.textContent).toContain("From .mcp.json");
    button("Review the server theirs").click();
    expect(host.querySelector("form")?.textContent).toContain("runs: npx theirs");
    await submit();
    expect(chat.last("manage_change")).toEqual({ what: "approve_server", name: "theirs", seen: ["runs: npx theirs"] });
  });

  it("switches a skill by the rule that it names", async () => {
    const { host, chat, tab, button, submit } = await scene();
    tab("Skills");
    button("Switch off release").click();
    expect(host.querySelector("form")?.textContent).toContain("Skill(release)");
    await submit();
    expect(chat.last("manage_change")).toEqual({ what: "switch_definition", kind: "skill", name: "release", on: false });
    button("Switch on init").click();
    await submit();
    expect(chat.last("manage_change")).toEqual({ what: "switch_definition", kind: "skill", name: "init", on: true, scope: "user" });
    expect(button("Edit init")).toBeUndefined();
  });

  it("lists the settings that are changed most, with what holds and where it is from, and the values to choose from", async () => {
    const { host, chat, tab, button, submit } = await scene();
    tab("Settings");
    const texts = [...host.querySelectorAll(".item")].map((each) => each.textContent);
    expect(texts.slice(0, 2)).toEqual(["Modelsonnet", "Permission modeAsk"]);
    button("Model: sonnet. Change it").click();
    expect(host.querySelector("form")?.textContent).toMatch(/^model · From ~\/.claude\/settings.json/);
    button("Unset model").click();
    await settled();
    expect(chat.last("manage_change")).toEqual({ what: "set_setting", key: "model", value: null });
    button("Permission mode: Ask. Change it").click();
    expect(button("Unset permissions.defaultMode")).toBeUndefined();
    const value = host.querySelector<HTMLSelectElement>("form select");
    expect([...(value?.options ?? [])].map((each) => each.value)).toEqual(["default", "plan"]);
    if (value) value.value = "plan";
    expect(host.querySelector(".writes")?.textContent).toBe("Writes ~/.claude/settings.json");
    await expectAccessible(host);
    await submit();
    expect(chat.last("manage_change")).toEqual({ what: "set_setting", key: "permissions.defaultMode", value: "plan" });
  });

  it("goes through its tabs by the arrows", async () => {
    const { host, button } = await scene();
    button("Rules").focus();
    button("Rules").dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft", bubbles: true, cancelable: true }));
    expect(document.activeElement?.textContent).toBe("Settings");
    expect(host.querySelector("[role=tabpanel]")?.textContent).toContain("Density");
  });
});

it("a form's line becomes an entry", () => {
  expect(entryOf("stdio", 'npx -y "my server" --dir=\'a b\'', "TOKEN=x=y\n\n")).toEqual({ type: "stdio", command: "npx", args: ["-y", "my server", "--dir='a", "b'"], env: { TOKEN: "x=y" } });
  expect(entryOf("http", " https://x.example ", "")).toEqual({ type: "http", url: "https://x.example" });
});

it("a call's input is its main field, or JSON", () => {
  expect(inputOf("Read", "a.txt")).toEqual({ file_path: "a.txt" });
  expect(inputOf("Bash", '{"command": "ls"}')).toEqual({ command: "ls" });
  expect(inputOf("Bash", "{ ls; }")).toEqual({ command: "{ ls; }" });
});

it("starts a kernel that reads the folder's settings with one click, where there is none", async () => {
  const chat = new OneChat();
  chat.connection = "none";
  const { host, panel } = mounted(mountManage, chat);
  await settled();
  const start = [...host.querySelectorAll("button")].find(({ textContent }) => textContent === "Start a kernel in this folder");
  start?.click();
  expect(panel.started).toBe(1);
});
