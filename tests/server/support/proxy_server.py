"""A proxy of its own for a test: real HTTP on both sides, its own thread and folder."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application

from cellwright.server.proxy.proxied_request import PATTERN, ProxiedRequest
from cellwright.server.proxy.proxy import BOOK_FILE, LOG_FILE, STALL_SECONDS, Proxy, ProxyCaller, Upstream
from cellwright.server.proxy.request_rules import ProxyLimits
from cellwright.server.proxy.spending_ledger import SpendingLedger, Spent

TOKENS = {"token-of-ada": ProxyCaller("ada", "kernel-1"), "token-of-bob": ProxyCaller("bob", "kernel-2")}
WAIT_SECONDS = 60.0


async def _known(token: str) -> ProxyCaller | None:
    return TOKENS.get(token)


class ProxyServer:
    """The proxy before `upstream_url`, for the callers of `TOKENS`."""

    def __init__(
        self,
        folder: Path,
        upstream_url: str,
        key: str,
        *,
        tls: ssl.SSLContext | None = None,
        stall_seconds: float = STALL_SECONDS,
        **rules: Any,
    ) -> None:
        self.folder = folder
        self._tls = tls
        self._make = lambda: Proxy(
            upstream=Upstream(key, upstream_url),
            rules=ProxyLimits(**rules),
            folder=folder,
            authenticate=_known,
            stall_seconds=stall_seconds,
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy-under-test", daemon=True)
        self._port = 0

    @property
    def url(self) -> str:
        return f"http{'s' if self._tls else ''}://127.0.0.1:{self._port}/cellwright/api/anthropic"

    @property
    def port(self) -> int:
        return self._port

    def __enter__(self) -> Self:
        self._thread.start()
        self._port = self._on_loop(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._on_loop(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_SECONDS)

    def log(self) -> list[dict[str, Any]]:
        file = self.folder / LOG_FILE
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def log_of(self, n: int) -> list[dict[str, Any]]:
        """The log, when it has `n` lines: they are written when an answer has ended."""
        waiting = threading.Event()
        for _ in range(int(WAIT_SECONDS * 100)):
            if len(lines := self.log()) >= n:
                return lines
            waiting.wait(0.01)
        raise TimeoutError(f"{len(self.log())} lines of {n}")

    def spent(self, user: str, kernel: str = "") -> Spent:
        book = SpendingLedger(self.folder / BOOK_FILE)
        try:
            return book.spent(user, kernel)
        finally:
            book.close()

    def _on_loop(self, work: Any) -> Any:
        done: Future[Any] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return done.result(WAIT_SECONDS)

    async def _start(self) -> int:
        self._proxy = self._make()
        self._server = HTTPServer(
            Application([(PATTERN, ProxiedRequest, {"proxy": self._proxy})]), ssl_options=self._tls
        )
        sockets = bind_sockets(0, "127.0.0.1")
        self._server.add_sockets(sockets)
        return int(sockets[0].getsockname()[1])

    async def _stop(self) -> None:
        self._server.stop()
        await self._server.close_all_connections()
        await self._proxy.aclose()
