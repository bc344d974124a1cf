"""The Message Batches API: many requests at half the price, answered within a day.

Source: the API's reference, `POST /v1/messages/batches` and what belongs to it. A batch that was created is paid for, so
whoever is not told its id must not create it again: `find` looks for it.
"""

from __future__ import annotations

import datetime
import functools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from cellwright.errors import ErrorCode
from cellwright.model.retry import Clock, FailedAttempt, RequestFailed, RetryPolicy, failure_of_response
from cellwright.model.transports.reply import HttpReply
from cellwright.model.transports.transport import MESSAGES_PATH, KeyTransport

PATH = f"{MESSAGES_PATH}/batches"
MAX_REQUESTS = 100_000
MAX_BYTES = 250_000_000
"""A batch has at most 256 MB."""

REPLY_SECONDS = 60.0

T = TypeVar("T")
Send = Callable[[], AbstractAsyncContextManager[HttpReply]]
Status = Literal["in_progress", "canceling", "ended"]


class MessageBatch(Struct, frozen=True):
    """A batch as the API tells of it. `created_at` is epoch time in seconds; `total` counts its requests."""

    id: str
    status: Status
    created_at: float
    total: int
    processing: int


class BatchResult(Struct, frozen=True):
    """The outcome of one request: a `message` of the API, or the `problem` in words."""

    custom_id: str
    message: Mapping[str, Any] | None
    problem: str = ""


class MessageBatches:
    """Creates batches, waits for them and reads their results; what can be tried again is."""

    def __init__(self, transport: KeyTransport, *, retry: RetryPolicy, clock: Clock) -> None:
        self._transport = transport
        self._retry = retry
        self._clock = clock

    async def create(self, requests: Sequence[tuple[str, bytes]]) -> MessageBatch:
        """Create a batch of requests: their ids (at most 64 of `a-zA-Z0-9_-`) and bodies without `stream`.

        Raises `ApiError`. After API_NETWORK_ERROR it is not known whether there is a batch.
        """
        rows = [b'{"custom_id": %b, "params": %b}' % (json.dumps(name).encode(), body) for name, body in requests]
        body = b'{"requests": [' + b", ".join(rows) + b"]}"
        send = functools.partial(self._transport.post, body, stall_seconds=REPLY_SECONDS, path=PATH)
        return _batch(await self._tried(send, _json, repeats=False))

    async def get(self, batch_id: str) -> MessageBatch:
        """The batch as it stands. Raises `ApiError`."""
        return _batch(await self._answer(f"{PATH}/{batch_id}"))

    async def find(self, total: int, since: float) -> list[MessageBatch]:
        """The latest batches of `total` requests that were created at `since` (epoch time) or later. Raises `ApiError`."""
        listed = await self._answer(f"{PATH}?limit=100")
        batches = [_batch(item) for item in listed.get("data", ())]
        return [batch for batch in batches if batch.total == total and batch.created_at >= since]

    async def ended(self, batch: MessageBatch) -> AsyncIterator[MessageBatch]:
        """The batch each time it was asked about, the last time ended. Raises `ApiError`."""
        wait = 1.0
        while True:
            batch = await self.get(batch.id)
            yield batch
            if batch.status == "ended":
                return
            await self._clock.sleep(wait)
            wait = min(wait * 1.5, 60.0)

    async def results(self, batch: MessageBatch) -> list[BatchResult]:
        """The outcome of each request of an ended batch, in no order. Raises `ApiError`."""
        return await self._tried(lambda: self._get(f"{PATH}/{batch.id}/results"), _results, repeats=True)

    async def _answer(self, path: str) -> dict[str, Any]:
        return await self._tried(lambda: self._get(path), _json, repeats=True)

    def _get(self, path: str) -> AbstractAsyncContextManager[HttpReply]:
        return self._transport.get(path, seconds=REPLY_SECONDS)

    async def _tried(self, send: Send, read: Callable[[HttpReply], Awaitable[T]], *, repeats: bool) -> T:
        """The reply as `read` reads it. Without `repeats`, only what the API has refused is sent again."""
        began = self._clock.now()
        retry = 0
        while True:
            try:
                return await self._once(send, read)
            except RequestFailed as failed:
                failure = replace(failed.failure, message=self._transport.redact(failed.failure.message))
            retry += 1
            elapsed = self._clock.now() - began
            wait = self._retry.wait_before(retry, failure, elapsed, self._clock.chance())
            if wait is None or not (repeats or failure.code != ErrorCode.API_NETWORK_ERROR):
                raise self._retry.final_error(retry, failure, elapsed)
            await self._clock.sleep(wait)

    async def _once(self, send: Send, read: Callable[[HttpReply], Awaitable[T]]) -> T:
        async with send() as reply:
            if reply.status != 200:
                error = await reply.body()
                failure = failure_of_response(reply.status, reply.headers, error, model="", now=self._clock.today())
                raise RequestFailed(failure)
            try:
                return await read(reply)
            except (ValueError, KeyError, TypeError) as error:
                message = f"The answer about a batch is not what the API sends ({error!r})."
                raise RequestFailed(FailedAttempt(ErrorCode.API_NETWORK_ERROR, message, retryable=True)) from None


async def _json(reply: HttpReply) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(await reply.body(10_000_000))
    return answer


async def _results(reply: HttpReply) -> list[BatchResult]:
    data = b"".join([chunk async for chunk in reply.chunks])
    return [_result(json.loads(line)) for line in data.split(b"\n") if line.strip()]


def _batch(answer: Mapping[str, Any]) -> MessageBatch:
    counts = answer["request_counts"]
    created = datetime.datetime.fromisoformat(str(answer["created_at"]))
    total = sum(int(count) for count in counts.values())
    return MessageBatch(
        answer["id"], answer["processing_status"], created.timestamp(), total, int(counts["processing"])
    )


def _result(line: Mapping[str, Any]) -> BatchResult:
    result = line["result"]
    match result["type"]:
        case "succeeded":
            return BatchResult(line["custom_id"], result["message"])
        case "errored":
            error = result["error"].get("error", result["error"])
            return BatchResult(line["custom_id"], None, str(error.get("message") or error.get("type")))
        case "expired":
            return BatchResult(line["custom_id"], None, "the batch's day was over before it was asked")
        case kind:
            return BatchResult(line["custom_id"], None, f"it was {kind}")
