"""The end of the agent's thread: no task is left behind, also none that was started while others ended."""

import asyncio
import gc
import logging

import pytest

from cellwright.agent.thread import AgentThread


async def _tidy_up() -> None:
    await asyncio.sleep(0.01)


async def _work_that_starts_more() -> None:
    try:
        await asyncio.Event().wait()
    finally:
        background.append(asyncio.get_running_loop().create_task(_tidy_up()))


background: list[asyncio.Task[None]] = []


def test_nothing_is_destroyed_while_it_is_pending(caplog: pytest.LogCaptureFixture) -> None:
    gc.collect()  # what other tests of this process left says so now
    caplog.clear()
    thread = AgentThread()
    task = thread.submit(_work_that_starts_more())
    thread.call(lambda: None)
    thread.stop()
    assert task.done
    assert background[0].done()
    background.clear()
    del task, thread
    gc.collect()
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []
