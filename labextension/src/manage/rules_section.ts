/** Permission rules, and why a call is allowed, asked about or denied. */

import type { JsonObject } from "../json";
import { element } from "../transcript/dom";
import { MODE_NAMES } from "../transcript/items/footer";
import { sentence } from "../transcript/visible_text";
import type { Trans } from "../translation";
import type { Screen } from "./parts";
import { areaField, choiceField, code, confirmBelow, form, list, openers, output, row, section, textField } from "./parts";
import type { Report, RuleRow, Scope, Why } from "./report";
import { shownPath } from "./report";

export function rulesSection(screen: Screen): HTMLElement[] {
  const { trans } = screen;
  const report = screen.report();
  const groups = (["deny", "ask", "allow"] as const).map((behavior) =>
    section(behaviorTitle(behavior, trans), list(report.rules.filter((each) => each.behavior === behavior).map((each) => ruleRow(screen, each)), trans.__("No rules."))),
  );
  return [
    ...trustNotes(report, trans),
    modeLine(report, trans),
    openers(
      { label: trans.__("Add a rule…"), key: "rule add", make: (close) => addForm(screen, close) },
      { label: trans.__("Why was this asked?"), key: "rule why", make: (close) => whyForm(screen, close) },
    ),
    ...groups,
  ];
}

/** Text alone: the mode is chosen in the composer. */
function modeLine({ mode }: Report, trans: Trans): HTMLElement {
  const name = element("b", {}, MODE_NAMES[mode.value] ?? mode.value);
  const about = [mode.from && trans.__("from %1", mode.from), mode.locked].filter((words) => words).join(" · ");
  return element("p", {}, trans.__("Permission mode: "), name, ...(about ? [element("span", { class: "about" }, ` · ${about}`)] : []));
}

export function trustNotes({ trust }: Report, trans: Trans): HTMLElement[] {
  const lines = [...trust.waiting, ...trust.held_back];
  if (!lines.length) return [];
  const items = lines.map((line) => element("li", {}, ...sentence(line)));
  return [
    element("div", { class: "note" }, element("p", {}, trans.__("Configured in %1, but not in effect until you trust it. Your next prompt asks.", trust.folder)), element("ul", { class: "plain" }, ...items)),
  ];
}

function behaviorTitle(behavior: RuleRow["behavior"], trans: Trans): string {
  if (behavior === "deny") return trans.__("Deny: never runs, in any mode");
  return behavior === "ask" ? trans.__("Ask: always asks, in any mode") : trans.__("Allow: runs without asking");
}

function ruleRow(screen: Screen, each: RuleRow): HTMLElement {
  const { trans } = screen;
  const key = `rule ${each.behavior} ${each.file} ${each.rule}`;
  const remove = {
    label: trans.__("Remove"), key: "remove", about: trans.__("Remove the rule %1", each.rule),
    run: (at: HTMLElement) => {
      confirmBelow(screen, at, trans.__("Remove %1?", each.rule), each.file, trans.__("Remove"), () =>
        screen.change("remove_rule", { scope: each.scope, behavior: each.behavior, rule: each.rule, file: each.file }));
    },
  };
  const changeable = !each.locked && Object.values(screen.report().files).includes(each.file);
  return row(trans, {
    key, title: code(each.rule),
    lines: [each.meaning.charAt(0).toUpperCase() + each.meaning.slice(1), trans.__("From %1", each.from)],
    problem: each.inactive,
    locked: each.locked || (changeable ? "" : trans.__("This file is not changed here.")),
    acts: changeable ? [remove] : [],
  });
}

export function scopeChoices(trans: Trans): [Scope, string][] {
  return [["user", trans.__("You, in all projects")], ["local", trans.__("You, in this project")], ["project", trans.__("Everybody in this project")]];
}

function addForm(screen: Screen, close: () => void): HTMLElement {
  const { trans } = screen;
  const behavior = choiceField(trans.__("What happens"), [["allow", trans.__("Allow")], ["ask", trans.__("Ask")], ["deny", trans.__("Deny")]]);
  const rule = textField(trans.__("Rule"), { placeholder: "Bash(pytest *)", required: "" });
  const scope = choiceField(trans.__("For whom"), scopeChoices(trans));
  return form(screen, {
    label: trans.__("Add a rule"), fields: [behavior, rule, scope], submit: trans.__("Add"), close,
    writes: () => screen.report().files[scope.input.value as Scope],
    send: async () => (await screen.change("add_rule", { scope: scope.input.value, behavior: behavior.input.value, rule: rule.input.value })) !== null,
  });
}

/** The input of the tools that are asked about most, by the one field that matters. */
const MAIN_FIELD: Readonly<Record<string, string>> = {
  Bash: "command", Python: "code", Read: "file_path", Write: "file_path", Edit: "file_path", WebFetch: "url", WebSearch: "query", Skill: "skill", Agent: "subagent_type",
};

function whyForm(screen: Screen, close: () => void): HTMLElement {
  const { trans } = screen;
  const tool = textField(trans.__("Tool"), { required: "", list: "cw-manage-tools" }, "Bash");
  const tools = element("datalist", { id: "cw-manage-tools" }, ...Object.keys(MAIN_FIELD).map((name) => element("option", { value: name })));
  const input = areaField(trans.__("Command, path, code, or the whole input as JSON"), "", 2);
  const answer = output();
  const node = form(screen, {
    label: trans.__("Why is a call allowed, asked about or denied?"), fields: [tool, input], submit: trans.__("Explain"), writes: () => "", close,
    send: async () => {
      const found = (await screen.read("why", { tool: tool.input.value, input: inputOf(tool.input.value, input.input.value) })) as Why | null;
      if (found) answer.say(...explained(found, screen.report(), trans));
      return false;
    },
  });
  node.append(tools, answer.node);
  return node;
}

export function inputOf(tool: string, text: string): JsonObject {
  if (text.trim().startsWith("{")) {
    try {
      return JSON.parse(text) as JsonObject;
    } catch {
      // it is a command that begins with a brace
    }
  }
  return { [MAIN_FIELD[tool] ?? "command"]: text };
}

function explained({ behavior, reason, rule, from, suggestions }: Why, report: Report, trans: Trans): HTMLElement[] {
  const verdict = { allow: trans.__("Allowed"), ask: trans.__("Asks for your approval"), deny: trans.__("Denied") }[behavior];
  const lines = [element("p", { class: "verdict", "data-state": behavior }, verdict), element("p", {}, ...sentence(reason))];
  const place = from ? code(shownPath(report, from)) : null;
  if (rule && !reason.includes(rule)) lines.push(element("p", {}, trans.__("Rule "), code(rule), ...(place ? [trans.__(" in "), place] : [])));
  else if (rule && place) lines.push(element("p", {}, trans.__("Saved in "), place));
  if (suggestions.length) lines.push(element("p", {}, trans.__("Would be allowed by "), ...suggestions.flatMap((each, at) => (at ? [", ", code(each)] : [code(each)]))));
  return lines;
}
