"""Deletions that no mode lets through unasked: `rm`, `find -delete`, `git clean`, `rsync --delete` on vital places.

Critical are the root of the file system and what lies directly in it, the home folder, the working folders and all
above them, the whole content of a working folder, and whatever a variable names, since an empty one leaves `/`.

What is deleted is looked at as the shell fills it in: wildcards expanded, variables replaced by what the command sets
them to and by nothing, names meant from each folder that it goes to, by `cd` or by a flag of a program in front (`env -C`,
`sudo -D`, `git -C`). Code in an argument (`python -c`, `perl -e`) is looked at for the calls that delete whole folders.
Scripts and Makefiles are not read.
"""
# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH111, PTH112, PTH118, PTH120

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise

from cellwright.permissions.paths import folded, folder_spellings, normalised
from cellwright.permissions.shell.analysis import SimpleCommand, unwrapped
from cellwright.permissions.shell.command_paths import Starts, places_named, starts_at
from cellwright.permissions.shell.conservative_parse import PossibleCommand, parse_conservatively
from cellwright.permissions.shell.deleted_places import (
    CODE_MARKS,
    DELETERS,
    MAY_DELETE,
    NAMED_ANYWHERE,
    NAMELESS,
    XARGS_DELETES,
    cleans_all,
    deleted_by_code,
    deletes_unseen,
    device_written,
    emptied,
    found_and_deleted,
    given_up,
    may_delete,
    moved_away,
    operands_of,
    reads_commands,
    runs_code,
    runs_unseen,
    through_links,
)
from cellwright.text import lazy_pattern

_CODE_GOES = lazy_pattern(r"(?:\bchdir\s*\(?\s*|^\s*%cd\s+|\bcwd\s*=\s*)[\"']?([^\"'\n),]+)", re.MULTILINE)
_OTHER_ROOT = lazy_pattern(r"/proc/[^/]+/(?:cwd|root)(?:/|\Z)")
_FOLDER_FLAG = lazy_pattern(r"--?[\w-]+")
_GLUED_FOLDER = lazy_pattern(r"--?[\w-]*=(?P<long>.+)|-[A-Za-z](?P<short>[^=]+)")
_ALL_INSIDE = lazy_pattern(r"/(?=[*.?]*[*?])[*.?]+\Z")
_UNSEEN_FOLDER = lazy_pattern(
    r"(?:\s-[CDw]|\s--(?:chdir|cwd|dir|directory|wd|workdir|working-directory))[ =]?[\"']?[$`]"
)
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
_DELETER = lazy_pattern(
    _AT_PROGRAM
    + r"(?:npx\s+)?(?:\S{0,200}/)?(?:rm(?:dir)?|srm|rimraf|del-cli|trash(?:-put)?"
    + r"|find(?=.{0,300}-delete)|rsync(?=.{0,300}--del))\s"
)
_PRINTS_FOLDER = lazy_pattern(r"\$\(\s*pwd(?:\s+-[LP])?\s*\)|`\s*pwd(?:\s+-[LP])?\s*`")
_PROGRAM_FILLED_IN = lazy_pattern(_AT_PROGRAM + r"""["']?(?:\$[({]|`)""")
_BETWEEN_COMMANDS = lazy_pattern(r"[;|&\n]")
_PLAIN_NAME = lazy_pattern(r"(?!\.\.?\Z)[\w.,:=@%+-]+", re.ASCII)
_GOES = lazy_pattern(r"\b(?:cd|pushd)\b")
_LOOP = lazy_pattern(r"\b(?:for|while|until)\b")
MAX_STARTS = 32
"""Folders from which what is deleted is looked at."""
MAX_LOOKED_AT = 300
"""Names, in all these folders, that are looked at on disk."""
MAX_FLAGGED = 150
"""Different words behind flags that are looked at on disk, as the folder that a program goes to."""
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
    filled_in = _with_variables(command, cwd)
    if filled_in is None:
        return _UNSEEN if NAMED_ANYWHERE.search(command) else None
    parsed = [parse_conservatively(text) for text in filled_in]
    parts = [part for each in parsed for part in each.parts]
    if code := any(map(runs_code, parts)):
        parts += parse_conservatively(CODE_MARKS.sub(" ", command)).parts
    unseen_program = any(map(_PROGRAM_FILLED_IN.search, _BETWEEN_COMMANDS.split(command)))
    if not MAY_DELETE.search(command) and not any(
        may_delete(part) or runs_unseen(part, unseen_program) for part in parts
    ):
        return None
    if device := device_written(parts, [target for each in parsed for target in each.redirects]):
        return f"`{device}`"
    if any(map(cleans_all, parts)):
        return _EVERYTHING
    vital = _vital((*folders, cwd, *_home()))
    starts = _starts(command, parts, cwd, vital)
    in_code = deleted_by_code(command) if code else []
    if starts is None or in_code is None or XARGS_DELETES.search(command) or any(map(deletes_unseen, parts)):
        return _UNSEEN
    piped = any(map(reads_commands, parts))
    operands = dict.fromkeys(in_code)
    for part in parts:
        found = operands_of(part, unseen_program, piped=piped)
        operands.update(dict.fromkeys((*found, *found_and_deleted(part), *emptied(part), *given_up(part))))
    operands.update(dict.fromkeys(through_links(operands, parts)))
    moved = dict.fromkeys(name for part in parts for name in moved_away(part))
    if critical := _first_critical(operands, vital, starts) or _first_moved(moved, vital, starts):
        return critical
    return _UNSEEN if _prints_operands(command) or any(map(_names_dynamically, commands)) else None


def critical_delete_by_code(code: str, folders: Sequence[str], starts: Iterable[str]) -> str | None:
    """Find what the calls in `code` would delete that is critical, from any of `starts`; or None."""
    named = deleted_by_code(code)
    if named is None:
        return _UNSEEN
    if not named:
        return None
    vital = _vital((*folders, *_home()))
    return _first_critical(dict.fromkeys(map(os.path.expanduser, named)), vital, starts_at(starts))


def folders_of_code(code: str, folder: str) -> tuple[str, ...]:
    """`folder`, and those that code which starts there goes to, as far as it names them."""
    found = {folder: None}
    for target in _CODE_GOES.findall(code)[:MAX_VALUES]:
        found.update(dict.fromkeys([normalised(os.path.join(start, os.path.expanduser(target))) for start in found]))
    return tuple(found)


def _with_variables(command: str, cwd: str) -> list[str] | None:
    """`command`, and with the variables that it sets filled in; None where that is too long to be looked at."""
    values: dict[str, list[str]] = {}
    command = _PRINTS_FOLDER.sub("$PWD", command)
    for name, value in (("PWD", cwd), ("HOME", os.path.expanduser("~"))):
        if f"${name}" in command or f"${{{name}}}" in command:
            values[name] = [value]
    for found in _ASSIGNED.finditer(command):
        known = values.setdefault(found["name"], [])
        known.append(found["double"] or found["single"] or found["bare"] or "")
    texts = dict.fromkeys((command, _BRACED.sub(r"$\g<name>", _BRACED_WITHIN.sub("", command))))
    for index in range(min(MAX_VALUES, max(map(len, values.values()), default=0))):

        def filled(found: re.Match[str], index: int = index) -> str:
            known = values.get(found["braced"] or found["bare"])
            return known[min(index, len(known) - 1)] if known else found[0]

        longest = max(len(each) for known in values.values() for each in known)
        if command.count("$") * longest > MAX_FILLED_IN:
            return None
        texts[_VARIABLE.sub(filled, command)] = None
    return list(texts)


def _starts(command: str, parts: Sequence[PossibleCommand], cwd: str, vital: frozenset[str]) -> Starts | None:
    """Every folder that the command may go to, as far as it names it; None where those are too many."""
    targets = dict.fromkeys(target for part in parts for target in _goes_to(part))
    targets.update(dict.fromkeys(_CODE_GOES.findall(command)))
    # `cd ..; cd ..` is there once, and in a loop it is done again and again
    rounds = MAX_STARTS if _LOOP.search(command) else len(_GOES.findall(command)) + len(_CODE_GOES.findall(command))
    found = {cwd: None}
    unseen = _UNSEEN_FOLDER.search(command) is not None or any(map(_is_unseen_folder, targets))
    if unseen or any(part.program == "popd" for part in parts):
        # it may be the one from which the last part of a vital place's name is enough
        found.update(dict.fromkeys(os.path.dirname(place) for place in vital if place.count("/") > 1))
    names = dict.fromkeys(islice((name for part in parts for name in _named_by_flag(part)), MAX_LOOKED_AT))
    if len(names) >= MAX_FLAGGED:
        return None
    flagged = [name for name in names if _is_folder(name, cwd)]
    for _ in range(rounds + bool(flagged)):
        known = len(found)
        for target in map(os.path.expanduser, (*targets, *flagged)):
            found.update(dict.fromkeys([normalised(os.path.join(start, target)) for start in found]))
            if len(found) > MAX_STARTS:
                return None
        if len(found) == known:
            break
    return starts_at(found)


def _goes_to(part: PossibleCommand) -> Iterator[str]:
    """Yield the folders that `part` names to `cd`, also within what another program runs."""
    for index, word in enumerate(part.words):
        if word.rpartition("/")[2] in ("cd", "pushd") and (index == 0 or part.runs_another):
            named = [each for each in part.words[index + 1 :] if not _FOLDER_FLAG.fullmatch(each)]
            yield from named[:1] if index else named[-1:]
            if not named:
                yield "~"


def _is_unseen_folder(target: str) -> bool:
    return target == "-" or re.search(r"[$`]", target) is not None


def _named_by_flag(part: PossibleCommand) -> Iterator[str]:
    """Yield what a flag in `part` may name a folder by: `-C x`, `--chdir=x`, `-Cx`. Which flags those are is not asked."""
    for before, word in pairwise(part.words):
        # `cwd='..'` of code has lost its quotes
        if _FOLDER_FLAG.fullmatch(before) or before.endswith("="):
            yield word
        if glued := _GLUED_FOLDER.fullmatch(word):
            yield glued["long"] or glued["short"]


def _is_folder(name: str, cwd: str) -> bool:
    try:
        return os.path.isdir(os.path.join(cwd, os.path.expanduser(name)))
    except ValueError:  # no file can have such a name
        return False


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


def _names_dynamically(command: SimpleCommand) -> bool:
    """Return whether `rm` is given what another command prints: `rm -rf $(cat list)`."""
    words = unwrapped(command.words).words
    if not words or words[0].text.rpartition("/")[2] not in DELETERS:
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
        nameless = NAMELESS.fullmatch(_BRACKETS.sub("?", operand))
        if nameless or operand.startswith("$") or _OTHER_ROOT.match(operand):
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


def _first_moved(sources: Iterable[str], vital: frozenset[str], starts: Starts) -> str | None:
    """The first of `sources` that is a vital place itself: what is moved away is gone where it was."""
    for source in sources:
        found = places_named(source.rstrip("/") or "/", starts) or ()
        if _OTHER_ROOT.match(source) or any(_is_vital(place, vital) for place in found):
            return f"`{source}`"
    return None


def _is_vital(place: str, vital: frozenset[str]) -> bool:
    place = folded(place)
    return place.count("/") <= 1 or place in vital
