"""Read-only forms of programs whose arguments are a small language: find, sed, jq, test, printf, date, echo, cd."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from cellwright.permissions.shell.analysis import folder_named
from cellwright.permissions.shell.command_paths import HERE, Access, accesses
from cellwright.permissions.shell.mutating_commands import only_edits
from cellwright.permissions.shell.read_only.commands import READERS, flags, is_exit_status
from cellwright.permissions.shell.words import EXIT_STATUS, SUBSTITUTION, Word
from cellwright.text import lazy_pattern

_ABSENT: list[Access] = []


def files_read(words: Sequence[Word]) -> list[Access] | None:
    """List what the simple command `words` reads; None where it is not known to only read.

    Git is judged by `git.py`: what it does depends on the repository too.
    """
    program, *arguments = words
    if program.dynamic or program.globs or program.raw != program.text:
        return None  # `l\\s`: who writes a name like that hides it from a reader
    if own := _LANGUAGES.get(program.text):
        return own(arguments)
    if program.text not in READERS:
        return None
    known, find = READERS[program.text]
    readings = known.readings(arguments)
    if readings is None:
        return None
    found: dict[Access, None] = {}
    for taken in readings:
        used = find(taken)
        if used is None:
            return None
        found.update(dict.fromkeys(used))
    return list(found)


def _echo(words: Sequence[Word]) -> list[Access] | None:
    # what a substitution runs is judged by itself; whatever it prints, echo only prints it
    if any(word.dynamic not in ("", EXIT_STATUS, SUBSTITUTION) for word in words):
        return None
    return list(accesses("LS", (word for word in words if word.globs)))


_SETS_VARIABLE = lazy_pattern(r"%[-+ #'0-9.*]*[hjlLtz]*n")


def _printf(words: Sequence[Word]) -> list[Access] | None:
    # `-v` and `%n` set a variable
    if not words or words[0].text.startswith("-") or _SETS_VARIABLE.search(words[0].text.replace("%%", "")):
        return None
    return _echo(words) if not words[0].dynamic else None


def _exit(words: Sequence[Word]) -> list[Access] | None:
    fixed = len(words) <= 1 and all(is_exit_status(word) or word.text.isdecimal() for word in words)
    return _ABSENT if fixed else None


_TESTS_OF_FILES = frozenset("-" + letter for letter in "edfrwxsLhbcpSgukOGN")
_TESTS_OF_TEXT = frozenset({"-n", "-z"})
_COMPARISONS = frozenset({"=", "==", "!=", "-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_COMPARISONS_OF_FILES = frozenset({"-nt", "-ot", "-ef"})


def _test(words: Sequence[Word]) -> list[Access] | None:
    if any((word.dynamic and not is_exit_status(word)) or word.globs for word in words):
        return None
    found: list[Word] = []
    left = list(words)
    while left:
        first = left.pop(0)
        if first.text in ("!", "(", ")", "-a", "-o"):
            continue
        if first.text in _TESTS_OF_FILES and left:
            found.append(left.pop(0))
        elif first.text in _TESTS_OF_TEXT and left:
            left.pop(0)
        elif len(left) > 1 and left[0].text in _COMPARISONS:
            del left[:2]
        elif len(left) > 1 and left[0].text in _COMPARISONS_OF_FILES:
            found += [first, left[1]]
            del left[:2]
        elif first.text.startswith("-"):
            return None  # `-v 'a[$(x)]'` runs x
    return list(accesses("LS", found))


def _bracket(words: Sequence[Word]) -> list[Access] | None:
    return _test(words[:-1]) if words and words[-1].text == "]" else None


_DATE = flags(
    "uRj",
    "-d:text --date:text -I:=text --iso-8601:=text --rfc-3339:=text -r:file --reference:file",
    "--utc --universal --rfc-email",
)


def _date(words: Sequence[Word]) -> list[Access] | None:
    taken = _DATE.read(words)
    # what does not start with `+` sets the clock
    if taken is None or taken.mixed or not all(word.text.startswith("+") and not word.globs for word in taken.operands):
        return None
    return list(accesses("LS", taken.files))


_FIND_WITH_TEXT = frozenset(
    f"-{name}"
    for name in (
        *("name", "iname", "path", "ipath", "wholename", "iwholename", "regex", "iregex", "regextype", "type", "xtype"),
        *("maxdepth", "mindepth", "size", "mtime", "mmin", "atime", "amin", "ctime", "cmin", "perm", "user", "group"),
        *("links", "inum", "newermt", "printf", "uid", "gid", "depth"),
    )
)
_FIND_ALONE = frozenset(
    {
        *("-print", "-print0", "-ls", "-empty", "-prune", "-quit", "-true", "-false", "-not", "!", "-o", "-or", "-a"),
        *("-and", "(", ")", ",", "-xdev", "-mount", "-readable", "-writable", "-executable", "-nouser", "-nogroup"),
        *("-noleaf", "-daystart"),
    }
)
_FIND_WITH_FILE = frozenset({"-newer", "-anewer", "-cnewer", "-samefile"})


def _find(words: Sequence[Word]) -> list[Access] | None:
    if any(word.dynamic or word.may_become_flag for word in words):
        return None
    left = list(words)
    while left and left[0].text in ("-H", "-P", "-E"):
        del left[0]
    folders: list[Word] = []
    while left and not left[0].text.startswith(("-", "(", ")", "!", ",")):
        folders.append(left.pop(0))
    compared: list[Word] = []
    while left:
        first = left.pop(0)
        if first.globs:
            return None
        if first.text == "-depth" and not (left and left[0].text.isdecimal()):
            continue
        if first.text in _FIND_WITH_TEXT and left and not left[0].globs:
            left.pop(0)
        elif first.text in _FIND_WITH_FILE and left:
            compared.append(left.pop(0))
        elif first.text not in _FIND_ALONE:
            return None
    return [*accesses("LS", folders or [HERE]), *accesses("LS", compared)]


_SED_LINE = r"(?:\d+|\$|/(?:[^/\\\n]|\\[^\n])*/)"
_SED_PRINTS = lazy_pattern(rf"\s*(?:{_SED_LINE}(?:,\s*(?:\+?\d+|{_SED_LINE}))?\s*!?\s*[p=qd]|[p=])?\s*")
_SED = flags("nErsuz", "-e:text")
MAX_SCRIPT = 500
"""Characters of a script for sed that is looked at."""
_SED_OTHER_SCRIPT = lazy_pattern(r"-[A-Za-z]*e|--")


def _sed(words: Sequence[Word]) -> list[Access] | None:
    """Only lines that are printed or edited on their way: each other command of sed may write or run something."""
    scripts: list[str] = []
    for index, word in enumerate(words):
        if word.text == "-e" and index + 1 < len(words):
            scripts.append(words[index + 1].text)
        elif _SED_OTHER_SCRIPT.match(word.text):
            return None
    taken = _SED.read(words)
    if taken is None or taken.mixed:
        return None  # to BSD's sed the first operand is the script, whatever flags stand behind it
    files = taken.operands
    if not scripts:
        if not files or files[0].globs:
            return None
        scripts, files = [files[0].text], files[1:]
    if sum(map(len, scripts)) > MAX_SCRIPT:
        return None
    if not all(only_edits(script) or _only_prints(script) for script in scripts):
        return None
    return list(accesses("Read", (word for word in files if word.text != "-")))


def _only_prints(script: str) -> bool:
    return all(_SED_PRINTS.fullmatch(part) for part in re.split(r"[;\n]", script))


_JQ = flags(
    "rcesSnMCaj0",
    "--indent:number",
    "--raw-output --compact-output --exit-status --slurp --sort-keys --null-input --monochrome-output --color-output"
    " --ascii-output --join-output --raw-input --tab --stream",
    one_program=True,
)
_JQ_REACHES_OUT = lazy_pattern(r"\benv\b|\$ENV|\bimport\b|\binclude\b|\bmodulemeta\b|get_search_list|\$__prog")


def _jq(words: Sequence[Word]) -> list[Access] | None:
    taken = _JQ.read(words)
    if taken is None or not taken.operands or taken.operands[0].globs:
        return None
    if _JQ_REACHES_OUT.search(taken.operands[0].text):
        return None
    return list(accesses("Read", taken.operands[1:]))


def _cd(words: Sequence[Word]) -> list[Access] | None:
    folder = folder_named((Word("cd", raw="cd"), *words))
    return None if folder is None else [Access("LS", Word(folder, raw=folder))]


def _command(words: Sequence[Word]) -> list[Access] | None:
    looks = len(words) > 1 and words[0].text in ("-v", "-V")
    return _ABSENT if looks and not any(word.dynamic or word.globs for word in words) else None


def _version(words: Sequence[Word]) -> list[Access] | None:
    # of these programs alone: others look for plug-ins of the project first
    return _ABSENT if [word.text for word in words] in (["--version"], ["-V"], ["-VV"]) else None


def _long_version(words: Sequence[Word]) -> list[Access] | None:
    return _ABSENT if [word.text for word in words] == ["--version"] else None


_LANGUAGES: Mapping[str, Callable[[Sequence[Word]], list[Access] | None]] = {
    "echo": _echo,
    "printf": _printf,
    "exit": _exit,
    "test": _test,
    "[": _bracket,
    "date": _date,
    "find": _find,
    "sed": _sed,
    "jq": _jq,
    "cd": _cd,
    "pushd": _cd,
    "command": _command,
    **dict.fromkeys(("python", "python3", "bash"), _version),
    **dict.fromkeys(("git", "gcc", "g++", "nvcc", "node", "cmake", "ruff", "docker"), _long_version),
}
