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
    left = MOST_NUMBERS
    for token in _TOKEN.finditer(text):
        sign = token["sign"]
        if token["text"] is not None:
            key = token["text"]
        elif token["number"] is not None:
            number = number_of(token["number"].lstrip("-"), token.end() - len(token["number"].lstrip("-")))
            if number is not None:
                yield number, _written_path(path)
                left -= 1
            if left == 0:
                return
        elif sign == "{":
            path.append("")
        elif sign == "[":
            path.append(0)
        elif sign == ":" and path:
            path[-1] = key
        elif sign == "," and path and isinstance(path[-1], int):
            path[-1] += 1
        elif sign in ("}", "]") and path:
            path.pop()


def _written_path(path: list[str | int]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


def path_words(path: str) -> str:
    """Return the words of a path, `tide_m` and `tideM` taken apart.

    >>> path_words("towns[0].highestTide_m")
    'towns highest Tide m'
    """
    return " ".join(part for part in _WORD_ENDS.split(path) if part)
