"""The proxy of the Messages API: it authenticates, checks policy and budget, forwards with the server's key, and logs.

Requests go to the API by the kernels' own client and not tornado's: leaving a request closes its connection at once
(tornado's cannot be told to stop), little is read that was not asked for (so a slow kernel slows the API's side, and
nothing piles up here), and connections to the API are kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from cellwright.agent.spending import SMALLEST_ANSWER
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.model.betas import is_anthropics_address
from cellwright.model.pricing import US_ONLY_FACTOR, cost_usd, worst_case_usd
from cellwright.model.retry import RequestFailed
from cellwright.model.transports.transport import API_VERSION, DEFAULT_BASE_URL, HttpClient, LoopClients, http_client
from cellwright.server.proxy.request_rules import CheckedRequest, ProxyLimits, Refusal, Traffic, forbidden, over_budget
from cellwright.server.proxy.spending_ledger import EgressLog, SpendingLedger, Spent, UsageReader
from cellwright.text import dollars

STALL_SECONDS = 600.0
"""The time the API may be silent, as the SDK has it; it sends pings meanwhile."""


PASSED_ON = ("anthropic-version", "anthropic-beta")
"""The headers of a kernel that go to the API; everything else the proxy says itself."""

PASSED_BACK = ("content-type", "cache-control", "retry-after", "retry-after-ms", "request-id", "x-should-retry")
PASSED_BACK_PREFIXES = ("anthropic-ratelimit-", "anthropic-fast-")
"""Prefixes of the API's headers that go to the kernel: never cookies, nor whose account it is."""

logger = logging.getLogger(__name__)

BOOK_FILE = "spending.sqlite"
LOG_FILE = "egress.jsonl"


class UpstreamReply(Struct, frozen=True):
    """An answer whose body is still coming. Header names are lower case, and only those that may be passed back."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]


class Upstream:
    """The Messages API at `base_url`, for who has `key`."""

    def __init__(self, key: str, base_url: str = "") -> None:
        url = (base_url.strip() or DEFAULT_BASE_URL).rstrip("/")
        if not url.startswith(("https://", "http://")):
            message = f"The proxy's upstream is {url!r}: it must begin with https:// or http://."
            raise CellwrightError(ErrorCode.CONFIG_INVALID, message)
        if not key or not (key.isascii() and key.isprintable()) or " " in key:
            message = "The proxy's key is missing, or holds a character that no key has. Set it again."
            raise CellwrightError(ErrorCode.API_KEY_MISSING, message)
        self.url = url
        self._key = key
        self._clients = LoopClients(self._build_client)

    def __repr__(self) -> str:
        return f"Upstream({self.url!r})"

    def is_anthropic(self) -> bool:
        """Return whether this leads to Anthropic's own address, perhaps by another proxy of ours. May block for a moment."""
        return is_anthropics_address({"ANTHROPIC_BASE_URL": self.url})

    def holds_key(self, text: str) -> bool:
        """Return whether `text` has the key in it."""
        return self._key in text

    def without_key(self, body: bytes) -> bytes:
        return body.replace(self._key.encode(), b"[secret]")

    @contextlib.asynccontextmanager
    async def send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> AsyncIterator[UpstreamReply]:
        """Send a request; leaving the context ends it. `headers` have lower case names. Raises `Refusal` 502."""
        own = {name: headers[name] for name in PASSED_ON if name in headers}
        async with contextlib.AsyncExitStack() as stack:
            try:
                client = await self._clients.get()
                sending = client.send(method, path, body=body or b"", headers=own, seconds=STALL_SECONDS)
                reply = await stack.enter_async_context(sending)
            except (RequestFailed, CellwrightError) as error:
                raise Refusal(502, f"This server does not reach the API: {error}", retry_after=1) from None
            back = {
                name: value
                for name, value in reply.headers.items()
                if name in PASSED_BACK or name.startswith(PASSED_BACK_PREFIXES)
            }
            yield UpstreamReply(reply.status, back, reply.chunks)

    async def aclose(self) -> None:
        if (client := self._clients.pop()) is not None:
            await client.aclose()

    def _build_client(self) -> HttpClient:
        headers = {
            "authorization": f"Bearer {self._key}",
            "anthropic-version": API_VERSION,
            "content-type": "application/json",
            "accept": "application/json",
            "accept-encoding": "identity",
            "user-agent": "cellwright-proxy",
        }
        return http_client(self.url, headers, idle_seconds=120.0)


class ProxyCaller(Struct, frozen=True):
    """On whose account a request goes; `kernel` may be empty where only the user is known."""

    user: str
    kernel: str = ""


class ProxyExchange(Struct):
    """One request on its way, and what is known of it so far."""

    caller: ProxyCaller
    method: str
    path: str
    model: str = ""
    status: int = 0
    refused: str = ""
    bytes_out: int = 0
    bytes_in: int = 0
    request_id: str = ""
    usage: Mapping[str, Any] = field(default_factory=dict)
    cost_usd: float | None = None
    complete: bool = False
    was_sent: bool = False
    begun: float = field(default_factory=time.monotonic)

    def entry(self) -> dict[str, Any]:
        """The line for the egress log."""
        counts = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        return {
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "user": self.caller.user,
            "kernel": self.caller.kernel,
            "method": self.method,
            "path": self.path,
            "model": self.model,
            "status": self.status,
            "refused": self.refused,
            **{name: self.usage.get(name) or 0 for name in counts},
            "cost_usd": self.cost_usd,
            "complete": self.complete,
            "bytes_out": self.bytes_out,
            "bytes_in": self.bytes_in,
            "ms": round((time.monotonic() - self.begun) * 1000),
            "request_id": self.request_id,
        }


class Payment:
    """The cost allowed to one request: `tokens` is how long its answer may be, None where it costs nothing."""

    def __init__(self, tokens: int | None, settle: Callable[[], Awaitable[None]]) -> None:
        self.tokens = tokens
        self._settle = settle
        self._settled = False

    async def settle(self) -> None:
        """Count what it cost, once; before the kernel has the answer's end, so that its next request finds it counted."""
        if not self._settled:
            self._settled = True
            await self._settle()


async def _nothing() -> None:
    """Counts what costs nothing."""


class Proxy:
    """Everything that requests through it share. `authenticate` knows who a token belongs to, None: nobody.

    A kernel that takes nothing of its answer for `stall_seconds` has left.
    """

    def __init__(
        self,
        *,
        upstream: Upstream,
        rules: ProxyLimits,
        folder: Path,
        authenticate: Callable[[str], Awaitable[ProxyCaller | None]],
        clock: Callable[[], float] = time.time,
        stall_seconds: float = STALL_SECONDS,
    ) -> None:
        self.stall_seconds = stall_seconds
        self.upstream = upstream
        self.rules = rules
        self.authenticate = authenticate
        self.log = EgressLog(folder / LOG_FILE)
        self._book = SpendingLedger(folder / BOOK_FILE, clock=clock)
        self._traffic = Traffic(per_minute=rules.requests_per_minute, at_once=rules.concurrent_requests)

    def admitted(self, caller: ProxyCaller) -> AbstractContextManager[None]:
        """One request of the caller's is on its way. Raises `Refusal`."""
        return self._traffic.passing(caller.user)

    @asynccontextmanager
    async def paid(
        self, exchange: ProxyExchange, checked: CheckedRequest, reader: UsageReader
    ) -> AsyncIterator[Payment]:
        """Reserve what the request costs before it, and count it when it has ended, however it ends.

        Raises `Refusal`.
        """
        if checked.kind != "messages":
            yield Payment(None, _nothing)
            return
        tokens, worst_usd = checked.max_tokens, 0.0

        def worst(spent: Spent) -> float:
            nonlocal tokens, worst_usd
            tokens, worst_usd = _affordable(checked, spent, self.rules)
            return worst_usd

        caller = exchange.caller
        number = await self._reserved(caller, checked.model, worst)

        async def settle() -> None:
            exchange.usage = reader.billed(time.monotonic() - exchange.begun) or {}
            exchange.cost_usd = _cost(exchange, checked, reader)
            usd = worst_usd if exchange.cost_usd is None else exchange.cost_usd
            await asyncio.to_thread(self._book.settle, number, usd)

        payment = Payment(tokens, settle)
        try:
            yield payment
        finally:
            await payment.settle()

    async def _reserved(self, caller: ProxyCaller, model: str, worst: Callable[[Spent], float]) -> int:
        """The number of the reservation; none is left behind by who leaves while it is made."""
        reserving = asyncio.ensure_future(
            asyncio.to_thread(self._book.reserve, caller.user, caller.kernel, model, worst)
        )
        try:
            return await asyncio.shield(reserving)
        except asyncio.CancelledError:
            with contextlib.suppress(Refusal):
                number = await reserving
                await asyncio.to_thread(self._book.settle, number, 0.0)
            raise

    async def record(self, exchange: ProxyExchange) -> None:
        """Write the request into the egress log."""
        try:
            await asyncio.to_thread(self.log.write, exchange.entry())
        except OSError as error:  # a full disk must not cost the user the answer, but must be seen
            logger.error("the egress log cannot be written: %s", error)  # noqa: TRY400  the traceback says no more

    async def spent(self, caller: ProxyCaller) -> Spent:
        return await asyncio.to_thread(self._book.spent, caller.user, caller.kernel)

    async def aclose(self) -> None:
        await self.upstream.aclose()
        self._book.close()


def _affordable(checked: CheckedRequest, spent: Spent, rules: ProxyLimits) -> tuple[int, float]:
    """Compute how many tokens the answer may have, and the cost of the request at worst. Raises `Refusal`."""
    prices = _worst_usd(checked)
    if prices is None:
        if rules.has_budget:
            names = ", ".join([checked.model, *checked.other_models])
            raise forbidden(f"The price of {names[:200]} is not known here, and this server has a budget.")
        return checked.max_tokens, 0.0
    fixed, each = prices
    tokens = checked.max_tokens
    for left, words in _left(spent, rules):
        payable = int((left - fixed) / each)
        if payable < min(SMALLEST_ANSWER, tokens):
            raise over_budget(
                f"{words} This request could cost {dollars(fixed + each * min(tokens, SMALLEST_ANSWER))}."
            )
        tokens = min(tokens, payable)
    return tokens, fixed + each * tokens


def _worst_usd(checked: CheckedRequest) -> tuple[float, float] | None:
    """The most that the input can cost, and a token of output, by the dearest of its models; None: that is not known."""
    assert checked.body is not None
    known = []
    for model in (checked.model, *checked.other_models):
        fixed = worst_case_usd(model, checked.input_tokens, 0)
        with_a_token = worst_case_usd(model, checked.input_tokens, 1)
        if fixed is None or with_a_token is None or checked.body.get("speed") == "fast":
            return None
        known.append((fixed, with_a_token - fixed))
    factor = 1.0 if checked.body.get("inference_geo") in (None, "global") else US_ONLY_FACTOR
    return max(fixed for fixed, _ in known) * factor, max(each for _, each in known) * factor


def _left(spent: Spent, rules: ProxyLimits) -> list[tuple[float, str]]:
    left = []
    if (day := rules.budget_usd_per_day) is not None:
        words = f"Today's budget of {dollars(day)} that the administrator of this server gives you is used up"
        left.append(
            (day - spent.day, f"{words} ({dollars(spent.day)} spent or reserved). It starts again at 00:00 UTC.")
        )
    if (kernel := rules.budget_usd_per_kernel) is not None:
        words = f"The budget of {dollars(kernel)} that the administrator of this server gives a kernel is used up"
        left.append((kernel - spent.kernel, f"{words} ({dollars(spent.kernel)} spent or reserved)."))
    return left


def _cost(exchange: ProxyExchange, checked: CheckedRequest, reader: UsageReader) -> float | None:
    """Compute the cost of the request; None where that is not known, and the reservation counts."""
    if not exchange.was_sent or exchange.status >= 300:
        return 0.0
    usage = reader.billed(time.monotonic() - exchange.begun)
    if usage is not None:
        return cost_usd(reader.model or checked.model, usage)
    if checked.streamed and (exchange.status == 0 or not reader.complete):
        return worst_case_usd(checked.model, checked.input_tokens, 0)  # left before it began to answer
    return None


def refused(exchange: ProxyExchange, refusal: Refusal) -> None:
    exchange.status = refusal.status
    exchange.refused = refusal.code or str(refusal.status)
