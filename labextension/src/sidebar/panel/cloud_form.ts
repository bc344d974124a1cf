/** The part of the key's card for who reaches Claude through a cloud or a gateway: which one, what it needs, and a try. */

import { element } from "../../transcript/dom";
import type { Trans } from "../../translation";
import { RequestError } from "../../transport/rpc";
import type { CloudForm, KeptKey, ServerApi } from "../../transport/server_api";
import { problemLine, problemText, showProblem } from "./key_field";

export type CloudFormDeps = {
  readonly trans: Trans;
  readonly server: ServerApi;
  say(text: string, kind: "" | "error" | "busy"): void;
  kept(kept: KeptKey, name: string): Promise<void>;
};

export type CloudPart = { readonly node: HTMLElement; /** Asks the server what there is, at the first time. */ load(): Promise<void>; clear(): void };

const ID = "cellwright-cloud";

export function cloudPart(deps: CloudFormDeps): CloudPart {
  const { trans, server } = deps;
  const choice = element("select", { id: `${ID}-choice`, class: "jp-mod-styled" });
  const body = element("div", { class: "fields" });
  const save = element("button", { type: "submit", class: "primary" }, trans.__("Test and save"));
  const form = element("form", {}, element("label", { for: choice.id }, trans.__("Provider")), choice, body);
  const node = element(
    "div",
    { class: "part", id: "cellwright-key-cloud", hidden: "" },
    form,
  );
  let clouds: readonly CloudForm[] = [];

  const chosen = (): CloudForm | undefined => clouds.find(({ id }) => id === choice.value);
  const input = (name: string): HTMLInputElement | null => body.querySelector(`[name="${name}"]`);
  const draw = (): void => {
    const cloud = chosen();
    if (!cloud) return;
    deps.say("", "");
    body.replaceChildren(
      ...cloud.fields.flatMap(({ variable, label, example, optional }) => row(variable, label, { placeholder: example, ...(optional ? {} : { required: "" }) })),
      ...(cloud.key ? row("key", trans.__("Key"), { type: "password", autocomplete: "off" }) : []),
      element("div", { class: "row end" }, save),
      element("p", { class: "hint" }, cloud.credential, " ", trans.__("We test it, then save it in your own settings. The same as variables: %1.", cloud.settings.join(", "))),
    );
  };
  choice.addEventListener("change", draw);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void send();
  });

  async function send(): Promise<void> {
    const cloud = chosen();
    if (!cloud || save.disabled) return;
    save.disabled = true;
    deps.say(trans.__("Trying %1…", cloud.name), "busy");
    try {
      const values = Object.fromEntries(cloud.fields.map(({ variable }) => [variable, input(variable)?.value.trim() ?? ""]));
      const kept = await server.keepCloud(cloud.id, values, input("key")?.value.trim() ?? "");
      clear();
      await deps.kept(kept, cloud.name);
    } catch (error) {
      deps.say("", "");
      fail(error);
    } finally {
      save.disabled = false;
    }
  }

  /** Says what is wrong at the field that it is about: a key that was rejected, else the first one. */
  function fail(error: unknown): void {
    const rejected = error instanceof RequestError && error.code === "API_KEY_INVALID" ? input("key") : null;
    const field = rejected ?? body.querySelector("input");
    const line = field && body.querySelector<HTMLElement>(`#${field.id}-problem`);
    if (field && line) showProblem(field, line, problemText(error, trans));
    else deps.say(problemText(error, trans), "error");
  }

  body.addEventListener("input", ({ target }) => {
    const line = target instanceof HTMLElement && body.querySelector<HTMLElement>(`#${target.id}-problem`);
    if (line) showProblem(target, line, "");
  });

  function clear(): void {
    const key = input("key");
    if (key) key.value = "";
  }

  return {
    node, clear,
    async load() {
      if (clouds.length === 0) {
        try {
          clouds = await server.clouds();
        } catch (error) {
          deps.say(problemText(error, trans), "error");
          return;
        }
        choice.replaceChildren(...clouds.map(({ id, name }) => element("option", { value: id }, name)));
        draw();
      }
      choice.focus();
    },
  };
}

function row(name: string, label: string, attributes: Record<string, string>): HTMLElement[] {
  const id = `${ID}-${name}`;
  return [
    element("label", { for: id }, label),
    element("input", { id, name, type: "text", class: "jp-mod-styled", autocomplete: "off", spellcheck: "false", "aria-describedby": `${id}-problem`, ...attributes }),
    problemLine(`${id}-problem`),
  ];
}
