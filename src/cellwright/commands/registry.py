"""The slash commands, the same in a cell, at the line magic and in the terminal: a command makes a page, a face shows it.

Users bring names along from Claude Code: other names of commands, and those of commands for which there is something else
here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from cellwright.commands.command import (
    SLASH_COMMAND,
    CommandCall,
    CommandPage,
    Row,
    Section,
    SlashCommand,
    command_name,
)
from cellwright.commands.extensions.pages import MCP, agents_page, hooks_page, mcp_page, memory_page, skills_page
from cellwright.commands.extensions.plugins import PLUGIN, plugin_page
from cellwright.commands.installation import BUG, DOCTOR, bug_page, doctor_page, upgrade_page
from cellwright.commands.model_and_mode import CHOOSING
from cellwright.commands.project import DIFF, INDEX, diff_page, index_page
from cellwright.commands.sessions.answers import STABILITY, numbers_page, stability_page
from cellwright.commands.sessions.branches import BRANCHES, PREVIEW, branches_page, preview_page
from cellwright.commands.sessions.conversation import (
    ADD_DIR,
    AUTOCOMPACT,
    BTW,
    COMPACT,
    GOAL,
    add_dir_page,
    autocompact_page,
    btw_page,
    compact_page,
    goal_page,
    steer_page,
    tasks_page,
    user_command_page,
)
from cellwright.commands.sessions.sessions import (
    CELLS,
    EXPORT,
    FORK,
    RENAME,
    RESUME,
    SESSIONS,
    TAG,
    cells_page,
    clear_page,
    export_page,
    fork_page,
    rename_page,
    resume_page,
    sessions_page,
    tag_page,
)
from cellwright.commands.settings_pages import config_page, permissions_page, sandbox_page
from cellwright.commands.undo import REDO, REWIND, UNDO, redo_page, rewind_page, undo_page
from cellwright.commands.usage import context_page, cost_page, status_page
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.features.skills import Skills
from cellwright.tools.shell.user_commands import user_command
from cellwright.version import documented

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
    "theme": "`cellwright config set cellwright.theme NAME` sets the terminal's theme; JupyterLab's theme holds elsewhere.",
    "vim": "The terminal has the keys of its prompt line alone; Ctrl-X Ctrl-E opens your editor.",
}
"""The things to do in place of commands of Claude Code's that have no meaning here."""


def is_answered_here(prompt: str, skills: Skills) -> bool:
    """Return whether `prompt` is a command that makes a page, or one that there is not; a skill's call is a prompt."""
    name = command_name(prompt)
    if name is None or name.startswith("mcp__"):  # a prompt of an MCP server's is asked of that when it is sent
        return False
    return is_command(name) or not skills.is_call(prompt)


def is_command(name: str) -> bool:
    """Return whether a command is called by `name`, its own or another one that users know it by."""
    return name in COMMANDS or name in OTHER_NAMES


def command_of(prompt: str) -> tuple[SlashCommand, str]:
    """The command that `prompt` calls, and the text after it.

    Raises CellwrightError INVALID_PARAMETERS for a command that there is not, and for text after one that takes none.
    """
    if (own := user_command(prompt)) is not None:
        return _OWN_COMMAND, own
    found = SLASH_COMMAND.fullmatch(prompt)
    assert found is not None
    name, text = found["name"], found["text"].strip()
    command = COMMANDS.get(OTHER_NAMES.get(name, name))
    if command is None:
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, f"{_unknown(name)} Nothing was sent.")
    if text and not command.takes:
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, f"/{name} takes nothing after it. Nothing was sent.")
    return command, text


async def answer_of(command: SlashCommand, call: CommandCall) -> CommandPage:
    """Do the command, by the settings as they stand now; on the agent's thread. Raises what the command raises."""
    call.conversation.in_force.refresh(session_has_begun=call.conversation.sessions.current.has_begun)
    page = command.run(call)
    return page if isinstance(page, CommandPage) else await page


def _unknown(name: str) -> str:
    if name in INSTEAD:
        return f"There is no /{name} here. {INSTEAD[name]}"
    near = get_close_matches(name, [*COMMANDS, *OTHER_NAMES], 1)
    meant = f"Did you mean /{near[0]}? " if near else ""
    return f"Command or skill /{name} was not found. {meant}/help lists the commands, /skills the skills."


def _help(call: CommandCall) -> CommandPage:
    if call.text not in ("", ALL):
        return CommandPage([_help_for(call)])
    head = ("command", "what it does")
    # the common ones leave room for the keys in a window of 24 rows
    brief = "" if call.text else f"/help {ALL} lists all {len(COMMANDS)} · /help NAME explains one, or a skill"
    sections = [
        Section(
            title,
            [head, *((_usage(name), COMMANDS[name].help) for name in names)],
            text=brief,
            brief=[head, *(brief_row(name, COMMANDS[name]) for name in names)],
        )
        for title, names in (GROUPS if call.text else {"Common commands": COMMON}).items()
    ]
    if brief:
        return CommandPage(sections)
    text = (
        f"/help NAME is about one command or one of the /skills. `!` runs a command in your shell; Claude sees it "
        "with your next prompt. Only /btw, /compact, and /rename without a title ask a model. "
        f"{documented()} has the documentation."
    )
    return CommandPage([*sections, Section("More", text=text)])


def _help_for(call: CommandCall) -> Section:
    name = call.text.removeprefix("/")
    own = OTHER_NAMES.get(name, name)
    if (command := COMMANDS.get(own)) is not None:
        others = [f"/{other}" for other, meant in OTHER_NAMES.items() if meant == own]
        more = f" Also called {', '.join(others)}." if others else ""
        return Section(_usage(own), text=f"{command.help[:1].upper()}{command.help[1:]}.{more}")
    if (skill := call.conversation.features.skills.all().get(name)) is not None:
        return Section(f"/{name} {skill.argument_hint}".rstrip(), text=f"{skill.description}\n{skill.file}")
    raise CellwrightError(ErrorCode.INVALID_PARAMETERS, _unknown(name))


def _usage(name: str) -> str:
    return f"/{name} {COMMANDS[name].takes}".rstrip()


USAGE_CHARS, HELP_CHARS = 22, 54
"""The room for both in a line of 80 columns."""


def brief_row(name: str, command: SlashCommand) -> Row:
    """A command and what it does, in one line of a narrow terminal."""
    usage = _usage(name)
    shown = usage if len(usage) <= USAGE_CHARS else f"/{name} …"
    return shown, command.help if len(command.help) <= HELP_CHARS else command.brief


GROUPS: Mapping[str, Sequence[str]] = {
    "Conversation": ("clear", "resume", "sessions", "fork", "rename", "tag", "export", "btw", "steer", "goal", "tasks"),
    "Changes": ("diff", "undo", "redo", "rewind", "preview", "branches", "cells", "numbers", "stability"),
    "Model and permissions": ("model", "effort", "output-style", "mode", "plan", "permissions", "add-dir", "sandbox"),
    "Instructions and extensions": ("memory", "skills", "agents", "mcp", "plugin", "hooks", "config"),
    "Context, cost and help": (
        *("context", "compact", "autocompact", "cost", "status", "index", "doctor", "upgrade", "bug", "help"),
    ),
}
"""The commands by their use, as `/help all` lists them."""

COMMON = (
    *("clear", "resume", "model", "mode", "permissions", "diff", "undo"),
    *("context", "compact", "cost", "mcp", "status"),
)
ALL = "all"

_OWN_COMMAND = SlashCommand(user_command_page, "run a command of your own", "COMMAND")

COMMANDS: dict[str, SlashCommand] = {
    "help": SlashCommand(_help, "the common commands; all of them; what one command or skill does", "[all|NAME]"),
    **CHOOSING,
    "config": SlashCommand(config_page, "each setting with its value and where it comes from"),
    "memory": SlashCommand(memory_page, "the instructions Claude gets: CLAUDE.md, rules, and what they import"),
    "skills": SlashCommand(skills_page, "the available skills and commands, and where they come from"),
    "agents": SlashCommand(agents_page, "the available agents, what they may use, and where they come from"),
    "mcp": SlashCommand(mcp_page, "the MCP servers: their state, their tools; approve, reconnect, switch off", MCP),
    "plugin": SlashCommand(plugin_page, "plugins: installed, switched on and off, updated, removed", PLUGIN, asks=True),
    "hooks": SlashCommand(hooks_page, "the hooks in force, by event, and where they come from"),
    "permissions": SlashCommand(
        permissions_page, "the permission rules, with where each comes from, the mode, trust and folders"
    ),
    "add-dir": SlashCommand(add_dir_page, "the folders Claude works in; with one, that folder as well", ADD_DIR),
    "sandbox": SlashCommand(sandbox_page, "how commands are confined, and what they may read, write and reach"),
    "index": SlashCommand(
        index_page, "the index of the project's code: how complete it is; rebuild: start it over", INDEX
    ),
    "diff": SlashCommand(diff_page, "what this session or a turn of it has changed, as a diff", DIFF),
    "undo": SlashCommand(undo_page, "undo what the last turns changed, after showing you", UNDO, asks=True),
    "redo": SlashCommand(redo_page, "redo what the last undo took back", REDO, asks=True),
    "rewind": SlashCommand(
        rewind_page, "the turns; with one, take back everything from it on: files, cells, messages", REWIND, asks=True
    ),
    "sessions": SlashCommand(sessions_page, "the sessions of this folder, or those that contain these words", SESSIONS),
    "resume": SlashCommand(resume_page, "continue another session of this folder", RESUME),
    "fork": SlashCommand(fork_page, "continue in a copy of this session or another, whole or up to a turn", FORK),
    "rename": SlashCommand(rename_page, "give this session a title; without one the small model does", RENAME),
    "tag": SlashCommand(tag_page, "give this session tags; a tagged session is not deleted because of its age", TAG),
    "clear": SlashCommand(clear_page, "start a new session; this one is kept"),
    "export": SlashCommand(export_page, "the conversation as a file: Markdown, a notebook or JSON", EXPORT),
    "cells": SlashCommand(cells_page, "what Claude ran in the last turn, as ordinary cells", CELLS),
    "tasks": SlashCommand(tasks_page, "what Claude and its shell commands are doing, with their ids", "[stop ID]"),
    "branches": SlashCommand(
        branches_page,
        "the copies of your kernel that Claude tries things in; end one, or run its code",
        BRANCHES,
        asks=True,
    ),
    "preview": SlashCommand(
        preview_page,
        "what the last preview (`--branch`) would change; accept all, parts by number, or nothing",
        PREVIEW,
        asks=True,
    ),
    "steer": SlashCommand(steer_page, "send Claude a message while it works", "TEXT"),
    "btw": SlashCommand(btw_page, "ask about the conversation without adding to it, even while Claude works", BTW),
    "goal": SlashCommand(goal_page, "have Claude work until a goal is met; without one, show it", GOAL),
    "compact": SlashCommand(
        compact_page,
        "summarise the conversation so far to make room; FOCUS: what matters most",
        COMPACT,
    ),
    "autocompact": SlashCommand(
        autocompact_page,
        "when the conversation is summarised automatically; on, off or a share changes that",
        AUTOCOMPACT,
    ),
    "context": SlashCommand(context_page, "what fills the context, in tokens"),
    "numbers": SlashCommand(numbers_page, "the numbers of the last answer, and where each was seen"),
    "stability": SlashCommand(
        stability_page,
        "test the numbers of the last answer: resampled data, a permuted label, other seeds",
        STABILITY,
        asks=True,
    ),
    "cost": SlashCommand(cost_page, "the cost of this session, and of suggestions while you type"),
    "doctor": SlashCommand(doctor_page, "what keeps Cellwright from working here, and what to do about it", DOCTOR),
    "upgrade": SlashCommand(upgrade_page, "how to upgrade this installation, and what to restart afterwards"),
    "bug": SlashCommand(bug_page, "a report about this installation in a file, without the conversation", BUG),
    "status": SlashCommand(
        status_page, "the state of this conversation: session, model, where the key comes from, tools, versions"
    ),
}

NEED_SESSIONS = frozenset({"resume", "fork", "rename", "tag", "clear"})
"""Commands for a conversation that is kept on disk."""
