/** Skills and agents: listed, added, edited, switched by a rule, deleted. */

import type { Act, Screen } from "./parts";
import { areaField, choiceField, confirmBelow, form, list, openBelow, openers, row, section, textField } from "./parts";
import type { DefinitionRow } from "./report";

type Kind = "skill" | "agent";

export function definitionsSection(screen: Screen, kind: Kind): HTMLElement[] {
  const { trans } = screen;
  const rows = kind === "skill" ? screen.report().skills : screen.report().agents;
  const title = kind === "skill" ? trans.__("Skills and commands") : trans.__("Agents");
  const add = kind === "skill" ? trans.__("Add a skill…") : trans.__("Add an agent…");
  return [
    openers({ label: add, key: `${kind} add`, make: (close) => addForm(screen, kind, close) }),
    section(title, list(rows.map((each) => definitionRow(screen, kind, each)), trans.__("None."))),
  ];
}

function definitionRow(screen: Screen, kind: Kind, each: DefinitionRow): HTMLElement {
  const { trans } = screen;
  return row(trans, {
    key: `${kind} ${each.name}`,
    title: kind === "skill" ? `/${each.name}` : each.name,
    badge: each.enabled ? "" : trans.__("off"),
    lines: [each.description, each.from && trans.__("From %1", each.from)].filter((line) => line),
    problem: each.problems.join(" "),
    locked: each.off_by.find(({ locked }) => locked)?.locked ?? each.locked,
    acts: definitionActs(screen, kind, each),
  });
}

function definitionActs(screen: Screen, kind: Kind, each: DefinitionRow): Act[] {
  const { trans } = screen;
  const { name } = each;
  const acts: Act[] = [];
  const offBy = each.off_by[0];
  const rule = kind === "agent" ? `Agent(${name})` : `Skill(${name})`;
  if (each.enabled) {
    acts.push({
      label: trans.__("Switch off"), key: "switch", about: trans.__("Switch off %1", name),
      run: (at) => {
        confirmBelow(screen, at, trans.__("Switch %1 off for you, with the deny rule %2?", name, rule), screen.report().files.user, trans.__("Switch off"), () =>
          screen.change("switch_definition", { kind, name, on: false }));
      },
    });
  } else if (offBy && !offBy.locked) {
    acts.push({
      label: trans.__("Switch on"), key: "switch", about: trans.__("Switch on %1", name),
      run: (at) => {
        confirmBelow(screen, at, trans.__("Remove the deny rule %1?", rule), offBy.file, trans.__("Switch on"), () =>
          screen.change("switch_definition", { kind, name, on: true, scope: offBy.scope }));
      },
    });
  }
  if (each.locked) return acts;
  acts.push(
    {
      label: trans.__("Edit…"), key: "edit", about: trans.__("Edit %1", name),
      run: (at) => {
        void screen.read("definition_text", { kind, name }).then((found) => {
          if (found) openBelow(at, (close) => editForm(screen, kind, each, (found as { text: string }).text, close));
        });
      },
    },
    {
      label: trans.__("Delete"), key: "delete", about: trans.__("Delete %1", name),
      run: (at) => {
        confirmBelow(screen, at, trans.__("Delete the file of %1?", name), each.file, trans.__("Delete"), () => screen.change("drop_definition", { kind, name }));
      },
    },
  );
  return acts;
}

function editForm(screen: Screen, kind: Kind, each: DefinitionRow, text: string, close: () => void): HTMLElement {
  const { trans } = screen;
  const field = areaField(trans.__("Text of %1", each.name), text, Math.min(20, text.split("\n").length + 1));
  return form(screen, {
    label: trans.__("Edit %1", each.name), fields: [field], submit: trans.__("Save"), writes: () => each.file, close,
    send: async () => (await screen.change("put_definition", { kind, name: each.name, text: field.input.value })) !== null,
  });
}

function addForm(screen: Screen, kind: Kind, close: () => void): HTMLElement {
  const { trans } = screen;
  const name = textField(trans.__("Name"), { required: "", pattern: "[A-Za-z0-9][A-Za-z0-9_\\-]{0,63}", placeholder: kind === "skill" ? "release-notes" : "reviewer" });
  const description = textField(trans.__("When Claude should use it"), { required: "" });
  const body = areaField(kind === "skill" ? trans.__("Instructions") : trans.__("System prompt"), "", 6);
  const scope = choiceField(trans.__("For whom"), [["user", trans.__("You, in all projects")], ["project", trans.__("Everybody in this project")]]);
  return form(screen, {
    label: kind === "skill" ? trans.__("Add a skill") : trans.__("Add an agent"), fields: [name, description, body, scope], submit: trans.__("Add"), close,
    writes: () => fileOf(screen.report().definition_folders[scope.input.value as "user" | "project"], kind, name.input.value.trim()),
    send: async () => {
      const given = name.input.value.trim();
      const text = `---\nname: ${given}\ndescription: ${JSON.stringify(description.input.value.trim())}\n---\n\n${body.input.value.trim()}\n`;
      return (await screen.change("put_definition", { kind, name: given, scope: scope.input.value, text, new: true })) !== null;
    },
  });
}

function fileOf(folder: string, kind: Kind, name: string): string {
  const shown = name || "NAME";
  return kind === "agent" ? `${folder}/agents/${shown}.md` : `${folder}/skills/${shown}/SKILL.md`;
}
