"""The log of operations: nothing lost, nothing twice, few messages."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

from cellwright.kernel.output.op_log import OpLog


def text(part: str, block: int = 0) -> dict[str, Any]:
    return {"op": "text", "block": block, "text": part}


def test_the_first_goes_out_at_once_and_the_rest_soon():
    async def scene() -> list[dict[str, Any]]:
        log, messages = OpLog(), []
        log.attach(messages.append)
        log.add(text("a"))
        assert [message["ops"] for message in messages] == [[text("a")]]
        for part in "bcd":
            log.add(text(part))
        async with asyncio.timeout(5):
            while "".join(op["text"] for message in messages for op in message["ops"]) != "abcd":
                await asyncio.sleep(0)
        return messages

    messages = asyncio.run(scene())
    assert [message["first"] for message in messages] == list(range(len(messages)))
    assert messages[0]["type"] == "ops"
    assert abs(messages[0]["now"] - time.time()) < 60


def test_what_came_before_the_widget_goes_out_with_it():
    async def scene() -> list[dict[str, Any]]:
        log, messages = OpLog(), []
        log.add({"op": "run"})
        log.add(text("a"))
        log.add(text("b"))
        log.attach(messages.append)
        return messages

    (message,) = asyncio.run(scene())
    assert message["ops"] == [{"op": "run"}, text("ab")]


def test_a_view_gets_what_it_lacks():
    async def scene() -> dict[int, list[tuple[int, int]]]:
        log, messages = OpLog(), []
        for block in range(3):
            log.add(text("x", block))
        log.attach(messages.append)
        sent = {}
        for have in (1, 3, 99, 0):
            messages.clear()
            log.replay(have)
            sent[have] = [(message["first"], len(message["ops"])) for message in messages]
        return sent

    # a view that has all gets nothing; one that is ahead belongs to a kernel that is gone, and starts over
    assert asyncio.run(scene()) == {1: [(1, 2)], 3: [], 99: [(0, 3)], 0: [(0, 3)]}


def test_when_it_is_closed_nothing_is_added_and_later_views_get_what_there_is():
    async def scene() -> tuple[list[str], list[str]]:
        log, messages = OpLog(), []
        log.attach(messages.append)
        log.add(text("a", 0))
        log.add(text("b", 1))
        log.close()
        log.add(text("c", 2))
        at_first = [op["text"] for message in messages for op in message["ops"]]
        messages.clear()
        log.replay(0)
        return at_first, [op["text"] for message in messages for op in message["ops"]]

    assert asyncio.run(scene()) == (["a", "b"], ["a", "b"])


def test_different_things_are_not_merged():
    async def scene() -> list[dict[str, Any]]:
        log, messages = OpLog(), []
        for op in (
            text("a"),
            {"op": "thinking", "block": 0, "text": "x", "at": 1.0},
            {"op": "thinking", "block": 0, "text": "y", "at": 2.0},
            {"op": "tool_input", "id": "t", "name": "Read", "chars": 0},
            {"op": "tool_input", "id": "t", "name": "Read", "chars": 9},
            {"op": "output", "id": "t", "text": "1"},
            {"op": "output", "id": "t", "text": "2"},
            {"op": "output", "id": "u", "text": "3"},
            {"op": "notice", "level": "info", "text": "n"},
            {"op": "notice", "level": "info", "text": "n"},
        ):
            log.add(op)
        log.attach(messages.append)
        return messages[0]["ops"]

    assert asyncio.run(scene()) == [
        text("a"),
        {"op": "thinking", "block": 0, "text": "xy", "at": 1.0},
        {"op": "tool_input", "id": "t", "name": "Read", "chars": 9},
        {"op": "output", "id": "t", "text": "12"},
        {"op": "output", "id": "u", "text": "3"},
        {"op": "notice", "level": "info", "text": "n"},
        {"op": "notice", "level": "info", "text": "n"},
    ]


def test_a_burst_of_deltas_costs_few_messages_and_few_bytes():
    async def scene() -> tuple[list[dict[str, Any]], float]:
        log, messages = OpLog(), []
        log.attach(messages.append)
        started = time.monotonic()
        for number in range(20_000):
            log.add(text("word "))
            if number % 100 == 0:
                await asyncio.sleep(0)
        log.close()
        return messages, time.monotonic() - started

    messages, seconds = asyncio.run(scene())
    assert "".join(op["text"] for message in messages for op in message["ops"]) == "word " * 20_000
    assert len(messages) <= seconds * 30 + 2
    assert sum(len(json.dumps(message)) for message in messages) < 1.2 * len("word " * 20_000)


def test_the_examples_of_the_protocol_have_the_shape_of_what_is_sent():
    examples = json.loads((Path(__file__).parents[3] / "docs/protocol/examples.json").read_text("utf-8"))
    messages: list[Any] = []
    log = OpLog()
    log.attach(messages.append)
    asyncio.run(_add(log))
    assert set(messages[0]) == set(examples["kernel_to_browser"][0])


async def _add(log: OpLog) -> None:
    log.add(text("a"))
