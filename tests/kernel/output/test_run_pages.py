"""What a cell's pages are sent: nothing lost, nothing twice, few messages."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from notebook_kernel import NotebookKernel, Page
from notebook_page import NotebookPage

from cellwright.events import Event, Notice, TextDelta, UserPrompt
from cellwright.kernel.output.op_log import OpLog
from cellwright.kernel.output.protocol import KeptMessage, SavedMessage, read_message
from cellwright.kernel.output.run_pages import OpSender
from cellwright.testing import Gate, MessagesServer, hold, say, turn, use

pytestmark = [pytest.mark.kernel, pytest.mark.kernel_version]

KEPT = {"type": "kept"}
EXAMPLES = json.loads((Path(__file__).parents[3] / "docs/protocol/examples.json").read_text("utf-8"))
DRAWS = """
from IPython.display import Image, display
display(Image(bytes.fromhex("89504e470d0a1a0a") + bytes(40), format="png"))
"""


def text(part: str, block: int = 0) -> dict[str, Any]:
    return {"op": "text", "block": block, "text": part}


def sent(messages: list[Any]) -> list[str]:
    return [op["text"] for message in messages for op in message["ops"]]


def filled(*events: Event, seconds_for_page: float = 3600) -> tuple[OpLog, OpSender]:
    log = OpLog()
    for event in events:
        log.on_event(event)
    return log, OpSender(log, seconds_for_page=seconds_for_page)


def test_the_first_goes_out_at_once_and_the_rest_soon():
    async def scene() -> list[Any]:
        messages: list[Any] = []
        log, sender = filled()
        sender.attach(messages.append)
        log.on_event(TextDelta("a"))
        assert [message["ops"] for message in messages] == [[text("a")]]
        for part in "bcd":
            log.on_event(TextDelta(part))
        async with asyncio.timeout(60):
            while "".join(sent(messages)) != "abcd":
                await asyncio.sleep(0)
        return messages

    messages = asyncio.run(scene())
    assert [message["first"] for message in messages] == list(range(len(messages)))
    assert messages[0]["type"] == "ops"
    assert abs(messages[0]["now"] - time.time()) < 60


def test_what_came_before_the_widget_goes_out_with_it():
    messages: list[Any] = []
    _, sender = filled(UserPrompt("hi"), TextDelta("a"), TextDelta("b"))
    sender.attach(messages.append)
    (message,) = messages
    assert [op["op"] for op in message["ops"]] == ["run", "text"]
    assert message["ops"][1] == text("ab")


def test_a_view_gets_what_it_lacks():
    messages: list[Any] = []
    _, sender = filled(*(TextDelta("x", block) for block in range(3)))
    sender.attach(messages.append)
    answers = {}
    for have in (1, 3, 99, 0):
        messages.clear()
        sender.replay(have)
        answers[have] = [(message["first"], len(message["ops"])) for message in messages]
    # a view that has all gets nothing; one that is ahead belongs to a kernel that is gone, and starts over
    assert answers == {1: [(1, 2)], 3: [], 99: [(0, 3)], 0: [(0, 3)]}


FLOOD = "words " * 10_000


def test_a_flood_waits_for_the_page_and_the_first_words_do_not():
    messages: list[Any] = []
    log, sender = filled(TextDelta("first words", 0), TextDelta(FLOOD, 1))
    sender.attach(messages.append)
    assert sent(messages) == ["first words"]
    log.on_event(TextDelta("what follows", 2))
    assert sent(messages) == ["first words"]
    messages.clear()
    sender.replay(0)
    (message,) = messages  # what is new is in it, and not in one of its own
    assert message["first"] == 0
    assert sent(messages) == ["first words", FLOOD, "what follows"]
    log.on_event(TextDelta(FLOOD, 3))
    assert messages[1]["ops"] == [text(FLOOD, 3)]


def test_a_flood_does_not_wait_long_for_a_page_that_cannot_be_heard():
    messages: list[Any] = []
    all_there = threading.Event()

    def send(message: Any) -> None:
        messages.append(message)
        if sent(messages) == ["first words", FLOOD]:
            all_there.set()

    _, sender = filled(TextDelta("first words", 0), TextDelta(FLOOD, 1), seconds_for_page=0.01)
    sender.attach(send)
    assert all_there.wait(60)


def test_a_flood_that_still_waits_is_sent_with_the_end():
    messages: list[Any] = []
    _, sender = filled(TextDelta(FLOOD))
    sender.attach(messages.append)
    assert messages == []
    sender.close()
    assert sent(messages) == [FLOOD]


def test_when_it_is_closed_nothing_more_is_sent_and_later_views_get_what_there_is():
    messages: list[Any] = []
    log, sender = filled(TextDelta("a", 0), TextDelta("b", 1))
    sender.attach(messages.append)
    log.on_event(TextDelta("c", 2))
    sender.close()
    log.on_event(TextDelta("d", 3))
    assert sent(messages) == ["a", "b", "c"]
    messages.clear()
    sender.replay(0)
    assert sent(messages) == ["a", "b", "c"]


def test_one_that_goes_on_with_another_log_counts_on():
    messages: list[Any] = []
    own, sender = filled(Notice("here alone"))
    sender.attach(messages.append)
    log = OpLog()
    log.on_event(TextDelta("a", 0))
    own.on_event(Notice("not sent yet"))
    sender.follow(log)
    log.on_event(TextDelta("b", 1))
    own.on_event(Notice("not read any more"))
    sender.close()
    assert sent(messages) == ["here alone", "not sent yet", "a", "b"]
    assert [message["first"] for message in messages] == [0, 1, 2][: len(messages)]


def test_a_burst_of_deltas_costs_few_messages_and_few_bytes():
    async def scene() -> tuple[list[Any], float]:
        messages: list[Any] = []
        log, sender = filled()
        sender.attach(messages.append)
        started = time.monotonic()
        for number in range(20_000):
            log.on_event(TextDelta("word "))
            if number % 100 == 0:
                await asyncio.sleep(0)
        sender.close()
        return messages, time.monotonic() - started

    messages, seconds = asyncio.run(scene())
    assert "".join(sent(messages)) == "word " * 20_000
    assert len(messages) <= seconds * 20 + 4
    assert sum(len(json.dumps(message)) for message in messages) < 1.2 * len("word " * 20_000)


def test_the_examples_of_the_protocol_have_the_shape_of_what_is_sent():
    examples = json.loads((Path(__file__).parents[3] / "docs/protocol/examples.json").read_text("utf-8"))
    messages: list[Any] = []
    _, sender = filled(TextDelta("a"))
    sender.attach(messages.append)
    assert set(messages[0]) == set(examples["kernel_to_browser"][0])


@pytest.fixture
def later(kernel: NotebookKernel) -> Iterator[Page]:
    """The same notebook in a page that was loaded later."""
    page = Page(kernel, says_ready=False, client="a-later-page")
    yield page
    page.close()


def found(kernel: NotebookKernel) -> set[str]:
    """The widgets that a page finds when it is loaded."""
    kernel.client.comm_info("jupyter.widget")
    while (reply := kernel.client.get_shell_msg(timeout=60))["msg_type"] != "comm_info_reply":
        pass
    return set(reply["content"]["comms"])


def test_where_no_page_came_later_nothing_is_sent_and_the_widget_is_closed(
    kernel: NotebookKernel, page: Page, model: MessagesServer
):
    model.add(say("Hello."))
    cell = kernel.run("%%claude --new\nhi")
    assert page.saved == []
    assert page.closed == [page.newest]
    types = [message["msg_type"] for message in cell.messages]
    assert types.index("comm_close") > types.index("update_display_data")
    assert types.count("comm_close") == 1


AS_A_PAGES_MESSAGE_IS_HANDLED = """
from cellwright.kernel.output.cell_output import SavedOutput
from cellwright.events import Notice
_kernel, _output = get_ipython().kernel, SavedOutput(get_ipython(), lambda _texts: {}, quiet=False)
_output.open()
_cell = _kernel.get_parent("shell")
_kernel.set_parent([], {**_cell, "header": {**_cell["header"], "msg_id": "of a page"}}, channel="shell")
try:
    _output.emit(Notice("Said.", "warning"))
    _output.close()
finally:
    _kernel.set_parent([], _cell, channel="shell")
"""


def test_what_is_shown_while_a_pages_message_is_handled_belongs_to_the_cell(kernel: NotebookKernel):
    cell = kernel.run(AS_A_PAGES_MESSAGE_IS_HANDLED)
    types = [message["msg_type"] for message in cell.messages]
    assert (types.count("display_data"), types.count("update_display_data")) == (1, 1)
    assert "Said." in cell.outputs[0]["text/markdown"]


def test_a_later_page_gets_what_the_notebook_keeps(
    kernel: NotebookKernel, page: Page, later: Page, model: MessagesServer
):
    gate = Gate()
    model.add(turn(use("Python", code=DRAWS)), turn(say("Here "), hold(gate), say("it is.")))
    cell = kernel.begin("%%claude --new --mode bypassPermissions\ngo", cell_id="the-cell")
    kernel.wait_for(lambda _: page.transcripts and page.text() == "Here ", cell)
    later.open(page.newest)
    # by its own request: it hears what the first page asked for, too
    kernel.wait_for(lambda _: later.saved and later.text() == "Here ", cell)
    gate.open()
    kernel.finish(cell)
    assert later.ops == page.ops
    while_running, saved = later.saved
    # a page that read nothing of the run from disk shows what the first one shows
    assert [each["data"] for each in while_running["outputs"]] == [
        shown["data"] for shown in cell.of_type("display_data")
    ]
    code, picture, answer = saved["outputs"]
    assert (saved["cell"], saved["writer"], saved["count"]) == ("the-cell", "", cell.reply["execution_count"])
    places = [{"run": saved["run"], "output": number} for number in range(3)]
    for outputs in (while_running["outputs"], saved["outputs"], cell.of_type("display_data")):
        metadata = [each["metadata"]["cellwright"] for each in outputs]
        assert [{name: each[name] for name in ("run", "output")} for each in metadata] == places[: len(outputs)]
    assert [each["data"] for each in saved["outputs"]] == cell.outputs
    assert "display(Image" in code["data"]["text/markdown"]
    assert "it is." in answer["data"]["text/markdown"]
    assert "image/png" in picture["data"]
    # it stays in the page that may know nothing else, until that page has no need of it
    assert later.closed == []
    page.send(KEPT)
    later.send(KEPT)
    kernel.wait_for(lambda _: later.closed)
    assert later.closed == [later.newest]


def test_a_page_that_comes_after_the_end_gets_everything(
    kernel: NotebookKernel, page: Page, later: Page, model: MessagesServer
):
    model.add(say("Hello."))
    cell = kernel.run("%%claude --new\nhi")
    assert page.newest in found(kernel)
    later.open(page.newest)
    kernel.wait_for(lambda _: later.saved)
    assert later.text() == "Hello."
    assert later.ops[-1]["op"] == "end"
    assert [each["data"] for each in later.saved[0]["outputs"]] == cell.outputs
    later.send(KEPT)
    kernel.wait_for(lambda _: later.closed)
    assert later.newest in found(kernel)  # the page may be reloaded before anybody has saved the notebook


def test_a_page_that_has_the_answer_gets_nothing_more_when_it_connects_again(
    kernel: NotebookKernel, page: Page, later: Page, model: MessagesServer
):
    model.add(say("Hello."))
    kernel.run("%%claude --new\nhi")
    later.open(page.newest)
    kernel.wait_for(lambda _: later.saved)
    later.send(KEPT)
    kernel.wait_for(lambda _: later.closed)
    for each in (page, later):  # the one that ran the cell, and one that has put the answer into it
        published = len(kernel.published)
        each.send({"type": "ready", "have": 0, "protocol": 1})
        kernel.run("", cell_id=None)
        kinds = [message["msg_type"] for message in kernel.published[published:]]
        assert "comm_msg" not in kinds, each


def test_a_view_of_a_run_that_is_over_stops_no_other(
    kernel: NotebookKernel, page: Page, later: Page, model: MessagesServer
):
    gate = Gate()
    model.add(say("First."), turn(say("Second "), hold(gate), say("goes on.")))
    kernel.run("%%claude --new\nhi")
    later.open(page.newest)
    kernel.wait_for(lambda _: later.saved)
    first = later.newest
    cell = kernel.begin("%%claude\nagain")
    kernel.wait_for(lambda _: page.newest != first and "Second" in page.text(), cell)
    later.send({"type": "stop"}, first)
    # both go by the same subshell: when there is an answer to the second, the first was taken
    later.saved.clear()
    later.send({"type": "ready", "have": 0, "protocol": 1}, first)
    kernel.wait_for(lambda _: later.saved, cell)
    gate.open()
    assert kernel.finish(cell).status == "ok"
    assert page.text() == "Second goes on."


def test_the_last_runs_alone_are_kept(kernel: NotebookKernel, page: Page, model: MessagesServer):
    model.add(*[say(f"Answer {number}.") for number in range(10)])
    for number in range(10):
        kernel.run(f"%%claude --new\n{number}")
    runs = list(page.transcripts)
    assert [run in found(kernel) for run in runs] == [False] * 2 + [True] * 8
    assert page.closed == runs  # each once


def test_the_examples_of_the_protocol():
    (saved,) = [message for message in EXAMPLES["kernel_to_browser"] if message["type"] == "saved"]
    assert set(saved) == set(SavedMessage.__annotations__)
    assert isinstance(read_message(EXAMPLES["browser_to_kernel"][-1]), KeptMessage)


def test_a_page_that_is_being_loaded_when_the_run_ends_gets_everything(
    kernel: NotebookKernel, page: Page, later: Page, model: MessagesServer, project: Path
):
    # from here on the kernel knows that its pages connect: this stays the last test
    shown = NotebookPage(kernel, project / "notebook.ipynb", ("the-cell", "code", ""))
    shown.open()
    shown.close()
    kernel.run("")  # the goodbye has arrived: not every kernel hears it while a cell runs
    model.add(say("Hello."))
    cell = kernel.run("%%claude --new\nhi")
    # it may know the widget already, and would drop it
    assert page.closed == []
    later.open(page.newest)
    kernel.wait_for(lambda _: later.saved)
    assert [each["data"] for each in later.saved[0]["outputs"]] == cell.outputs
    later.send(KEPT)
    kernel.wait_for(lambda _: later.closed)
