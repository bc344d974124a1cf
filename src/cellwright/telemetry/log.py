"""What the runs of a conversation do, as lines of the log: numbers, names and codes, nothing of what was said."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cellwright.agent.log_file import RUNS
from cellwright.events import Answered, Asked, Event, Notice, Retrying, RunEnd, ToolEnd, TurnEnd, UserPrompt

if TYPE_CHECKING:
    from cellwright.conversation.run_queue import ConversationRun
    from cellwright.sessions.session import Session

logger = logging.getLogger(RUNS)


class RunLog:
    """Follows a conversation."""

    def run_added(self, run: ConversationRun) -> None:
        """It is told when it begins."""

    def heard(self, run: ConversationRun, event: Event) -> None:
        """Log the event, if it says how the run goes."""
        match event:
            case UserPrompt():
                logger.info("%s %s: begins, session %s, mode %s", run.id, run.place, event.session_id, event.mode)
            case TurnEnd():
                words = "%s: request %s, %s, %d tokens in context, %s, ends with %s"
                about = event.request_id, event.model, event.context_tokens, _usd(event.cost_usd), event.stop_reason
                logger.info(words, run.id, *about)
            case ToolEnd():
                level = logging.INFO if event.status == "success" else logging.WARNING
                logger.log(level, "%s: %s %s", run.id, _call(event), _code(event.error))
            case Asked():
                logger.info("%s: asks (%s) about %s", run.id, event.kind, event.tool_use["name"])
            case Answered():
                logger.info("%s: answered by %s: %s, %s", run.id, event.by, event.behavior, event.scope)
            case Retrying():
                words = "%s: request failed, tried again (%d of %d) in %.1f s: %s %s"
                tries = event.attempt, event.max_attempts, event.wait_seconds
                logger.warning(words, run.id, *tries, event.code, event.message)
            case Notice(level="warning" | "error"):
                logger.warning("%s: %s", run.id, event.message)
            case RunEnd():
                self._ended(run, event)
            case _:
                pass

    def _ended(self, run: ConversationRun, end: RunEnd) -> None:
        level = logging.INFO if end.ok else logging.WARNING
        words = "%s: ends (%s) after %.1f s, %d requests, %s %s"
        error = end.error or {}
        why = f"{error.get('code', '')} {error.get('message', '')}".strip()
        logger.log(level, words, run.id, end.stop_reason, end.duration_ms / 1000, end.requests, _usd(end.cost_usd), why)

    def run_ended(self, run: ConversationRun) -> None:
        """Its last event says so."""

    def session_changed(self, session: Session) -> None:
        """Say which it is now."""
        logger.info("the conversation goes on with session %s", session.id)


def _call(end: ToolEnd) -> str:
    return f"{end.name} {end.tool_use_id} {end.status} after {end.duration_ms:.0f} ms"


def _code(error: Mapping[str, Any] | None) -> str:
    return "" if error is None else str(error.get("code", ""))


def _usd(cost: float | None) -> str:
    return "price not known" if cost is None else f"${cost:.4f}"
