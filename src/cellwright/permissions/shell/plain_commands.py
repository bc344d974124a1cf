"""Commands whose words say all that they do: those that can only read and print, and those that change files alone.

What reads runs without asking, with the flags for which that is known. A flag that is not listed makes the command one that
asks. No program that reaches the network, runs another program or writes a file is among them; of those that can, only the
flags that do not, and of those whose arguments are a small language (find, sed, jq, test, printf, date) only the words that
do not. `docs/decisions/read-only-shell.md` says why.

What changes files and nothing else (mkdir, touch, rm, rmdir, mv, cp, sed -i) names the files that it changes.
"""

# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH118, PTH119
from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from cellwright.permissions.shell.analysis import LOOP, folder_named
from cellwright.permissions.shell.command_paths import HERE, Access, Use, accesses
from cellwright.permissions.shell.flags import Arguments, Flags, flags
from cellwright.permissions.shell.reading import EXIT_STATUS, SUBSTITUTION, Word
from cellwright.text import lazy_pattern

_FLAGS: Mapping[str, Flags] = {
    "mkdir": flags("pv", "-m:text --mode:text", "--parents --verbose"),
    "touch": flags("acm", "-d:text -t:text --date:text --time:text -r:file --reference:file", "--no-create"),
    "rm": flags("rRfvdiI", "", "--recursive --force --verbose --dir --one-file-system"),
    "rmdir": flags("v", "", "--verbose --ignore-fail-on-non-empty"),
    "mv": flags("fnvi", "", "--force --no-clobber --verbose"),
    "cp": flags("rRafnvipH", "", "--recursive --archive --force --no-clobber --verbose --preserve"),
}
_SED_IN_PLACE = flags("nErsz", "-e:text")
_IN_PLACE = lazy_pattern(r"(?:-i|--in-place=?)(?P<suffix>(?:\.?\w+)?)")
_SED_OTHER_SCRIPT = lazy_pattern(r"-[A-Za-z]*[ef]|--")


GNU_SED = sys.platform == "linux"
"""Elsewhere the word after a bare `-i` is the suffix of a backup, and only then comes the script."""

Finder = Callable[[Arguments], list[Access] | None]


def files_changed(words: Sequence[Word], *, gnu_sed: bool = GNU_SED) -> list[Access] | None:
    """List what `words` reads and changes; None where that is not fully known, or where it does anything else."""
    program, *arguments = words
    if program.dynamic or program.globs or program.raw != program.text:
        return None
    if program.text == "sed":
        return _sed_in_place(arguments if gnu_sed else _without_suffix(arguments))
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


def _sed_in_place(words: Sequence[Word]) -> list[Access] | None:
    in_place = [found for word in words if (found := _IN_PLACE.fullmatch(word.text))]
    if not in_place:
        return None
    taken = sed_arguments([word for word in words if not _IN_PLACE.fullmatch(word.text)], _SED_IN_PLACE)
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
    # characters of a script for sed that is looked at
    return None if sum(map(len, scripts)) > 500 else (scripts, files)


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


def _files(use: Use, *, recursive: Sequence[str] = (), at_most: int | None = None, or_here: bool = False) -> Finder:
    """The operands are files, used as `use` says; with a flag of `recursive`, so is all below them."""

    def find(arguments: Arguments) -> list[Access] | None:
        operands = [word for word in arguments.operands if word.text != "-"]
        if at_most is not None and (len(arguments.operands) > at_most or any(word.globs for word in operands)):
            return None
        deep = not arguments.flags.isdisjoint(recursive)
        if (or_here or deep) and not arguments.operands:
            operands = [HERE]
        return [*accesses("Grep" if deep else use, operands), *accesses("Read", arguments.files)]

    return find


def _text(arguments: Arguments) -> list[Access] | None:
    return None if any(word.globs for word in arguments.operands) else list(accesses("Read", arguments.files))


def _pattern_and_files(*, recursive: Sequence[str] = (), always_deep: bool = False) -> Finder:
    def find(arguments: Arguments) -> list[Access] | None:
        operands = arguments.operands
        if arguments.flags.isdisjoint(("-e", "-f", "--regexp", "--file", "--files")):
            if not operands or operands[0].globs:
                return None
            operands = operands[1:]
        deep = always_deep or not arguments.flags.isdisjoint(recursive)
        searched = [word for word in operands if word.text != "-"] or ([HERE] if deep else [])
        return [*accesses("Grep" if deep else "Read", searched), *accesses("Read", arguments.files)]

    return find


_GREP = flags(
    "EFGPiywxvcLlqsobHhnTZzraIU",
    "-e:text -f:file -m:number -A:number -B:number -C:number --regexp:text --max-count:number --context:number"
    " --include:text --exclude:text --exclude-dir:text --color:=text",
    "--extended-regexp --fixed-strings --perl-regexp --ignore-case --word-regexp --invert-match --count --quiet"
    " --files-without-match --files-with-matches --only-matching --no-filename --line-number --recursive",
    numbers=True,
    any_glob=True,
)
_RG = flags(
    "acFHhIilnNopPqsSuUvVwx0.",
    "-A:number -B:number -C:number -e:text -g:text -m:number -t:text -T:text -M:number -r:text --glob:text --type:text"
    " --max-count:number --max-depth:number --context:number --sort:text --color:text",
    "--count --ignore-case --fixed-strings --files --files-with-matches --line-number --only-matching --multiline"
    " --word-regexp --hidden --no-ignore --no-heading --heading --json --stats --version",
    one_program=True,
)
_LS = flags(
    "aAlhtrS1FdispRngocuCxmGXUfkNQvBbZ",
    "--color:=text --time-style:text --sort:text",
    "--all --almost-all --human-readable --reverse --recursive --size --group-directories-first --full-time",
    any_glob=True,
)
_LENGTHS = "-n:number -c:number --lines:number --bytes:number"
_HEAD = flags("qvz", _LENGTHS, "--quiet", numbers=True, any_glob=True)
_TAIL = flags("qvzr", _LENGTHS, "--quiet", numbers=True, any_glob=True)

READERS: Mapping[str, tuple[Flags, Finder]] = {
    "ls": (_LS, _files("LS", or_here=True)),
    "cat": (flags("nbsAeEtTvu", "", "--number", any_glob=True), _files("Read")),
    "head": (_HEAD, _files("Read")),
    "tail": (_TAIL, _files("Read")),
    "wc": (flags("lwcmL", "", "--lines --words --bytes --chars", any_glob=True), _files("Read")),
    "grep": (_GREP, _pattern_and_files(recursive=("-r", "--recursive"))),
    "rg": (_RG, _pattern_and_files(always_deep=True)),
    "uname": (flags("asnrvmpio", "", "--all"), _files("LS", at_most=0)),
    "whoami": (flags(), _files("LS", at_most=0)),
    "id": (flags("ugGnr"), _files("LS", at_most=0)),
    "nproc": (flags("", "", "--all"), _files("LS", at_most=0)),
    "pwd": (flags("LP"), _files("LS", at_most=0)),
    **dict.fromkeys(
        ("arch", "groups", "hostname", "locale", "lsblk", "lscpu", "tty", "uptime"),
        (flags(), _files("LS", at_most=0)),  # `hostname x` sets the name
    ),
    "free": (flags("bkmghtlwv", "", "--human --si --total --wide"), _files("LS", at_most=0)),
    "nvidia-smi": (
        flags(
            "Lqx",
            "-i:number -d:word --query-gpu:=text --query-compute-apps:=text --format:=text",
            "--list-gpus",
            one_program=True,
        ),
        _files("LS", at_most=0),
    ),
    "true": (flags(), _text),
    "false": (flags(), _text),
    ":": (flags(), _text),
    "sleep": (flags(), _text),
    "which": (flags("as", "", "--all"), _text),
    "type": (flags("afptP"), _text),
    "basename": (flags("az", "-s:text --suffix:text", "--multiple --zero"), _text),
    "dirname": (flags("z", "", "--zero"), _text),
    "du": (
        flags(
            "shackmbxSl0H",
            "-d:number --max-depth:number --exclude:text",
            "--summarize --human-readable --all --total --apparent-size --bytes",
            any_glob=True,
        ),
        _files("LS", or_here=True),
    ),
    "sort": (
        flags("nrufbdghiMVscCzR", "-k:text -t:text --key:text", "--numeric-sort --reverse --unique"),
        _files("Read"),
    ),
    "uniq": (
        flags("cdDuiz", "-f:number -s:number -w:number", "--count --repeated --unique --ignore-case"),
        _files("Read", at_most=1),  # the second is what it writes to
    ),
    "cut": (
        flags("snz", "-d:text -f:text -c:text -b:text --delimiter:text --fields:text", "--complement"),
        _files("Read"),
    ),
    "tr": (flags("dscCtu", "", "--delete --squeeze-repeats --complement --truncate-set1"), _text),
    "diff": (
        flags(
            "urNqsbBwiyaEZtTdpe",
            "-U:number -x:text --unified:=number --color:=text",
            "--recursive --brief",
            numbers=True,
        ),
        _files("Grep"),  # of two folders it compares what is in both
    ),
}
"""Programs whose arguments are flags and operands: each with its flags and with what finds the files it reads."""


_ABSENT: list[Access] = []


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
    fixed = len(words) <= 1 and all(word.dynamic == EXIT_STATUS or word.text.isdecimal() for word in words)
    return _ABSENT if fixed else None


_TESTS_OF_FILES = frozenset("-" + letter for letter in "edfrwxsLhbcpSgukOGN")
_TESTS_OF_TEXT = frozenset({"-n", "-z"})
_COMPARISONS = frozenset({"=", "==", "!=", "-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_COMPARISONS_OF_FILES = frozenset({"-nt", "-ot", "-ef"})


def _test(words: Sequence[Word]) -> list[Access] | None:
    if any(word.dynamic not in ("", EXIT_STATUS) or word.globs for word in words):
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


def _sed(words: Sequence[Word]) -> list[Access] | None:
    """Only lines that are printed or edited on their way: each other command of sed may write or run something."""
    taken = sed_arguments(words, _SED)
    if taken is None or not all(only_edits(script) or _only_prints(script) for script in taken[0]):
        return None
    return list(accesses("Read", (word for word in taken[1] if word.text != "-")))


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
    **dict.fromkeys(("echo", LOOP), _echo),
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
"""Programs whose arguments are a small language, and builtins: each with what finds the files it reads, if it only reads."""


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
