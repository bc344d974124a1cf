"""Deletions that no mode lets through unasked: `rm`, `rmdir`, `find -delete`, `git clean` on vital places.

Critical are the root of the file system and what lies directly in it, the home folder, the working folders and all
above them, the whole content of a working folder, and whatever a variable names, since an empty one leaves `/`.

What is deleted is looked at as the shell fills it in: wildcards expanded, variables replaced by what the command sets
them to and by nothing, names meant from each folder that it goes to.
"""
# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH111, PTH118, PTH120

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from cellwright.permissions.paths import folded, folder_spellings, normalised
from cellwright.permissions.shell.analysis import SimpleCommand, unwrapped
from cellwright.permissions.shell.command_paths import Starts, places_named, starts_at
from cellwright.permissions.shell.conservative_parse import PossibleCommand, parse_conservatively
from cellwright.text import lazy_pattern

_DELETERS = frozenset({"rm", "rmdir"})
_NAMED_ANYWHERE = lazy_pattern(r"(?<![\w.-])(?:rm|rmdir)(?![\w.-])", re.IGNORECASE)
_SUBCOMMANDS = frozenset(
    {"apt", "brew", "cargo", "conda", "docker", "git", "helm", "npm", "pip", "pnpm", "podman", "yarn"}
)
"""Programs whose own `rm` deletes something else."""
_ALL_INSIDE = lazy_pattern(r"/[*.?]+\Z")
_NAMELESS = lazy_pattern(r"[./*?]+")
_FIND_FILTERS = frozenset({"-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename", "-regex", "-iregex"})
_FIND_OTHERWISE = frozenset({"-o", "-or", ",", "!", "-not"})
"""With these in an expression of find, a filter in it leaves out too little to count."""
_FIND_OPTION = lazy_pattern(r"-[HLPEXdsx]+|-O\d|-D")
_BRACKETS = lazy_pattern(r"\[[^\]/]*\]")
_VARIABLE = lazy_pattern(r"\$(?:\{(?P<braced>\w+)\}|(?P<bare>\w+))", re.ASCII)
_BRACED = lazy_pattern(r"\$\{(?P<name>\w+)\}", re.ASCII)
_BRACED_WITHIN = lazy_pattern(r"(?<=[^\s;&|=])\$\{\w+\}", re.ASCII)
_EXPANSION = lazy_pattern(r"\$(?:\{[^}]*\}|\w+|[@*#?!$-])", re.ASCII)
_ASSIGNED = lazy_pattern(
    r"""(?<![\w$])(?P<name>[A-Za-z_]\w*)=(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^\s;&|()<>"']*))""",
    re.ASCII,
)
_AT_PROGRAM = r"(?:^|[(`{!]|\b(?:then|do|else|sudo|doas|time|exec|command|nohup|env)\s)\s*"
_DELETER = lazy_pattern(_AT_PROGRAM + r"(?:\S{0,200}/)?rm(?:dir)?\s")
_PROGRAM_FILLED_IN = lazy_pattern(_AT_PROGRAM + r"""["']?(?:\$[({]|`)""")
_BETWEEN_COMMANDS = lazy_pattern(r"[;|&\n]")
_RECURSIVE = lazy_pattern(r"-[A-Za-z]*[rR][A-Za-z]*|--recursive|--no-preserve-root")
_PLAIN_NAME = lazy_pattern(r"(?!\.\.?\Z)[\w.,:=@%+-]+", re.ASCII)
_GOES = lazy_pattern(r"\b(?:cd|pushd)\b")
_LOOP = lazy_pattern(r"\b(?:for|while|until)\b")
MAX_STARTS = 32
"""Folders from which what is deleted is looked at."""
MAX_LOOKED_AT = 300
"""Names, in all these folders, that are looked at on disk."""
MAX_FILLED_IN = 30_000
"""Characters of a command with its variables filled in."""
MAX_VALUES = 4
"""Values that a variable is filled in with."""
_EVERYTHING = "everything that is not committed"
_UNSEEN = "something that cannot be seen before it runs"


def critical_delete(command: str, commands: Sequence[SimpleCommand], folders: Sequence[str], cwd: str) -> str | None:
    """Find what `command` would delete that is critical (as the object of a sentence), or None.

    `commands`: what it is known to run. `folders` are the working folders, absolute and normalised, in all spellings.
    """
    filled_in = _with_variables(command)
    if filled_in is None:
        return _UNSEEN if _NAMED_ANYWHERE.search(command) else None
    parts = [part for text in filled_in for part in parse_conservatively(text).parts]
    unseen_program = any(map(_PROGRAM_FILLED_IN.search, _BETWEEN_COMMANDS.split(command)))
    if not any(_may_delete(part) or _runs_unseen(part, unseen_program) for part in parts):
        return None
    starts = _starts(command, parts, cwd)
    if starts is None:
        return _UNSEEN
    operands: dict[str, None] = {}
    for part in parts:
        if _cleans_all(part):
            return _EVERYTHING
        if _deletes_unseen(part):
            return _UNSEEN
        operands.update(dict.fromkeys((*_operands(part, unseen_program), *_found(part))))
    if found := _first_critical(operands, _vital((*folders, cwd, *_home())), starts):
        return found
    return _UNSEEN if _prints_operands(command) or any(map(_names_dynamically, commands)) else None


def _with_variables(command: str) -> list[str] | None:
    """`command`, and with the variables that it sets filled in; None where that is too long to be looked at."""
    values: dict[str, list[str]] = {}
    for found in _ASSIGNED.finditer(command):
        known = values.setdefault(found["name"], [])
        known.append(found["double"] or found["single"] or found["bare"] or "")
    texts = dict.fromkeys((command, _BRACED.sub(r"$\g<name>", _BRACED_WITHIN.sub("", command))))
    for index in range(min(MAX_VALUES, max(map(len, values.values()), default=0))):

        def value(found: re.Match[str], index: int = index) -> str:
            known = values.get(found["braced"] or found["bare"])
            return known[min(index, len(known) - 1)] if known else found[0]

        longest = max(len(each) for known in values.values() for each in known)
        if command.count("$") * longest > MAX_FILLED_IN:
            return None
        texts[_VARIABLE.sub(value, command)] = None
    return list(texts)


def _starts(command: str, parts: Sequence[PossibleCommand], cwd: str) -> Starts | None:
    """Every folder that the command may go to, as far as it names it; None where those are too many."""
    targets = [part.words[-1] if len(part.words) > 1 else "~" for part in parts if part.program in ("cd", "pushd")]
    # `cd ..; cd ..` is there once, and in a loop it is done again and again
    rounds = MAX_STARTS if _LOOP.search(command) else len(_GOES.findall(command))
    found = {cwd: None}
    for _ in range(rounds if targets else 0):
        known = len(found)
        for target in map(os.path.expanduser, targets):
            found.update(dict.fromkeys([normalised(os.path.join(start, target)) for start in found]))
            if len(found) > MAX_STARTS:
                return None
        if len(found) == known:
            break
    return starts_at(found)


def _may_delete(command: PossibleCommand) -> bool:
    return any(_NAMED_ANYWHERE.search(word) or word in ("-delete", "clean") for word in command.words)


def _runs_unseen(command: PossibleCommand, unseen_program: bool) -> bool:
    """Return whether `command` deletes, if the program that is filled in when it runs is `rm`."""
    filled_in = re.search(r"[$*?\[]", command.words[0]) or (unseen_program and command.words[0].startswith("-"))
    return filled_in is not None and filled_in is not False and any(map(_RECURSIVE.fullmatch, command.words))


def _home() -> tuple[str, ...]:
    return folder_spellings([os.path.expanduser("~")], "/")


def _vital(folders: Sequence[str]) -> frozenset[str]:
    """`folders` and all above them."""
    found = set[str]()
    for folder in map(folded, folders):
        while folder not in found:
            found.add(folder)
            folder = os.path.dirname(folder)
    return frozenset(found)


def _operands(command: PossibleCommand, unseen_program: bool) -> list[str]:
    if _runs_unseen(command, unseen_program):
        return [operand for operand in command.words if not operand.startswith("-") and operand != command.words[0]]
    for index, word in enumerate(command.words):
        if word.rpartition("/")[2].lower() in _DELETERS and (index == 0 or command.runs_another):
            return [operand for operand in command.words[index + 1 :] if not operand.startswith("-")]
    return []


def _found(command: PossibleCommand) -> Iterator[str]:
    """Yield where `find … -delete` starts, as `rm` would name it: filtered, it is only critical beyond the folder."""
    if "-delete" not in command.words:
        return
    # as far as it deletes: a filter behind it comes too late
    words = command.words[: command.words.index("-delete")]
    index = next((index for index, word in enumerate(words) if word.rpartition("/")[2].lower() == "find"), None)
    if index is None:
        return
    starts: list[str] = []
    for word in words[index + 1 :]:
        if _FIND_OPTION.fullmatch(word) and not starts:
            continue
        if word.startswith(("-", "!", "(", ")")):
            break
        starts.append(word)
    for start in starts or ["."]:
        # `find . -name x -delete` is how one cleans up
        if not (start.rstrip("/") == "." and _is_filtered(words)):
            yield start


def _is_filtered(words: Sequence[str]) -> bool:
    """Return whether the expression of find that `words` hold leaves out all but files of some name."""
    if not _FIND_OTHERWISE.isdisjoint(words):
        return False
    named = (pattern for test, pattern in pairwise(words) if test in _FIND_FILTERS)
    return "-empty" in words or any(re.search(r"\w", pattern) for pattern in named)


def _cleans_all(command: PossibleCommand) -> bool:
    """Return whether `command` is `git clean -f` without a path: what nobody has committed is in no history."""
    words = list(command.words)
    index = next((index for index, word in enumerate(words) if word.rpartition("/")[2].lower() == "git"), None)
    if index is None or "clean" not in words[index:] or not (index == 0 or command.runs_another):
        return False
    rest = words[words.index("clean", index) + 1 :]
    flags = [word for word in rest if word.startswith("-") and word != "--"]
    if any(word in ("--dry-run", "--help") or re.fullmatch(r"-\w*n\w*", word) for word in flags):
        return False
    named = [word for word in rest if not word.startswith("-") and not _NAMELESS.fullmatch(word)]
    return not named


def _deletes_unseen(command: PossibleCommand) -> bool:
    if command.program in ("xargs", "parallel", "find", "fd"):
        return any(word.rpartition("/")[2].lower() in _DELETERS for word in command.words)
    named = any(_NAMED_ANYWHERE.search(word) for word in command.words[1:])
    return named and command.opaque and command.program not in _SUBCOMMANDS


def _names_dynamically(command: SimpleCommand) -> bool:
    """Return whether `rm` is given what another command prints: `rm -rf $(cat list)`."""
    words = unwrapped(command.words).words
    if not words or words[0].text.rpartition("/")[2] not in _DELETERS:
        return False
    return any(word.dynamic and ("$(" in word.raw or "`" in word.raw) for word in words[1:])


def _prints_operands(command: str) -> bool:
    """Return whether `rm` is given what another command prints, however it is written."""
    for text in _BETWEEN_COMMANDS.split(command):
        found = _DELETER.search(text)
        if found and re.search(r"\$\(|`", text[found.end() :]):
            return True
    return False


def _first_critical(operands: Iterable[str], vital: frozenset[str], starts: Starts) -> str | None:
    """The first of `operands` that may be a vital place, or that there are too many of them."""
    looked_at = 0
    for operand in operands:
        if _NAMELESS.fullmatch(_BRACKETS.sub("?", operand)) or operand.startswith("$"):
            return f"`{operand}`"
        for name in dict.fromkeys((operand, _EXPANSION.sub("", operand))):
            whole = _ALL_INSIDE.sub("", name) or "/"
            if not _PLAIN_NAME.fullmatch(whole):
                looked_at += len(starts)
            if looked_at > MAX_LOOKED_AT:
                return _UNSEEN
            found = places_named(whole, starts)
            if found is None or any(_is_vital(place, vital) for place in found):
                return f"`{operand}`"
    return None


def _is_vital(place: str, vital: frozenset[str]) -> bool:
    place = folded(place)
    return place.count("/") <= 1 or place in vital
