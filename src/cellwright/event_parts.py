"""What events are made of: pieces that are no event themselves. Their public place is `cellwright.events`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Json = Mapping[str, Any]
ToolStatus = Literal["success", "error", "timeout", "denied", "interrupted"]
AnsweredBy = Literal["widget", "sidebar", "input", "policy", "callback", "terminal", "hook"]
QuestionKind = Literal["permission", "question", "plan", "trust"]
ToldKind = Literal["environment", "context", "file", "folder", "cell", "variable", "hook", "mode"]

CHARS_A_TOKEN = 4
"""Of English and code, on average; the exact count is the API's."""
SteerState = Literal["waiting", "delivered", "withdrawn"]
SteerHow = Literal["steer", "queue"]


@dataclass(frozen=True, slots=True)
class Told:
    """One thing that Claude was told besides the user's words. `chars` of `text` were sent, about `tokens` tokens."""

    title: str
    text: str
    kind: ToldKind
    chars: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Preview:
    """What a call will do, for people: one line, and the whole of what matters (the command, the code, the diff).

    `kind` says how `detail` is drawn; `path` is the file it is about. `warning` is shown beside the title.
    """

    title: str
    detail: str = ""
    kind: Literal["text", "command", "code", "diff"] = "text"
    path: str = ""
    warning: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """One `tool_use` block, with what a view needs to draw its card before there is a result."""

    tool_use: Json
    title: str
    read_only: bool = False

    @property
    def id(self) -> str:
        return str(self.tool_use["id"])

    @property
    def name(self) -> str:
        return str(self.tool_use["name"])


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Rules that together would have allowed the call, and where they can be kept ("session" or "always").

    Exactly these are kept when the suggestion is taken, and `label` says all that they cover.
    """

    rules: tuple[str, ...]
    scope: Literal["session", "always"]
    label: str


@dataclass(frozen=True, slots=True)
class Changed:
    """A file or a cell that a turn changed. `where` is its path as it is shown; a cell's ends with `#` and its id.

    `added` and `removed` count lines; None where they were not counted.
    """

    where: str
    kind: Literal["created", "changed", "deleted"]
    added: int | None = None
    removed: int | None = None
