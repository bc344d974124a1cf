"""What the words of a prompt mention: `@file`, `@"a b.txt"`, `@src/app.py#L10-20`, `@cell:3`, `@cell:[3]`, `$name`.

A mention begins a word. Passed over is what stands in code (between fences or backticks), a decorator, an e-mail address,
and a `$` that belongs to math (`$x$`, `$$…$$`), money (`$5`) or other text (`a$b`, `${x}`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

MENTIONS_TAKEN = 50
"""Nobody writes more by hand; a pasted log may hold thousands of words that look like one."""

_FENCE = re.compile(r"^ {0,3}(?P<fence>`{3,}|~{3,})")
_INLINE = re.compile(r"(?P<ticks>`+)(?:(?!`).|\n(?!\n))+?(?P=ticks)(?!`)")
_AT = re.compile(
    r"""(?<![\w@./\\-])@(?:
        cell:(?P<cell>(?:In)?\[\d+\]|[\w.-]*\w)
        | "(?P<quoted>[^"\n]+)"(?P<quoted_lines>\#L\d+(?:-L?\d+)?)?
        | (?P<path>(?:\\\ |[^\s,;!?()\[\]{}<>"'`“”„‘’«»|*@\\\#:]|:(?=/))+)(?P<lines>\#L\d+(?:-L?\d+)?)?
    )""",
    re.VERBOSE,
)
_DECORATOR = re.compile(
    r"^[ \t]*@[A-Za-z_][\w.]*[ \t]*(?:\(|\n(?:[ \t]*\n)*[ \t]*(?:@|def |class |async def ))", re.MULTILINE
)
_DOLLAR = re.compile(r"(?<![\w$\\])\$(?P<name>[^\W\d]\w*)(?![\w$])")
_DISPLAY_MATH = re.compile(r"\$\$.*?\$\$", re.DOTALL)
_MATH = re.compile(r"(?<![\w$\\])\$(?=[^\s$])[^$\n]*?(?<=[^\s\\])\$(?![\w$])")
_LINES = re.compile(r"#L(\d+)(?:-L?(\d+))?")


@dataclass(frozen=True, slots=True)
class Mention:
    """One thing that is mentioned. `name` is a path, a cell's id or number, or a variable; `text` is as it was written.

    `first` and `last` are the lines of a file that are meant, 0 for all.
    """

    kind: Literal["file", "cell", "variable"]
    name: str
    text: str
    first: int = 0
    last: int = 0


def find_mentions(words: str) -> list[Mention]:
    """The mentions in `words`, each once, in the order in which they stand there."""
    prose = _without_code(words)
    outside_decorators = _blanked(_DECORATOR, prose)
    at = [
        (match.start(), _at_mention(match))
        for match in _AT.finditer(outside_decorators)
        # a call: code without fences around it
        if not outside_decorators.startswith("(", match.end())
    ]
    plain = _blanked(_MATH, _blanked(_DISPLAY_MATH, prose))
    dollar = [(match.start(), Mention("variable", match["name"], match[0])) for match in _DOLLAR.finditer(plain)]
    found = [mention for _, mention in sorted((*at, *dollar), key=lambda each: each[0])]
    return list(dict.fromkeys(found))[:MENTIONS_TAKEN]


def looks_like_a_path(mention: Mention) -> bool:
    """Whether who wrote it must have meant a file: `@docs/plan`, `@plan.md`, `@"my plan"`, not `@anna`."""
    return mention.text.startswith('@"') or bool(mention.first) or any(sign in mention.name for sign in "./\\")


def _at_mention(match: re.Match[str]) -> Mention:
    if match["cell"]:
        return Mention("cell", match["cell"], match[0])
    lines = _LINES.fullmatch(match["quoted_lines"] or match["lines"] or "")
    first = int(lines[1]) if lines else 0
    last = int(lines[2] or lines[1]) if lines else 0
    if match["quoted"]:
        return Mention("file", match["quoted"], match[0], first, last)
    path, text = match["path"], match[0]
    if not lines:
        # the full stop at the end of a sentence, also after a folder's slash
        path = path.rstrip(".") if not path.endswith(("/..", "/.")) and path.strip(".") else path
        text = f"@{path}"
    return Mention("file", path.replace("\\ ", " "), text, first, last)


def _without_code(words: str) -> str:
    return _blanked(_INLINE, "".join(_without_fences(words)))


def _without_fences(words: str) -> Iterator[str]:
    """The lines of `words`, those between fences blank; a fence that is not closed goes to the end."""
    closing = ""
    for line in words.splitlines(keepends=True):
        fence = _FENCE.match(line)
        if closing:
            if fence and fence["fence"].startswith(closing) and not line.strip().strip(closing[0]):
                closing = ""
            yield _blank(line)
        elif fence:
            closing = fence["fence"]
            yield _blank(line)
        else:
            yield line


def _blanked(pattern: re.Pattern[str], text: str) -> str:
    """`text` with what `pattern` finds as spaces; everything else stays where it is."""
    return pattern.sub(lambda match: _blank(match[0]), text)


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)
