"""Rows of the proxy that keeps the key on the server: what it adds to the first byte, and what a delta costs it."""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.rows.row import Row
from cellwright.testing import MessagesServer, say, turn

DELTAS = 20_000
REQUESTS = 60
BODY = {
    "model": "claude-haiku-5-5",
    "max_tokens": 60_000,
    "stream": True,
    "messages": [{"role": "user", "content": "words " * 4_000}],
}

_waiting: dict[str, Mapping[str, float]] = {}
"""What was measured of us together with the floor: in turns, so that a busy moment hits both."""


@asynccontextmanager
async def proxy_before(api: MessagesServer, folder: Path) -> AsyncIterator[str]:
    """A proxy in the running loop; its URL."""
    from tornado.httpserver import HTTPServer
    from tornado.netutil import bind_sockets
    from tornado.web import Application

    from cellwright.server.proxy.proxied_request import PATTERN, ProxiedRequest
    from cellwright.server.proxy.proxy import Proxy, ProxyCaller, Upstream
    from cellwright.server.proxy.request_rules import ProxyLimits

    async def anybody(_token: str) -> ProxyCaller:
        return ProxyCaller("bench", "kernel")

    rules = ProxyLimits(
        budget_usd_per_day=1e6, budget_usd_per_kernel=1e6, concurrent_requests=100, allowed_models=("*",)
    )
    proxy = Proxy(upstream=Upstream(api.api_key, api.url), rules=rules, folder=folder, authenticate=anybody)
    server = HTTPServer(Application([(PATTERN, ProxiedRequest, {"proxy": proxy})]))
    sockets = bind_sockets(0, "127.0.0.1")
    server.add_sockets(sockets)
    try:
        yield f"http://127.0.0.1:{sockets[0].getsockname()[1]}/cellwright/api/anthropic"
    finally:
        server.stop()
        await server.close_all_connections()
        await proxy.aclose()


class ProxyThread:
    """A proxy in a thread of its own, whose CPU time can be read."""

    def __init__(self, api: MessagesServer, folder: Path) -> None:
        self._ready: Future[str] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run(api, folder)), daemon=True)
        self._thread.start()
        self.url = self._ready.result()

    def cpu_seconds(self) -> float:
        """The CPU time of its loop so far."""
        read: Future[float] = Future()
        self._loop.call_soon_threadsafe(lambda: read.set_result(time.thread_time()))
        return read.result()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()

    async def _run(self, api: MessagesServer, folder: Path) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        async with proxy_before(api, folder) as url:
            self._ready.set_result(url)
            await self._ended.wait()


def first_byte(subject: str) -> Mapping[str, float]:
    """Milliseconds from a request to the first byte of its answer; the floor asks without the proxy."""
    if subject != "floor":
        return _waiting.pop("first byte")
    with MessagesServer(lambda _body: say("yes"), validate=False) as api, tempfile.TemporaryDirectory() as folder:
        proxy = ProxyThread(api, Path(folder))
        direct, through = _times(api.url, api.api_key), _times(proxy.url, "token")
        both = [(direct(), through()) for _ in range(REQUESTS)][5:]
        proxy.stop()
    floor, ours = (statistics.median(times) for times in zip(*both, strict=True))
    _waiting["first byte"] = {"p first byte": ours * 1000}
    return {"p first byte": floor * 1000}


def _times(url: str, key: str) -> Callable[[], float]:
    import httpx2

    headers = {"authorization": f"Bearer {key}", "content-type": "application/json", "anthropic-version": "2026-10-21"}
    client = httpx2.Client(headers=headers, timeout=60)
    body = json.dumps(BODY).encode()

    def once() -> float:
        begun = time.perf_counter()
        with client.stream("POST", f"{url}/v1/messages", content=body) as answer:
            chunks = answer.iter_raw()
            next(chunks)
            seconds = time.perf_counter() - begun
            for _ in chunks:
                pass
        return seconds

    return once


def stream(_subject: str) -> Mapping[str, float]:
    """Microseconds of the proxy's CPU for each delta of a long answer."""
    long = turn(say("word " * DELTAS), delta_chars=5)
    with MessagesServer([long, long], validate=False) as api, tempfile.TemporaryDirectory() as folder:
        proxy = ProxyThread(api, Path(folder))
        once = _times(proxy.url, "token")
        once()
        before = proxy.cpu_seconds()
        once()
        spent = proxy.cpu_seconds() - before
        proxy.stop()
    return {"p stream": spent / DELTAS * 1e6}


PROXY_ROWS = [
    Row(
        "p first byte",
        "request of 24 kB → first byte of its answer; the floor asks without the proxy",
        "ms",
        first_byte,
        subjects=("floor", "cellwright"),
        max_ratio=6,
    ),
    Row("p stream", "CPU of the proxy per delta over 20,000 deltas", "µs", stream, ("cellwright",), max_value=60),
]
