"""The Messages API as a `Provider`: requests out, events in, failures tried again.

The API writes cache entries at breakpoints only, and looks for them at most 20 blocks before a breakpoint. An answer with
ten calls and their results is longer than that, and the whole conversation would be written anew. So besides the end of
the request, the end of the one before it is marked: there its entry stands. Of the four breakpoints that a request may
have, `system` (with the tools) has one, the request's end one, and these at most two.

`connect()` is what most want; tests and embedders put an `AnthropicProvider` together from a transport.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import urllib.parse
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from msgspec.structs import replace

from cellwright.errors import ApiError, CellwrightError, ErrorCode
from cellwright.events import Retrying
from cellwright.model.betas import (
    all_loaded,
    betas_of,
    fields_of,
    may_compact,
    may_defer,
    with_summary_as_text,
    without_references,
)
from cellwright.model.credentials import choose_transport, is_own_platform
from cellwright.model.message_stream import MAX_EVENT_BYTES, ErrorEvent, MessageBuilder, SseParser, joined_deltas
from cellwright.model.models import ModelLimits, limits, may_think_now, refined
from cellwright.model.pricing import MAX_COUNT
from cellwright.model.provider import CacheTtl, ProviderEvent, Request
from cellwright.model.retry import (
    Clock,
    RequestFailed,
    RetryPolicy,
    broken_stream,
    failure_of_event,
    failure_of_response,
    is_error_body,
)
from cellwright.model.transports.transport import MESSAGES_PATH, KeyTransport, Transport, paced

if TYPE_CHECKING:
    from cellwright.model.message_batches import MessageBatches


_SYSTEM_END = b'"cache_control":{"type":"ephemeral","ttl":"1h"}}]'
_ASSISTANT, _USER = b'{"role":"assistant"', b'{"role":"user"'
_NEVER_CACHED = ("thinking", "redacted_thinking")

LIMITS_SECONDS = 5.0
"""The time the question for a model's limits may take; it is asked beside the work and never holds it up."""

COUNT_SECONDS = 3.0
"""The time a count of tokens may take: somebody waits for the page that shows it."""

COUNT_PATH = f"{MESSAGES_PATH}/count_tokens"


def cache_control(ttl: CacheTtl | None) -> dict[str, str]:
    """The breakpoint of a conversation; its entries live five minutes unless `ttl` says otherwise."""
    return {"type": "ephemeral", "ttl": ttl} if ttl == "1h" else {"type": "ephemeral"}


def system_with_ttl(system: bytes, ttl: CacheTtl | None) -> bytes:
    """A session's system prompt, whose own breakpoint is one of an hour, with `ttl` where five minutes are asked for."""
    if ttl != "5m" or not system.endswith(_SYSTEM_END):
        return system
    return system.removesuffix(_SYSTEM_END) + b'"cache_control":{"type":"ephemeral"}}]'


def with_request_ends(messages: Sequence[bytes], ttl: CacheTtl | None = None) -> Sequence[bytes]:
    """The messages with a breakpoint where the request before this one ended; those given stay as they are.

    That was before the newest answer. Where that request's answer was not kept (a refusal, an interruption), it was
    before the newest prompt.
    """
    answers = (at for at in range(len(messages) - 1, 0, -1) if _is_answer(messages[at]))
    ends = {next(answers, 0) - 1}
    if len(messages) > 1 and not _is_answer(messages[-1]) and not _is_answer(messages[-2]):
        ends.add(len(messages) - 2)
    marked = list(messages)
    for at in ends - {-1}:
        marked[at] = _marked(messages[at], ttl)
    return marked


def _is_answer(message: bytes) -> bool:
    if message.startswith((_ASSISTANT, _USER)):
        return message.startswith(_ASSISTANT)
    return bool(json.loads(message)["role"] == "assistant")


def _marked(message: bytes, ttl: CacheTtl | None) -> bytes:
    """The message with a breakpoint on the last of its blocks that can have one, if any."""
    # most of what is sent are results: a large one is not decoded for a mark at its end
    if message.startswith(_USER) and message.endswith(b"}]}") and b'"cache_control"' not in message:
        control = json.dumps(cache_control(ttl), separators=(",", ":")).encode()
        return b'%b,"cache_control":%b}]}' % (message.removesuffix(b"}]}"), control)
    decoded: dict[str, Any] = json.loads(message)
    content = decoded["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    for at in reversed(range(len(blocks))):
        block = blocks[at]
        if block["type"] not in _NEVER_CACHED and block.get("text", "x").strip():
            blocks[at] = {**block, "cache_control": cache_control(ttl)}
            return json.dumps({**decoded, "content": blocks}, ensure_ascii=False, separators=(",", ":")).encode()
    return message


def connect(environ: Mapping[str, str] | None = None) -> AnthropicProvider:
    """A provider for the credential that `environ` (default: the process's environment) gives.

    Raises `CellwrightError`: API_KEY_MISSING when there is none, CONFIG_INVALID when a setting makes no sense. Where
    `environ` says no credential for a cloud, its library looks into the process's own environment, and for its sign-in.

    >>> provider = connect({"ANTHROPIC_API_KEY": "sk-ant-0000", "ANTHROPIC_BASE_URL": "http://localhost:8080"})
    """
    environ = os.environ if environ is None else environ
    return AnthropicProvider(
        choose_transport(environ),
        retry=RetryPolicy.from_environment(environ),
        defers_tools=may_defer(environ, is_own_platform=is_own_platform(environ)),
        own_compaction=may_compact(environ, is_own_platform=is_own_platform(environ)),
    )


class AnthropicProvider:
    """Streams messages over one transport, and tries again what can be tried again.

    `retry` and `stall_seconds` (how long an answer may be silent) come from the environment by default. It may be used
    from several event loops; `aclose` closes the running loop's connections. `defers_tools`: the API at the other end loads
    tools on demand; `own_compaction`: it sums conversations up (`betas.py`).
    """

    def __init__(
        self,
        transport: Transport,
        *,
        retry: RetryPolicy | None = None,
        stall_seconds: float | None = None,
        clock: Clock | None = None,
        defers_tools: bool = False,
        own_compaction: bool = False,
    ) -> None:
        self._transport = transport
        self._retry = retry or RetryPolicy.from_environment()
        self._stall_seconds = self._retry.stall_seconds if stall_seconds is None else stall_seconds
        self._clock = clock or Clock()
        self._defers_tools = defers_tools
        self._own_compaction = own_compaction
        self._limits: dict[str, ModelLimits] = {}

    def __repr__(self) -> str:
        return f"AnthropicProvider({self._transport!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections that were opened in the running loop. The provider can be used again."""
        await self._transport.aclose()

    async def prepare(self) -> None:
        """Import and set up what the first request needs, so that it need not wait for that."""
        await self._transport.prepare()

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        """The events of one message, as `Provider` promises."""
        compacts = self._own_compaction and limits(request.model).compaction
        body = encode(request, defers_tools=self._defers_tools, own_compaction=compacts)
        betas = betas_of(request, is_there=compacts)
        began = self._clock.now()
        retry = 0
        while True:
            try:
                async with contextlib.aclosing(self._attempt(body, request.model, betas)) as events:
                    async for event in events:
                        yield event
            except RequestFailed as failed:
                failure = replace(failed.failure, message=self._transport.redact(failed.failure.message))
            else:
                return
            retry += 1
            elapsed = self._clock.now() - began
            wait = self._retry.wait_before(retry, failure, elapsed, self._clock.chance())
            if wait is None:
                # outside of the except clause: what failed underneath holds headers, and an error's context is shown
                raise self._retry.final_error(retry, failure, elapsed)
            yield Retrying(retry, self._retry.max_retries, wait, str(failure.code), failure.message)
            await self._clock.sleep(wait)

    def batches(self) -> MessageBatches:
        """The Message Batches API at the same address. Raises `CellwrightError` CONFIG_INVALID where there is none."""
        if not isinstance(self._transport, KeyTransport):
            message = "Message batches need an API key for Anthropic's API, or a gateway that has them."
            raise CellwrightError(ErrorCode.CONFIG_INVALID, f"{message} Leave `batch` out to ask one by one.")
        from cellwright.model.message_batches import MessageBatches  # few have any

        return MessageBatches(self._transport, retry=self._retry, clock=self._clock)

    async def model_limits(self, model: str) -> ModelLimits:
        """Return the limits of `model` as the API gives them, or else the table. Asked once; never fails."""
        if model not in self._limits:
            table = limits(model)
            try:
                async with asyncio.timeout(LIMITS_SECONDS):
                    info = await self._model_info(model)
            except (TimeoutError, RequestFailed, CellwrightError, ValueError):
                return table
            self._limits[model] = refined(table, info)
        return self._limits[model]

    async def count_tokens(self, request: Request) -> int | None:
        """Return the API's own count of the request's input, which costs nothing; None where it cannot be had in time."""
        compacts = self._own_compaction and limits(request.model).compaction
        try:
            body = encode(request, defers_tools=self._defers_tools, own_compaction=compacts, counts=True)
            post = self._transport.post(
                body, stall_seconds=COUNT_SECONDS, betas=betas_of(request, is_there=compacts), path=COUNT_PATH
            )
            async with asyncio.timeout(COUNT_SECONDS), post as reply:
                answer = json.loads(await reply.body())
        except (TimeoutError, RequestFailed, CellwrightError, ValueError):
            return None
        counted = answer.get("input_tokens") if reply.status == 200 and isinstance(answer, dict) else None
        return counted if type(counted) is int and 0 <= counted <= MAX_COUNT else None

    async def _model_info(self, model: str) -> Mapping[str, Any]:
        """The answer to `GET /v1/models/{model}`; empty where that is not served. ValueError when it is no answer."""
        path = f"/v1/models/{urllib.parse.quote(model, safe='')}"
        async with self._transport.get(path, seconds=LIMITS_SECONDS) as reply:
            body = await reply.body()
        if reply.status == 404:
            return {}
        info = json.loads(body)
        if reply.status != 200 or not isinstance(info, dict):
            raise ValueError(f"status {reply.status}")
        return info

    async def _attempt(self, body: bytes, model: str, betas: Sequence[str]) -> AsyncGenerator[ProviderEvent, None]:
        """One try: the events of a message that arrives whole, else `RequestFailed`."""
        async with self._transport.post(body, stall_seconds=self._stall_seconds, betas=betas) as reply:
            if reply.status != 200 or not reply.is_stream:
                error = await reply.body()
                now = self._clock.today()
                raise RequestFailed(failure_of_response(reply.status, reply.headers, error, model=model, now=now))
            request_id = reply.headers.get("request-id") or reply.headers.get("x-amzn-requestid") or ""
            message = MessageBuilder(model)
            parser = SseParser()
            async with contextlib.aclosing(paced(reply.chunks, self._clock)) as chunks:
                async for chunk in chunks:
                    events, failed = _told(message, parser.feed(chunk), request_id)
                    for event in events if len(events) < 2 else joined_deltas(events):
                        yield event
                    if failed is not None:
                        raise failed
                    if message.is_complete:
                        break
                    if parser.unread > MAX_EVENT_BYTES:
                        what = f"The answer has a line of more than {MAX_EVENT_BYTES // 1_000_000} MB without an end."
                        raise RequestFailed(broken_stream(what, request_id, retryable=False))
            if not message.is_complete:
                if is_error_body(rest := parser.rest()):  # JSON where a stream was announced
                    now = self._clock.today()
                    raise RequestFailed(failure_of_response(200, reply.headers, rest, model=model, now=now))
                raise RequestFailed(broken_stream("The answer ended before it was complete.", request_id))
            # so long, in seconds, may the end of the body take after `message_stop`
            await reply.read_to_end(1.0)
            yield message.turn_end(request_id)


def encode(
    request: Request,
    *,
    defers_tools: bool = False,
    own_compaction: bool = False,
    streams: bool = True,
    counts: bool = False,
) -> bytes:
    """The body of a request: JSON in which the session's encoded parts stand as they are. A batch's do not stream, and
    what only `counts` has no answer that could be limited.

    Raises `CellwrightError` API_REQUEST_INVALID for what the model does not take, and where the API's own compaction
    is asked for and there is none.
    """
    head = _head(request, streams=streams, counts=counts)
    if request.compaction is not None and not own_compaction:
        raise ApiError(ErrorCode.API_REQUEST_INVALID, f"The way to {request.model} has no compaction of its own.")
    if own_compaction:
        head |= fields_of(request)
    tools, messages = request.tools, request.messages
    if not (defers_tools and limits(request.model).tool_search):
        tools = all_loaded(tools)
        if tools is not request.tools:  # nothing is loaded where nothing was deferred
            messages = without_references(messages)
    if request.summary_as_text or not own_compaction:
        messages = with_summary_as_text(messages)
    start = json.dumps(head, ensure_ascii=False).encode()[:-1]
    for name, array in ((b"system", system_with_ttl(request.system, request.options.cache_ttl)), (b"tools", tools)):
        if array not in (b"", b"[]"):
            start += b', "%b": %b' % (name, array)
    if request.cache_whole:
        messages = with_request_ends(messages, request.options.cache_ttl)
    # a long conversation is copied once, and not for each of these
    first, *rest = messages or (b"",)
    parts = [b'%b, "messages": [%b' % (start, first), *rest]
    parts[-1] += b"]}"
    return b",".join(parts)


def _head(request: Request, *, streams: bool, counts: bool) -> dict[str, Any]:
    """The fields of a body besides what the session holds encoded."""
    head: dict[str, Any] = {"model": request.model}
    if not counts:
        head["max_tokens"] = request.max_tokens
        if streams:
            head["stream"] = True
        if request.stop_sequences:
            head["stop_sequences"] = list(request.stop_sequences)
    if request.cache_whole:
        head["cache_control"] = cache_control(request.options.cache_ttl)
    thinking = request.thinking
    if thinking is not None and ("budget_tokens" not in thinking or may_think_now(request.messages)):
        head["thinking"] = thinking
    if output_config := request.output_config:
        head["output_config"] = output_config
    return head


def _told(
    message: MessageBuilder, parsed: Iterable[tuple[str, bytes]], request_id: str
) -> tuple[list[ProviderEvent], RequestFailed | None]:
    """The events of what has arrived, up to the end of the message or to a failure, which is given as well."""
    events: list[ProviderEvent] = []
    data = b""
    try:
        for name, data in parsed:
            if message.is_complete:
                break  # some gateways say `[DONE]`, and whatever follows changes nothing
            if name == "error":
                raise RequestFailed(failure_of_event(data, model=message.model, request_id=request_id))
            if (event := _added(message, data, request_id)) is not None:
                events.append(event)
    except ErrorEvent:
        return events, RequestFailed(failure_of_event(data, model=message.model, request_id=request_id))
    except RequestFailed as failed:
        return events, failed
    return events, None


def _added(message: MessageBuilder, data: bytes, request_id: str) -> ProviderEvent | None:
    try:
        return message.add(data) if data else None
    except (ValueError, RecursionError):
        failure = broken_stream("The answer is not what the Messages API sends.", request_id)
    except (KeyError, TypeError, AttributeError) as error:
        # well-formed, and wrong: a server that speaks another dialect says the same when it is asked again
        what = f"The answer is not what the Messages API sends ({error}). Check the server at ANTHROPIC_BASE_URL."
        failure = broken_stream(what, request_id, retryable=False)
    raise RequestFailed(failure)
