/** The end of a run that did not end by itself: once, in words, and what can be done as buttons. */

import { button, element } from "../dom";
import type { PageAction } from "./page_actions";
import { hasPageActions, keyForm, request } from "./page_actions";
import type { ErrorInfo } from "../protocol";
import { sentence } from "../visible_text";

type Way = { label: string; act: PageAction };

const AGAIN: Way = { label: "Try again", act: { action: "again" } };
const COMPACT: Way = { label: "Compact the conversation", act: { action: "command", command: "/compact" } };
const ENTER_KEY: Way = { label: "Enter a key", act: { action: "key", way: "key" } };
const USE_CLOUD: Way = { label: "Use a cloud", act: { action: "key", way: "cloud" } };
const TRY_DEMO: Way = { label: "Try the demo", act: { action: "key", way: "demo" } };
const SETTINGS: Way = { label: "Show the settings", act: { action: "command", command: "/config" } };

/** The ways on from an error, by its code; of the others only the first of all. */
const WAYS: Record<string, Way[]> = {
  API_KEY_MISSING: [ENTER_KEY, USE_CLOUD, TRY_DEMO, AGAIN],
  // the cell waits for it, so it cannot be run again
  API_KEY_WANTED: [ENTER_KEY, USE_CLOUD, TRY_DEMO],
  API_KEY_ASKED: [ENTER_KEY, USE_CLOUD, TRY_DEMO],
  API_KEY_INVALID: [ENTER_KEY, AGAIN],
  CONTEXT_TOO_LONG: [COMPACT, AGAIN],
  BUDGET_EXCEEDED: [SETTINGS, AGAIN],
  CONFIG_INVALID: [SETTINGS, AGAIN],
  CONFIG_PARSE_ERROR: [SETTINGS, AGAIN],
};

/** The cell waits: nothing has failed yet. */
const WAITING: ReadonlySet<string> = new Set(["API_KEY_WANTED", "API_KEY_ASKED"]);

/** What is wrong, in a few words, by the code; "" where the message says it best. */
const WORDS: Record<string, string> = {
  API_KEY_MISSING: "Claude needs a key",
  API_KEY_WANTED: "Claude needs a key",
  API_KEY_ASKED: "Claude needs a key",
  API_KEY_INVALID: "Your key was rejected",
  API_RATE_LIMITED: "Too many requests",
  API_OVERLOADED: "Claude is overloaded",
  API_NETWORK_ERROR: "Claude cannot be reached",
  API_REQUEST_INVALID: "The request was not accepted",
  CONTEXT_TOO_LONG: "The conversation is too long",
  BUDGET_EXCEEDED: "The budget is used up",
  MAX_TURNS_REACHED: "Step limit reached",
  REFUSED: "Claude declined",
  KERNEL_ENDED: "The kernel ended while Claude worked",
  PERMISSION_DENIED: "Not permitted",
  CONFIG_INVALID: "The settings cannot be used",
  CONFIG_PARSE_ERROR: "The settings cannot be read",
  SESSION_CORRUPTED: "The session cannot be read",
};

/** What the buttons leave to be said: the message lists the ways of those who have none. */
const MISSING_KEY = "There is none yet. Choose one of these, then ask again.";

/** The error of a run, in words. */
export function errorWords({ code }: ErrorInfo): string {
  return WORDS[code] ?? "Something went wrong";
}

const REQUEST = / ?\[request ([\w-]+)\]/;

/** What is said below the words; the number of the request, which is for whoever helps, stands by itself. */
function messageOf({ code, message }: ErrorInfo, canAct: boolean): HTMLElement[] {
  if (canAct && code === "API_KEY_MISSING") return [element("p", {}, MISSING_KEY)];
  const request = REQUEST.exec(message)?.[1];
  const said = element("p", {}, ...sentence(message.replace(REQUEST, "")));
  return request === undefined ? [said] : [said, element("p", { class: "request" }, `Request ${request}`)];
}

/** Fills `node` with what is said of `error`; null: the user has stopped the run. */
export function fillFailure(node: HTMLElement, error: ErrorInfo | null): void {
  const form = error?.code === "API_KEY_ASKED" ? keyForm() : undefined;
  if (form) {
    const host = element("div", { class: "key-form" });
    node.replaceChildren(host);
    node.hidden = false;
    node.classList.add("wanted");
    asGroup(node);
    form(host);
    return;
  }
  const waits = error !== null && WAITING.has(error.code);
  if (waits) asGroup(node);
  const said = error === null ? [] : saidOf(error, waits);
  const buttons = buttonsOf(node, error);
  node.replaceChildren(...said, ...(buttons.length > 0 ? [element("div", { class: "choices" }, ...buttons)] : []));
  node.hidden = said.length + buttons.length === 0;
  node.classList.toggle("stopped", error === null);
  node.classList.toggle("wanted", waits);
}

function saidOf(error: ErrorInfo, waits: boolean): HTMLElement[] {
  const words = errorWords(error);
  return [waits ? wantedTitle(words) : element("b", {}, words), ...messageOf(error, hasPageActions())];
}

function buttonsOf(node: HTMLElement, error: ErrorInfo | null): HTMLElement[] {
  if (!hasPageActions()) return [];
  const ways = error === null ? [AGAIN] : (WAYS[error.code] ?? [AGAIN]);
  return ways.map(({ label, act }, index) => button(label, () => { request(node, act); }, { class: error !== null && index === 0 && "primary" }));
}

/** A card with a field and buttons is gone through, not read out as a whole. */
function asGroup(node: HTMLElement): void {
  node.setAttribute("role", "group");
  node.setAttribute("aria-label", WORDS.API_KEY_ASKED ?? "");
}

/** The card's heading, which alone is read out when it comes. */
export function wantedTitle(words: string): HTMLElement {
  return element("b", { role: "heading", "aria-level": "3" }, element("span", { role: "alert" }, words));
}
