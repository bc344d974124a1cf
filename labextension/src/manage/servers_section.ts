/** MCP servers: their state, and entries added by a form or a pasted JSON, edited, switched, approved, signed in to. */

import { element } from "../transcript/dom";
import type { Act, Screen } from "./parts";
import { areaField, choiceField, code, confirmBelow, form, list, openBelow, openers, output, row, section, textField } from "./parts";
import type { Scope, ServerRow } from "./report";
import { shownPath } from "./report";
import { scopeChoices } from "./rules_section";

export function serversSection(screen: Screen): HTMLElement[] {
  const { trans } = screen;
  const { servers } = screen.report();
  return [
    openers(
      { label: trans.__("Add a server…"), key: "server add", make: (close) => addForm(screen, close) },
      { label: trans.__("Paste JSON…"), key: "server paste", make: (close) => pasteForm(screen, close) },
    ),
    section(trans.__("MCP servers"), list(servers.map((each) => serverRow(screen, each)), trans.__("No MCP servers are configured."))),
  ];
}

function serverRow(screen: Screen, each: ServerRow): HTMLElement {
  const { trans } = screen;
  const tools = each.tools.length ? trans.__("%1 tools", each.tools.length) : "";
  return row(trans, {
    key: `server ${each.scope} ${each.name}`,
    title: each.name,
    badge: each.state,
    state: each.state === "connected" ? "good" : each.state === "failed" || each.state === "blocked" ? "bad" : "",
    lines: [...(each.address ? [code(each.address)] : []), [each.from && trans.__("From %1", shownPath(screen.report(), each.from)), tools].filter((line) => line).join(" · ")],
    problem: each.locked === each.problem ? "" : each.problem,
    locked: each.locked,
    acts: each.locked && !each.enabled ? [] : serverActs(screen, each),
  });
}

function serverActs(screen: Screen, each: ServerRow): Act[] {
  const { trans } = screen;
  const { name, scope } = each;
  const acts: Act[] = [];
  const add = (label: string, key: string, about: string, run: (at: HTMLElement) => void): void => { acts.push({ label, key, about, run }); };
  if (each.pending.length) add(trans.__("Review…"), "review", trans.__("Review the server %1", name), (at) => { openBelow(at, (close) => approveForm(screen, each, close)); });
  else {
    if (each.enabled) {
      const again = each.state === "not started" ? trans.__("Connect") : trans.__("Reconnect");
      add(again, "connect", trans.__("Connect to %1", name), () => { void screen.change("connect_server", { name }); });
      add(trans.__("Switch off"), "switch", trans.__("Switch off %1 in this folder", name), () => { void screen.change("switch_server", { name, on: false }); });
    } else add(trans.__("Switch on"), "switch", trans.__("Switch on %1 in this folder", name), () => { void screen.change("switch_server", { name, on: true }); });
    if (each.signs_in) {
      add(trans.__("Sign in…"), "sign in", trans.__("Sign in to %1", name), (at) => { openBelow(at, (close) => signInForm(screen, name, close)); });
      if (each.signed_in) add(trans.__("Sign out"), "sign out", trans.__("Sign out of %1", name), (at) => {
        confirmBelow(screen, at, trans.__("Sign out of %1 and delete its tokens?", name), "", trans.__("Sign out"), () => screen.change("sign_out", { name }));
      });
    }
  }
  const { entry } = each;
  if (entry !== null && isScope(scope)) {
    const file = screen.report().server_files[scope];
    add(trans.__("Edit…"), "edit", trans.__("Edit the server %1", name), (at) => { openBelow(at, (close) => editForm(screen, name, scope, entry, close)); });
    add(trans.__("Remove"), "remove", trans.__("Remove the server %1", name), (at) => {
      confirmBelow(screen, at, trans.__("Remove %1?", name), file, trans.__("Remove"), () => screen.change("drop_server", { name, scope }));
    });
  }
  return acts;
}

function isScope(scope: string): scope is Scope {
  return scope === "user" || scope === "local" || scope === "project";
}

function editForm(screen: Screen, name: string, scope: Scope, entry: string, close: () => void): HTMLElement {
  const { trans } = screen;
  const text = areaField(trans.__("Configuration (JSON). Leave •••••• to keep a secret."), entry, Math.min(14, entry.split("\n").length + 1));
  return form(screen, {
    label: trans.__("Edit the server %1", name), fields: [text], submit: trans.__("Save"), close,
    writes: () => screen.report().server_files[scope],
    send: async () => (await screen.change("put_server", { name, scope, entry: text.input.value, replace: true })) !== null,
  });
}

function pasteForm(screen: Screen, close: () => void): HTMLElement {
  const { trans } = screen;
  const text = areaField(trans.__("JSON, as the server's documentation shows it"), "", 6);
  const name = textField(trans.__("Name, if the JSON has none"));
  const scope = choiceField(trans.__("For whom"), scopeChoices(trans), "local");
  return form(screen, {
    label: trans.__("Add a server from JSON"), fields: [text, name, scope], submit: trans.__("Add"), close,
    writes: () => screen.report().server_files[scope.input.value as Scope],
    send: async () => (await screen.change("put_server", { name: name.input.value, scope: scope.input.value, entry: text.input.value })) !== null,
  });
}

function addForm(screen: Screen, close: () => void): HTMLElement {
  const { trans } = screen;
  const name = textField(trans.__("Name"), { required: "" });
  const kind = choiceField(trans.__("How it is reached"), [["http", trans.__("Address (HTTP)")], ["sse", trans.__("Address (SSE)")], ["stdio", trans.__("Program")]]);
  const target = textField(trans.__("Address, or program with its arguments"), { required: "", placeholder: "https://example.com/mcp" });
  const secrets = areaField(trans.__("Headers or variables, one NAME=VALUE a line (optional)"), "", 2);
  const scope = choiceField(trans.__("For whom"), scopeChoices(trans), "local");
  return form(screen, {
    label: trans.__("Add a server"), fields: [name, kind, target, secrets, scope], submit: trans.__("Add"), close,
    writes: () => screen.report().server_files[scope.input.value as Scope],
    send: async () => {
      const entry = entryOf(kind.input.value, target.input.value, secrets.input.value);
      return (await screen.change("put_server", { name: name.input.value, scope: scope.input.value, entry: JSON.stringify(entry) })) !== null;
    },
  });
}

/** The entry of a form: words of a command line may be quoted. */
export function entryOf(kind: string, target: string, pairs: string): Record<string, unknown> {
  const named = Object.fromEntries(
    pairs.split("\n").filter((line) => line.includes("=")).map((line) => [line.slice(0, line.indexOf("=")).trim(), line.slice(line.indexOf("=") + 1).trim()]),
  );
  const has = Object.keys(named).length > 0;
  if (kind !== "stdio") return { type: kind, url: target.trim(), ...(has ? { headers: named } : {}) };
  const words = [...target.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(([, double, single, plain]) => double ?? single ?? plain ?? "");
  return { type: "stdio", command: words[0] ?? "", args: words.slice(1), ...(has ? { env: named } : {}) };
}

/** Everything that it runs and reaches stands above the button that lets it. */
function approveForm(screen: Screen, { name, pending, from }: ServerRow, close: () => void): HTMLElement {
  const { trans } = screen;
  const lines = element("ul", { class: "plain" }, ...pending.map((line) => element("li", {}, code(line))));
  const about = element("div", {}, element("p", {}, trans.__("%1 supplies this server. It runs with your rights, and Claude reads what it says.", shownPath(screen.report(), from))), lines);
  return form(screen, {
    label: trans.__("Approve the server %1", name), fields: [{ node: about }], submit: trans.__("Approve"), writes: () => "", close,
    send: async () => (await screen.change("approve_server", { name, seen: [...pending] })) !== null,
  });
}

function signInForm(screen: Screen, name: string, close: () => void): HTMLElement {
  const { trans } = screen;
  const answer = output();
  const address = textField(trans.__("If the browser is on another machine: the address it was sent to in the end"), { type: "url" });
  const node = form(screen, {
    label: trans.__("Sign in to %1", name), fields: [{ node: answer.node }, address], submit: trans.__("Finish"), writes: () => "", close,
    send: async () => (await screen.change("sign_in", { name, address: address.input.value })) !== null,
  });
  answer.say(trans.__("Looking for the place to sign in…"));
  void screen.read("sign_in", { name }).then((done) => {
    const link = (done as { link?: string } | null)?.link;
    if (!link) close();
    else answer.say(element("a", { href: link, target: "_blank", rel: "noopener noreferrer" }, trans.__("Open the sign-in page")));
  });
  return node;
}
