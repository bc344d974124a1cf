"""The words that call a subcommand; its module is imported only then."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import NoReturn

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.terminal.claude_code import flags

Subcommand = Callable[[Sequence[str]], int]

SUBCOMMANDS = {
    "auth": "cellwright.terminal.subcommands.auth:auth",
    "config": "cellwright.terminal.subcommands.config:config",
    "demo": "cellwright.terminal.demo.run_demo:main",
    "docs": "cellwright.terminal.subcommands.docs:docs",
    "doctor": "cellwright.terminal.subcommands.doctor:doctor",
    "mcp": "cellwright.terminal.subcommands.mcp:mcp",
    "plugin": "cellwright.terminal.subcommands.plugin:plugin",
    "plugins": "cellwright.terminal.subcommands.plugin:plugin",
    "setup": "cellwright.terminal.subcommands.setup:setup",
    "sessions": "cellwright.terminal.subcommands.sessions:sessions",
    "trust": "cellwright.terminal.subcommands.trust:trust",
    "trust-recording": "cellwright.terminal.subcommands.trust:trust_recordings",
    "update": "cellwright.terminal.subcommands.update:update",
    "upgrade": "cellwright.terminal.subcommands.update:update",
    "verify": "cellwright.kernel.cells.verify_command:verify",
}

INSTEAD = {
    "continue": "`cellwright --continue` continues the newest session here.",
    "help": "`cellwright --help` lists options and commands, `cellwright docs` the documentation.",
    "login": "`cellwright auth login` enters a key.",
    "logout": "`cellwright auth logout` takes the key away again.",
    "resume": "`cellwright --resume ID` continues a session; `cellwright sessions` lists them.",
    "status": "`cellwright auth status` says which key is in force, `cellwright doctor` what keeps us from working.",
    "version": "`cellwright --version` says it.",
}
"""Words that people expect to be commands, and what does it here."""

NEAR = 0.8
"""The least similarity to a command's name that makes a word a typing error."""


def find_subcommand(first: Sequence[str], program: str = "") -> Subcommand | None:
    """Find what the first argument of the command called as `program` calls; None for a prompt or an option."""
    word = first[0] if first else ""
    if word in flags.COMMANDS and flags.is_claude(program):
        return _refuse(f"`claude {word}` is a command of Claude Code's that is not there here. Nothing was sent.")
    if word not in SUBCOMMANDS:
        return None
    module, _, name = SUBCOMMANDS[word].partition(":")
    found = getattr(importlib.import_module(module), name)
    if word == "auth" and flags.is_claude(program):
        found = functools.partial(found, as_claude=True)
    command: Subcommand = found
    return command


def refuse_command_word(word: str) -> None:
    """Raises CellwrightError INVALID_PARAMETERS for a prompt of one word that is, or nearly is, a command's name."""
    said = word.strip().lower()
    if not said.isascii() or not said.replace("-", "").isalpha():
        return
    if said in SUBCOMMANDS:
        problem = f"`{word}` is a command: `cellwright {said}`, with options behind it."
    elif said in INSTEAD:
        problem = f"`{word}` is not a command. {INSTEAD[said]}"
    elif said in flags.COMMANDS:
        problem = f"`{word}` is a command of Claude Code's that does not exist here.{_as_slash_command(said)}"
    else:
        import difflib  # few prompts are a word

        near = difflib.get_close_matches(said, [*SUBCOMMANDS, *INSTEAD, *flags.COMMANDS], 1, NEAR)
        if len(said) < 4 or not near:
            return
        own = (
            f" Did you mean `cellwright {near[0]}`?"
            if near[0] in SUBCOMMANDS
            else f" {INSTEAD.get(near[0], '')}".rstrip()
        )
        problem = f"`{word}` is not a command.{own or _as_slash_command(near[0])}"
    message = f"{problem} Nothing was sent. To send the word as a prompt: `cellwright -- {word}`."
    raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)


def _as_slash_command(word: str) -> str:
    from cellwright.commands.registry import COMMANDS  # nothing else is done by this process

    return f' `cellwright "/{word}"` shows what there is.' if word in COMMANDS else ""


def _refuse(message: str) -> Subcommand:
    def refuse(_argv: Sequence[str]) -> NoReturn:
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)

    return refuse
