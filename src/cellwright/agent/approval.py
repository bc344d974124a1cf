"""What the loop needs to know about permission: a decision, a question, an answer. Who decides lives above."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self

from cellwright.events import AnsweredBy, Preview, Suggestion


@dataclass(frozen=True, slots=True)
class Decision:
    """May this call run? `rule` is the rule that decided, if one did; `suggestions` are rules that would allow it."""

    behavior: Literal["allow", "ask", "deny"]
    reason: str
    rule: str = ""
    suggestions: tuple[Suggestion, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A call that must be asked for, as `can_use_tool` gets it."""

    id: str
    name: str
    input: Mapping[str, Any]
    decision: Decision
    preview: Preview
    question_id: str = ""


@dataclass(frozen=True, slots=True)
class Allow:
    """Run the call, with `updated_input` instead of its own where given (it is decided on again).

    `scope` and `rule`: what the user allowed beside this one call; the session remembers `rule` for "session" and "always".
    """

    updated_input: Mapping[str, Any] | None = None
    scope: Literal["once", "session", "always"] = "once"
    rule: str = ""
    by: AnsweredBy = "callback"


@dataclass(frozen=True, slots=True)
class Deny:
    """Do not run the call; Claude and the user are told `reason`."""

    reason: str = ""
    by: AnsweredBy = "callback"


CanUseTool = Callable[[ToolUse], Awaitable[Allow | Deny]]


class Policy(Protocol):
    """A permission policy, as the loop sees it: immutable, and asked for each call."""

    @property
    def mode(self) -> str: ...

    def decide(self, tool_name: str, tool_input: Mapping[str, Any], *, read_only: bool = False) -> Decision:
        """May the tool `tool_name` run with `tool_input`? `read_only` is what the tool claims of itself."""
        ...

    def allowing(self, rules: Sequence[str]) -> Self:
        """The same policy with these allow rules besides its own."""
        ...
