"""A run's events by themselves: numbers, readers, what is kept."""

from __future__ import annotations

import asyncio
import json

import pytest

from cellwright.server.api_error import RouteError
from cellwright.server.runs.run import ClientRun, EventsGone, RunPlace, encoded, send_events, stream_kind
from cellwright.server.runs.runs import RunLimits, RunsAtOnce

PLACE = RunPlace(kernel_id="k", owner="")
LIMITS = RunLimits(
    max_runs=3,
    max_runs_per_user=2,
    runs_per_minute=3,
    max_own_kernels=1,
    max_request_bytes=1_000,
    max_event_bytes=10_000,
    finished_run_seconds=1.0,
    max_finished_runs=1,
    own_kernel_idle_seconds=1.0,
    kernel_connect_seconds=1.0,
    heartbeat_seconds=1.0,
)


def _chunk(text: str, *, last: bool = False) -> dict:
    return {
        "type": "claude_response_chunk",
        "timestamp": "",
        "data": {"chunk": text, "chunk_index": 0, "is_final": last},
    }


END = {
    "type": "session_complete",
    "timestamp": "",
    "data": {"final_response": "", "metadata": {"stop_reason": "end_turn"}},
}


def _run(most_bytes: int = 1_000_000) -> tuple[ClientRun, list[ClientRun]]:
    over: list[ClientRun] = []
    return ClientRun("r", PLACE, most_bytes, over.append), over


def _kinds(run: ClientRun, after: int = 0) -> list[str]:
    return [event.kind for event in run.after(after)]


def test_lines_are_taken_once_and_missing_ones_are_noticed():
    run, over = _run()
    assert run.take(0, [_chunk("a"), _chunk("b")])
    assert run.take(1, [_chunk("b"), _chunk("c")])  # the kernel sends some of them again
    assert not run.take(4, [_chunk("e")])
    assert run.held == 3
    assert [json.loads(event.line)["data"]["chunk"] for event in run.after(1)] == ["a", "b", "c"]
    assert run.take(3, [END])
    assert over == [run]
    assert run.metadata["stop_reason"] == "end_turn"
    assert run.state == "done"


def test_the_oldest_events_make_room():
    run, _ = _run(2_000)
    run.take(0, [_chunk("x" * 100) for _ in range(50)])
    assert run.last_id == 51
    with pytest.raises(EventsGone) as gone:
        run.after(0)
    assert [event.id for event in run.after(gone.value.oldest - 1)] == list(range(gone.value.oldest, 52))
    assert sum(len(event.line) for event in run.after(gone.value.oldest - 1)) <= 2_000


def test_one_event_that_is_larger_than_all_that_is_kept_is_kept():
    run, _ = _run(100)
    run.take(0, [_chunk("x" * 1_000)])
    assert _kinds(run, 1) == ["claude_response_chunk"]


def test_a_run_that_fails_says_so_and_keeps_what_was_answered():
    run, over = _run()
    run.take(0, [_chunk("One."), _chunk("", last=True), _chunk("Tw")])
    run.fail("EXECUTION_ERROR", "The kernel died.")
    run.fail("EXECUTION_ERROR", "It died again.")
    assert _kinds(run, 4) == ["error", "session_complete"]
    assert run.state == "failed"
    assert json.loads(run.after(5)[0].line)["data"]["final_response"] == "Tw"
    assert over == [run]


class Slow:
    """A client that takes what is written when the test lets it."""

    def __init__(self) -> None:
        self.disconnected = asyncio.Event()
        self.asked_to_take = asyncio.Event()
        self.taking = asyncio.Event()
        self.written: list[bytes] = []

    def write(self, chunk: bytes) -> None:
        self.written.append(chunk)

    async def flush(self) -> None:
        self.asked_to_take.set()
        await self.taking.wait()

    def cut(self) -> None:
        self.disconnected.set()


async def _idle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_slow_client_holds_nothing_but_its_place():
    async def play() -> None:
        run, _ = _run(5_000)
        client = Slow()
        sending = asyncio.create_task(send_events(client, run, 0, "text/event-stream", 60.0))
        await _idle()
        first = len(client.written)
        run.take(0, [_chunk("x" * 100) for _ in range(200)])
        await _idle()
        assert len(client.written) == first  # nothing is written while it does not take what was
        client.taking.set()
        await sending
        assert b"event: events_gone" in client.written[-1]  # what it missed is gone, and it is told

    asyncio.run(play())


def test_a_client_that_takes_nothing_is_cut_off():
    async def play() -> None:
        run, _ = _run()
        client = Slow()
        await send_events(client, run, 0, "text/event-stream", 60.0, stall_seconds=0.01)
        assert client.disconnected.is_set()
        assert len(client.written) == 1

    asyncio.run(play())


def test_a_client_that_comes_back_while_nothing_happens_gets_its_headers():
    async def play() -> None:
        run, _ = _run()
        client = Slow()
        sending = asyncio.create_task(send_events(client, run, run.last_id, "text/event-stream", 60.0))
        await client.asked_to_take.wait()
        assert client.written == []
        client.taking.set()
        await _idle()
        client.disconnected.set()
        await sending

    asyncio.run(play())


def test_a_client_that_keeps_up_gets_everything_and_then_the_end():
    async def play() -> None:
        run, _ = _run()
        client = Slow()
        client.taking.set()
        sending = asyncio.create_task(send_events(client, run, 0, "application/x-ndjson", 60.0))
        for number in range(5):
            run.take(number, [_chunk(str(number))])
            await _idle()
        run.take(5, [END])
        await sending
        lines = b"".join(client.written).splitlines()
        assert [json.loads(line)["id"] for line in lines] == list(range(1, 8))

    asyncio.run(play())


def test_a_client_that_leaves_is_not_written_to():
    async def play() -> None:
        run, _ = _run()
        client = Slow()
        client.taking.set()
        sending = asyncio.create_task(send_events(client, run, 0, "text/event-stream", 60.0))
        await _idle()
        client.disconnected.set()
        await sending
        written = len(client.written)
        run.take(0, [_chunk("x")])
        assert len(client.written) == written

    asyncio.run(play())


def test_an_event_on_the_wire():
    run, _ = _run()
    run.take(0, [_chunk("two\nlines  ")])
    (event,) = run.after(1)
    text = encoded(event, "text/event-stream").decode()
    assert text.startswith("id: 2\nevent: claude_response_chunk\ndata: {")
    assert text.count("\n") == 4
    assert "\n" not in encoded(event, "application/x-ndjson").decode()[:-1]


def test_half_a_character_is_sent_as_json_escapes_it():
    run, _ = _run()
    run.take(0, [_chunk("broken \udc80, whole ü")])
    text = run.after(1)[0].line.decode()
    assert "whole ü" in text
    assert json.loads(text)["data"]["chunk"] == "broken \udc80, whole ü"


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", "text/event-stream"),
        ("*/*", "text/event-stream"),
        ("text/event-stream", "text/event-stream"),
        ("application/x-ndjson, text/event-stream;q=0.5", "application/x-ndjson"),
        ("application/jsonl", "application/x-ndjson"),
        ("application/json", None),
        ("text/html, application/json", None),
    ],
)
def test_what_a_client_wants_to_read(accept, kind):
    assert stream_kind(accept) == kind


def test_runs_at_once_and_a_minute():
    now = [0.0]
    at_once = RunsAtOnce(LIMITS, lambda: now[0])
    at_once.take("ada")
    at_once.take("ada")
    with pytest.raises(RouteError, match="You may run 2 prompts at once") as refused:
        at_once.take("ada")
    assert (refused.value.status, refused.value.code, refused.value.retry_after) == (429, "RATE_LIMIT_EXCEEDED", 5)
    at_once.take("bob")
    with pytest.raises(RouteError, match="The server runs 3 prompts at once"):
        at_once.take("bob")
    at_once.give_back("ada")
    at_once.take("ada")
    at_once.give_back("ada")
    now[0] = 20.0
    with pytest.raises(RouteError, match="You may begin 3 runs a minute") as refused:
        at_once.take("ada")
    assert refused.value.retry_after == 40
    now[0] = 60.0
    at_once.take("ada")
    assert at_once.running == 3


def test_a_run_that_is_stopped_before_its_kernel_knows_of_it_ends_once():
    run, over = _run()
    run.interrupt()
    run.interrupt()
    run.refuse(RouteError(502, "EXECUTION_ERROR", "too late to say"))
    assert _kinds(run) == ["run_started", "session_complete"]
    assert (run.finished, run.state, run.metadata) == (True, "interrupted", {"stop_reason": "interrupted"})
    assert over == [run]
