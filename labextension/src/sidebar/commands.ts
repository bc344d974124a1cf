/** The panel's commands, for keys, menus, palette, launcher and other extensions. */

import type { CommandRegistry } from "@lumino/commands";

import type { Trans } from "../composer/composer_deps";
import { claudeIcon } from "./panel_widget";
import type { Sidebar } from "./sidebar";

export const COMMANDS = {
  focus: "cellwright:focus-composer",
  open: "cellwright:open-panel",
  newSession: "cellwright:new-session",
  sessions: "cellwright:show-sessions",
  stop: "cellwright:stop",
  help: "cellwright:show-help",
  log: "cellwright:show-log",
  shutDown: "cellwright:shut-down-own-kernel",
} as const;

/** They make sense where the keyboard is in the panel: no menu and no palette has them. */
const REGIONS = { next: "cellwright:next-region", previous: "cellwright:previous-region" } as const;

const NO_ARGS = { args: { type: "object", properties: {} } } as const;

/** Adds the commands; those that make no sense now are disabled. */
export function addCommands(commands: CommandRegistry, sidebar: Sidebar, trans: Trans): void {
  const { store } = sidebar;
  const connected = (): boolean => store.connection === "connected";
  const add = (id: string, label: string, execute: () => unknown, isEnabled: () => boolean = () => true): void => {
    commands.addCommand(id, { label, isEnabled, execute, describedBy: NO_ARGS });
  };
  commands.addCommand(COMMANDS.focus, {
    label: trans.__("Ask Claude"),
    caption: trans.__("Open the panel and write a prompt; from there, go back to the notebook"),
    icon: claudeIcon,
    describedBy: { args: { type: "object", properties: { text: { type: "string" } } } },
    execute: async ({ text }) => {
      if (typeof text === "string") (await sidebar.open()).compose(text);
      else await sidebar.toggle();
    },
  });
  add(COMMANDS.open, trans.__("Show Claude"), () => sidebar.open());
  add(COMMANDS.newSession, trans.__("New Session with Claude"), async () => { (await sidebar.open()).newSession(); }, connected);
  add(COMMANDS.sessions, trans.__("Sessions with Claude"), async () => { (await sidebar.open()).open("sessions"); }, connected);
  add(COMMANDS.stop, trans.__("Stop Claude"), () => { sidebar.stop(); }, () => store.state?.current != null);
  add(COMMANDS.help, trans.__("Help on Claude"), async () => { (await sidebar.open()).open("help"); });
  add(COMMANDS.log, trans.__("Log of Claude"), async () => { (await sidebar.open()).open("log"); });
  add(REGIONS.next, trans.__("Next Part of the Panel"), () => sidebar.goToRegion(1));
  add(REGIONS.previous, trans.__("Previous Part of the Panel"), () => sidebar.goToRegion(-1));
  add(COMMANDS.shutDown, trans.__("Shut Down Claude's Own Kernel"), () => sidebar.shutDownOwnKernel(), () => sidebar.ownKernelRuns);
  store.subscribe(() => {
    for (const id of [COMMANDS.newSession, COMMANDS.sessions, COMMANDS.stop]) commands.notifyCommandChanged(id);
  });
}
