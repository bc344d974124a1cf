"""The steps of an answer that is over fold into one line, with the remarks between them: what a person reads stays in sight.

The transcript in the page folds the same stretches (`labextension/src/transcript/items/folded_steps.ts`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TypeVar

from cellwright.events import change_words
from cellwright.text import counted, lazy_pattern

ACCEPT = "AcceptPreview"
"""The call that asks which changes of a preview are accepted (`features/preview`): the steps changed copies alone."""

REMARK_CHARS = 300
"""A longer text is more than a remark between steps: somebody may want to read it."""

_HAS_BLOCKS = lazy_pattern(
    r"^ {0,3}(?:#{1,6} |```|~~~|\||[-*+] |\d+[.)] |>)|\S\n[ \t]*\n\s*\S", re.MULTILINE
)  # a table, a heading, a list, code: an answer
_FILE = lazy_pattern(r"^--- ([^\n]*)\n\+\+\+ ([^\n]*)$", re.MULTILINE)
_CELL = lazy_pattern(r"(?<=\.ipynb)#.*$")

Part = TypeVar("Part")


def is_remark(text: str) -> bool:
    """Return whether a text is a word between steps, and no answer."""
    said = text.strip()
    return len(said) <= REMARK_CHARS and _HAS_BLOCKS.search(said) is None


def stretches(
    parts: Sequence[Part], is_step: Callable[[Part], bool], is_call: Callable[[Part], bool], stays: set[int]
) -> Iterator[tuple[int, int]]:
    """Yield where stretches of steps begin and end; `stays` are the positions of parts that no stretch takes in."""
    start = 0
    for end in (*sorted(stays), len(parts)):
        last = next((at for at in range(end - 1, start - 1, -1) if is_step(parts[at])), start - 1)
        if sum(map(is_call, parts[start : last + 1])) > 1:
            yield start, last + 1
        start = end + 1


def changed_names(diff: str) -> Iterator[str]:
    """Yield the names of the files and cells (`analysis.ipynb#c4`) that `diff` changes."""
    for before, after in _FILE.findall(diff):
        name = before if after.startswith("/dev/null") else after
        yield name.removeprefix("a/").removeprefix("b/").partition("\t")[0].strip()


def steps_title(
    steps: int, ended: Iterable[tuple[str, int]], names: Iterable[str], whole: Collection[str], lines: tuple[int, int]
) -> str:
    """Word the line: `10 steps · 1 failed · 1 file, 2 cells +11 −2`; `ended` counts what did not succeed, by its word.

    `names` are those of changed files and cells, `whole` the files that the run's last line counts: a notebook that is open
    nowhere is one.
    """
    names = list(dict.fromkeys(file if (file := _CELL.sub("", name)) in whole else name for name in names))
    cells = sum(_CELL.search(name) is not None for name in names)
    what = names[0] if len(names) == 1 and not cells else change_words(len(names) - cells, cells)
    added, removed = lines
    return " · ".join(
        [
            counted(steps, "step"),
            *(f"{number} {word}" for word, number in ended if number),
            *([f"{what} +{added} −{removed}"] if names else []),
        ]
    )
