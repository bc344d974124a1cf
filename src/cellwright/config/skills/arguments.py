"""Arguments put into a skill's text: `$ARGUMENTS`, `$0` or `$ARGUMENTS[0]`, `$name`, and `${CLAUDE_…}`.

Numbers begin with 0, as in Claude Code; what was not given stays as it is written; `\\$1` is no argument, nor
is an amount as `$1.50` or `$1,000`.
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
    | \$(?P<number>\d{1,3})\b(?![.,]\d)
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
        self._left = set(range(len(self._words)))

    def fill(self, text: str) -> str:
        """`text` with what was given in its places.

        >>> Arguments('"the bug" app.py').fill("Fix $0 in $1, not in $2.")
        'Fix the bug in app.py, not in $2.'
        """
        return _PLACE.sub(self._value, text)

    def appended(self, text: str) -> str:
        """`text` with what was given after it, where no part of it had a place for some of that.

        So nothing is lost in a text whose author began to count with 1, as many do.

        >>> Arguments("quickly").appended("Review it.")
        'Review it.\\n\\nARGUMENTS: quickly'
        >>> text = Arguments("quickly")
        >>> text.appended(text.fill("Below $50 or $1.50 it is cheap."))
        'Below $50 or $1.50 it is cheap.\\n\\nARGUMENTS: quickly'
        """
        return text if not self._left else f"{text}\n\nARGUMENTS: {self._given}"

    def _value(self, match: re.Match[str]) -> str:
        if match["escaped"]:
            return "$"
        if match["variable"]:
            return self._variables.get(match["variable"], match[0])
        if match["name"] and match["name"] not in self._names:
            return match[0]
        if match["all"]:
            self._left.clear()
            return self._given
        at = self._names.index(match["name"]) if match["name"] else int(match["index"] or match["number"])
        self._left.discard(at)
        return self._words[at] if at < len(self._words) else match[0]


def words(arguments: str) -> list[str]:
    """The single arguments, read as a shell reads words; quotes that do not close are letters."""
    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()
