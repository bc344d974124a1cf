"""A call of Bash, taken apart for those who judge it."""
# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH111, PTH118

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct, structs

from cellwright.permissions.judges.simple_command import CommandFacts, part_of
from cellwright.permissions.paths import normalised
from cellwright.permissions.rules.rule import RuleBook, text_field
from cellwright.permissions.shell.analysis import SAFE_ASSIGNMENT, Analysis, analyse
from cellwright.permissions.shell.command_paths import looked_up
from cellwright.permissions.shell.conservative_parse import ConservativeParse, parse_conservatively

MAX_FOLDERS = 32
"""Folders from which the names in a command are looked at; with more, it is asked where a rule is about files."""


class ShellCall(Struct, frozen=True):
    """A call of Bash, taken apart. It starts in `folder`; names in it may be meant from any of `folders`.

    `problem`: what is odd about how it is started. `detached`: the call returns at once, and it runs on.
    """

    command: str
    folder: str
    rough: ConservativeParse
    analysis: Analysis
    parts: tuple[CommandFacts, ...]
    folders: tuple[str, ...]
    names: tuple[str, ...]
    """All in it that may be a file's name, as far as that many can be looked up; `all_names` says whether it is all."""
    all_names: bool
    problem: str = ""
    detached: bool = False


def shell_call(book: RuleBook, tool_input: Mapping[str, Any]) -> ShellCall:
    """Take Bash's input apart; with the fact "cwd", the folder that its shell is in."""
    start = text_field(tool_input, "cwd") or book.cwd
    folder = normalised(os.path.join(start, text_field(tool_input, "working_directory")))
    variables = tool_input.get("environment_variables")
    set_besides = [f"{name}={value}" for name, value in variables.items()] if isinstance(variables, Mapping) else []
    odd = next((each for each in set_besides if not SAFE_ASSIGNMENT.fullmatch(each)), "")
    odd = odd or ("" if variables is None or isinstance(variables, Mapping) else "environment_variables")
    call = taken_apart(text_field(tool_input, "command"), folder, odd)
    return structs.replace(call, detached=True) if tool_input.get("run_in_background") else call


@lru_cache(maxsize=64)  # a question judges one command several times, with the rules it might offer
def taken_apart(command: str, folder: str, odd: str = "") -> ShellCall:
    """Take apart `command`, which starts in `folder`; `odd` is its `problem`."""
    analysis = analyse(command, folder)
    rough = parse_conservatively(command)
    parts = tuple(part_of(each, more_variables=bool(odd)) for each in analysis.commands)
    folders = _folders(folder, rough, parts)
    # redirects first: a rule about writing is compared with them alone
    names, all_names = looked_up(dict.fromkeys((*rough.redirects, *rough.words)), len(folders))
    return ShellCall(command, folder, rough, analysis, parts, folders, tuple(names), all_names, odd)


def _folders(folder: str, rough: ConservativeParse, parts: Sequence[CommandFacts]) -> tuple[str, ...]:
    """The folders that names in a command may start from: rather too many."""
    followed = bool(parts) and all(part.command.folders for part in parts)
    found = dict.fromkeys((folder, *(each for part in parts for each in part.command.folders or ())))
    last = folder
    for part in rough.parts:
        if part.program in ("cd", "pushd") and len(part.words) > 1 and len(found) <= MAX_FOLDERS:
            target = os.path.expanduser(part.words[-1])
            last = normalised(os.path.join(last, target))
            starts = () if followed else tuple(found)
            found.update(dict.fromkeys([last, *(normalised(os.path.join(start, target)) for start in starts)]))
    return tuple(found)[: MAX_FOLDERS + 1]
