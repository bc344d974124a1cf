"""The numbers of an answer that is JSON: each numeric leaf with its path, whose names stand for the words beside it."""

from __future__ import annotations

from collections.abc import Iterator

from cellwright.features.numbers.written import MOST_NUMBERS, WrittenNumber, number_of
from cellwright.text import lazy_pattern

_TOKEN = lazy_pattern(
    r'"(?P<text>(?:[^"\\]|\\.)*)"|(?P<number>-?\d{1,40}(?:\.\d{1,40})?(?:[eE][+-]?\d{1,3})?)|(?P<sign>[{}\[\],:])'
)
_WORD_ENDS = lazy_pattern(r"(?<=[a-z])(?=[A-Z])|[^A-Za-z]{1,80}")


def numbers_of_json(text: str) -> Iterator[tuple[WrittenNumber, str]]:
    """Yield the numbers of `text`, which is JSON, each with its path, at most MOST_NUMBERS.

    >>> [(number.text, path) for number, path in numbers_of_json('{"towns": [{"tide_m": 2.4}, {"tide_m": 3}]}')]
    [('2.4', 'towns[0].tide_m'), ('3', 'towns[1].tide_m')]
    """
    path: list[str | int] = []
    key = ""
    many = 0
    for token in _TOKEN.finditer(text):
        if token["text"] is not None:
            key = token["text"]
        elif token["sign"] is not None:
            _follow(path, token["sign"], key)
        elif many < MOST_NUMBERS:
            digits = token["number"].lstrip("-")
            number = number_of(digits, token.end() - len(digits))
            if number is not None:
                many += 1
                yield number, _written_path(path)


def _follow(path: list[str | int], sign: str, key: str) -> None:
    """Change `path` to where the value behind `sign` is; a number is the place in a list."""
    if sign in ("{", "["):
        path.append("" if sign == "{" else 0)
    elif path and sign in ("}", "]"):
        path.pop()
    elif path and sign == ":":
        path[-1] = key
    elif path and isinstance(path[-1], int):
        path[-1] += 1


def _written_path(path: list[str | int]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


def path_words(path: str) -> str:
    """Return the words of a path, `tide_m` and `tideM` taken apart.

    >>> path_words("towns[0].highestTide_m")
    'towns highest Tide m'
    """
    return " ".join(part for part in _WORD_ENDS.split(path) if part)
