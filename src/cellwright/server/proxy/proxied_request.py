"""The proxy's door in tornado: one request in, streamed through, and counted whatever becomes of it."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

from jupyter_server.auth.decorator import allow_unauthenticated
from tornado.iostream import StreamClosedError
from tornado.web import RequestHandler, stream_request_body

from cellwright.model.betas import FACTS
from cellwright.model.retry import RequestFailed
from cellwright.server.proxy.proxy import Payment, Proxy, ProxyCaller, ProxyExchange, UpstreamReply, refused
from cellwright.server.proxy.request_rules import (
    BUDGET,
    BUSY,
    POLICY,
    CheckedRequest,
    Refusal,
    check,
    kind_of,
    visible_models,
)
from cellwright.server.proxy.spending_ledger import UsageReader

logger = logging.getLogger(__name__)

PATTERN = r"/cellwright/api/anthropic(/.*)?"
"""The pattern of the proxy's paths, below the server's base URL."""

FACTS_PATTERN = rf"/cellwright/api/anthropic{FACTS}"


@stream_request_body
class ProxiedRequest(RequestHandler):
    """Passes one request on. Its own token lets in, and neither Jupyter's token nor a cookie does.

    A body is taken only from who is let in, so nobody else can make the server hold one.
    """

    def initialize(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._body = bytearray()
        self._passing: asyncio.Task[None] | None = None
        self._admission = ExitStack()
        self._exchange = ProxyExchange(ProxyCaller(""), self.request.method or "", "")

    def check_xsrf_cookie(self) -> None:
        """No cookie lets in here, so there is nothing that a foreign page could make a browser do."""

    def set_default_headers(self) -> None:
        self.clear_header("Server")
        self.set_header("X-Content-Type-Options", "nosniff")

    async def prepare(self) -> None:
        try:
            # the token of a request is given as the API's clients give a key
            scheme, _, token = self.request.headers.get("Authorization", "").partition(" ")
            if scheme.lower() != "bearer":
                token = self.request.headers.get("X-Api-Key", "")
            caller = await self._proxy.authenticate(token.strip())
            if caller is None:
                raise Refusal(401, "The token is not one that this server gave a kernel that is alive.")
            method, path = self.request.method or "", self._path
            # what is none of ours is somebody's attempt, and only its length is logged
            is_ours = path.startswith("/v1/") and path.isascii() and len(path) <= 100
            self._exchange = ProxyExchange(caller, method, path if is_ours else f"[{len(path)} characters]")
            kind_of(method, path)
            # before its body, so that a user's bodies that are on their way are no more than their requests may be
            self._admission.enter_context(self._proxy.admitted(caller))
            self._refuse_size(int(self.request.headers.get("Content-Length") or 0))
            self.request.connection.set_max_body_size(self._proxy.rules.max_request_bytes + 1)  # type: ignore[union-attr]
        except Refusal as refusal:
            refused(self._exchange, refusal)
            self.set_header("Connection", "close")  # its body is not read
            await self._answer_refusal(refusal)
            await self._proxy.record(self._exchange)

    def data_received(self, chunk: bytes) -> None:
        if not self._finished:
            self._body += chunk

    @allow_unauthenticated
    async def get(self, _path: str | None = None) -> None:
        await self._pass_on()

    @allow_unauthenticated
    async def post(self, _path: str | None = None) -> None:
        await self._pass_on()

    def on_connection_close(self) -> None:
        if self._passing is not None:
            self._passing.cancel()  # ends the request to the API, too
        self._admission.close()

    def on_finish(self) -> None:
        self._admission.close()

    def log_exception(self, *error: Any) -> None:
        logger.error("the proxy failed", exc_info=error[:3] if len(error) >= 3 else None)

    def write_error(self, status_code: int, **_: Any) -> None:
        """Answer what went wrong for a reason of tornado's or of ours: no words of it go out."""
        status = status_code if status_code in (400, 405, 413) else 502
        self.set_status(status)
        self.set_header("Content-Type", "application/json")
        self.finish(Refusal(status, "This server could not pass the request on.").body())

    @property
    def _path(self) -> str:
        return (self.path_args[0] if self.path_args else "") or ""

    def _refuse_size(self, size: int) -> None:
        most = self._proxy.rules.max_request_bytes
        if size > most:
            raise Refusal(413, f"The request has {size:,} bytes; this server passes on {most:,} at most.")

    async def _pass_on(self) -> None:
        if self._finished:
            return
        self._passing = asyncio.ensure_future(self._exchanged())
        try:
            await self._passing
        except asyncio.CancelledError:
            if not self._passing.cancelled():
                raise  # it is the server that ends
        except StreamClosedError:
            pass  # the kernel has left
        finally:
            self._admission.close()

    async def _exchanged(self) -> None:
        exchange, rules = self._exchange, self._proxy.rules
        try:
            self._refuse_size(len(self._body))
            query = {name: self.get_query_argument(name) for name in self.request.query_arguments}
            if len(self._body) > 1_000_000:  # large bodies are read and written for tens of milliseconds
                checked = await asyncio.to_thread(check, exchange.method, self._path, query, bytes(self._body), rules)
            else:
                checked = check(exchange.method, self._path, query, bytes(self._body), rules)
            exchange.model = checked.model
            self.settings["api_last_activity"] = datetime.now(UTC)  # a kernel whose Claude is at work is not idle
            reader = UsageReader(streamed=checked.streamed)
            async with self._proxy.paid(exchange, checked, reader) as payment:
                await self._send(checked, payment, reader)
        except Refusal as refusal:
            refused(exchange, refusal)
            await self._answer_refusal(refusal)
        finally:
            await self._proxy.record(exchange)

    async def _send(self, checked: CheckedRequest, payment: Payment, reader: UsageReader) -> None:
        exchange, upstream = self._exchange, self._proxy.upstream
        body = checked.encoded(payment.tokens)
        exchange.bytes_out = len(body or b"")
        headers = {name.lower(): value for name, value in self.request.headers.items()}
        exchange.was_sent = True
        try:
            async with upstream.send(checked.method, checked.path, headers, body) as reply:
                await self._answer(checked, reply, reader, payment)
        except Refusal:
            exchange.was_sent = False  # it came to nothing at the API
            raise

    async def _answer(
        self, checked: CheckedRequest, reply: UpstreamReply, reader: UsageReader, payment: Payment
    ) -> None:
        self._exchange.status = reply.status
        self._exchange.request_id = reply.headers.get("request-id", "")
        if reply.status != 200:
            body = await _whole(reply)
            error = _error(body)
            details = error.get("details")
            # the API's place may be taken by another proxy like this one, whose word is for the user
            is_proxys = isinstance(details, dict) and details.get("error_code") in (BUDGET, POLICY, BUSY)
            if (reply.status in (401, 403) and not is_proxys) or reply.status < 400:
                # the kernel's own credential is good: what it is told to check would be the wrong thing
                kind = error.get("type")
                is_named = kind in ("authentication_error", "permission_error")
                what = f"with {kind}" if is_named else f"with status {reply.status}"
                message = f"The API refused this server's key {what}. Its administrator has to look into it."
                raise Refusal(502, message)
            self._take_head(reply)
            await self._finish_with(self._proxy.upstream.without_key(body))
        elif checked.kind == "models":
            listed = visible_models(await _whole(reply), self._proxy.rules)
            self._take_head(reply)
            await self._finish_with(listed)
        else:
            self._take_head(reply)
            await self._stream(reply, reader, payment)

    async def _stream(self, reply: UpstreamReply, reader: UsageReader, payment: Payment) -> None:
        try:
            async for chunk in reply.chunks:
                self._exchange.bytes_in += len(chunk)
                reader.feed(chunk)
                if reader.complete:
                    await payment.settle()
                self.write(chunk)
                await self._taken()
        except RequestFailed:
            await self._report_cut(reply)
            return
        reader.close()
        self._exchange.complete = reader.complete
        await payment.settle()
        await self.finish()

    async def _taken(self) -> None:
        """Wait while the kernel does not read, so that nothing piles up here. Raises StreamClosedError."""
        flushed = self.flush()
        if flushed.done():  # as it is nearly always
            return flushed.result()
        try:
            await asyncio.wait_for(flushed, self._proxy.stall_seconds)
        except TimeoutError:
            self.detach().close()
            raise StreamClosedError from None

    async def _report_cut(self, reply: UpstreamReply) -> None:
        """The API's side broke off in the middle: said in the stream, else by breaking off here, too."""
        cut = Refusal(502, "The connection of this server to the API was cut.")
        if reply.headers.get("content-type", "").startswith("text/event-stream"):
            self.write(b"\n\nevent: error\ndata: " + cut.body() + b"\n\n")
            await self.finish()
        else:
            stream = self.detach()
            stream.close()

    def _take_head(self, reply: UpstreamReply) -> None:
        self.set_status(reply.status)
        for name, value in reply.headers.items():
            self.set_header(name, value)

    async def _finish_with(self, body: bytes) -> None:
        self._exchange.bytes_in += len(body)
        self._exchange.complete = True
        await self.finish(body)

    async def _answer_refusal(self, refusal: Refusal) -> None:
        self.set_status(refusal.status)
        self.set_header("Content-Type", "application/json")
        for name, value in refusal.headers.items():
            self.set_header(name, value)
        await self.finish(refusal.body())


class UpstreamFacts(RequestHandler):
    """`GET …/upstream`: whether this proxy leads to Anthropic's own API. No secret, so anybody may ask."""

    def initialize(self, proxy: Proxy) -> None:
        self._proxy = proxy

    def check_xsrf_cookie(self) -> None:
        """It changes nothing."""

    @allow_unauthenticated
    async def get(self) -> None:
        self.finish({"anthropic": await asyncio.to_thread(self._proxy.upstream.is_anthropic)})


async def _whole(reply: UpstreamReply) -> bytes:
    body = bytearray()
    async for chunk in reply.chunks:
        body += chunk
        if len(body) > 1_000_000:
            break
    return bytes(body)


def _error(body: bytes) -> dict[str, Any]:
    """The error of an answer, empty where it has another form than the API's."""
    try:
        error = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return error if isinstance(error, dict) else {}
