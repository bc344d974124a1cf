"""Commands that change files and nothing else: mkdir, touch, rm, rmdir, mv, cp, sed -i; and which files those are."""
# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH118, PTH119

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache

from cellwright.permissions.shell.command_paths import Access, accesses
from cellwright.permissions.shell.flags import Flags, flags
from cellwright.permissions.shell.words import Word
from cellwright.text import lazy_pattern

_FLAGS: Mapping[str, Flags] = {
    "mkdir": flags("pv", "-m:text --mode:text", "--parents --verbose"),
    "touch": flags("acm", "-d:text -t:text --date:text --time:text -r:file --reference:file", "--no-create"),
    "rm": flags("rRfvdiI", "", "--recursive --force --verbose --dir --one-file-system"),
    "rmdir": flags("v", "", "--verbose --ignore-fail-on-non-empty"),
    "mv": flags("fnvi", "", "--force --no-clobber --verbose"),
    "cp": flags("rRafnvipH", "", "--recursive --archive --force --no-clobber --verbose --preserve"),
}
_SED = flags("nErsz", "-e:text")
_IN_PLACE = lazy_pattern(r"(?:-i|--in-place=?)(?P<suffix>(?:\.?\w+)?)")
_SED_OTHER_SCRIPT = lazy_pattern(r"-[A-Za-z]*[ef]|--")
MAX_SCRIPT = 500
"""Characters of a script for sed that is looked at."""


GNU_SED = sys.platform == "linux"
"""Elsewhere the word after a bare `-i` is the suffix of a backup, and only then comes the script."""


def files_changed(words: Sequence[Word], *, gnu_sed: bool = GNU_SED) -> list[Access] | None:
    """List what `words` reads and changes; None where that is not fully known, or where it does anything else."""
    program, *arguments = words
    if program.dynamic or program.globs or program.raw != program.text:
        return None
    if program.text == "sed":
        return _sed(arguments if gnu_sed else _without_suffix(arguments))
    known = _FLAGS.get(program.text)
    taken = known.read(arguments) if known else None
    if taken is None or taken.mixed or not taken.operands:
        return None
    others = list(accesses("Read", taken.files))
    if program.text in ("mv", "cp"):
        return _moved_or_copied(program.text, taken.operands)
    return [*(Access("Edit", word, whole=program.text == "rm") for word in taken.operands), *others]


def _moved_or_copied(program: str, operands: Sequence[Word]) -> list[Access] | None:
    *sources, target = operands
    if not sources or target.globs:
        return None
    found = [Access("Edit", word, whole=True) if program == "mv" else Access("Grep", word) for word in sources]
    found.append(Access("Edit", target, source=sources[0] if len(sources) == 1 else None))
    for source in sources:
        # into a folder, it gets its own name there
        name = os.path.basename(source.text.rstrip("/"))
        if name in ("", ".", "..") or source.globs:
            return None
        inside = os.path.join(target.text, name)
        found.append(Access("Edit", Word(inside, raw=os.path.join(target.raw, name)), whole=True, source=source))
    return found


def _without_suffix(words: Sequence[Word]) -> list[Word]:
    """`words` for a sed whose `-i` is followed by a suffix: none when that is not known to be empty."""
    left = list(words)
    bare = [index for index, word in enumerate(left) if word.text in ("-i", "--in-place")]
    for index in reversed(bare):
        if index + 1 >= len(left) or left[index + 1].text:
            return []
        del left[index + 1]
    return left


def _sed(words: Sequence[Word]) -> list[Access] | None:
    in_place = [found for word in words if (found := _IN_PLACE.fullmatch(word.text))]
    if not in_place:
        return None
    taken = sed_arguments([word for word in words if not _IN_PLACE.fullmatch(word.text)], _SED)
    if taken is None:
        return None
    scripts, files = taken
    if not files or not all(map(only_edits, scripts)):
        return None
    suffixes = dict.fromkeys(suffix for found in in_place if (suffix := found["suffix"]))
    if suffixes and any(word.globs for word in files):
        return None  # the names of the backups show only when it runs
    backups = [Word(word.text + suffix, raw=word.raw + suffix) for suffix in suffixes for word in files]
    return list(accesses("Edit", [*files, *backups]))


def sed_arguments(words: Sequence[Word], known: Flags) -> tuple[list[str], list[Word]] | None:
    """The scripts of a sed with the flags `known`, and its files; None where it may get a script in another way."""
    scripts: list[str] = []
    for index, word in enumerate(words):
        if word.text == "-e" and index + 1 < len(words):
            scripts.append(words[index + 1].text)
        elif _SED_OTHER_SCRIPT.match(word.text):
            return None
    taken = known.read(words)
    if taken is None or taken.mixed:
        return None  # to BSD's sed the first operand is the script, whatever flags stand behind it
    files = list(taken.operands)
    if not scripts:
        if not files or files[0].globs:
            return None
        scripts = [files.pop(0).text]
    return None if sum(map(len, scripts)) > MAX_SCRIPT else (scripts, files)


_SED_ADDRESS = lazy_pattern(r"(?:\d+|\$|/(?:[^/\\\n]|\\[^\n])*/)(?:,(?:\+?\d+|\$|/(?:[^/\\\n]|\\[^\n])*/))?\s*!?\s*")
_MARK_IN_BRACKETS = lazy_pattern(r"\[\^?\]?[^\]]*[/|,#@!%:;]")
_MARKS = frozenset("/|,#@!%:")
_SED_ALONE = lazy_pattern(r"[dp=](?=\s*(?:;|\n|\Z))")


@lru_cache(maxsize=16)
def _substitution(letter: str, mark: str) -> re.Pattern[str]:
    part = rf"(?:[^\\\n{mark}]|\\[^\n])*{mark}"
    flags_of_s = "[gpiI0-9]*" if letter == "s" else ""
    return re.compile(rf"{letter}{mark}{part}{part}{flags_of_s}(?=\s*(?:;|\n|\Z))")


def only_edits(script: str) -> bool:
    """Return whether a sed script only changes lines: no `w`, `r`, `e`, no flag of `s` that writes or runs things."""
    at = 0
    if _MARK_IN_BRACKETS.search(script):
        return False  # where the pattern ends depends on which sed reads it
    while at < len(script):
        if script[at] in " ;\n":
            at += 1
            continue
        if found := _SED_ADDRESS.match(script, at):
            at = found.end()
        found = _SED_ALONE.match(script, at)
        if found is None and script[at : at + 1] in ("s", "y") and script[at + 1 : at + 2] in _MARKS:
            found = _substitution(script[at], re.escape(script[at + 1])).match(script, at)
        if found is None:
            return False
        at = found.end()
    return True
