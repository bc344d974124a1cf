"""What bash makes of braces: `a{b,c}d` is `abd acd`, `{1..3}` is `1 2 3`."""

from __future__ import annotations

import re

MAX_WORDS = 200
"""Words that one word is expanded to; the rest is left as it is."""

MAX_LENGTH = 2_000
"""Characters of a word; a longer one is no file's name."""

_OPEN, _CLOSE = "\x01", "\x02"
"""Braces that stay: there is nothing to choose from between them."""
_BACK = str.maketrans(_OPEN + _CLOSE, "{}")
_INNERMOST = re.compile(r"\{(?P<inside>[^{}]*)\}")
_SEQUENCE = re.compile(r"(?P<first>-?\d{1,6}|[A-Za-z])\.\.(?P<last>-?\d{1,6}|[A-Za-z])(?:\.\.-?\d{1,6})?")


def expanded_braces(text: str) -> str:
    """`text`, without quotes, with each word in the place of what bash makes of it; steps of sequences are not left out."""
    pieces = re.split(r"(\s+)", text)
    return "".join(" ".join(_expanded(each)) if "{" in each and len(each) <= MAX_LENGTH else each for each in pieces)


def _expanded(word: str) -> list[str]:
    # the innermost braces first: the order of the words is another than bash's, the words are the same
    words, done = [word], list[str]()
    while words and len(words) + len(done) < MAX_WORDS:
        first = words.pop()
        found = _INNERMOST.search(first)
        if found is None:
            done.append(first)
            continue
        words += [first[: found.start()] + each + first[found.end() :] for each in _alternatives(found["inside"])]
    return [word.translate(_BACK) for word in (*done, *words)]


def _alternatives(inside: str) -> list[str]:
    if "," in inside:
        return inside.split(",")
    sequence = _SEQUENCE.fullmatch(inside)
    if sequence is None or sequence["first"].isalpha() != sequence["last"].isalpha():
        return [f"{_OPEN}{inside}{_CLOSE}"]
    first, last = sequence["first"], sequence["last"]
    one, other = (ord(first), ord(last)) if first.isalpha() else (int(first), int(last))
    low, high = min(one, other), max(one, other)
    return [chr(each) if first.isalpha() else str(each) for each in range(low, min(high, low + MAX_WORDS) + 1)]
