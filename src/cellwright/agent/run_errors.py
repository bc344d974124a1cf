"""Errors that end a run before the model is done: each tells the user what is wrong, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cellwright.errors import ApiError, CellwrightError, ErrorCode
from cellwright.events import TurnEnd
from cellwright.model.retry import is_refusal
from cellwright.sessions.transcripts.transcript import REATTACHED
from cellwright.text import dollars

if TYPE_CHECKING:
    from cellwright.sessions.session import Session


def take_back_refused(session: Session, error: CellwrightError) -> str:
    """Take back a message that the API will never accept: each later request would be refused for it. Gives what was.

    Results that are too much for the model's window stay: another model takes them, or the conversation goes on before them.
    """
    refused = error.code in (ErrorCode.API_REQUEST_INVALID, ErrorCode.CONTEXT_TOO_LONG)
    last = session.messages[-1]
    if not refused or last["role"] != "user":
        return ""
    results = any(block["type"] == "tool_result" for block in last["content"])
    if results and error.code == ErrorCode.CONTEXT_TOO_LONG:
        return f"The tool results are kept. {HOW_TO_GO_ON}"
    told_again = REATTACHED in session.in_effect()[-1].meta
    session.take_back()
    session.answer_open_calls("the API did not take the result; it may have had effects")
    what = (
        "These results were"
        if results
        else "The context re-attached after the summary was"
        if told_again
        else "This prompt was"
    )
    return f"{what} left out of the conversation so that you can continue."


HOW_TO_GO_ON = (
    "Continue with a model that has a larger window (`--model`), undo turns (/rewind), or start a new session (/clear)."
)


def compaction_no_help(tokens: int, limit: int) -> CellwrightError:
    """The summary, and what is told behind it, take most of the window already."""
    message = (
        f"The conversation was summarised, and still takes about {tokens:,} of the {limit:,} tokens available: the "
        "summary and the context sent with it (tools, instructions, the last results). Continuing would only summarise it "
        f"again, so it stops here. /context shows what takes the room. {HOW_TO_GO_ON}"
    )
    return CellwrightError(ErrorCode.CONTEXT_TOO_LONG, message, recoverable=True)


def compaction_stopped(count: int) -> CellwrightError:
    """The conversation fills up again at once, however often it is summarised."""
    message = (
        f"The conversation is full for the {_ORDINALS.get(count, f'{count}th')} time within a few steps, although it was "
        "summarised each time: something that Claude reads is too large for the window. It stops here, so that no money is "
        f"spent in circles. Ask for smaller parts of it, or continue after /compact. {HOW_TO_GO_ON}"
    )
    return CellwrightError(ErrorCode.CONTEXT_TOO_LONG, message, recoverable=True)


_ORDINALS = {2: "second", 3: "third", 4: "fourth"}


def nearly_full(tokens: int, window: int, model: str) -> str:
    """The conversation takes most of the model's context window."""
    return f"The conversation takes {tokens:,} of the {window:,} tokens that {model} has for it. {HOW_TO_GO_ON}"


def too_many_turns(max_turns: int) -> CellwrightError:
    """The run has made as many requests as it may."""
    message = f"Stopped after {max_turns} requests to the model (max_turns). Ask Claude to continue, or allow more."
    return CellwrightError(ErrorCode.MAX_TURNS_REACHED, message, recoverable=True)


def budget_spent(
    budget: float, cost: float, next_request: float, *, whose: str = "", set_by: str = "", fitting_tokens: int = 0
) -> CellwrightError:
    """The next request could cost more than the budget has left: the run's, or `whose` ("day"), which `set_by` names.

    `fitting_tokens` is the `max_tokens` with which it would not; 0 if no answer is short enough.
    """
    of_whom, more = f"{whose}'s " if whose else "", f"Allow more in {set_by}" if set_by else "Allow more"
    if fitting_tokens > 0:
        more += f", set max_tokens to {fitting_tokens} or less"
    message = (
        f"The {of_whom}budget of {dollars(budget)} would be exceeded by the next request, which can cost up to "
        f"{dollars(next_request)}; {dollars(cost)} is spent so far. {more}, or continue without a budget."
    )
    details = {"budget_usd": budget, "cost_usd": cost, "next_request_usd": next_request, "budget_of": whose or "run"}
    if fitting_tokens > 0:
        details["max_tokens"] = fitting_tokens
    return CellwrightError(ErrorCode.BUDGET_EXCEEDED, message, details=details, recoverable=True)


def is_of_model(error: ApiError) -> bool:
    """Return whether another model may answer what this one does not: it is overloaded, fails, or is not there."""
    not_there = error.details.get("status") == 404 and error.details.get("type") == "not_found_error"
    return error.code == ErrorCode.API_OVERLOADED or not_there


def is_of_compacted(error: ApiError, session: Session) -> bool:
    """Return whether the API refused a conversation that begins with a summary of its own."""
    return session.encoded[0].startswith(b'{"role":"assistant"') and is_refusal(error)


def is_of_summary(error: ApiError, session: Session) -> bool:
    """Return whether the API does not take its own summary back: another account's, or another platform's."""
    of_it = "compaction" in error.message.lower() or str(error.details.get("error_code", "")).startswith("compaction_")
    return of_it and is_of_compacted(error, session)


def not_permitted(why: str, tool_use_id: str) -> CellwrightError:
    """A call needed a permission that nobody could give, and the run was to end then."""
    message = f"Stopped at a call that is not permitted. {why}"
    details = {"tool_use_id": tool_use_id}
    return CellwrightError(ErrorCode.PERMISSION_DENIED, message, details=details, recoverable=True)


def price_unknown(model: str) -> CellwrightError:
    """There is a budget, and nobody knows what a request costs."""
    message = f"The price of {model} is not known, so a budget cannot be kept. Leave the budget out."
    return CellwrightError(ErrorCode.CONFIG_INVALID, message)


def context_full() -> CellwrightError:
    """The model's context window is full."""
    message = f"The conversation does not fit into the model's context window any more. {HOW_TO_GO_ON}"
    return CellwrightError(ErrorCode.CONTEXT_TOO_LONG, message)


def cut_too_often(max_tokens: int) -> CellwrightError:
    """The answer does not fit into the output limit."""
    message = f"The answer reached the output limit of {max_tokens:,} tokens again and again. Ask for less at a time."
    details = {"max_tokens": max_tokens}
    return CellwrightError(ErrorCode.API_REQUEST_INVALID, message, details=details, recoverable=True)


def refused(turn: TurnEnd) -> CellwrightError:
    """The model declined the request."""
    details = dict(turn.stop_details or {})
    why = details.get("explanation") or details.get("category") or "no reason was given"
    message = f"{turn.model} declined this request ({why}). Rephrase it, or try another model."
    return CellwrightError(ErrorCode.REFUSED, message, details=details, recoverable=True)
