/** What the kernel says is configured (docs/protocol/chat.md, `manage`), as types. */

export type Scope = "user" | "project" | "local";

export type RuleRow = {
  readonly rule: string;
  readonly behavior: "allow" | "ask" | "deny";
  readonly meaning: string;
  readonly from: string;
  readonly file: string;
  readonly scope: string;
  /** Why it cannot be changed here; empty when it can. */
  readonly locked: string;
  readonly inactive: string;
};
export type SettingRow = {
  readonly key: string;
  readonly value: string;
  /** Empty: no file sets it, and `value` is the default. */
  readonly from: string;
  readonly locked: string;
  /** Empty: any text. */
  readonly choices: readonly string[];
};
export type ServerRow = {
  readonly name: string;
  readonly scope: string;
  readonly from: string;
  readonly address: string;
  readonly transport: string;
  readonly state: string;
  readonly problem: string;
  readonly tools: readonly string[];
  readonly enabled: boolean;
  readonly signs_in: boolean;
  /** There is something to sign out of. */
  readonly signed_in: boolean;
  /** What waits for approval, described line by line. */
  readonly pending: readonly string[];
  readonly locked: string;
  /** Its entry as JSON, secrets hidden; null when it cannot be edited here. */
  readonly entry: string | null;
};
export type DefinitionRow = {
  readonly name: string;
  readonly description: string;
  readonly from: string;
  readonly file: string;
  readonly scope: string;
  readonly locked: string;
  readonly problems: readonly string[];
  readonly enabled: boolean;
  readonly off_by: readonly { readonly file: string; readonly scope: string; readonly locked: string }[];
};
export type PluginRow = {
  readonly id: string;
  readonly version: string;
  readonly description: string;
  readonly from: string;
  readonly enabled: boolean;
  readonly installed: boolean;
  readonly problem: string;
  readonly locked: string;
};
export type Report = {
  readonly cwd: string;
  readonly home: string;
  readonly files: Readonly<Record<Scope, string>>;
  readonly trust: { readonly folder: string; readonly trusted: boolean; readonly waiting: readonly string[]; readonly held_back: readonly string[] };
  readonly mode: { readonly value: string; readonly from: string; readonly locked: string };
  readonly rules: readonly RuleRow[];
  readonly settings: { readonly rows: readonly SettingRow[]; readonly known: readonly string[] };
  readonly servers: readonly ServerRow[];
  readonly server_files: Readonly<Record<Scope, string>>;
  readonly skills: readonly DefinitionRow[];
  readonly agents: readonly DefinitionRow[];
  readonly definition_folders: Readonly<Record<"user" | "project", string>>;
  readonly plugins: { readonly rows: readonly PluginRow[]; readonly marketplaces: readonly string[] };
  readonly notices: readonly string[];
};
/** What a change gives: the file that was written, and what holds now. */
export type Done = { readonly file: string; readonly link?: string; readonly report: Report };
export type Why = { readonly behavior: "allow" | "ask" | "deny"; readonly reason: string; readonly rule: string; readonly from: string; readonly suggestions: readonly string[] };

/** A path as people write it: from the folder where Claude works, or below their home with `~`. */
export function shownPath({ cwd, home }: Pick<Report, "cwd" | "home">, path: string): string {
  if (path.startsWith(`${cwd}/`)) return path.slice(cwd.length + 1);
  return home && path.startsWith(`${home}/`) ? `~${path.slice(home.length)}` : path;
}
