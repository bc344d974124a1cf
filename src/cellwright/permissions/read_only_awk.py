"""Programs of awk that only compute and print: a list of what they may be made of, in an order that is known.

awk itself can run commands and write files (`system`, `print > "x"`, `|`, `getline`). So a program passes only if each
of its tokens is listed and their sequence is one of `_PROGRAM`: no call, and no `>` where something is printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from cellwright.permissions.shell.command_paths import Access, accesses
from cellwright.permissions.shell.read_only.commands import flags
from cellwright.permissions.shell.tokens import Word

_FLAGS = flags("", "-F:text")
MAX_LENGTH = 300
"""Characters of a program that is looked at."""

_TOKEN = re.compile(
    r"""(?P<blank>\ +)
    |(?P<end>[;\n])
    |(?P<value>\$(?:\d{1,4}|NF|\(NF-\d{1,4}\))(?!\w)|\d{1,12}(?:\.\d{1,9})?(?![\w.])|"(?:[^"\\\n]|\\[tn])*")
    |(?P<name>[A-Za-z_]\w*)
    |(?P<compares>[=!<>]=|[<>])
    |(?P<matches>!?~)
    |(?P<both>&&|\|\|)
    |(?P<increments>\+\+)
    |(?P<assigns>\+=|=)
    |(?P<operates>[-+*%])
    |(?P<divides>/)
    |(?P<mark>[{}(),\[\]])""",
    re.VERBOSE | re.ASCII,
)
_KINDS = {
    **{"end": ";", "value": "n", "compares": "c", "matches": "t", "both": "b"},
    **{"increments": "i", "assigns": "a", "operates": "o", "divides": "d"},
}
_NAMES = {
    **{"print": "p", "BEGIN": "E", "END": "E", "for": "f", "in": "h"},
    **dict.fromkeys(("NR", "NF", "FNR", "FILENAME"), "n"),
    **dict.fromkeys((*"abcdefghijklmnopqrstuvwxyz", "sum", "count", "total", "max", "min"), "v"),
}
# without `[`, `\` and `/` there is one reading of where it ends
_PATTERN = re.compile(r"/[^/\\\[\n]*/")
_BEFORE_PATTERN = frozenset(("", ";", "}", "b", "t"))

_PLACE = r"v(?:\[[nv](?:,[nv])*\])?"
_TEXT = rf"(?:n|{_PLACE})(?:[od]?(?:n|{_PLACE}))*"
_STATEMENT = rf"(?:f\(vhv\))?(?:p(?:{_TEXT}(?:,{_TEXT})*)?|{_PLACE}(?:a{_TEXT}|i))"
_BLOCK = rf"\{{;*(?:{_STATEMENT}(?:;+{_STATEMENT})*;*)?\}}"
_CONDITION = rf"(?:R|{_TEXT}c{_TEXT}|{_TEXT}tR)"
_WHEN = rf"(?:E|{_CONDITION}(?:b{_CONDITION})*)"
_PROGRAM = re.compile(rf";*(?:(?:(?:{_WHEN})?{_BLOCK};*)+|{_WHEN};*)")


def awk_reads(words: Sequence[Word]) -> list[Access] | None:
    """What awk with the arguments `words` reads; None where it is not known to only read and print."""
    taken = _FLAGS.read(words)
    if taken is None or not taken.operands or taken.operands[0].globs:
        return None
    program, *files = taken.operands
    if not only_prints(program.text) or any(file.text.startswith("/inet") for file in files):
        return None  # gawk connects to what is called like that
    return list(accesses("Read", (file for file in files if file.text != "-")))


def only_prints(program: str) -> bool:
    """Whether all that `program` can do is to compute and print."""
    if len(program) > MAX_LENGTH:
        return False
    kinds = "".join(_kinds(program))
    if "d" in kinds and program.count("/") > 1:
        return False  # two of them might be taken for a pattern, and what is between for its text
    return _PROGRAM.fullmatch(kinds) is not None


def _kinds(program: str) -> Iterator[str]:
    """One letter for each token; `?` where one is not known."""
    at, before = 0, ""
    while at < len(program):
        found = _PATTERN.match(program, at) if before in _BEFORE_PATTERN else None
        if found is not None:
            before = "R"
        elif (found := _TOKEN.match(program, at)) is None:
            yield "?"
            return
        elif found.lastgroup == "blank":
            at = found.end()
            continue
        elif found.lastgroup == "name":
            before = _NAMES.get(found[0], "?")
        else:
            before = _KINDS.get(str(found.lastgroup), found[0])
        yield before
        at = found.end()
