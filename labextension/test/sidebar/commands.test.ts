import { CommandRegistry } from "@lumino/commands";
import { expect, it } from "vitest";

import schema from "../../schema/panel.json";
import type { Sidebar } from "../../src/sidebar/sidebar";
import { addCommands, COMMANDS } from "../../src/sidebar/sidebar_plugin";
import { transOf } from "../../src/translation";
import { OneChat } from "./panel_scene";

const commands = new CommandRegistry();
addCommands(commands, { store: new OneChat() } as unknown as Sidebar, transOf(null));

it.each(schema["jupyter.lab.shortcuts"].map(({ command }) => command))("%s, which has a key, is there", (command) => {
  expect(commands.hasCommand(command)).toBe(true);
});

it.each(Object.values(COMMANDS))("%s, which the palette shows, is there and has a name", (command) => {
  expect(commands.label(command)).not.toBe("");
});
