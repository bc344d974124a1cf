"""What may be spent: by whom, on which day, together, and after a restart."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import sqlite3
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from pathlib import Path

import pytest
from proxy_calls import ADA, BOB, MODEL, error_of, message, send
from proxy_server import ProxyServer

from cellwright.model.pricing import cost_usd, worst_case_usd
from cellwright.server.proxy.proxy import BOOK_FILE, Proxy, ProxyCaller, ProxyExchange, Upstream
from cellwright.server.proxy.request_rules import ProxyLimits, check
from cellwright.server.proxy.spending_ledger import KEPT, EgressLog, SpendingLedger, Spent, UsageReader
from cellwright.testing import Gate, fault, hold, say, turn

KEY = "sk-ant-local-0000"
DAY = 86_400.0
START = Callable[..., ProxyServer]


@pytest.fixture
def start_proxy(tmp_path: Path) -> Iterator[START]:
    with ExitStack() as running:

        def start(upstream, **rules) -> ProxyServer:
            return running.enter_context(ProxyServer(tmp_path / "proxy", upstream.url, KEY, **rules))

        yield start


def dear(usd: float):
    """A turn that costs so much."""
    return turn(say("dear"), usage={"input_tokens": 0, "output_tokens": round(usd / 0.5e-6)})


def test_over_budget_is_said_in_the_apis_form(messages_server, start_proxy):
    api = messages_server([dear(0.02)])
    proxy = start_proxy(api, budget_usd_per_day=0.01)
    assert send(proxy.url).status_code == 200
    refused = send(proxy.url)
    assert (refused.status_code, refused.headers["x-should-retry"]) == (402, "false")
    error = error_of(refused)
    assert (error["type"], error["details"]["error_code"]) == ("billing_error", "cellwright_budget_exceeded")
    assert "$0.01" in error["message"]
    assert "00:00 UTC" in error["message"]
    assert len(api.requests) == 1
    assert proxy.log_of(2)[1]["refused"] == "cellwright_budget_exceeded"
    assert proxy.log_of(2)[1]["cost_usd"] is None


def test_users_do_not_spend_each_others_budget(messages_server, start_proxy):
    api = messages_server([dear(0.02), say("for bob")])
    proxy = start_proxy(api, budget_usd_per_day=0.01)
    assert send(proxy.url).status_code == 200
    assert send(proxy.url).status_code == 402
    assert send(proxy.url, token=BOB).status_code == 200


def test_a_kernel_has_its_own_budget(messages_server, start_proxy):
    api = messages_server([dear(0.02), say("more")])
    proxy = start_proxy(api, budget_usd_per_kernel=0.01)
    assert send(proxy.url).status_code == 200
    refused = send(proxy.url)
    assert refused.status_code == 402
    assert "a kernel" in error_of(refused)["message"]


def test_the_answer_may_be_as_long_as_the_budget_pays_for(messages_server, start_proxy):
    api = messages_server([say("short")])
    proxy = start_proxy(api, budget_usd_per_day=0.001)
    assert send(proxy.url, message(max_tokens=50_000)).status_code == 200
    sent = api.requests[0].body["max_tokens"]
    assert 256 <= sent <= 2000
    worst = worst_case_usd(MODEL, 10, sent)
    assert worst is not None
    assert worst <= 0.001


def test_a_budget_outlives_the_server(messages_server, tmp_path):
    api = messages_server([dear(0.02)])
    for expected in (200, 402):
        with ProxyServer(tmp_path / "proxy", api.url, KEY, budget_usd_per_day=0.01) as proxy:
            assert send(proxy.url).status_code == expected


def test_requests_at_the_same_time_do_not_overspend_together(messages_server, start_proxy):
    gate = Gate()
    worst = worst_case_usd(MODEL, 100, 1000)
    assert worst is not None
    api = messages_server(lambda _body: turn(say("a"), hold(gate), say("b"), usage={"input_tokens": 10}))
    proxy = start_proxy(api, budget_usd_per_day=3 * worst)
    with ThreadPoolExecutor(12) as pool:
        answers = [pool.submit(send, proxy.url, message(max_tokens=1000)) for _ in range(12)]
        told = as_completed(answers)
        # three fit in and wait; the others are told at once
        assert [next(told).result().status_code for _ in range(9)] == [402] * 9
        assert proxy.spent("ada").day <= 3 * worst
        gate.open()
        assert [answer.result().status_code for answer in told] == [200] * 3
    assert proxy.spent("ada").day < 3 * worst


def test_a_failed_request_costs_nothing(messages_server, start_proxy):
    # the connection that is kept after the first answer is cut, and the new one, too
    api = messages_server([fault("status", status=529), fault("cut"), fault("cut"), say("now")])
    proxy = start_proxy(api, budget_usd_per_day=1.0)
    assert send(proxy.url).status_code == 529
    assert send(proxy.url).status_code == 502
    assert proxy.spent("ada").day == 0


def test_what_broke_off_is_counted(messages_server, start_proxy):
    api = messages_server([turn(say("word " * 100), fault("cut"), usage={"input_tokens": 5000}, delta_chars=5)])
    proxy = start_proxy(api, budget_usd_per_day=1.0)
    send(proxy.url)
    (line,) = proxy.log_of(1)
    assert line["cost_usd"] >= (cost_usd(MODEL, {"input_tokens": 5000, "output_tokens": 1}) or 0)
    assert proxy.spent("ada").day == pytest.approx(line["cost_usd"])


def test_what_has_no_price_is_not_asked_where_there_is_a_budget(messages_server, start_proxy):
    api = messages_server([])
    proxy = start_proxy(api, budget_usd_per_day=1.0)
    for body in (message(model="claude-unheard-of-9"), message(model="claude-opus-5-5", speed="fast")):
        refused = send(proxy.url, body)
        assert refused.status_code == 403
        assert "price" in error_of(refused)["message"]
    assert api.requests == []


LONG = [{"type": "document", "source": {"type": "url", "url": "https://example.org/a-very-long-book.pdf"}}]
DEAR = {"type": "advisor_20260301", "name": "advisor", "model": "claude-opus-5-5"}


@pytest.mark.parametrize(
    "more",
    [
        {"messages": [{"role": "user", "content": LONG}]},
        {"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": LONG}]}]},
        {"mcp_servers": [{"type": "url", "url": "https://example.org", "name": "one"}]},
        {"output_config": {"format": {"type": "json_schema", "schema": {"description": "long " * 100_000}}}},
        {"tools": [DEAR], "max_tokens": 50_000, "system": "long " * 20_000},
        {"fallbacks": [{"model": "claude-opus-5-5"}], "system": "long " * 20_000},
    ],
    ids=["a document of elsewhere", "in a result", "an MCP server", "a schema", "an advisor", "a fallback"],
)
def test_what_can_cost_more_than_its_bytes_say_is_reserved_so(messages_server, start_proxy, more):
    api = messages_server([])
    refused = send(start_proxy(api, budget_usd_per_day=0.05).url, message(**more))
    assert (refused.status_code, error_of(refused)["type"]) == (402, "billing_error"), refused.text
    assert api.requests == []


def test_models_that_the_api_chooses_have_no_price(messages_server, start_proxy):
    api = messages_server([])
    refused = send(start_proxy(api, budget_usd_per_day=1.0).url, message(fallbacks="default"))
    assert refused.status_code == 403
    assert "price" in error_of(refused)["message"]


def test_who_leaves_while_the_book_is_busy_leaves_no_reservation(tmp_path):
    proxy = Proxy(
        upstream=Upstream(KEY), rules=ProxyLimits(budget_usd_per_day=1.0), folder=tmp_path, authenticate=lambda _: None
    )
    body = json.dumps(message(max_tokens=1000)).encode()
    checked = check("POST", "/v1/messages", {}, body, proxy.rules)
    exchange = ProxyExchange(ProxyCaller("ada"), "POST", "/v1/messages")

    async def ask() -> None:
        async with proxy.paid(exchange, checked, UsageReader(streamed=True)):
            pytest.fail("it had left")

    async def leave() -> float:
        others = sqlite3.connect(tmp_path / BOOK_FILE, isolation_level=None)
        others.execute("BEGIN IMMEDIATE")
        asking = asyncio.create_task(ask())
        while not asking_thread():
            await asyncio.sleep(0.001)
        asking.cancel()
        await asyncio.sleep(0)
        others.execute("COMMIT")
        others.close()
        with contextlib.suppress(asyncio.CancelledError):
            await asking
        spent = (await proxy.spent(ProxyCaller("ada"))).day
        await proxy.aclose()
        return spent

    assert asyncio.run(leave()) == 0


def asking_thread() -> bool:
    """Whether a worker thread has begun to wait for the book."""
    return any("reserve" in _names(frame) for frame in sys._current_frames().values())


def _names(frame) -> set[str]:
    names = set()
    while frame is not None:
        names.add(frame.f_code.co_name)
        frame = frame.f_back
    return names


def test_thinking_that_is_not_shown_counts_where_an_answer_was_left():
    def left(kind: str) -> dict:
        reader = UsageReader(streamed=True)
        for name, said in (
            ("message_start", {"message": {"usage": {"input_tokens": 7, "output_tokens": 1}}}),
            ("content_block_start", {"content_block": {"type": kind}}),
            ("content_block_delta", {"delta": {"text": "Forty-two."}}),
        ):
            reader.feed(f"event: {name}\ndata: {json.dumps(said)}\n\n".encode())
        return reader.billed(60.0) or {}

    assert left("thinking")["output_tokens"] == left("redacted_thinking")["output_tokens"] == 6_000
    assert left("text")["output_tokens"] < 100


def test_a_whole_answer_that_nobody_waited_for_counts_as_reserved(messages_server, start_proxy):
    gate = Gate()
    api = messages_server([turn(hold(gate), say("never sent"))])
    proxy = start_proxy(api, budget_usd_per_day=1.0)
    body = message(stream=False, max_tokens=1000)
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as connection:
        content = json.dumps(body).encode()
        head = f"POST /cellwright/api/anthropic/v1/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADA}\r\n"
        connection.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        api.wait_for_requests(1)
    (line,) = proxy.log_of(1)
    assert line["cost_usd"] is None
    assert proxy.spent("ada").day >= (worst_case_usd(MODEL, 0, 1000) or 0)
    gate.open()


def test_a_budget_of_nothing_allows_nothing(messages_server, start_proxy):
    api = messages_server([])
    assert send(start_proxy(api, budget_usd_per_day=0.0).url).status_code == 402
    assert api.requests == []


def book(folder: Path, now: Callable[[], float]) -> SpendingLedger:
    return SpendingLedger(folder / BOOK_FILE, clock=now)


def test_a_new_day_is_a_new_budget_and_a_kernels_is_not(tmp_path):
    now = [1_000_000_000.0]
    kept = book(tmp_path, lambda: now[0])
    kept.settle(kept.reserve("ada", "kernel", MODEL, lambda _spent: 5.0), 3.0)
    assert kept.spent("ada", "kernel") == Spent(3.0, 3.0)
    now[0] += DAY
    assert kept.spent("ada", "kernel") == Spent(0.0, 3.0)
    assert kept.spent("ada", "another") == Spent(0.0, 0.0)
    kept.close()


def test_what_was_under_way_when_the_server_died_counts_as_reserved(tmp_path):
    dying = book(tmp_path, lambda: 0.0)
    dying.reserve("ada", "kernel", MODEL, lambda _spent: 5.0)
    dying.close()
    after = book(tmp_path, lambda: 0.0)
    assert after.spent("ada") == Spent(5.0, 0.0)
    after.close()


def test_a_refused_reservation_leaves_nothing(tmp_path):
    kept = book(tmp_path, lambda: 0.0)

    def refuse(_spent: Spent) -> float:
        raise LookupError

    with pytest.raises(LookupError):
        kept.reserve("ada", "", MODEL, refuse)
    assert kept.spent("ada") == Spent(0.0, 0.0)
    kept.reserve("ada", "", MODEL, lambda _spent: 1.0)
    kept.close()


def test_two_servers_with_one_book_see_each_others_reservations(tmp_path):
    both = [book(tmp_path, lambda: 0.0) for _ in range(2)]
    start = threading.Barrier(2)

    def spend(kept: SpendingLedger) -> int:
        start.wait(60)
        granted = 0

        def one_more(spent: Spent) -> float:
            if spent.day >= 10:
                raise LookupError
            return 1.0

        for _ in range(10):
            try:
                kept.reserve("ada", "", MODEL, one_more)
                granted += 1
            except LookupError:
                pass
        return granted

    with ThreadPoolExecutor(2) as pool:
        granted = sum(pool.map(spend, both))
    assert granted == 10
    for kept in both:
        kept.close()


def test_lines_of_many_threads_stay_whole(tmp_path):
    log = EgressLog(tmp_path / "deep" / "egress.jsonl")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: log.write({"n": n, "text": "x" * 2000}), range(200)))
    lines = [json.loads(line)["n"] for line in (tmp_path / "deep" / "egress.jsonl").read_text().splitlines()]
    assert sorted(lines) == list(range(200))
    assert stat.S_IMODE((tmp_path / "deep").stat().st_mode) == 0o700


def test_old_lines_move_on_and_the_oldest_go(tmp_path):
    log = EgressLog(tmp_path / "egress.jsonl", most_bytes=100)
    for n in range(40):
        log.write({"n": n, "text": "x" * 30})
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["egress.jsonl", *(f"egress.jsonl.{n}" for n in range(1, KEPT + 1))]
    newest_first = [json.loads(line)["n"] for file in files for line in reversed(file.read_text().splitlines())]
    assert newest_first == list(range(39, 39 - len(newest_first), -1))
    for file in files:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert file.stat().st_size <= 100
