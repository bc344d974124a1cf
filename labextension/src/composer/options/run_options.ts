/** The run options beside model, mode, effort and context, as fields: each is an option that the kernel's `prompt` takes. */

import type { JsonObject } from "../../json";
import { button, element } from "../../transcript/dom";
import type { Trans } from "../../translation";
import { OPTION_VALUES, type OptionName } from "./written_options";

/** `numbers` above 0, `words` with commas, `lines` one each; a `choice` is one of its values. */
type Kind = "whole" | "number" | "text" | "words" | "lines" | "long" | "check" | { readonly choice: readonly (readonly [value: string, label: string])[] };

type Option = { readonly name: OptionName; readonly label: string; readonly hint: string; readonly kind: Kind };

/** In the order of docs/settings.md. */
export function runOptions(trans: Trans): readonly Option[] {
  const denied = { ask: trans.__("ask"), skip: trans.__("continue without them"), error: trans.__("end the run") };
  return [
    { name: "branch", label: trans.__("Preview: accept changes at the end"), hint: "", kind: "check" },
    { name: "budget_usd", label: trans.__("Budget (US$)"), hint: trans.__("no limit"), kind: "number" },
    { name: "max_turns", label: trans.__("Requests to the model"), hint: trans.__("no limit"), kind: "whole" },
    { name: "max_tokens", label: trans.__("Max answer tokens"), hint: trans.__("the model's limit"), kind: "whole" },
    { name: "max_parallel_tools", label: trans.__("Parallel reads"), hint: trans.__("default"), kind: "whole" },
    { name: "tool_timeout", label: trans.__("Tool timeout (s)"), hint: trans.__("default"), kind: "number" },
    {
      name: "on_denied", label: trans.__("Calls that need approval"), hint: "",
      kind: { choice: OPTION_VALUES.on_denied.map((each) => [each, denied[each]] as const) },
    },
    { name: "allow", label: trans.__("Allow rules"), hint: "Bash(ls *)", kind: "lines" },
    { name: "deny", label: trans.__("Deny rules"), hint: "WebFetch", kind: "lines" },
    { name: "add_dirs", label: trans.__("More folders"), hint: "../data", kind: "lines" },
    { name: "agent", label: trans.__("Agent"), hint: trans.__("none"), kind: "text" },
    { name: "tools", label: trans.__("The only tools"), hint: "Read, Grep", kind: "words" },
    { name: "no_tools", label: trans.__("No tools"), hint: "", kind: "check" },
    { name: "fallback_models", label: trans.__("Fallback models"), hint: "claude-sonnet-5-5", kind: "words" },
    {
      name: "provider", label: trans.__("Way to the model"), hint: "",
      kind: { choice: OPTION_VALUES.provider.map((each) => [each, each] as const) },
    },
    { name: "system_prompt", label: trans.__("System prompt"), hint: trans.__("in place of the usual one"), kind: "long" },
    { name: "append_system_prompt", label: trans.__("Text after the system prompt"), hint: "", kind: "long" },
  ];
}

type Field = HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement;

export class RunOptionFields {
  private fields: readonly (readonly [option: Option, field: Field])[] = [];

  /** `changed` is called when the user sets or clears an option. */
  constructor(
    private readonly trans: Trans,
    private readonly changed: () => void,
  ) {}

  /** The fields, made anew: to be shown once. */
  draw(): HTMLElement {
    const { trans } = this;
    this.fields = runOptions(trans).map((option) => [option, fieldOf(option, trans)] as const);
    const clear = button(trans.__("Clear all"), () => {
      for (const [, field] of this.fields) {
        if (field instanceof HTMLInputElement && field.type === "checkbox") field.checked = false;
        else field.value = "";
      }
      this.changed();
    });
    const node = element(
      "div",
      { class: "cellwright-run-options" },
      ...this.fields.map(([{ label }, field]) => element("label", {}, element("span", {}, label), field)),
      clear,
    );
    node.addEventListener("change", this.changed);
    return node;
  }

  /** The options that are set, as `prompt` takes them. What is no number is sent as it is written: the kernel says what is wrong. */
  get values(): JsonObject {
    return Object.fromEntries(this.fields.flatMap(([{ name, kind }, field]) => {
      const value = valueOf(field, kind);
      return value === null ? [] : [[name, value]];
    }));
  }
}

function fieldOf({ name, hint, kind }: Option, trans: Trans): Field {
  const shared = { "data-option": name, autocomplete: "off" };
  if (typeof kind === "object") {
    return element("select", shared, element("option", { value: "" }, trans.__("default")), ...kind.choice.map(([value, label]) => element("option", { value }, label)));
  }
  if (kind === "check") return element("input", { ...shared, type: "checkbox" });
  if (kind === "lines" || kind === "long") return element("textarea", { ...shared, rows: "1", placeholder: hint });
  const numeric = { whole: "numeric", number: "decimal", text: false, words: false } as const;
  return element("input", { ...shared, type: "text", inputmode: numeric[kind], placeholder: hint });
}

function valueOf(field: Field, kind: Kind): JsonObject[string] | null {
  if (field instanceof HTMLInputElement && field.type === "checkbox") return field.checked || null;
  const text = field.value.trim();
  if (text === "") return null;
  const parts = (separator: string): string[] => text.split(separator).map((part) => part.trim()).filter((part) => part !== "");
  if (kind === "whole" || kind === "number") return Number.isFinite(Number(text)) ? Number(text) : text;
  if (kind === "words") return parts(",");
  return kind === "lines" ? parts("\n") : text;
}
