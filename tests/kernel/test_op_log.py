"""The log of operations: nothing lost, nothing twice, few messages."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

from cellwright.kernel.op_log import OpLog


def text(part: str, block: int = 0) -> dict[str, Any]:
    return {"op": "text", "block": block, "text": part}


async def drained(messages: list[dict[str, Any]], count: int) -> None:
    """Wait until so many operations were sent."""
    async with asyncio.timeout(5):
        while sum(len(message["ops"]) for message in messages) < count:
            await asyncio.sleep(0)


def test_the_first_goes_out_at_once_and_the_rest_together():
    async def scene() -> list[dict[str, Any]]:
        log, messages = OpLog(), []
        log.attach(messages.append)
        for part in "abcd":
            log.add(text(part))
        assert [message["ops"] for message in messages] == [[text("a")]]
        await drained(messages, 2)
        return messages

    messages = asyncio.run(scene())
    assert [(message["first"], message["ops"]) for message in messages] == [(0, [text("a")]), (1, [text("bcd")])]
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
    async def scene() -> list[dict[str, Any]]:
        log, messages = OpLog(), []
        log.attach(messages.append)
        log.add(text("a", 0))
        log.add(text("b", 1))
        log.add(text("c", 2))
        log.replay(1)
        log.replay(3)
        log.replay(99)
        log.replay(0)
        log.close()
        log.replay(0)
        return messages

    sent = [(message["first"], len(message["ops"])) for message in asyncio.run(scene())]
    # at once; then "b" and "c" before the first replay; a view that has all gets nothing; one that is ahead starts over
    assert sent == [(0, 1), (1, 2), (1, 2), (0, 3), (0, 3)]


def test_different_things_are_not_merged():
    async def scene() -> list[dict[str, Any]]:
        log, messages = OpLog(), []
        log.attach(messages.append)
        log.add({"op": "run"})
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
        log.close()
        return messages[1]["ops"]

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
    examples = json.loads((Path(__file__).parents[2] / "docs/protocol/examples.json").read_text("utf-8"))
    messages: list[Any] = []
    log = OpLog()
    log.attach(messages.append)
    asyncio.run(_add(log))
    assert set(messages[0]) == set(examples["kernel_to_browser"][0])


async def _add(log: OpLog) -> None:
    log.add(text("a"))
