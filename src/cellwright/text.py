"""Text made honest and safe: what hides, reorders or pads it made visible, fenced, and encodable everywhere.

Hidden characters are made visible for people who decide by what they read: permission cards, previews, lists of
rules. A fence is one that nothing in its text can end. A lone half of a surrogate pair would end whatever has to send
it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Any, AnyStr, Generic, cast


class _LazyPattern(Generic[AnyStr]):
    """Stands in for `re.compile(pattern, flags)`. From any thread: compiled twice, it is the same."""

    def __init__(self, pattern: AnyStr, flags: int) -> None:
        self.pattern: AnyStr = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        value = getattr(re.compile(self.pattern, self._flags), name)
        setattr(self, name, value)  # the next time it is there, and this not called
        return value

    def __repr__(self) -> str:
        return f"lazy_pattern({self.pattern!r})"


def lazy_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Like `re.compile`, but compiled when it is first used, which is when a fault in it is raised.

    A session meets few of the hundreds of patterns that modules name, and compiling all was a sixth of its start. It has a
    pattern's methods, and cannot be given to functions of `re`.
    """
    return cast("re.Pattern[AnyStr]", _LazyPattern(pattern, flags))


LONGEST_WORD = 400
LONG_BLANK = 40
"""More spaces in a row than this push the rest of a line out of sight."""
MANY_EMPTY_LINES = 4

_UNSEEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
# letters and marks by category, yet nothing is drawn: fillers, joiners, blank Braille, variation selectors
_UNSEEN_LETTERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u2800\u3164\uffa0") | frozenset(
    chr(code) for code in (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))
)
_BLANKS = lazy_pattern(f" {{{LONG_BLANK + 1},}}")
_EMPTY_LINES = lazy_pattern(rf"(?:\n[ \t]*){{{MANY_EMPTY_LINES + 1},}}(?=\n)")


def is_unseen(character: str) -> bool:
    """Return whether `character` is not drawn, or changes how others are drawn. Space, tab and newline are seen."""
    if character in " \t\n" or "!" <= character <= "~":
        return False
    return unicodedata.category(character) in _UNSEEN_CATEGORIES or character in _UNSEEN_LETTERS


def unseen_characters(text: str) -> list[str]:
    """The characters of `text` that a reader would not see, each once, in order, as `U+202E`."""
    if text.isascii() and text.isprintable():
        return []
    return list(dict.fromkeys(_code_point(character) for character in text if is_unseen(character)))


def visible(text: str) -> str:
    """`text` with every unseen character as ⟨U+202E⟩, and with long blanks and runs of empty lines as their count."""
    if not (text.isascii() and text.isprintable()):
        text = "".join(f"⟨{_code_point(character)}⟩" if is_unseen(character) else character for character in text)
        text = _EMPTY_LINES.sub(lambda blank: f"\n⟨{blank[0].count(chr(10))} empty lines⟩", text)
    return _BLANKS.sub(lambda blank: f" ⟨{len(blank[0])} spaces⟩ ", text)


_ODD_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_ODD_BLANKS = "\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
LOOK_ALIKES: dict[int, str] = {
    **{ord(each): "-" for each in _ODD_DASHES},
    **{ord(each): " " for each in _ODD_BLANKS},
    **{ord(each): "'" for each in "\u2018\u2019\u201a\u201b\u2032\u00b4`"},
    **{ord(each): '"' for each in "\u201c\u201d\u201e\u201f\u2033"},
    0: "\u2400",
}
"""A table for `str.translate`: characters that look alike, as one; one for one, so that places stay."""


def look_alike_words(there: str, sought: str, name: str) -> str:
    """The characters in which `there` differs from `sought` (called `name`), which looks the same, and how to write them."""
    pairs = dict.fromkeys((one, other) for one, other in zip(there, sought, strict=True) if one != other)
    return "; ".join(
        f"{_character_name(one)} where {name} has {_character_name(other)}" for one, other in list(pairs)[:5]
    )


def _character_name(character: str) -> str:
    if character == "\0":
        return "a null byte (\\u0000)"

    name = unicodedata.name(character, "a character").lower()
    return name if character.isascii() else f"{name} (\\u{ord(character):04x})"


def visible_line(text: str, width: int = 120) -> str:
    """`text` as one visible line of at most `width` characters; line ends show as ⏎."""
    line = visible(text.strip()).replace("\n", " ⏎ ")
    return line if len(line) <= width else line[: width - 1] + "…"


def _code_point(character: str) -> str:
    return f"U+{ord(character):04X}"


_TRACEBACK = lazy_pattern(
    r"""^(?:Traceback[ ]\(most[ ]recent[ ]call[ ]last\):|[ ]+File[ ]"[^\n]+",[ ]line[ ]\d+)[^\n]*\n  # its head
    (?:[ \t|+][^\n]*\n|[ \t]*\n)*""",  # its frames are indented; what follows is the error
    re.MULTILINE | re.VERBOSE,
)


def without_traceback(text: str) -> str:
    """The error in which `text` ends, without the way there: `KeyError: 'b'`; `text` itself where it has no traceback.

    >>> without_traceback("1 row\\nTraceback (most recent call last):\\n  File 'a.py', line 1\\nKeyError: 'b'")
    "KeyError: 'b'"
    """
    *_, last = (None, *_TRACEBACK.finditer(text))
    error = text[last.end() :] if last else ""
    return error if error.strip() else text


_ESCAPES = lazy_pattern(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


def plain(text: str) -> str:
    """`text` as it would stand on a screen in the end: no escape sequences, and overwritten lines as they were last."""
    lines = _ESCAPES.sub("", text).split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)


def purposeful(purpose: str, what: str, width: int = 120) -> str:
    """One line that says what a step is, and in brackets what it is for, if its author said so.

    >>> purposeful("Count the files.", "ls | wc -l"), purposeful("", "ls")
    ('ls | wc -l (Count the files)', 'ls')
    """
    purpose = visible_line(" ".join(purpose.split()).rstrip(".:"), width // 2)
    said = f" ({purpose})" if purpose else ""
    return f"{visible_line(what, width - len(said))}{said}"


def longest_run(character: str, text: str) -> int:
    """Count how often `character` stands in a row in `text`, at most."""
    if character not in text:
        return 0
    return max((len(run) for run in re.findall(f"{re.escape(character)}+", text)), default=0)


def code_fence(text: str) -> str:
    """The fence of a code block that holds `text`: three backticks, or more than it has in a row."""
    return "`" * max(3, longest_run("`", text) + 1)


def replace_surrogates(text: str) -> str:
    """`text` with surrogate pairs joined and lone surrogates replaced: those cannot be encoded as UTF-8."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def replace_surrogates_in(value: Any) -> Any:
    """JSON with `replace_surrogates` done to every string in it, keys apart; the same object where that changes nothing."""
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, Mapping):
        changed = {key: replace_surrogates_in(item) for key, item in value.items()}
        return changed if any(changed[key] is not value[key] for key in changed) else value
    if isinstance(value, list):
        items = [replace_surrogates_in(item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return value


def map_strings(value: Any, change: Callable[[str], str]) -> Any:
    """`value` (JSON) with every string in it changed, keys apart."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: map_strings(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [map_strings(item, change) for item in value]
    return value


def strings_in(value: Any) -> list[str]:
    """Every string in `value` (JSON), keys apart, in order."""
    found: list[str] = []
    _add_strings(value, found)
    return found


def _add_strings(value: Any, found: list[str]) -> None:
    if isinstance(value, str):
        found.append(value)
    elif value is None or isinstance(value, int | float):
        return  # asking whether a number is a mapping takes longer
    elif isinstance(value, Mapping):
        for item in value.values():
            _add_strings(item, found)
    elif isinstance(value, list | tuple):
        for item in value:
            _add_strings(item, found)


def word_end(text: str, limit: int) -> int:
    """Return where to cut `text` so that at most `limit` characters stay and no word of up to LONGEST_WORD is cut in two.

    Half a secret would not be recognised as one by what looks for them later.

    >>> text = "the key sk-123456"
    >>> text[: word_end(text, 12)], text[: word_end(text, 99)]
    ('the key ', 'the key sk-123456')
    """
    if not 0 < limit < len(text):
        return max(0, min(limit, len(text)))
    for at in range(limit, max(limit - LONGEST_WORD, 0), -1):
        if text[at].isspace() or text[at - 1].isspace():
            return at
    return limit


def counted(number: int, noun: str) -> str:
    """`1 line`, `2 lines`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def grouped_notices(notices: Iterable[str]) -> list[str]:
    """One notice for each file or thing (`NAME: …`), with all that is said of it, where the first was; the others once.

    >>> grouped_notices(["a.json: `x` is not a key.", "No key.", "a.json: `y` is not a list."])
    ['a.json:\\n- `x` is not a key.\\n- `y` is not a list.', 'No key.']
    """
    found: dict[str, list[str]] = {}
    for notice in notices:
        name, colon, words = notice.partition(": ")
        # a sentence that happens to have a colon is about nothing of its own
        is_named = bool(colon) and "\n" not in name and not name.endswith(("`", '"'))
        said = found.setdefault(name if is_named else notice, [])
        if (text := words if is_named else "") not in said:
            said.append(text)
    told: list[str] = []
    for name, said in found.items():
        if any(said):
            told.append(f"{name}: {said[0]}" if len(said) == 1 else "\n- ".join([f"{name}:", *said]))
        else:
            told.append(name)
    return told


def dollars(amount: float) -> str:
    """An amount of US dollars, with at least two digits that count. The browser's `dollars` says the same.

    >>> dollars(1.5), dollars(0.0214), dollars(0.0042), dollars(0.00004)
    ('$1.50', '$0.021', '$0.0042', 'under $0.0001')
    """
    if 0 < amount < 0.0001:
        return "under $0.0001"
    digits = 2 if amount >= 0.1 or amount == 0 else 3 if amount >= 0.01 else 4
    return f"${amount:.{digits}f}"
