"""The questions that wait for the user, of every run of the kernel, and their answers from any place.

A question is put to the user where its run shows itself. Whoever shows the conversation in another place (a panel) hands
answers in here; the first one counts, wherever it is given, and the events tell all places of it.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack

from cellwright.agent.calls.approval import ToolUse
from cellwright.events import AnsweredBy
from cellwright.kernel.comm import Answer

Take = Callable[[Answer, AnsweredBy], None]
"""Takes an answer, and who gave it, for the question that it names."""

Beside = Callable[[ToolUse, Take], AbstractAsyncContextManager[None]]
"""Shows a question in another place as well, while the context lasts; the answer from there comes the same way."""


class OpenQuestions:
    """What waits for an answer, oldest first. All of it on the agent's loop, but for `somebody_looks_on`."""

    def __init__(self) -> None:
        self._open: dict[str, Take] = {}
        self.somebody_looks_on: Callable[[], bool] = lambda: False
        """Whether a place that shows all questions is there; set by who knows. From any thread."""

    @property
    def there(self) -> list[str]:
        """The ids of the questions."""
        return list(self._open)

    def take(self, answer: Answer, by: AnsweredBy) -> bool:
        """Hand in an answer; False when its question is none any more."""
        take = self._open.get(answer.question)
        if take is None:
            return False
        take(answer, by)
        return True

    @contextlib.asynccontextmanager
    async def beside(self, use: ToolUse, take: Take) -> AsyncIterator[None]:
        """Have answers to `use` taken from anywhere while the block lasts."""
        self._open[use.question_id] = take
        try:
            yield
        finally:
            del self._open[use.question_id]


def all_beside(*places: Beside) -> Beside:
    """All of these places at once."""

    @contextlib.asynccontextmanager
    async def beside(use: ToolUse, take: Take) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for place in places:
                await stack.enter_async_context(place(use, take))
            yield

    return beside
