"""A cell's run and the interrupts that come at its edges."""

from __future__ import annotations

import asyncio
import functools
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.thread import AgentTask
from cellwright.conversation.conversation import Conversation
from cellwright.kernel.output.cell_output import ViewOutput
from cellwright.kernel.run.cell_run import CellWait
from cellwright.terminal.views.plain_view import Unseen


@pytest.mark.parametrize("awaited", [True, False])
def test_an_interrupt_while_the_run_starts_ends_it(tmp_path: Path, awaited: bool):
    conversation = Conversation(cwd=tmp_path, interface="a test", environ={})

    def start() -> AgentTask[Any]:
        signal.raise_signal(signal.SIGINT)
        _after_turns_of(conversation.thread.loop)
        return conversation.thread.submit(asyncio.sleep(3600))

    with (
        pytest.raises(KeyboardInterrupt, match="goes on in the next cell"),
        CellWait(conversation, ViewOutput(Unseen()), None) as wait,
    ):
        asyncio.run(wait.awaited(start())) if awaited else wait.blocking(start())
    conversation.close()


def test_stop_pressed_again_and_again_is_one_interrupt(tmp_path: Path):
    """Not in a kernel: ipykernel drops a cell's reply when an interrupt meets its own code after the cell."""
    conversation = Conversation(cwd=tmp_path, interface="a test", environ={})
    begun, cut_off = threading.Event(), []

    async def work() -> Any:
        cleaned = asyncio.Event()
        loop = asyncio.get_running_loop()
        try:
            begun.set()
            await asyncio.sleep(3600)
        finally:
            done = functools.partial(loop.call_soon_threadsafe, cleaned.set)
            threading.Thread(target=press, args=(20, done)).start()
            try:
                await cleaned.wait()
            except asyncio.CancelledError:
                cut_off.append(True)

    def press(times: int, then: Callable[[], object] = lambda: None) -> None:
        begun.wait()
        for _ in range(times):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        _after_turns_of(conversation.thread.loop)
        then()

    # a machine that is busy elsewhere may take its time between two signals
    presses = threading.Thread(target=press, args=(1,))
    presses.start()
    with (
        pytest.raises(KeyboardInterrupt, match="goes on in the next cell"),
        CellWait(conversation, ViewOutput(Unseen()), None, 60.0) as wait,
    ):
        wait.blocking(conversation.thread.submit(work()))
    assert cut_off == []
    presses.join()
    conversation.close()


def _after_turns_of(loop: asyncio.AbstractEventLoop) -> None:
    """Return when the agent's loop has looked at all that had come before."""
    for _ in range(3):
        looked = threading.Event()
        loop.call_soon_threadsafe(looked.set)
        looked.wait()
