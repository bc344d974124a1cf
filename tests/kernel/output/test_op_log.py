"""What a run is drawn from: kept while nobody looks, drawn once for all who do."""

from __future__ import annotations

import asyncio
import tracemalloc
from typing import Any

from counted_drawing import CountedDrawing

from cellwright.events import Event, Notice, TextDelta, ThinkingDelta, ToolEnd, ToolInputDelta, ToolProgress, TurnEnd
from cellwright.kernel.output.op_log import MESSAGES_AT_ONCE, OpLog, OpReader
from cellwright.telemetry.view_limits import DRAWN


def counted() -> tuple[OpLog, list[Event]]:
    """A log, and the events that were drawn for it."""
    drawn: list[Event] = []
    return OpLog(lambda add: CountedDrawing(add, drawn)), drawn


def text(ops: list[dict[str, Any]]) -> str:
    return "".join(op["text"] for op in ops if op["op"] == "text")


def test_nothing_is_drawn_before_somebody_looks() -> None:
    log, drawn = counted()
    reader = OpReader(log)
    for _ in range(2_000):
        log.on_event(TextDelta("word "))
    assert drawn == []
    assert text(reader.after(0)) == "word " * 2_000
    assert len(drawn) == 1


def test_what_several_look_at_is_drawn_once() -> None:
    log, drawn = counted()
    one, other = OpReader(log), OpReader(log)
    for number in range(100):
        log.on_event(TextDelta(f"{number} "))
        one.after(number)
        if number % 10 == 0:
            other.after(0)
    assert one.after(0) == other.after(0)
    assert text(one.after(0)) == "".join(f"{number} " for number in range(100))
    assert len(drawn) == 100


def test_each_counts_what_it_gets() -> None:
    log = OpLog()
    cell, panel = OpReader(log, frozenset({"thinking"})), OpReader(log)
    log.on_event(ThinkingDelta("hm", 0))
    log.on_event(TextDelta("a", 1))
    log.on_event(Notice("for the cell"), only=cell)
    log.on_event(Notice("for the panel"), only=panel)
    log.add({"op": "stuck", "id": "t", "text": "for both"})
    assert [op["text"] for op in cell.after(0)] == ["a", "for the cell", "for both"]
    assert [op["text"] for op in panel.after(0)] == ["hm", "a", "for the panel", "for both"]
    assert (len(cell), len(panel)) == (3, 4)
    assert cell.after(2) == panel.after(3)


def test_pieces_of_one_thing_are_one_and_of_others_are_not() -> None:
    log = OpLog()
    for event in (
        TextDelta("a", 0),
        TextDelta("b", 0),
        ThinkingDelta("x", 1),
        ThinkingDelta("y", 1),
        ToolInputDelta("t", "Read"),
        ToolInputDelta("t", "Read", '{"path"'),
        ToolInputDelta("t", "Read", ": 1}"),
        ToolProgress("t", text="1"),
        ToolProgress("t", message="2"),
        ToolProgress("u", text="3"),
        ToolProgress("u", fraction=0.5),
        Notice("n"),
        Notice("n"),
    ):
        log.on_event(event)
    assert OpReader(log).after(0) == [
        {"op": "text", "block": 0, "text": "ab"},
        {"op": "thinking", "block": 1, "text": "xy", "at": 0.0},
        {"op": "tool_input", "id": "t", "name": "Read", "chars": 11},
        {"op": "output", "id": "t", "text": "12\n"},
        {"op": "output", "id": "u", "text": "3"},
        {"op": "notice", "level": "info", "text": "n"},
        {"op": "notice", "level": "info", "text": "n"},
    ]


def test_what_is_drawn_now_or_later_says_the_same() -> None:
    events: list[Event] = [
        *(ToolProgress("t", text="o" * 999) for _ in range(150)),
        ToolProgress("t", output={"image/png": "aGk=", "text/html": "<p>", "text/plain": "<Figure>"}),
        ToolEnd("t", "Python", "success", [{"type": "text", "text": "r" * 20_000}, {"type": "image"}], 1.0),
        *(TextDelta("word ", index) for index in (0, 0, 1, 1)),
        TurnEnd({"role": "assistant", "content": []}, "refusal", {}, "claude-opus-5-5"),
    ]

    def ops(*, at_once: bool) -> tuple[str, list[dict[str, Any]]]:
        log = OpLog()
        reader = OpReader(log)
        for event in events:
            log.on_event(event)
            if at_once:
                reader.after(0)
        outputs = "".join(op["text"] for op in reader.after(0) if op["op"] == "output")
        return outputs + text(reader.after(0)), [op for op in reader.after(0) if op["op"] not in ("output", "text")]

    assert ops(at_once=True) == ops(at_once=False)


def test_what_nobody_looks_at_takes_the_memory_of_its_text() -> None:
    log, drawn = counted()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(50_000):
            log.on_event(TextDelta(f"{number:08} "))
            log.on_event(TextDelta("word "))
        log.on_event(ToolProgress("t", text="x" * 40 * DRAWN.output))
        for _ in range(1_000):
            log.on_event(ToolProgress("t", text="x" * DRAWN.output))
            log.on_event(ToolProgress("u", output={"text/html": "x" * DRAWN.output}))
        answer = {"role": "assistant", "content": [{"type": "text", "text": "x" * 10**6}]}
        log.on_event(TurnEnd(answer, "end_turn", {}, "claude-opus-5-5"))
        del answer
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 800_000 < log.chars < 1_000_000
    assert after - before < 2_000_000
    assert drawn == []


def test_news_come_at_once_and_then_20_times_a_second() -> None:
    async def scene() -> tuple[int, float]:
        loop = asyncio.get_running_loop()
        log = OpLog()
        reader = OpReader(log)
        read = asyncio.Event()
        told = 0

        def news() -> None:
            nonlocal told
            told += 1
            if text(reader.after(0)).endswith("the end"):
                read.set()

        leave = log.subscribe(news)
        began = loop.time()
        for number in range(MESSAGES_AT_ONCE):
            log.on_event(TextDelta("a"))
            assert told == number + 1, "the first words wait for nothing"
        for _ in range(2_000):
            log.on_event(TextDelta("a"))
            await asyncio.sleep(0)
        log.on_event(TextDelta("the end"))
        async with asyncio.timeout(60):
            await read.wait()
        told_in_time, seconds = told, loop.time() - began
        leave()
        log.on_event(TextDelta("b"))
        assert told == told_in_time
        return told, seconds

    told, seconds = asyncio.run(scene())
    assert told <= MESSAGES_AT_ONCE + seconds * 20 + 1


def test_a_receiver_that_fails_leaves_no_gap_for_the_others() -> None:
    log = OpLog()
    told: list[int] = []

    def failing() -> None:
        raise LookupError

    log.subscribe(failing)
    log.subscribe(lambda: told.append(1))
    log.on_event(TextDelta("a"))
    assert told == [1]
