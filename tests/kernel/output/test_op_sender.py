"""What a cell's pages are sent: nothing lost, nothing twice, few messages."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from pathlib import Path
from typing import Any

from cellwright.events import Event, Notice, TextDelta, UserPrompt
from cellwright.kernel.output.op_log import OpLog
from cellwright.kernel.output.op_sender import OpSender


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
