"""A run of a conversation is drawn once, however many look on, and not at all while nobody does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from chat_comms import Panels
from counted_drawing import CountedDrawing

from cellwright.conversation.core import Host
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import Run, RunSurface
from cellwright.events import Event, TextDelta
from cellwright.features.conversation import Conversation
from cellwright.kernel.chat.connections import PanelConnection
from cellwright.kernel.chat.conversation_log import ConversationLog, LoggedRun
from cellwright.kernel.output.op_log import OpLog
from cellwright.kernel.output.run_pages import OpSender
from cellwright.testing import MessagesServer, say, turn

ANSWER = "".join(f"{number:04} " for number in range(2_000))


class Scene:
    """A conversation whose answer comes in pieces, the log of its runs, and what of them was drawn."""

    def __init__(self, folder: Path, server: MessagesServer) -> None:
        environ = {"HOME": str(folder), "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}
        self.conversation = Conversation(Host(cwd=folder, interface="a test", environ=environ))
        self.drawn: list[Event] = []
        log = ConversationLog(
            self.conversation.thread,
            lambda: self.conversation.sessions.started,
            draw=lambda add: CountedDrawing(add, self.drawn),
        )
        self.conversation.observers.add(log)
        self.panels = Panels(log)
        self.published = ""
        self.deltas = 0
        self._over = threading.Event()
        log.watch(self)

    def connect(self) -> PanelConnection:
        """Open a panel."""
        return self.conversation.thread.call(self.panels.connect)

    def run(self, belongs_to: Callable[[Run], object]) -> None:
        """Have the prompt answered, and wait until the log has the end."""
        surface = RunSurface(self._count, belongs_to=belongs_to)
        run = self.conversation.start(RunRequest(prompt="Count."), surface)
        self.conversation.jobs.work_until_done(run)
        assert self._over.wait(60)

    def panel_text(self, panel: PanelConnection) -> str:
        return "".join(
            op["text"] for message in self.panels.sent(panel, "ops") for op in message["ops"] if op["op"] == "text"
        )

    @property
    def drawn_text(self) -> str:
        return "".join(event.text for event in self.drawn if isinstance(event, TextDelta))

    def _count(self, event: Event) -> None:
        if isinstance(event, TextDelta):
            self.published += event.text
            self.deltas += 1

    def run_changed(self, run: LoggedRun) -> None:
        if run.finished:
            self._over.set()

    def runs_removed(self, ids: Sequence[str]) -> None:
        """Nothing is taken out here."""

    def moved(self) -> None:
        """There is one session."""


@pytest.fixture
def scene(own_place: Path) -> Iterator[Scene]:
    with MessagesServer([turn(say(ANSWER))], delta_chars=5) as server:
        made = Scene(own_place, server)
        yield made
        made.conversation.close()


def test_a_cell_and_a_panel_look_on_and_each_delta_is_drawn_once(scene: Scene) -> None:
    panel = scene.connect()
    messages: list[Any] = []
    cell = OpSender(OpLog())
    cell.attach(messages.append)
    scene.run(lambda run: cell.follow(scene.panels.log.log_of(run)))
    cell.close()
    assert scene.deltas > 1
    assert scene.published == ANSWER
    assert scene.drawn_text == ANSWER
    assert scene.panel_text(panel) == ANSWER
    assert "".join(op["text"] for message in messages for op in message["ops"] if op["op"] == "text") == ANSWER


def test_nobody_looks_on_and_nothing_is_drawn_until_somebody_does(scene: Scene) -> None:
    scene.run(lambda _: None)
    assert scene.deltas > 1
    assert scene.published == ANSWER
    assert scene.drawn == []
    panels = [scene.connect(), scene.connect()]
    assert [scene.panel_text(panel) for panel in panels] == [ANSWER, ANSWER]
    assert scene.drawn_text == ANSWER


def test_a_program_that_reads_lines_has_nothing_drawn(scene: Scene) -> None:
    program = scene.conversation.thread.call(lambda: scene.panels.connect({"view": "lines", "client": "server"}))
    scene.run(lambda _: None)
    lines = [line for message in scene.panels.sent(program, "lines") for line in message["lines"]]
    assert "".join(line["data"]["chunk"] for line in lines if line["type"] == "claude_response_chunk") == ANSWER
    assert scene.drawn == []
