"""The words that call a subcommand; its module is imported only then."""

from __future__ import annotations

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
    "doctor": "cellwright.terminal.subcommands.doctor:doctor",
    "mcp": "cellwright.terminal.subcommands.mcp:mcp",
    "plugin": "cellwright.terminal.subcommands.plugin:plugin",
    "plugins": "cellwright.terminal.subcommands.plugin:plugin",
    "setup": "cellwright.terminal.subcommands.setup:setup",
    "sessions": "cellwright.terminal.subcommands.sessions:sessions",
    "trust": "cellwright.terminal.subcommands.trust:trust",
    "trust-recording": "cellwright.terminal.subcommands.trust:trust_recordings",
}


def find_subcommand(first: Sequence[str], program: str = "") -> Subcommand | None:
    """Find what the first argument of the command called as `program` calls; None for a prompt or an option."""
    word = first[0] if first else ""
    if word in flags.COMMANDS and flags.is_claude(program):
        return _refuse(f"`claude {word}` is a command of Claude Code's that is not there here. Nothing was sent.")
    if word not in SUBCOMMANDS:
        return None
    module, _, name = SUBCOMMANDS[word].partition(":")
    found: Subcommand = getattr(importlib.import_module(module), name)
    return found


def _refuse(message: str) -> Subcommand:
    def refuse(_argv: Sequence[str]) -> NoReturn:
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)

    return refuse
