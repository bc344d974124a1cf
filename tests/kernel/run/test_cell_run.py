"""A cell's run and the interrupts that come at its edges."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import importlib
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.prompt import ContextItems, PromptContext
from cellwright.agent.thread import AgentTask
from cellwright.conversation.core import Host
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import Run, RunSurface
from cellwright.features.conversation import Conversation
from cellwright.kernel.output.cell_output import ViewOutput
from cellwright.kernel.run.cell_run import CellWait
from cellwright.terminal.views.plain_view import Unseen
from cellwright.testing import MessagesServer, say, turn
from eventual import eventually


@pytest.mark.parametrize("awaited", [True, False])
def test_an_interrupt_while_the_run_starts_ends_it(tmp_path: Path, awaited: bool):
    conversation = Conversation(Host(cwd=tmp_path, interface="a test", environ={}))

    def start() -> AgentTask[Any]:
        signal.raise_signal(signal.SIGINT)
        _after_turns_of(conversation.thread.loop)
        return conversation.thread.submit(asyncio.sleep(3600))

    with (
        pytest.raises(KeyboardInterrupt, match="continues in the next cell"),
        CellWait(conversation, ViewOutput(Unseen()), None) as wait,
    ):
        asyncio.run(wait.awaited(start())) if awaited else wait.blocking(start())
    conversation.close()


def test_stop_pressed_again_and_again_is_one_interrupt(tmp_path: Path):
    """Not in a kernel: ipykernel drops a cell's reply when an interrupt meets its own code after the cell."""
    conversation = Conversation(Host(cwd=tmp_path, interface="a test", environ={}))
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
        pytest.raises(KeyboardInterrupt, match="continues in the next cell"),
        CellWait(conversation, ViewOutput(Unseen()), None, 60.0) as wait,
    ):
        wait.blocking(conversation.thread.submit(work()))
    assert cut_off == []
    presses.join()
    conversation.close()


class Noted(ViewOutput):
    """Notes on which thread it was opened, with what of the cell's; it may be one that cannot be."""

    def __init__(self, *, fails: bool = False) -> None:
        super().__init__(Unseen())
        self.opened: list[tuple[str, str]] = []
        self._fails = fails

    def open(self) -> None:
        self.opened.append((threading.current_thread().name, CELL.get()))
        if self._fails:
            raise OSError("the front end is gone")


CELL: contextvars.ContextVar[str] = contextvars.ContextVar("CELL", default="none")


def asked(conversation: Conversation, output: Noted) -> None:
    """Have a cell ask; its request leaves when the cell waits for that."""
    runs: list[Run] = []

    async def waits_for_the_cell(_: PromptContext) -> ContextItems:
        await asyncio.to_thread(eventually, lambda: runs[0].when_sent is not None)
        return ContextItems()

    request = RunRequest(prompt="Say hello.", context=(waits_for_the_cell,))
    with CellWait(conversation, output, None, seconds_for_request=60.0) as wait:
        wait.blocking(conversation.start(request, RunSurface(belongs_to=runs.append)))


@pytest.fixture
def conversation(messages_server: Callable[..., MessagesServer], tmp_path: Path) -> Iterator[Conversation]:
    importlib.import_module("ipywidgets")  # as it is from the second cell on
    server = messages_server([turn(say("Hello."))])
    environ = {"HOME": str(tmp_path), "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}
    conversation = Conversation(Host(cwd=tmp_path, interface="a test", environ=environ))
    yield conversation
    conversation.close()


def test_the_thread_that_has_sent_the_request_opens_the_output_in_the_cells_context(conversation: Conversation):
    output = Noted()
    contextvars.copy_context().run(lambda: (CELL.set("this one"), asked(conversation, output)))
    ((thread, cell),) = output.opened
    assert cell == "this one"
    assert thread != threading.main_thread().name


def test_the_cell_says_why_its_output_cannot_be_opened(conversation: Conversation):
    output = Noted(fails=True)
    with pytest.raises(OSError, match="the front end is gone"):
        asked(conversation, output)
    ((thread, _),) = output.opened
    assert thread != threading.main_thread().name


def _after_turns_of(loop: asyncio.AbstractEventLoop) -> None:
    """Return when the agent's loop has looked at all that had come before."""
    for _ in range(3):
        looked = threading.Event()
        loop.call_soon_threadsafe(looked.set)
        looked.wait()
