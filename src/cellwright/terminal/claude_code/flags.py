"""Claude Code's flags as ours: each is taken, taken without effect, or refused because leaving it out would do harm.

The table here is the one in docs/coming-from-claude-code.md. A flag of the same name and meaning as ours is in
`arguments.py` alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Literal

from msgspec import Struct

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.text import lazy_pattern

PROGRAM = "claude"
"""The name under which the command behaves as Claude Code's does where ours differs."""

CLAUDE_FORMATS = ("claude-json", "stream-json", "claude-stream-json")
"""Its output formats, besides text; called `claude`, `json` is the first and the other two are one."""

Takes = Literal["nothing", "one", "perhaps one", "with =", "many", "a filter"]


class Flag(Struct, frozen=True):
    """A flag: what it takes, and our option for it, which may have the flag's values after it.

    Without `ours` it has no effect, or is `refused`, and `why` says the reason.
    """

    takes: Takes = "nothing"
    ours: tuple[str, ...] = ()
    why: str = ""
    refused: bool = False


def _as(*ours: str, takes: Takes = "nothing") -> Flag:
    return Flag(takes, ours)


def _unused(why: str, takes: Takes = "nothing") -> Flag:
    return Flag(takes, why=why)


def _refused(why: str, takes: Takes = "nothing") -> Flag:
    return Flag(takes, why=why, refused=True)


_NO_PLUGINS = "plugins are installed first: `cellwright plugin install FOLDER`"
_NO_REMOTE = "sessions run on this machine"
_NO_BROWSER = "there is no browser to drive here"
_OTHER_PLACE = "Claude would work in another place than you asked for"

_BARE = '{"disableAllHooks": true, "claudeMdExcludes": ["**"], "disableBundledSkills": true}'

FLAGS: dict[str, Flag] = {
    "--allowedTools": _as("--allowed-tools", takes="many"),
    "--disallowedTools": _as("--disallowed-tools", takes="many"),
    "--add-dir": _as("--add-dir", takes="many"),
    "--dangerously-skip-permissions": _as("--permission-mode", "bypassPermissions"),
    "--permission-prompts": _as("--permission-prompts", takes="one"),
    "--max-budget-usd": _as("--budget", takes="one"),
    "--no-session-persistence": _as("--no-session"),
    "--bare": _as("--settings", _BARE),
    "--safe-mode": _as("--settings", _BARE),
    "--debug": _as("--verbose", takes="a filter"),
    "-d": _as("--verbose", takes="a filter"),
    "-v": _as("--version"),
    "--agent": _as("--agent", takes="one"),
    "--permission-prompt-tool": _as("--permission-prompt-tool", takes="one"),
    "--mcp-config": _as("--mcp-config", takes="many"),
    "--mcp-debug": _unused("/mcp shows what servers have written"),
    "--channels": _unused("servers send no messages of their own here", "many"),
    "--append-subagent-system-prompt": _unused("an agent's definition holds its whole prompt", "one"),
    "--forward-subagent-text": _unused("agents' own steps are in json-lines"),
    "--teammate-mode": _unused("there are no teams of agents here", "one"),
    "--plugin-url": _unused(_NO_PLUGINS, "one"),
    "--disable-slash-commands": _unused("`skillOverrides` in the settings switches skills off"),
    "--include-hook-events": _unused("hooks are not reported in the stream"),
    "--exclude-dynamic-system-prompt-sections": _unused("it is always so here"),
    "--allow-dangerously-skip-permissions": _unused("--permission-mode bypassPermissions is there without it"),
    "--enable-auto-mode": _unused("there is no mode `auto` here"),
    "--prompt-suggestions": _unused("no prompts are suggested here"),
    "--betas": _unused("what requests need is sent with them", "many"),
    "--advisor": _unused("there is no advisor here", "one"),
    "--autocompact": _unused("the settings `autoCompactEnabled` and `cellwright.autoCompactShare` say when", "one"),
    "--ax-screen-reader": _unused("output is plain text if it is not a terminal, or with TERM=dumb"),
    "--debug-file": _unused("--verbose logs to stderr", "one"),
    "--name": _unused("`cellwright sessions rename` gives a session a title", "one"),
    "-n": _unused("`cellwright sessions rename` gives a session a title", "one"),
    "--ide": _unused("there is no editor to connect to"),
    "--chrome": _unused(_NO_BROWSER),
    "--no-chrome": _unused(_NO_BROWSER),
    "--remote-control": _unused(_NO_REMOTE, "with ="),
    "--rc": _unused(_NO_REMOTE, "with ="),
    "--remote-control-session-name-prefix": _unused(_NO_REMOTE, "one"),
    "--worktree": _refused(_OTHER_PLACE, "perhaps one"),
    "-w": _refused(_OTHER_PLACE, "perhaps one"),
    "--tmux": _refused(_OTHER_PLACE, "with ="),
    "--bg": _refused("a session ends with its command"),
    "--background": _refused("a session ends with its command"),
    "--exec": _refused("it starts no shell commands", "one"),
    "--from-pr": _refused("sessions are not linked to pull requests", "perhaps one"),
    "--cloud": _refused(_NO_REMOTE, "perhaps one"),
    "--remote": _refused(_NO_REMOTE, "perhaps one"),
    "--teleport": _refused(_NO_REMOTE, "perhaps one"),
    "--environment": _refused(_NO_REMOTE, "one"),
    "--ref": _refused(_NO_REMOTE, "one"),
}

DEBUG_CATEGORIES = frozenset(
    {"1p", "api", "bash", "cache", "config", "context", "file", "hooks", "ide", "lsp", "mcp", "mcp-server", "oauth"}
    | {"permissions", "plugins", "sandbox", "session", "settings", "skills", "startup", "statsig", "tools", "ui"}
)
"""Words by which Claude Code's `--debug` filters."""

_FILTER = lazy_pattern(r"!?[\w-]+(?:,!?[\w-]+)*")

MANY_AS_CLAUDE = {"--allowed-tools": FLAGS["--allowedTools"], "--disallowed-tools": FLAGS["--disallowedTools"]}
"""Flags that take all words up to the next flag, where the command is called `claude`; ours take one."""

_COMMANDS = """
agents attach auto-mode daemon install kill logs migrate-installer project rc remote-control respawn rm
setup-token stop ultrareview update upgrade
"""

COMMANDS = frozenset(_COMMANDS.split())
"""Words that are commands of Claude Code's and none of ours: called `claude`, they are no prompts."""


def is_claude(program: str) -> bool:
    """Return whether the command was called by Claude Code's name, through a link for example."""
    return PurePath(program).stem.lower() == PROGRAM


def translated(argv: Sequence[str], *, as_claude: bool) -> tuple[list[str], list[str]]:
    """`argv` with our options for Claude Code's flags, and a line for each flag that has no effect.

    Raises `CellwrightError` INVALID_PARAMETERS for a flag that lacks its value or is refused.
    """
    known = {**FLAGS, **MANY_AS_CLAUDE} if as_claude else FLAGS
    given: list[str] = []
    unused: dict[str, str] = {}
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*given, word, *rest], list(unused.values())
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if (flag := known.get(name)) is None:
            given.append(word)
            continue
        values = _values(name, flag, [value] if equals else None, rest)
        if flag.refused:
            message = f"{name} is a flag of Claude Code's that is not there here: {flag.why}. Nothing was sent."
            raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
        if flag.ours:
            given += _ours(flag, values)
            if flag.takes == "a filter" and values:
                unused[name] = f"{name} logs everything: the filter `{values[0]}` has no effect here."
        else:
            unused[name] = f"{name} has no effect here: {flag.why}."
    return given, list(unused.values())


def _values(name: str, flag: Flag, given: list[str] | None, rest: list[str]) -> list[str]:
    """The flag's values, taken out of `rest`."""
    if given is not None or flag.takes in ("nothing", "with ="):
        return given or []
    if flag.takes == "a filter":
        return _filter(name, rest)
    found: list[str] = []
    while rest and not (rest[0].startswith("-") and len(rest[0]) > 1) and (flag.takes == "many" or not found):
        found.append(rest.pop(0))
    if not found and flag.takes in ("one", "many"):
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, f"{name} needs a value.")
    return found


def _filter(name: str, rest: list[str]) -> list[str]:
    """The filter of `--debug`, taken out of `rest`. Raises CellwrightError for a word that may be it, or the prompt."""
    word = rest[0] if rest else ""
    if not _FILTER.fullmatch(word):
        return []
    if {each.removeprefix("!") for each in word.split(",")} <= DEBUG_CATEGORIES or "," in word or word[0] == "!":
        return [rest.pop(0)]
    message = (
        f"`{name} {word}` may mean a filter or a prompt. For a filter write {name}={word}; put a prompt before {name}, or "
        "behind --. Nothing was sent."
    )
    raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)


def _ours(flag: Flag, values: Sequence[str]) -> list[str]:
    if flag.takes in ("one", "many"):
        # with `=` a value may begin with a dash
        return [f"{flag.ours[0]}={value}" for value in values]
    if flag.takes == "nothing" and values:
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, f"{flag.ours[0]} takes no value.")
    return list(flag.ours)
