"""Programs that only run the command behind them: seen through where every flag of theirs is known."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from cellwright.permissions.shell.tokens import Word

_DURATION = r"\d+(\.\d+)?[smhd]?"
_FLAGS = {
    "timeout": rf"(?:(?:--foreground|--preserve-status|-v|--verbose|-k {_DURATION}|--kill-after={_DURATION}"
    rf"|-s \w+|--signal=\w+) )*{_DURATION}",
    "time": r"(?:-p)?",
    "nice": r"(?:-n ?-?\d+|--adjustment=-?\d+|-\d+)?",
    "nohup": r"",
    "stdbuf": r"(?:-[ioe] ?(?:L|0|\d+[KM]?)(?: |$))+",
    "command": r"",
    "builtin": r"",
}
_MOST_FLAGS = 8
SAFE_ASSIGNMENT = re.compile(
    r"(?:(?:LANG|LANGUAGE|LC_[A-Z]+|NO_COLOR|FORCE_COLOR|CLICOLOR|CLICOLOR_FORCE|COLUMNS|LINES|NODE_ENV|CI|GOOS|GOARCH"
    r"|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|RUST_BACKTRACE)=[\w.@:+-]*|TZ=[\w+-]*(?:/[\w+-]+)*)"
)
"""Variables that cannot make a program run, load or write something else."""


@dataclass(frozen=True, slots=True)
class Unwrapped:
    """The command behind wrappers. `gets_more`: `xargs` adds arguments that show only when it runs."""

    words: tuple[Word, ...]
    gets_more: bool = False


def unwrapped(words: Sequence[Word]) -> Unwrapped:
    """`words` without the wrappers in front of them; as they are where a wrapper has a flag that is not known."""
    left = tuple(words)
    gets_more = False
    while left:
        program, *rest = left
        if program.text == "xargs" and rest and _is_program(rest[0]):
            left, gets_more = tuple(rest), True
            continue
        behind = _behind(program.text, rest) if program.text in _FLAGS else None
        if behind is None:
            break
        left = behind
    return Unwrapped(left, gets_more)


def _behind(wrapper: str, rest: Sequence[Word]) -> tuple[Word, ...] | None:
    """The command behind the longest run of flags that `wrapper` is known to take."""
    for count in range(min(_MOST_FLAGS, len(rest) - 1), -1, -1):
        flags = rest[:count]
        if any(word.dynamic or word.globs for word in flags):
            continue
        if re.fullmatch(_FLAGS[wrapper], " ".join(word.text for word in flags)) and _is_program(rest[count]):
            return tuple(rest[count:])
    return None


def _is_program(word: Word) -> bool:
    return not (word.dynamic or word.globs or word.text.startswith("-") or not word.text)
