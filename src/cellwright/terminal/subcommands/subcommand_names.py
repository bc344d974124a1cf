"""The words that call a subcommand; its module is imported only then."""

from __future__ import annotations

import difflib
import functools
import importlib
from collections.abc import Callable, Iterable, Sequence
from typing import NoReturn

from cellwright.config.settings.option_table import OPTIONS
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.terminal.claude_code import flags

Subcommand = Callable[[Sequence[str]], int]

SUBCOMMANDS = {
    "auth": "cellwright.terminal.subcommands.auth:auth",
    "config": "cellwright.terminal.subcommands.settings:config",
    "demo": "cellwright.terminal.demo.demo:main",
    "docs": "cellwright.terminal.subcommands.docs:docs",
    "doctor": "cellwright.terminal.subcommands.installation:doctor",
    "mcp": "cellwright.terminal.subcommands.extensions:mcp",
    "plugin": "cellwright.terminal.subcommands.extensions:plugin",
    "plugins": "cellwright.terminal.subcommands.extensions:plugin",
    "setup": "cellwright.terminal.subcommands.installation:setup",
    "sessions": "cellwright.terminal.subcommands.sessions:sessions",
    "trust": "cellwright.terminal.subcommands.settings:trust",
    "trust-recording": "cellwright.terminal.subcommands.settings:trust_recordings",
    "update": "cellwright.terminal.subcommands.installation:update",
    "upgrade": "cellwright.terminal.subcommands.installation:update",
    "verify": "cellwright.kernel.cells.verify_command:verify",
}

INSTEAD = {
    "continue": "`cellwright --continue` continues the newest session here.",
    "help": "`cellwright --help` lists options and commands, `cellwright docs` the documentation.",
    "history": "`cellwright sessions` lists the conversations of this folder.",
    "init": '`cellwright "/init"` has Claude write a CLAUDE.md, `cellwright setup` makes IPython load Cellwright.',
    "login": "`cellwright auth login` enters a key.",
    "logout": "`cellwright auth logout` takes the key away again.",
    "resume": "`cellwright --resume ID` continues a session; `cellwright sessions` lists them.",
    "status": "`cellwright auth status` says which key is in force, `cellwright doctor` what keeps us from working.",
    "version": "`cellwright --version` says it.",
}
"""Words that people expect to be commands, and what does it here."""

_SLASH_COMMANDS = """
add-dir agents allowed-tools autocompact bashes branch branches btw bug cells checkpoint clear compact context cost diff
exit export feedback fork goal hooks index memory mode model new numbers output-style permissions preview quit
redo rename reset rewind sandbox skills stability steer tag tasks theme undo usage
"""

SLASH_COMMANDS = frozenset(_SLASH_COMMANDS.split())
"""Names of slash commands that no subcommand and no option has; not `plan`, which people say to Claude.

They stand here because `commands/registry.py` takes longer to import than a prompt of one word may wait.
"""

ACTIONS = frozenset(["add", "get", "list", "login", "logout", "remove", "search", "serve", "set", "show", "status"])
"""Words behind a subcommand. `session list` is thus no prompt, and `updates to the docs` is one."""


def find_subcommand(first: Sequence[str], program: str = "") -> Subcommand | None:
    """Find what the first argument of the command called as `program` calls; None for a prompt or an option."""
    word = first[0] if first else ""
    if word in flags.COMMANDS and flags.is_claude(program):

        def refuse(_argv: Sequence[str]) -> NoReturn:
            message = f"`claude {word}` is a command of Claude Code's that is not there here. Nothing was sent."
            raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)

        return refuse
    if word not in SUBCOMMANDS:
        return None
    module, _, name = SUBCOMMANDS[word].partition(":")
    found = getattr(importlib.import_module(module), name)
    if word == "auth" and flags.is_claude(program):
        found = functools.partial(found, as_claude=True)
    command: Subcommand = found
    return command


def refuse_command_words(words: Sequence[str]) -> None:
    """Raises CellwrightError INVALID_PARAMETERS if the first of `words` is, or nearly is, a command's name.

    It has to be the only word, or another that stands behind commands must follow it: the rest are prompts.
    """
    word = words[0]
    said = word.strip().lower()
    if not said.isascii() or not said.replace("-", "").isalpha():
        return
    if len(words) > 1:
        near = _near(said, SUBCOMMANDS) if words[1] in ACTIONS else ""
        problem = f"`{word}` is not a command. Did you mean `cellwright {near} {words[1]}`?" if near else ""
    elif said in SUBCOMMANDS:
        problem = f"`{word}` is a command: `cellwright {said}`, with options behind it."
    elif said in INSTEAD:
        problem = f"`{word}` is not a command. {INSTEAD[said]}"
    elif said in flags.COMMANDS and said not in SLASH_COMMANDS:
        problem = f"`{word}` is a command of Claude Code's that does not exist here."
    elif near := _near(said, [*SUBCOMMANDS, *INSTEAD, *flags.COMMANDS]):
        own = f"Did you mean `cellwright {near}`?" if near in SUBCOMMANDS else INSTEAD.get(near, _slash_command(near))
        problem = f"`{word}` is not a command. {own}".rstrip()
    elif slash := next((each for each in _numbers(said) if each in SLASH_COMMANDS), ""):
        problem = f"`{word}` is not a command. {_slash_command(slash)}"
    elif any(said == option.terminal for option in OPTIONS):
        problem = f"`{word}` is an option: `cellwright --{said}`; `cellwright --help` says what it takes."
    else:
        problem = ""
    if problem:
        prompt = word if len(words) == 1 else f'"{" ".join(words)}"'
        message = f"{problem} Nothing was sent. To send it as a prompt: `cellwright -- {prompt}`."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)


def _near(word: str, names: Iterable[str]) -> str:
    """Return the name that `word` is a misspelling, the singular or the plural of; "" if there is none."""
    known = list(names)
    if alike := [name for name in known if name in _numbers(word) or sorted(name) == sorted(word)]:
        return alike[0]
    # the least similarity that makes a word a typing error; one of up to three letters has to be nearer
    near = difflib.get_close_matches(word, known, 1, 0.8 if len(word) > 3 else 0.85)
    return near[0] if near else ""


def _numbers(word: str) -> tuple[str, ...]:
    return word, f"{word}s", word.removesuffix("s")


def _slash_command(name: str) -> str:
    return f'`cellwright "/{name}"` is the slash command.' if name in SLASH_COMMANDS else ""
