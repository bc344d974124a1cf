"""A call of Bash, taken apart for those who judge it: its parts, those that still find what they name, and what runs on.

`ln -s / x; cat x/etc/passwd` reads elsewhere than it says while it is judged. What only reads, or writes into plain
files, leaves the rest as certain as it was; any other program may have moved links and folders (`settled_parts`).

Each call is judged by what its names lead to at that moment. Within one command what is moved beside them is seen; what
runs on when the command has ended is seen by no later call, so such changes need the user's approval
(`changes_in_background`). Within a sandbox's bounds they do not: those hold for every name.
"""

# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH111, PTH112, PTH114, PTH118, PTH119
from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Any

from msgspec import Struct, structs
from msgspec.structs import replace

from cellwright.permissions.judges.simple_command import CommandFacts, part_of, writes_files
from cellwright.permissions.paths import normalised
from cellwright.permissions.rules.rule import RuleBook, text_field
from cellwright.permissions.shell.analysis import SAFE_ASSIGNMENT, Analysis, analyse
from cellwright.permissions.shell.command_paths import looked_up, paths_named
from cellwright.permissions.shell.conservative_parse import ConservativeParse, PossibleCommand, parse_conservatively
from cellwright.permissions.shell.git import only_reads
from cellwright.permissions.shell.plain_commands import READERS
from cellwright.text import lazy_pattern

MAX_FOLDERS = 32
"""Folders from which the names in a command are looked at; with more, it is asked where a rule is about files."""


_LEAVES_FILES = frozenset({"add", "commit", "tag", "push", "fetch", "notes"})
"""Subcommands of git that write, and not into the work tree."""
_MOVERS = frozenset({"mv", "cp"})

_CHANGERS = frozenset(
    {"bsdtar", "chattr", "cp", "cpio", "dd", "git", "install", "ln", "mkdir", "mkfifo", "mknod", "mount", "mv", "patch"}
    | {"rename", "rm", "rmdir", "rsync", "scp", "sed", "shred", "tar", "tee", "touch", "truncate", "umount", "unlink"}
    | {"unzip", "zip", "7z", "7za", "ditto"}
)
"""Programs that make, move or remove files under the names they are given."""
_DETACHERS = frozenset(
    {"at", "batch", "coproc", "daemonize", "disown", "nohup", "screen", "setsid", "start-stop-daemon", "systemd-run"}
    | {"tmux"}
)
"""Programs that let another one run on when the command has ended."""
_AMPERSAND = lazy_pattern(r"(?<![<>&|])&(?![&>])")
_REDIRECTS_TO_FILE = lazy_pattern(r"(?<!<)>+[|&]?\s*(?!&?[\d-]|/dev/null\b)\S")


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


class Change(IntEnum):
    """Changes that a part may have made for those after it."""

    NOTHING = 0
    REPOSITORIES = 1
    """A folder may have become a repository."""
    PLACES = 2
    """A name may lead elsewhere."""


def settled_parts(parts: Sequence[CommandFacts]) -> list[CommandFacts]:
    """Return `parts`, those marked whose names may lead elsewhere by the time that they run."""
    changes = [_change_of(part) for part in parts]
    marked = []
    for index, part in enumerate(parts):
        others = [change for at, change in enumerate(changes[: part.command.until]) if at != index]
        limit = Change.REPOSITORIES if part.words and part.words[0].text == "git" else Change.PLACES
        unsettled = max(others, default=Change.NOTHING) >= limit
        marked.append(replace(part, command=replace(part.command, settled=False)) if unsettled else part)
    return marked


def _change_of(facts: CommandFacts) -> Change:
    if facts.gets_more:
        reader = READERS.get(facts.words[0].text)
        return Change.NOTHING if reader and reader[0].any_glob else Change.PLACES
    if facts.changed is not None and facts.words[0].text in _MOVERS:
        return max(_moved(facts), _written(facts))
    if not facts.words or facts.read is not None or facts.changed is not None or _git_leaves_files(facts):
        return _written(facts)
    return Change.PLACES


def _git_leaves_files(facts: CommandFacts) -> bool:
    program, *rest = facts.words
    if program.raw != "git":
        return False
    return only_reads(facts.words) or (bool(rest) and rest[0].text in _LEAVES_FILES)


def _written(facts: CommandFacts) -> Change:
    """Return whether a part that writes plain files may have made one that makes a repository of its folder."""
    written = [access.word for access in facts.changed or () if access.use == "Edit"]
    written += [redirect.target for redirect in facts.command.redirects if redirect.writes]
    made = any(os.path.basename(word.text).lower() == "head" or word.dynamic or word.globs for word in written)
    return Change.REPOSITORIES if made else Change.NOTHING


def _moved(facts: CommandFacts) -> Change:
    """Return what a part that moves or copies files takes along."""
    found = Change.NOTHING
    for access in facts.changed or ():
        for path in paths_named(access.word, facts.command.folders) or ():
            if os.path.islink(path) or _holds_link(path):
                return Change.PLACES
            if os.path.isdir(path):
                found = Change.REPOSITORIES
    return found


def _holds_link(folder: str) -> bool:
    count = 0
    for here, folders, files in os.walk(folder):
        count += len(folders) + len(files)
        # names looked at in a folder that is moved or copied; a larger one may hold a link
        if count > 2_000 or any(os.path.islink(os.path.join(here, name)) for name in (*folders, *files)):
            return True
    return False


def changes_in_background(call: ShellCall) -> bool:
    """Return whether something that is known to change files may run on when the command has ended."""
    if not call.analysis.problem:
        return any(_is_detached(part) and _whether_changes(part) for part in call.parts)
    rough = call.rough
    return (_AMPERSAND.search(rough.text) is not None or any(map(_detaches, rough.parts))) and changes_anything(call)


def changes_anything(call: ShellCall) -> bool:
    """Return whether a part of the command is known to change files: all of it is to run in the background."""
    if not call.analysis.problem:
        return any(map(_whether_changes, call.parts))
    return any(map(_may_change, call.rough.parts)) or _REDIRECTS_TO_FILE.search(call.rough.text) is not None


def may_change_later(command: str) -> bool:
    """Return whether a command that has run for a while may still change which files names lead to.

    One that writes to where its output went from the start does not.
    """
    call = taken_apart(command, "/")
    if call.analysis.problem:
        return any(map(_may_change, call.rough.parts))
    return any(map(_names_changed, call.parts)) or any(map(writes_files, call.parts[1:]))


def _whether_changes(part: CommandFacts) -> bool:
    return _names_changed(part) or writes_files(part)


def _names_changed(part: CommandFacts) -> bool:
    return part.changed is not None or any(name in _CHANGERS for name in _programs(part))


def _programs(part: CommandFacts) -> Iterator[str]:
    """Yield what the part may run: its program, and any word of a wrapper that has flags which are not known."""
    if not part.words or part.read is not None:
        return
    yield part.words[0].text.rpartition("/")[2]
    if _is_detached(part):
        yield from (word.text.rpartition("/")[2] for word in part.command.words)


def _is_detached(part: CommandFacts) -> bool:
    return part.command.background or any(word.text.rpartition("/")[2] in _DETACHERS for word in part.command.words[:8])


def _detaches(part: PossibleCommand) -> bool:
    return any(word.rpartition("/")[2] in _DETACHERS for word in part.words)


def _may_change(part: PossibleCommand) -> bool:
    words = part.words if part.runs_another else part.words[:1]
    return any(re.sub(r".*/", "", word).lower() in _CHANGERS for word in words)
