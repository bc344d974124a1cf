"""Panels at their places in the logs: nothing twice, nothing missed, nobody waited for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

import pytest
from chat_comms import Panels

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Answered, Asked, Notice, Preview, TextDelta
from cellwright.kernel.chat.connections import MAX_CONNECTIONS, PING_SECONDS, QUIET_SECONDS, PanelConnection
from cellwright.kernel.chat.conversation_log import CHARS_KEPT, RUNS_KEPT, LineLog, LoggedRun, past_run
from cellwright.kernel.chat.requests import serve_manage
from cellwright.kernel.output.op_log import MESSAGES_AT_ONCE, SECONDS_BETWEEN_MESSAGES
from cellwright.kernel.pages.comm import PageError


def on_a_loop(test: Callable[[Panels], Awaitable[None]]) -> Callable[[], None]:
    @wraps(test)
    def run() -> None:
        async def scene() -> None:
            await test(Panels())

        asyncio.run(scene())

    # pytest would look for a fixture of the argument's name
    del run.__wrapped__  # type: ignore[attr-defined]
    return run


def begun(panels: Panels, run_id: str = "run-1", asked: float = 1.0) -> LoggedRun:
    run = LoggedRun(id=run_id, prompt="Hello", origin="sidebar", kind="command", asked_at=asked)
    panels.log.begin(run)
    return run


def texts(panels: Panels, connection: PanelConnection, run: str = "run-1") -> str:
    """The text of a run that the panel holds; what it was sent has to fit together."""
    ops: list[Any] = []
    for message in panels.sent(connection):
        if message["type"] == "gone" and run in message["runs"]:
            ops = []
        if message["type"] == "ops" and message["run"] == run:
            assert message["first"] == len(ops)
            ops += message["ops"]
    return "".join(op["text"] for op in ops if op["op"] == "text")


@on_a_loop
async def test_the_run_comes_before_its_operations_and_its_end_after_them(panels: Panels) -> None:
    panel = panels.connect()
    run = begun(panels)
    run.emit_to_panels(TextDelta("Hello"))
    panels.log.end(run)
    kinds = [message["type"] for message in panels.sent(panel)]
    assert kinds == ["welcome", "run", "ops", "ops", "run"]
    assert [message["run"]["state"] for message in panels.sent(panel, "run")] == ["running", "done"]
    assert panels.sent(panel, "ops")[-1]["ops"][-1]["op"] == "end"


@on_a_loop
async def test_the_state_of_a_command_follows_its_questions_and_its_end(panels: Panels) -> None:
    asked = begun(panels, "asked")
    asked.on_event(Asked("q1", {"id": "t1", "name": "Bash", "input": {}}, Preview("Run ls", "ls"), ""))
    assert asked.state == "asking"
    asked.on_event(Answered("q1", "t1", "allow", "sidebar"))
    assert asked.state == "running"
    ends = [
        (None, "done"),
        (ValueError("a fault"), "failed"),
        (CellwrightError(ErrorCode.INTERRUPTED, "Interrupted."), "interrupted"),
    ]
    for number, (error, state) in enumerate(ends):
        run = begun(panels, f"command-{number}")
        panels.log.end(run, error)
        assert run.state == state


@on_a_loop
async def test_what_comes_in_quick_succession_goes_together(panels: Panels) -> None:
    panel = panels.connect()
    began = time.monotonic()
    run = begun(panels)
    for _ in range(1_000):
        run.emit_to_panels(TextDelta("x"))
    panels.log.end(run)
    seconds = time.monotonic() - began
    assert texts(panels, panel) == "x" * 1_000
    assert len(panels.sent(panel, "ops")) <= MESSAGES_AT_ONCE + seconds / SECONDS_BETWEEN_MESSAGES + 1


@on_a_loop
async def test_one_that_comes_back_gets_what_it_lacks_and_hears_what_is_gone(panels: Panels) -> None:
    run = begun(panels)
    run.emit_to_panels(TextDelta("One "))
    run.emit_to_panels(Notice("two"))
    panels.log.end(run)
    said = {"page": "p", "log": panels.log.id, "have": {"run-1": 1, "run-0": 7, "bad": "x", "worse": -1, "true": True}}
    back = panels.connect(said)
    assert panels.sent(back, "gone") == [{"type": "gone", "runs": ["run-0"]}]
    (ops,) = panels.sent(back, "ops")
    assert (ops["first"], [op["op"] for op in ops["ops"]]) == (1, ["notice", "end"])
    # of another kernel's log, or with more than there is: from the beginning
    for other in ({**said, "log": "another"}, {**said, "have": {"run-1": 99}}):
        assert panels.sent(panels.connect(other), "ops")[0]["first"] == 0


@on_a_loop
async def test_the_same_page_takes_its_old_place(panels: Panels) -> None:
    old = panels.connect({"page": "p"})
    other = panels.connect({"page": "q"})
    new = panels.connect({"page": "p"})
    begun(panels)
    assert old.closed
    assert panels.connections.all == [other, new]
    assert panels.sent(old, "run") == []
    assert len(panels.sent(new, "run")) == 1


@on_a_loop
async def test_many_that_nobody_closes_are_let_go(panels: Panels) -> None:
    for number in range(MAX_CONNECTIONS + 5):
        panels.clock.now += 1
        panels.connect({"page": str(number)})
    assert len(panels.connections.all) == MAX_CONNECTIONS
    assert panels.connections.all[0].page == "5"


@on_a_loop
async def test_one_that_does_not_answer_is_sent_nothing_until_it_is_heard_from(panels: Panels) -> None:
    panel = panels.connect()
    run = begun(panels)
    panels.clock.now += QUIET_SECONDS + 1
    run.emit_to_panels(TextDelta("One "))
    assert len(panels.sent(panel, "request")) == 1
    assert texts(panels, panel) == "One "
    assert panels.connections.is_watched
    panels.clock.now += PING_SECONDS + 1
    begun(panels, "run-2")
    assert panel.is_silent
    assert not panels.connections.is_watched
    assert len(panels.sent(panel, "request")) == 2
    assert "run-2" not in [message["run"]["id"] for message in panels.sent(panel, "run")]
    panels.connections.send_state({"type": "state", "n": 1})
    assert len(panels.sent(panel, "request")) == 2  # it is not asked with each message
    panel.mark_alive()
    assert panels.sent(panel, "state") == [{"type": "state", "n": 1}]
    assert "run-2" in [message["run"]["id"] for message in panels.sent(panel, "run")]


@on_a_loop
async def test_a_large_message_goes_in_pieces_and_nothing_overtakes_it(panels: Panels) -> None:
    panel = panels.connect()
    run = begun(panels)
    run.emit_to_panels(TextDelta("x" * 500_000))
    assert texts(panels, panel) == ""  # its last piece has not gone out
    run.emit_to_panels(TextDelta("y"))
    panels.connections.send_state({"type": "state"})
    panels.log.end(run)
    await panels.until(lambda: len(panels.sent(panel, "run")) == 2)
    assert texts(panels, panel) == "x" * 500_000 + "y"
    order = [message["type"] for message in panels.sent(panel)]
    assert order == ["welcome", "run", "ops", "state", "ops", "run"]


@on_a_loop
async def test_a_panel_that_closes_in_the_middle_of_a_large_message_is_sent_nothing_more(panels: Panels) -> None:
    panel = panels.connect()
    run = begun(panels)
    run.emit_to_panels(TextDelta("x" * 500_000))
    panels.connections.remove(panel)
    panels.log.end(run)
    await asyncio.sleep(0)
    assert panels.sent(panel, "ops") == []
    assert panels.connections.all == []


@on_a_loop
async def test_what_was_missed_is_sent_again(panels: Panels) -> None:
    panel = panels.connect()
    run = begun(panels)
    run.emit_to_panels(TextDelta("One"))
    panels.log.end(run)
    before = panels.sent(panel, "ops")
    panel.resend("run-1", 0)
    again = panels.sent(panel, "ops")[len(before) :]
    assert [op for message in again for op in message["ops"]] == [op for message in before for op in message["ops"]]
    panel.resend("run-1", 99)
    panel.resend("another", 0)
    assert len(panels.sent(panel, "ops")) == len(before) + len(again)


@on_a_loop
async def test_programs_get_lines_of_what_begins_while_they_listen(panels: Panels) -> None:
    earlier = begun(panels, "run-0")
    program = panels.connect({"view": "lines", "client": "server", "page": "s"})
    run = LoggedRun(id="run-1", prompt="", origin="server", kind="command", asked_at=1.0, lines=LineLog())
    panels.log.begin(run)
    run.emit_to_panels(TextDelta("One "))
    run.emit_to_panels(TextDelta("line"))
    earlier.emit_to_panels(TextDelta("not for it"))
    panels.log.end(run)
    panels.log.end(earlier)
    assert [message["run"]["id"] for message in panels.sent(program, "run")] == ["run-1", "run-1"]
    lines = [line for message in panels.sent(program, "lines") for line in message["lines"]]
    assert [line["data"].get("chunk") for line in lines if line["type"] == "claude_response_chunk"] == ["One ", "line"]
    assert lines[-1]["type"] == "session_complete"
    back = panels.connect({"view": "lines", "page": "s", "log": panels.log.id, "have": {"run-1": 1}})
    assert panels.sent(back, "lines")[0]["first"] == 1
    assert panels.sent(back, "ops") == []
    assert not panels.connections.is_watched  # it is not shown every question


@on_a_loop
async def test_the_last_runs_are_kept_and_the_others_gone(panels: Panels) -> None:
    panel = panels.connect()
    for number in range(RUNS_KEPT + 3):
        panels.log.end(begun(panels, f"run-{number}"))
    begun(panels, "run-last")
    gone = [run for message in panels.sent(panel, "gone") for run in message["runs"]]
    assert gone == ["run-0", "run-1", "run-2"]
    assert len(panels.log.runs) == RUNS_KEPT + 1


@on_a_loop
async def test_large_runs_that_are_over_go_before_there_are_many(panels: Panels) -> None:
    picture = "x" * (CHARS_KEPT // 3)
    for number in range(4):
        run = begun(panels, f"run-{number}")
        run.log.add({"op": "display", "id": "t", "data": {"image/png": picture}})
        panels.log.end(run)
    assert list(panels.log.runs) == ["run-2", "run-3"]
    huge = begun(panels, "huge")
    huge.log.add({"op": "display", "id": "t", "data": {"image/png": picture * 4}})
    panels.log.end(huge)
    assert list(panels.log.runs) == ["huge"]


@on_a_loop
async def test_what_waits_for_a_page_that_sleeps_does_not_grow(panels: Panels) -> None:
    panel = panels.connect()
    panels.log.end(begun(panels, "known"))
    panels.clock.now += QUIET_SECONDS + 1
    begun(panels, "asked")
    panels.clock.now += PING_SECONDS + 1
    before = len(panels.sent(panel))
    for number in range(3 * RUNS_KEPT):
        panels.log.end(begun(panels, f"run-{number}"))
        panels.connections.send_state({"type": "state", "n": number})
    assert panels.sent(panel)[before:] == [{"type": "request", "id": "ping", "method": "ping", "params": {}}]
    panel.mark_alive()
    woken = panels.sent(panel)[before + 1 :]
    assert [message["runs"] for message in woken if message["type"] == "gone"] == [["known"]]
    assert [message["n"] for message in woken if message["type"] == "state"] == [3 * RUNS_KEPT - 1]
    assert ["asked", *(message["run"]["id"] for message in woken if message["type"] == "run")] == list(panels.log.runs)


@on_a_loop
async def test_turns_of_before_stand_before_what_goes_on(panels: Panels) -> None:
    panel = panels.connect()
    run = begun(panels, asked=50.0)
    run.emit_to_panels(TextDelta("Now"))
    past = [
        past_run("s", turn, f"{turn}", float(turn), [{"op": "text", "block": 0, "text": "Then"}]) for turn in (1, 2)
    ]
    panels.log.insert_past(past)
    assert list(panels.log.runs) == ["past-s-1", "past-s-2", "run-1"]
    shown: dict[str, None] = {}
    for message in panels.sent(panel):
        if message["type"] == "gone":
            for run_id in message["runs"]:
                del shown[run_id]
        elif message["type"] == "run":
            shown[message["run"]["id"]] = None
    assert list(shown) == list(panels.log.runs)
    run.emit_to_panels(TextDelta(" and then"))
    panels.log.end(run)
    assert texts(panels, panel) == "Now and then"
    panels.log.insert_past(past)  # they are there
    assert len(panels.sent(panel, "gone")) == 1


@on_a_loop
async def test_a_program_does_not_lose_its_run_to_the_turns_of_before(panels: Panels) -> None:
    program = panels.connect({"view": "lines", "client": "server", "page": "s"})
    run = begun(panels, asked=50.0)
    panels.log.insert_past([past_run("s", 1, "1", 1.0, [])])
    assert panels.sent(program, "gone") == []
    panels.log.end(run)
    panels.log.drop(["run-1"])
    assert [message["runs"] for message in panels.sent(program, "gone")] == [["run-1"]]


@pytest.mark.parametrize(
    ("said", "is_server"),
    [({"client": "server"}, True), ({"client": "server 0.1"}, True), ({"client": "serverless"}, False), ({}, False)],
)
def test_who_is_a_program(said: dict[str, Any], is_server: bool) -> None:
    assert Panels().connect(said).is_server == is_server


@on_a_loop
async def test_one_that_shows_the_kernel_among_others_gets_the_overview_alone(panels: Panels) -> None:
    watch, panel = panels.connect({"view": "overview", "client": "server", "page": "o"}), panels.connect({"page": "p"})
    run = begun(panels)
    run.emit_to_panels(TextDelta("Now"))
    panels.connections.send_state({"type": "state"})
    panels.connections.send_overview({"type": "overview"})
    panels.log.end(run)
    assert [message["type"] for message in panels.sent(watch)] == ["welcome", "overview"]
    assert {"run", "ops", "state"} <= {message["type"] for message in panels.sent(panel)}
    assert panels.sent(panel, "overview") == []


class Served:
    """Keeps the handlers of a room, by method."""

    def __init__(self) -> None:
        self.methods: dict[str, Any] = {}
        self.serve = self.methods.__setitem__


@pytest.mark.parametrize("method", ["manage", "manage_read", "manage_change"])
def test_a_program_neither_sees_nor_changes_what_is_configured(method: str) -> None:
    served = Served()
    serve_manage(served)  # type: ignore[arg-type]  # it asks nothing of the rest before it looks at who asks
    program = Panels().connect({"client": "server"})
    with pytest.raises(PageError, match="by a person"):
        asyncio.run(served.methods[method](program, {"what": "add_rule"}))
