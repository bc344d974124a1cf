/** The panel's own settings, and Claude's in the user's file. */

import type { PanelSettings } from "../panel_view";
import { button, element } from "../transcript/dom";
import { MODE_NAMES, modelName } from "../transcript/items/footer";
import type { Field, Screen } from "./parts";
import { choiceField, code, form, list, openBelow, openers, row, section, textField } from "./parts";
import type { SettingRow } from "./report";

/** Longer values have a line of their own. */
const SHORT_CHARS = 24;

/** Those of this page, which need no kernel. */
export function panelSection(screen: Pick<Screen, "trans" | "deps">): HTMLElement {
  const { trans, deps } = screen;
  const settings = deps.settings();
  const choose = <Name extends keyof PanelSettings>(name: Name, label: string, choices: readonly (readonly [PanelSettings[Name] & string, string])[]): HTMLElement => {
    const field = choiceField(label, choices, settings[name] as string);
    field.input.dataset.key = `panel ${name}`;
    field.input.addEventListener("change", () => { deps.setSetting(name, field.input.value as PanelSettings[Name]); });
    return field.node;
  };
  const flag = (name: "desktopNotifications" | "followNotebook", label: string): HTMLElement => {
    const input = element("input", { type: "checkbox", "data-key": `panel ${name}` });
    input.checked = settings[name];
    input.addEventListener("change", () => { deps.setSetting(name, input.checked); });
    return element("label", { class: "flag" }, input, label);
  };
  return section(
    trans.__("This panel"),
    choose("density", trans.__("Density"), [["comfortable", trans.__("Comfortable")], ["compact", trans.__("Compact")]]),
    choose("sendKey", trans.__("Key that sends"), [["Enter", "Enter"], ["Shift+Enter", "Shift+Enter"]]),
    choose("whileRunning", trans.__("Messages while Claude works"), [["steer", trans.__("Send now")], ["queue", trans.__("Send when done")]]),
    choose("notifications", trans.__("Notifications"), [["away", trans.__("When I look elsewhere")], ["never", trans.__("Never")]]),
    flag("desktopNotifications", trans.__("Desktop notifications when Claude needs you or finishes out of sight")),
    flag("followNotebook", trans.__("Follow the active notebook")),
    element("p", { class: "about" }, trans.__("Saved in JupyterLab's settings. "), button(trans.__("All settings of the panel…"), () => { void deps.run("settingeditor:open", { query: "Claude" }); }, { class: "link", "data-key": "panel all" })),
  );
}

export function settingsSection(screen: Screen): HTMLElement[] {
  const { trans } = screen;
  const { rows, known } = screen.report().settings;
  const names = element("datalist", { id: "cw-manage-settings" }, ...known.map((name) => element("option", { value: name })));
  return [
    panelSection(screen),
    section(
      trans.__("Claude's settings here"),
      openers({ label: trans.__("Set another…"), key: "setting add", make: (close) => settingForm(screen, textField(trans.__("Setting"), { required: "", list: "cw-manage-settings" }), close) }),
      list(rows.map((each) => settingRow(screen, each)), ""),
      names,
    ),
  ];
}

/** In words, those that are changed most. */
function nameOf(key: string, { trans }: Screen): string | undefined {
  return {
    model: trans.__("Model"), "permissions.defaultMode": trans.__("Permission mode"), effortLevel: trans.__("Effort"),
    outputStyle: trans.__("Output style"), "cellwright.theme": trans.__("Theme of the terminal"),
  }[key];
}

function settingRow(screen: Screen, each: SettingRow): HTMLElement {
  const { trans } = screen;
  const name = nameOf(each.key, screen);
  const from = each.from ? trans.__("From %1", each.from) : trans.__("Default");
  const isShort = each.value.length <= SHORT_CHARS;
  const value = isShort ? shownValue(each) : trans.__("Change…");
  return row(trans, {
    key: `setting ${each.key} ${each.value}`,
    title: element("span", { title: `${each.key} · ${from}` }, name ?? code(each.key)),
    badge: each.locked && isShort ? value : "",
    lines: isShort ? [] : [code(each.value)],
    locked: each.locked,
    ...(each.locked ? {} : {
      value: {
        label: value, key: "edit", about: trans.__("%1: %2. Change it", name ?? each.key, isShort ? value : each.value),
        run: (at: HTMLElement) => { openBelow(at, (close) => settingForm(screen, each, close, element("p", { class: "about" }, code(each.key), ` · ${from}`))); },
      },
    }),
  });
}

/** Models and modes by the names that the composer has for them. */
function shownValue({ key, value }: SettingRow): string {
  return key === "model" ? modelName(value) : key === "permissions.defaultMode" ? (MODE_NAMES[value] ?? value) : value;
}

/** `of`: the setting that is changed, or the field that its name is written in; `about` says what it is. */
function settingForm(screen: Screen, of: Field | SettingRow, close: () => void, about?: HTMLElement): HTMLElement {
  const { trans } = screen;
  const named = "input" in of ? of : null;
  const given = "input" in of ? null : of;
  const value = given?.choices.length
    ? choiceField(trans.__("Value"), given.choices.map((each) => [each, shownValue({ ...given, value: each })] as const), given.value)
    : textField(trans.__("Value: a text, or JSON"), { required: "" }, given?.value);
  const unset = (): void => {
    close();
    void screen.change("set_setting", { key: given?.key ?? "", value: null });
  };
  const fields = [...(about ? [{ node: about }] : []), ...(named ? [named] : []), value];
  return form(screen, {
    label: trans.__("Set a setting"), fields, submit: trans.__("Save"), close,
    other: given?.from ? button(trans.__("Unset"), unset, { "aria-label": trans.__("Unset %1", given.key) }) : undefined,
    writes: () => screen.report().files.user,
    send: async () => (await screen.change("set_setting", { key: given?.key ?? named?.input.value.trim() ?? "", value: value.input.value })) !== null,
  });
}
