"""The events of a run as an async iterator on the caller's loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable

from cellwright.agent.thread import AgentTask
from cellwright.conversation.conversation import Conversation
from cellwright.errors import CellwrightError
from cellwright.events import Emit, Event, RunEnd


async def stream_events(
    conversation: Conversation, start: Callable[[Emit], AgentTask[RunEnd]]
) -> AsyncGenerator[Event]:
    """The events of the run that `start(emit)` starts, on the caller's loop; leaving the iteration cancels the run.

    Work that the run's tools have for this thread is done between the events.
    """
    loop = asyncio.get_running_loop()
    events: asyncio.Queue[Event | None] = asyncio.Queue()

    def emit(event: Event) -> None:
        loop.call_soon_threadsafe(events.put_nowait, event)

    task = start(emit)
    task.future.add_done_callback(lambda _: loop.call_soon_threadsafe(events.put_nowait, None))
    jobs = asyncio.create_task(conversation.jobs.work_until_done_async(task))
    try:
        while (event := await events.get()) is not None:
            yield event
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, CellwrightError):
            await asyncio.wrap_future(task.future)
        await jobs
