/** What the sections of the screen "Manage" are made of: rows, forms that name the file they write, confirmations. */

import type { JsonObject } from "../json";
import type { PanelDeps } from "../panel_view";
import { button, element, freshId, setText } from "../transcript/dom";
import { revealed, sentence } from "../transcript/visible_text";
import type { Trans } from "../translation";
import type { Done, Report } from "./report";
import { shownPath } from "./report";

/** The screen as its sections see it. */
export type Screen = {
  readonly trans: Trans;
  readonly deps: PanelDeps;
  report(): Report;
  /** Has the kernel change something; null when it refused, which the screen then says. */
  change(what: string, params: JsonObject): Promise<Done | null>;
  /** Asks the kernel something; null as above. */
  read(what: string, params: JsonObject): Promise<unknown>;
  /** Sends a slash command in the conversation, which asks there. */
  command(text: string): Promise<void>;
};

export type Act = { readonly label: string; readonly key: string; readonly about: string; run(at: HTMLElement): void };

export type RowContent = {
  readonly key: string;
  readonly title: Node | string;
  readonly badge?: string;
  readonly state?: string;
  readonly lines?: readonly (Node | string)[];
  readonly locked?: string;
  readonly problem?: string;
  readonly acts?: readonly Act[];
  /** Its value, at the end of the first line: the button that changes it. */
  readonly value?: Act;
};

/** Of more, the last unfold. */
const MAX_ACTS = 3;

/** One thing of a list, with what can be done about it; forms open below it. */
export function row(trans: Trans, { key, title, badge, state, lines = [], locked, problem, acts = [], value }: RowContent): HTMLElement {
  const below = element("div", { class: "below" });
  const head = element("div", { class: "head" }, element("span", { class: "name" }, title), ...badgeOf(badge, state));
  if (value) head.append(openerOf(value, key, below));
  const item = element("li", { class: "item", "data-row": key }, head, ...lines.filter((line) => line).map((line) => element("p", { class: "about" }, ...(typeof line === "string" ? sentence(line) : [line]))));
  if (problem) item.append(element("p", { class: "problem" }, ...sentence(problem)));
  if (locked) item.append(element("p", { class: "locked" }, element("span", { class: "unseen" }, trans.__("Locked: ")), ...sentence(locked)));
  if (acts.length) {
    const buttons = acts.map((act) => openerOf(act, key, below));
    const [shown, rest] = buttons.length > MAX_ACTS ? [buttons.slice(0, MAX_ACTS - 1), buttons.slice(MAX_ACTS - 1)] : [buttons, []];
    const more = rest.length ? [element("details", { class: "more" }, element("summary", {}, trans.__("More")), ...rest)] : [];
    item.append(element("div", { class: "acts" }, ...shown, ...more));
  }
  item.append(below);
  return item;
}

function badgeOf(badge = "", state = ""): HTMLElement[] {
  return badge ? [element("span", { class: "badge", "data-state": state }, badge)] : [];
}

function openerOf(act: Act, key: string, below: HTMLElement): HTMLButtonElement {
  return opening(act.label, { "data-key": `${key} ${act.key}`, "aria-label": act.about, title: act.about }, () => { act.run(below); });
}

export function list(rows: readonly HTMLElement[], empty: string): HTMLElement {
  return rows.length ? element("ul", { class: "items" }, ...rows) : element("p", { class: "about" }, empty);
}

export function section(title: string, ...content: (Node | string)[]): HTMLElement {
  return element("section", { class: "group", "aria-label": title }, element("h3", {}, title), ...content);
}

/** A text that may be long, as code. */
export function code(text: string): HTMLElement {
  return element("code", {}, revealed(text));
}

export type Field = { readonly node: HTMLElement; readonly input: HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement };

export function textField(label: string, attributes: Record<string, string | false> = {}, value = ""): Field {
  const id = freshId();
  const input = element("input", { id, type: "text", autocomplete: "off", spellcheck: "false", ...attributes });
  input.value = value;
  return { node: element("div", { class: "field" }, element("label", { for: id }, label), input), input };
}

export function areaField(label: string, value: string, rows: number): Field {
  const id = freshId();
  const input = element("textarea", { id, rows: `${rows}`, spellcheck: "false" });
  input.value = value;
  return { node: element("div", { class: "field" }, element("label", { for: id }, label), input), input };
}

export function choiceField(label: string, choices: readonly (readonly [value: string, label: string])[], value = choices[0]?.[0] ?? ""): Field {
  const id = freshId();
  const input = element("select", { id }, ...choices.map(([each, name]) => element("option", { value: each, selected: each === value && "" }, name)));
  return { node: element("div", { class: "field" }, element("label", { for: id }, label), input), input };
}

export type FormContent = {
  readonly label: string;
  readonly fields: readonly Pick<Field, "node">[];
  readonly submit: string;
  /** The file that will be written, as the fields stand; empty: none is. */
  writes(): string;
  /** True if it is done: the form then goes away. */
  send(): Promise<boolean>;
  close(): void;
  /** A button more, beside Cancel. */
  readonly other?: HTMLElement | undefined;
};

/** A form that says which file it writes before it writes it. Escape closes it. */
export function form({ trans, report }: Pick<Screen, "trans" | "report">, content: FormContent): HTMLFormElement {
  const { label, fields, submit } = content;
  const close = (): void => { content.close(); };
  const file = element("p", { class: "writes" });
  const ok = element("button", { type: "submit", class: "main" }, submit);
  const node = element("form", { "aria-label": label }, ...fields.map((field) => field.node), file, element("div", { class: "acts" }, ok, button(trans.__("Cancel"), close), ...(content.other ? [content.other] : [])));
  const draw = (): void => {
    const place = content.writes();
    file.replaceChildren(...(place ? [trans.__("Writes "), code(shownPath(report(), place))] : []));
  };
  node.addEventListener("input", draw);
  node.addEventListener("change", draw);
  node.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.preventDefault();
    event.stopPropagation();
    close();
  });
  node.addEventListener("submit", (event) => {
    event.preventDefault();
    ok.disabled = true;
    void content.send().then((done) => {
      ok.disabled = false;
      if (done) close();
    });
  });
  draw();
  return node;
}

/** Opens a form below what it is about, with the focus in it; a second time closes it. */
export function openBelow(at: HTMLElement, make: (close: () => void) => HTMLElement): void {
  const opener = document.activeElement as HTMLElement | null;
  const close = (): void => {
    if (!at.childElementCount) return;
    at.replaceChildren();
    if (opener?.isConnected) opener.focus();
  };
  if (at.childElementCount) {
    close();
    return;
  }
  const node = make(close);
  at.replaceChildren(node);
  node.querySelector<HTMLElement>("input, textarea, select, button")?.focus();
}

/** Asks once more, with the file that will be written. */
export function confirmBelow(screen: Pick<Screen, "trans" | "report">, at: HTMLElement, question: string, writes: string, yes: string, run: () => Promise<unknown>): void {
  openBelow(at, (close) =>
    form(screen, { label: question, fields: [{ node: element("p", {}, question) }], submit: yes, writes: () => writes, close, send: async () => (await run()) !== null }),
  );
  at.querySelector<HTMLElement>("button")?.focus();
}

export type Opener = { readonly label: string; readonly key: string; make(close: () => void): HTMLElement };

/** Buttons side by side, each of which opens its form below them, in the place of another's. */
export function openers(...content: readonly Opener[]): HTMLElement {
  const below = element("div", { class: "below" });
  let open = "";
  const buttons = content.map((each) =>
    opening(each.label, { "data-key": each.key }, () => {
      if (open !== each.key) below.replaceChildren();
      open = each.key;
      openBelow(below, (close) => each.make(close));
    }));
  return element("div", {}, element("div", { class: "openers" }, ...buttons), below);
}

/** A button that takes the focus in every browser: what it opens gives it back. */
function opening(label: string, attributes: Record<string, string>, run: () => void): HTMLButtonElement {
  const node = button(label, () => {
    node.focus();
    run();
  }, attributes);
  return node;
}

export function output(): { node: HTMLElement; say(...content: (Node | string)[]): void } {
  const node = element("div", { class: "output", role: "status" });
  return {
    node,
    say: (...content) => {
      if (!content.length) setText(node, "");
      else node.replaceChildren(...content);
    },
  };
}
