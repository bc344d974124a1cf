"""Arguments put into a skill's text: `$ARGUMENTS`, `$0` or `$ARGUMENTS[0]`, `$name`, and `${CLAUDE_…}`.

Numbers begin with 0, as in Claude Code; what was not given stays as it is written; `\\$1` is no argument.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from cellwright.text import lazy_pattern

_PLACE = lazy_pattern(
    r"""(?P<escaped>\\\$(?=\w|\{))
    | \$ARGUMENTS\[(?P<index>\d{1,3})\]
    | \$(?P<all>ARGUMENTS)\b
    | \$(?P<number>\d{1,3})\b
    | \$\{(?P<variable>CLAUDE_\w+)\}
    | \$(?P<name>[A-Za-z_][\w-]*)""",
    re.VERBOSE,
)


class Arguments:
    """The arguments of a skill, to be put into the parts of its text one after another.

    `names` are the skill's own names for its arguments, `variables` the values of `${CLAUDE_…}`.
    """

    def __init__(self, given: str, names: Sequence[str] = (), variables: Mapping[str, str] | None = None) -> None:
        self._given = given
        self._words = words(given)
        self._names = names
        self._variables = variables or {}
        self._placed = False

    def fill(self, text: str) -> str:
        """`text` with what was given in its places.

        >>> Arguments('"the bug" app.py').fill("Fix $0 in $1, not in $2.")
        'Fix the bug in app.py, not in $2.'
        """
        return _PLACE.sub(self._value, text)

    def appended(self, text: str) -> str:
        """`text` with what was given after it, where no part of it had a place for that.

        >>> Arguments("quickly").appended("Review it.")
        'Review it.\\n\\nARGUMENTS: quickly'
        """
        return text if self._placed or not self._given else f"{text}\n\nARGUMENTS: {self._given}"

    def _value(self, match: re.Match[str]) -> str:
        if match["escaped"]:
            return "$"
        if match["variable"]:
            return self._variables.get(match["variable"], match[0])
        if match["name"] and match["name"] not in self._names:
            return match[0]
        self._placed = True
        if match["all"]:
            return self._given
        at = self._names.index(match["name"]) if match["name"] else int(match["index"] or match["number"])
        return self._words[at] if at < len(self._words) else match[0]


def words(arguments: str) -> list[str]:
    """The single arguments, read as a shell reads words; quotes that do not close are letters."""
    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()
