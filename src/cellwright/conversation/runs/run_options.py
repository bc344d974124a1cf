"""The options of one run, and its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cellwright.agent.structured_output.answer import AnswerProblem, AnswerType
from cellwright.agent.tool import Tool
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Event, RunEnd
from cellwright.markdown.safe_markdown import safe_markdown

if TYPE_CHECKING:
    from cellwright.agent.hooks.callbacks import GivenHooks


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options one run may have. None leaves the default; `allow` and `deny` are rules besides the settings'."""

    model: str | None = None
    mode: str | None = None
    max_turns: int | None = None
    budget_usd: float | None = None
    effort: str | None = None
    max_tokens: int | None = None
    max_parallel_tools: int | None = None
    tool_timeout: float | None = None
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    tools: tuple[Tool, ...] = ()
    builtin_tools: bool = True
    hooks: GivenHooks = field(default_factory=dict)
    answer_type: AnswerType | None = None


@dataclass(frozen=True, kw_only=True)
class Result:
    """The outcome of a run. `events` is everything that happened, in order; in a notebook a result shows its text.

    `value` is the answer as the type that was asked for (`schema=`); None where there was none.
    """

    text: str
    session_id: str
    usage: Mapping[str, Any]
    cost_usd: float | None
    stop_reason: str
    events: tuple[Event, ...] = field(repr=False)
    value: Any = None

    def _repr_markdown_(self) -> str:
        return safe_markdown(self.text)


class RunError(CellwrightError):
    """A run did not end by itself: refused, out of turns or budget, or the API failed. `result` is what there is."""

    result: Result | None = None


def result_of(end: RunEnd, events: Sequence[Event], answer_type: AnswerType | None = None) -> Result:
    """The result of a run that ended. Raises `RunError` when it did not end by itself."""
    result = Result(
        text=end.text,
        session_id=end.session_id,
        usage=end.usage,
        cost_usd=end.cost_usd,
        stop_reason=end.stop_reason,
        events=tuple(events),
    )
    if end.error is not None:
        error = RunError(
            ErrorCode(end.error["code"]),
            end.error["message"],
            details=end.error["details"],
            recoverable=end.error["recoverable"],
        )
        error.result = result
        raise error
    return result if answer_type is None else _with_value(result, answer_type)


def _with_value(result: Result, answer_type: AnswerType) -> Result:
    try:
        return replace(result, value=answer_type.read(result.text))
    except AnswerProblem as problem:  # the model stopped for a reason that is not known here
        error = RunError(ErrorCode.EXECUTION_ERROR, f"The answer is no valid {answer_type.name}: {problem}.")
        error.result = result
        raise error from None
