/** What the panel's first page asks of the Jupyter server: a key to be kept, and the demo. */

import type { IOutput } from "@jupyterlab/nbformat";
import type { ServerConnection } from "@jupyterlab/services";

import type { OverviewReport, OverviewServer } from "../overview/overview_feed";
import type { StaleAnswer } from "../transcript/items/numbers";
import { RequestError } from "./rpc";

/** `source`: what gives the key, null where nothing does. */
export type KeyReport = { readonly source: string | null; readonly own_credentials: boolean };
/** `overruled_by`: what goes before the key that was kept; empty where that counts. */
export type KeptKey = KeyReport & { readonly kept_in: string; readonly tried: boolean; readonly overruled_by: string };

/** A cloud or gateway with what one enters for it. `settings` say the same where Jupyter is started. */
export type CloudForm = {
  readonly id: string;
  readonly name: string;
  readonly fields: readonly { readonly variable: string; readonly label: string; readonly example: string; readonly optional: boolean }[];
  readonly credential: string;
  readonly key: boolean;
  readonly settings: readonly string[];
};

export type ServerApi = OverviewServer & {
  /** Null where the server has no Cellwright. */
  key(): Promise<KeyReport | null>;
  /** Rejects with RequestError, its message for the user. */
  keepKey(key: string): Promise<KeptKey>;
  /** Rejects with RequestError. */
  clouds(): Promise<readonly CloudForm[]>;
  /** `values` by their variables. Rejects with RequestError, its message for the user. */
  keepCloud(id: string, values: Record<string, string>, key: string): Promise<KeptKey>;
  /** The path of the demo's notebook, which is made where there is none. Rejects with RequestError. */
  demo(): Promise<string>;
  /** The answers in `cells` whose numbers are stale; `folder` is the notebook's. Rejects with RequestError. */
  staleNumbers(folder: string, cells: readonly ComparedCell[]): Promise<readonly StaleAnswer[]>;
};

/** A code cell as its numbers are compared, without pictures. */
export type ComparedCell = { readonly id: string; readonly source: string; readonly execution_count: number | null; readonly outputs: readonly IOutput[] };

/** The code of a server that does not know what it is asked for. */
export const NO_ROUTE = "no_route";

export function serverApi(settings: ServerConnection.ISettings): ServerApi {
  const ask = async (method: string, route: string, body?: unknown): Promise<unknown> => {
    const headers = new Headers({ "Content-Type": "application/json", Accept: "application/json" });
    if (settings.token) headers.set("Authorization", `token ${settings.token}`);
    const xsrf = /(?:^|; )_xsrf=([^;]*)/.exec(document.cookie)?.[1];
    if (xsrf) headers.set("X-XSRFToken", xsrf);
    const { fetch } = settings; // the window's own takes no other `this`
    const reply = await fetch(`${settings.baseUrl}cellwright/api/${route}`, {
      ...settings.init, method, headers, cache: "no-store", ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const content = (await reply.json().catch(() => ({}))) as { code?: string; message?: string };
    // a server without the extension answers with a page, or in Jupyter's own form
    if (reply.status === 404) throw new RequestError(NO_ROUTE, content.message ?? "");
    if (!reply.ok) throw new RequestError(content.code ?? "failed", content.message ?? `The server answered with ${reply.status}.`);
    return content;
  };
  return {
    key: () => ask("GET", "key").then((report) => report as KeyReport, () => null),
    keepKey: async (key) => (await ask("PUT", "key", { key })) as KeptKey,
    clouds: async () => ((await ask("GET", "cloud")) as { clouds: CloudForm[] }).clouds,
    keepCloud: async (id, values, key) => (await ask("PUT", "cloud", { id, values, key })) as KeptKey,
    demo: async () => ((await ask("POST", "demo")) as { path: string }).path,
    staleNumbers: async (folder, cells) => {
      const found = await ask("POST", `stale-numbers?folder=${encodeURIComponent(folder)}`, { cells });
      return Object.values((found as { answers: Record<string, StaleAnswer> }).answers);
    },
    overview: async () => (await ask("GET", "overview")) as OverviewReport,
    stopTask: async (kernel, id) => { await ask("POST", `kernels/${encodeURIComponent(kernel)}/stop`, { id }); },
  };
}
