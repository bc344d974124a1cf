"""Names that users bring along from Claude Code: other names of commands, and what there is here in place of others."""

from collections.abc import Mapping

OTHER_NAMES: Mapping[str, str] = {
    "allowed-tools": "permissions",
    "bashes": "tasks",
    "branch": "fork",
    "checkpoint": "rewind",
    "continue": "resume",
    "feedback": "bug",
    "new": "clear",
    "plugins": "plugin",
    "reset": "clear",
    "usage": "cost",
}

_EXIT = "In a terminal /exit or Ctrl-D leaves; a kernel's conversation ends with its kernel, and is kept."
_LOOKS = "Answers look as JupyterLab's theme and your terminal do."
_FRESH = "Nothing has to be reloaded: skills, agents and plugins are looked at with each prompt."

INSTEAD: Mapping[str, str] = {
    "background": "--background in the first line of a cell lets Claude work while you use the kernel.",
    "cd": "A session belongs to its folder: start the kernel or `cellwright` in another one. /add-dir DIR adds one.",
    "color": _LOOKS,
    "copy": "The answer's Copy button copies it; /export writes the whole conversation to a file.",
    "debug": "/doctor looks for what is wrong, /bug collects a report, and `cellwright --verbose` logs what happens.",
    "exit": _EXIT,
    "fast": "/model sonnet or /effort low answer faster.",
    "fewer-permission-prompts": "“Always” in a question saves a rule, and /permissions shows your rules.",
    "ide": "No editor to connect: Claude sees JupyterLab's open notebooks and files anyway.",
    "login": "`%claude login` in a cell, `cellwright auth login` in a terminal; /mcp login NAME for an MCP server.",
    "logout": "`cellwright auth logout` in a terminal; /mcp logout NAME for an MCP server.",
    "loop": "Claude starts nothing by itself. /goal GOAL makes it work until something is reached.",
    "quit": _EXIT,
    "release-notes": "/upgrade says which version this is and how to get another one.",
    "reload-plugins": _FRESH,
    "reload-skills": _FRESH,
    "schedule": 'Claude starts nothing by itself; a scheduler can run `cellwright -p "…"` or a notebook.',
    "statusline": _LOOKS,
    "subtask": "@agent-general-purpose in a prompt hands a task to an agent; /fork continues in a copy.",
    "terminal-setup": "Alt-Enter begins a new line; so does Enter behind a \\.",
    "theme": _LOOKS,
    "vim": "The terminal has the keys of its prompt line alone; Ctrl-X Ctrl-E opens your editor.",
}
"""The things to do in place of commands of Claude Code's that have no meaning here."""
