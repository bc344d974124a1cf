"""The feature: numbers and names of answers are traced, in a thread beside the loop."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.prompt import ContextItem, ContextItems, ContextProvider, PromptContext, TitledPrompt
from cellwright.conversation.feature import Feature, RunInfo
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import ToolError
from cellwright.events import Event, NumbersTraced
from cellwright.sessions.session import Session

if TYPE_CHECKING:
    from pathlib import Path

    from cellwright.conversation.core import Host
    from cellwright.features.numbers.answers import TracedAnswers
    from cellwright.tools.notebook.open_notebook import Cell


class TracedNumbers(Feature):
    """Numbers and names: each of an answer is looked up in what the conversation has seen, in a thread beside the loop."""

    def __init__(self, enabled: Callable[[], bool], host: Host) -> None:
        self._enabled = enabled
        self._host = host
        self._session: weakref.ref[Session] | None = None
        self._answers: TracedAnswers | None = None

    def begin(self, run: RunInfo) -> None:
        if self._session is None or self._session() is not run.session:
            self._session, self._answers = weakref.ref(run.session), None

    def context(self, run: RunInfo, prompt: PromptContext) -> ContextProvider | None:
        instructions = self._answers.instructions(prompt.words) if self._answers is not None else ""
        if not instructions:
            return None
        found = ContextItems(after=(TitledPrompt(prompt.words, instructions).context,))
        return lambda _: found

    async def after_calls(self, paths: Sequence[Path], session: Session, agent: AgentSetup) -> Sequence[ContextItem]:
        # results are indexed while Claude goes on; an agent that works for it has a session of its own
        had_calls = any(b'"tool_' in message for message in session.story[-2:])  # at a turn's end there may be none
        if had_calls and self._enabled() and self._is_own(session):
            asyncio.get_running_loop().run_in_executor(None, self._of(session).index, session.story)
        return ()

    async def answered(self, answer: str, session: Session, options: RunOptions) -> Sequence[Event]:
        states_any = "`" in answer or "test" in answer or any(map(str.isdigit, answer))
        if not (self._enabled() and options.numbers and states_any):
            return ()
        is_typed = options.answer_type is not None
        answers = self._of(session)
        event = await asyncio.to_thread(
            answers.event,
            answer,
            session.story,
            typed=is_typed,
            folder=self._host.cwd,
            known=self._host.has_name,
        )
        if event is None:
            return ()
        if not is_typed and (cells := await self._cells(event)) is not None:
            event = await asyncio.to_thread(answers.record, event, answer, cells, self._host.cwd)
        return (event,)

    async def stale(self) -> Sequence[Mapping[str, Any]]:
        """Return the stale numbers of the session's answers, compared with the notebook as its page has it now."""
        notebooks, answers = self._host.open_notebooks, self._answers
        if answers is None or not answers.keeps_records() or notebooks is None or (own := notebooks.own()) is None:
            return ()
        return await asyncio.to_thread(answers.stale, await own.cells(), self._host.cwd)

    async def _cells(self, event: NumbersTraced) -> Sequence[Cell] | None:
        """Return the cells of the notebook that keeps the answer; None if none does, or no number came from a result."""
        notebooks = self._host.open_notebooks
        from_results = (
            each.source is not None and each.source.kind not in ("code", "prompt") for each in event.numbers
        )
        if notebooks is None or not any(from_results) or (own := notebooks.own()) is None:
            return None
        try:
            return await asyncio.wait_for(own.cells(), 3.0)  # then the run ends without them
        except (ToolError, TimeoutError):
            return None  # its page went away: the answer is kept without

    def _is_own(self, session: Session) -> bool:
        return self._session is not None and self._session() is session

    def _of(self, session: Session) -> TracedAnswers:
        from cellwright.features.numbers.answers import (
            TracedAnswers,  # most first prompts have no number in their answer
        )

        if not self._is_own(session):
            return TracedAnswers()
        if self._answers is None:
            self._answers = TracedAnswers()
        return self._answers
