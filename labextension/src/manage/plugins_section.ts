/** Plugins: switched and removed here; what brings new code is installed and updated in the conversation, which asks. */

import type { Act, Screen } from "./parts";
import { confirmBelow, form, list, openers, row, section, textField } from "./parts";
import type { PluginRow } from "./report";

export function pluginsSection(screen: Screen): HTMLElement[] {
  const { trans } = screen;
  const { rows, marketplaces } = screen.report().plugins;
  const markets = marketplaces.map((name) => row(trans, { key: `market ${name}`, title: name }));
  return [
    openers(
      {
        label: trans.__("Install a plugin…"), key: "plugin install",
        make: (close) => commandForm(screen, trans.__("Install a plugin"), trans.__("NAME@MARKETPLACE, a folder or a repository"), "/plugin install", trans.__("Review in the conversation"), close),
      },
      {
        label: trans.__("Add a marketplace…"), key: "plugin market",
        make: (close) => commandForm(screen, trans.__("Add a marketplace"), trans.__("A folder or a repository"), "/plugin marketplace add", trans.__("Add in the conversation"), close),
      },
    ),
    section(trans.__("Plugins"), list(rows.map((each) => pluginRow(screen, each)), trans.__("No plugins are installed."))),
    section(trans.__("Marketplaces"), list(markets, trans.__("No marketplaces are known."))),
  ];
}

function pluginRow(screen: Screen, each: PluginRow): HTMLElement {
  const { trans } = screen;
  return row(trans, {
    key: `plugin ${each.id}`,
    title: [each.id, each.version].filter((text) => text).join(" "),
    badge: each.enabled ? trans.__("on") : trans.__("off"),
    state: each.enabled ? "good" : "",
    lines: [each.description, trans.__("From %1", each.from)].filter((line) => line),
    problem: each.problem,
    locked: each.locked,
    acts: each.locked || !each.installed ? [] : pluginActs(screen, each),
  });
}

function pluginActs(screen: Screen, { id, enabled }: PluginRow): Act[] {
  const { trans } = screen;
  const file = screen.report().files.user;
  const change = (verb: string, label: string, question: string): Act => ({
    label, key: verb === "remove" ? "remove" : "switch", about: `${label}: ${id}`,
    run: (at) => { confirmBelow(screen, at, question, file, label, () => screen.change("change_plugin", { verb, id })); },
  });
  return [
    enabled
      ? change("disable", trans.__("Switch off"), trans.__("Switch %1 off?", id))
      : change("enable", trans.__("Switch on"), trans.__("Switch %1 on? What it brings runs with your rights.", id)),
    { label: trans.__("Update…"), key: "update", about: trans.__("Update %1", id), run: () => { void screen.command(`/plugin update ${id}`); } },
    change("remove", trans.__("Remove"), trans.__("Remove %1 with its files and data?", id)),
  ];
}

function commandForm(screen: Screen, label: string, what: string, command: string, submit: string, close: () => void): HTMLElement {
  const field = textField(what, { required: "" });
  return form(screen, {
    label, fields: [field], submit, writes: () => "", close,
    send: async () => {
      await screen.command(`${command} ${field.input.value.trim()}`);
      return true;
    },
  });
}
