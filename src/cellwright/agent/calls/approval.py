"""Permission as the loop sees it: a decision, a question, an answer. Whoever decides lives in a layer above."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from cellwright.agent.calls.confinement import Confinement
from cellwright.errors import CellwrightError
from cellwright.events import AnsweredBy, FollowingCall, Preview, QuestionKind, Suggestion

if TYPE_CHECKING:
    from cellwright.agent.tool import Tool


class Decision(Struct, frozen=True):
    """The policy's answer for a call. `rule` is the rule that decided, if any; `suggestions` are rules to allow it.

    `firm`: the user is to be asked whatever a hook says (an ask rule, a critical deletion, a question to the user).
    `confinement`: how the call must be run, also once somebody has allowed it; None for no bounds.
    `trial`: the call is allowed within its `confinement` to find out whether it needs more. If it is refused something
    that it needs, the decision of `Policy.without_trials` counts.
    `works_beside`: the call changes nothing, not even the folder that its shell is in, so it may run beside others; the
    tool itself says so of most (`Tool.works_beside`).
    `for_people`: the reason on a screen that shows the call as well; None for the same.

    >>> Decision("ask", "No rule allows it.").behavior
    'ask'
    """

    behavior: Literal["allow", "ask", "deny"]
    reason: str
    rule: str = ""
    suggestions: tuple[Suggestion, ...] = ()
    firm: bool = False
    confinement: Confinement | None = None
    works_beside: bool = False
    trial: bool = False
    for_people: str | None = None

    @property
    def shown_reason(self) -> str:
        """The reason as people read it beside the call; "" if the call says it all."""
        return self.reason if self.for_people is None else self.for_people

    def because(self, reason: str, **changed: Any) -> Decision:
        """Return the decision with another `reason`, which may hold this one's, and with what else has changed."""
        shown = None if self.for_people is None else reason.replace(self.reason, self.for_people).strip()
        return replace(self, reason=reason, for_people=shown, **changed)


class ToolUse(Struct, frozen=True):
    """A call that must be asked for, as `can_use_tool` gets it.

    `id`, `name` and `input` are the API's; `decision` says why it is asked for and which rules would allow it, `preview`
    what a person would be shown. `agent_id` is the agent's that makes the call, "" for Claude itself. `kind` is
    "permission", or what else Claude asks: "question", "plan". `following` are the calls of the same message that will be
    asked about next; `Allow(following=True)` allows them as well.

    >>> async def only_tests(use: ToolUse):
    ...     return Allow() if use.input.get("command", "").startswith("pytest") else Deny(f"{use.name} is not for tests")
    """

    id: str
    name: str
    input: Mapping[str, Any]
    decision: Decision
    preview: Preview
    question_id: str = ""
    kind: QuestionKind = "permission"
    agent_id: str = ""
    following: tuple[FollowingCall, ...] = ()


class Allow(Struct, frozen=True):
    """Run the call, with `updated_input` instead of its own where given (it is decided on again).

    `scope` and `rules` (permission rules such as `Bash(pytest *)`): what is allowed beside this one call; the session
    remembers `rules` for "session" and "always". `mode` is the permission mode that the session goes on in, None: as it is.
    `notice` tells the user what came of it besides. `following`: the calls shown with it are allowed, too.

    >>> Allow().scope, Allow({"command": "pytest -q"}).updated_input, Allow(scope="session", rules=("Bash(pytest *)",)).rules
    ('once', {'command': 'pytest -q'}, ('Bash(pytest *)',))
    """

    updated_input: Mapping[str, Any] | None = None
    scope: Literal["once", "session", "always"] = "once"
    rules: tuple[str, ...] = ()
    by: AnsweredBy = "callback"
    notice: str = ""
    mode: str | None = None
    following: bool = False


async def keep_rules(given: Allow | Deny, save: Callable[[Sequence[str]], object]) -> Allow | Deny:
    """`given`, with the rules of an "always" kept by `save`; if they cannot be, they hold for this session, and why is said.

    The user allowed the call all the same.
    """
    if not isinstance(given, Allow) or given.scope != "always":
        return given
    try:
        await asyncio.to_thread(save, given.rules)
    except (CellwrightError, OSError) as error:
        why = error.message if isinstance(error, CellwrightError) else f"The rule was not saved: {error}."
        return replace(given, scope="session", notice=f"{why.rstrip('.')}. It holds for this session.")
    return given


class Deny(Struct, frozen=True):
    """Do not run the call; Claude and the user are told `reason`. `interrupt` ends the run as well.

    >>> Deny("not on a Friday").reason, Deny(interrupt=True).interrupt
    ('not on a Friday', True)
    """

    reason: str = ""
    by: AnsweredBy = "callback"
    interrupt: bool = False


CanUseTool = Callable[[ToolUse], Awaitable[Allow | Deny]]


class Policy(Protocol):
    """A permission policy, as the loop sees it, asked for each call. A variant of it is immutable."""

    @property
    def mode(self) -> str: ...

    def decide(self, tool: Tool, tool_input: Mapping[str, Any]) -> Decision:
        """Return whether `tool` may run with `tool_input`."""
        ...

    def may_read(self, path: str) -> bool:
        """Return whether the file at `path` may be read unasked."""
        ...

    def confinement_for_project_code(self) -> Confinement | None:
        """Return the bounds of programs that the project brings along and that no call starts; None for no bounds."""
        ...

    def hides(self, tool: Tool) -> bool:
        """Return whether the tool is denied as a whole, so that Claude need not know of it."""
        ...

    def allowing(self, rules: Sequence[str]) -> Policy:
        """The same policy with these allow rules besides its own."""
        ...

    def in_mode(self, mode: str) -> Policy:
        """The same policy in another mode."""
        ...

    def without_trials(self) -> Policy:
        """The same policy, which asks about what it would otherwise have tried in bounds first."""
        ...


class PolicyAround(Struct, frozen=True):
    """A policy around another, `base`: it judges as that does, but for what a class made of it says of calls."""

    base: Policy

    @property
    def mode(self) -> str:
        return self.base.mode

    def decide(self, tool: Tool, tool_input: Mapping[str, Any]) -> Decision:
        return self.base.decide(tool, tool_input)

    def may_read(self, path: str) -> bool:
        return self.base.may_read(path)

    def confinement_for_project_code(self) -> Confinement | None:
        return self.base.confinement_for_project_code()

    def hides(self, tool: Tool) -> bool:
        return self.base.hides(tool)

    def allowing(self, rules: Sequence[str]) -> Policy:
        return replace(self, base=self.base.allowing(rules))

    def in_mode(self, mode: str) -> Policy:
        return replace(self, base=self.base.in_mode(mode))

    def without_trials(self) -> Policy:
        return replace(self, base=self.base.without_trials())


def describe_rules(rules: Sequence[str]) -> str:
    """Allow rules as the subject of a sentence."""
    shown = ", ".join(f"`{rule}`" for rule in rules)
    return f"The allow rule {shown}" if len(rules) == 1 else f"The allow rules {shown} together"
