"""The messages between kernel and browser, as `docs/protocol/transcript.md` has them; what comes in is checked here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypedDict, cast, get_args

from cellwright.conversation.user_answers import Scope
from cellwright.events import SteerHow
from cellwright.kernel.pages.comm import secret_in

Op = dict[str, Any]
"""One transcript operation: `op` names it, the other fields are the page's."""


class OpsMessage(TypedDict):
    """Operations `first`, `first + 1`, … of a cell's log; `now` is the kernel's time of sending."""

    type: Literal["ops"]
    first: int
    now: float
    ops: list[Op]


class AckMessage(TypedDict):
    """An answer was taken."""

    type: Literal["ack"]
    question: str


class SavedCellOutput(TypedDict):
    """One of the outputs that a cell holds of a run."""

    data: dict[str, Any]
    metadata: dict[str, Any]


class SavedMessage(TypedDict):
    """The outputs that the notebook should hold of a run, for pages that its outputs and their updates do not reach.

    Their places are outputs whose metadata name `run`, or the run that theirs name, and their numbers. `writer` is the page
    (the session of its messages) that writes into a notebook that several share, "" where that is the one that ran the
    cell; `count` is the cell's execution count.
    """

    type: Literal["saved"]
    run: str
    cell: str | None
    count: int | None
    writer: str
    outputs: list[SavedCellOutput]


class HelloMessage(NamedTuple):
    """A page has the transcript's model; from now on its messages carry this secret."""

    secret: str


class ReadyMessage(NamedTuple):
    """The transcript is open in a page that holds `have` operations."""

    have: int


class AnswerMessage(NamedTuple):
    """The user answered a question; `input` is the call as they edited it, or their answer to a question or a plan.

    `next`: the calls that were shown with it are allowed as well.
    """

    question: str
    behavior: Literal["allow", "deny"]
    scope: Scope
    reason: str
    input: Mapping[str, Any] | None
    next: bool = False


class Stop:
    """The user wants the run to end."""


class StopAgent(NamedTuple):
    """The user wants one agent that works for Claude to end, and the run to go on."""

    agent: str


class Restart:
    """The user wants the kernel's process to end."""


class KeptMessage(NamedTuple):
    """The page has what was saved in the widget's place, or leaves that to `writer`, who was named with it."""

    writer: str = ""


class Steer(NamedTuple):
    """The user has words for the run that goes on; `id` is the page's own."""

    id: str
    text: str
    how: SteerHow


class WithdrawMessage(NamedTuple):
    """The user takes words back that still wait."""

    id: str


BrowserMessage = (
    HelloMessage | ReadyMessage | AnswerMessage | Stop | StopAgent | Restart | KeptMessage | Steer | WithdrawMessage
)


def read_message(content: object) -> BrowserMessage | None:  # noqa: C901  one arm for each message
    """Read what the browser said; None for what is no message of the protocol."""
    if not isinstance(content, Mapping):
        return None
    match content.get("type"):
        case "hello":
            return HelloMessage(secret) if (secret := secret_in(content)) else None
        case "ready":
            have = content.get("have")
            return ReadyMessage(have) if isinstance(have, int) and have >= 0 else None
        case "answer":
            return _read_answer(content)
        case "stop":
            return Stop()
        case "stop_agent":
            return StopAgent(agent) if isinstance(agent := content.get("agent"), str) else None
        case "restart":
            return Restart()
        case "kept":
            return KeptMessage(writer if isinstance(writer := content.get("writer"), str) else "")
        case "steer":
            return _read_steer(content)
        case "withdraw":
            return WithdrawMessage(words) if isinstance(words := content.get("id"), str) else None
        case _:
            return None


def _read_steer(content: Mapping[str, Any]) -> Steer | None:
    words_id, text, how = content.get("id"), content.get("text"), content.get("how")
    if not isinstance(words_id, str) or not isinstance(text, str) or how not in get_args(SteerHow):
        return None
    # more than a person types: a larger text belongs into a file
    return Steer(words_id, text, cast("SteerHow", how)) if text.strip() and len(text) <= 1_000_000 else None


def _read_answer(content: Mapping[str, Any]) -> AnswerMessage | None:
    question, behavior = content.get("question"), content.get("behavior")
    scope, reason, edited = content.get("scope", "once"), content.get("reason", ""), content.get("input")
    if not isinstance(question, str) or behavior not in ("allow", "deny") or scope not in get_args(Scope):
        return None
    if not isinstance(reason, str) or not (edited is None or isinstance(edited, Mapping)):
        return None
    return AnswerMessage(question, behavior, scope, reason, edited, content.get("next") is True)
