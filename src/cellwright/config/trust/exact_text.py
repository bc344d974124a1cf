"""Text of a folder, a plugin or a server as a person who consents reads it: no two texts look alike, and none is cut.

What is drawn like something else, or not at all, is followed by its code points: `сurl` with a Cyrillic letter reads
`с⟨U+0441⟩url`. Letters of Latin script with their accents stay as they are.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from cellwright.text import is_unseen, lazy_pattern

_BLANKS = lazy_pattern(r"^ +| +$| {5,}")
_PLAIN_WORD = lazy_pattern(r"[\w./:=@%+,{}$~-]+", re.ASCII)
_LINE_END = "⏎"
# letters of Latin script that no accent can be taken from and that are like no other
_PLAIN_LETTERS = frozenset("ßæøåÆØÅœŒłŁđĐþÞðÐ")


def exact(text: str) -> str:
    """`text` in one line, whole, so that another text reads otherwise.

    >>> exact("a\\tb ") + exact("\\u0441url")
    'a⟨U+0009⟩b⟨1 space⟩с⟨U+0441⟩url'
    """
    if not (text.isascii() and text.isprintable()):
        text = _marked(text)
    return _BLANKS.sub(_counted, text)


def exact_json(value: Any) -> str:
    """A value of JSON, as `exact` writes texts."""
    return exact(json.dumps(value, ensure_ascii=False, sort_keys=True, default=str))


def program_lines(program: str, args: Sequence[str]) -> list[str]:
    """A program with its arguments: in one line if that can be read in one way, else each argument in a line.

    >>> program_lines("node", ["x.js"]), program_lines("sh", ["-c", "a b"])
    (['node x.js'], ['sh', 'args[0]: -c', 'args[1]: a b'])
    """
    if all(map(_PLAIN_WORD.fullmatch, (program, *args))):
        return [" ".join([program, *args])]
    return [exact(program), *(f"args[{number}]: {exact(each)}" for number, each in enumerate(args))]


def block(head: str, *details: str) -> str:
    """An entry of a list: its first line, and what belongs to it in lines below."""
    return "\n".join([head, *(f"    {line}" for line in details)])


def bulleted(texts: list[str]) -> str:
    """The entries of a list, each behind a dash, with those lines of an entry that follow its first further in.

    Entries that read alike are numbered, so that each is there.
    """
    count = {text: texts.count(text) for text in texts}
    seen: dict[str, int] = {}
    lines = []
    for text in texts:
        seen[text] = number = seen.get(text, 0) + 1
        same = f" ({number} of {count[text]} that read alike)" if count[text] > 1 else ""
        head, *rest = text.split("\n")
        lines += [f"  - {head}{same}", *(f"    {line}" for line in rest)]
    return "\n".join(lines)


def _marked(text: str) -> str:
    done: list[str] = []
    run = ""
    for character in text:
        unseen = is_unseen(character) or character == "\t"
        if not unseen and not _as_it_seems(character) and character != "\n":
            run += character
            continue
        done.append(_with_points(run))
        run = ""
        done.append(_LINE_END if character == "\n" else f"⟨{_point(character)}⟩" if unseen else character)
    return "".join([*done, _with_points(run)])


def _as_it_seems(character: str) -> bool:
    if " " <= character <= "~" or character in _PLAIN_LETTERS:
        return True
    base = unicodedata.normalize("NFD", character)[0]
    # a form that normalises to another character is that one's look-alike, as the signs of Kelvin and Angstrom are
    return base.isascii() and base.isalpha() and unicodedata.is_normalized("NFKC", character)


def _with_points(run: str) -> str:
    return f"{run}⟨{' '.join(map(_point, run))}⟩" if run else ""


def _point(character: str) -> str:
    return f"U+{ord(character):04X}"


def _counted(blank: re.Match[str]) -> str:
    return f"⟨{len(blank[0])} space{'s' if len(blank[0]) > 1 else ''}⟩"
