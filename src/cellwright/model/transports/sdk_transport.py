"""The way to the Messages API through the anthropic SDK's clients: Bedrock, Google Cloud, Foundry, AWS, profiles.

The clients find the credential, renew it and sign with it; what is sent is our bytes, and what comes back is parsed by
us, as over `transport.KeyTransport`. The SDK takes a second to import: in a worker thread, at the first request.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.model.provider import request_sent
from cellwright.model.retry import FailedAttempt, RequestFailed, broken_stream
from cellwright.model.transports.reply import HttpReply
from cellwright.model.transports.transport import BETA_HEADER, KEEP_WARM_SECONDS, MESSAGES_PATH, LoopClients

if TYPE_CHECKING:
    import httpx2

CLIENTS = {
    "anthropic": "AsyncAnthropic",
    "aws": "AsyncAnthropicAWS",
    "bedrock": "AsyncAnthropicBedrock",
    "foundry": "AsyncAnthropicFoundry",
    "google_cloud": "AsyncAnthropicGoogleCloud",
    "mantle": "AsyncAnthropicBedrockMantle",
    "vertex": "AsyncAnthropicVertex",
}
"""The SDK's client class for each platform; "anthropic" stands for a profile or a workload identity at Anthropic."""

_REWRITTEN = ("bedrock", "vertex")
"""Platforms whose clients move fields of the body into the address, and so need it as a dict."""

_ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    "bedrock": {
        "aws_region": "AWS_REGION",
        "aws_profile": "AWS_PROFILE",
        "api_key": "AWS_BEARER_TOKEN_BEDROCK",
        "base_url": "ANTHROPIC_BEDROCK_BASE_URL",
    },
    "vertex": {
        "region": "CLOUD_ML_REGION",
        "project_id": "ANTHROPIC_VERTEX_PROJECT_ID",
        "base_url": "ANTHROPIC_VERTEX_BASE_URL",
    },
    "foundry": {
        "resource": "ANTHROPIC_FOUNDRY_RESOURCE",
        "api_key": "ANTHROPIC_FOUNDRY_API_KEY",
        "base_url": "ANTHROPIC_FOUNDRY_BASE_URL",
    },
}
"""The variables that the clients read themselves, by the arguments for what settings say in their place."""

Send = Callable[[Any], Awaitable["httpx2.Response"]]


class SdkTransport:
    """One of the SDK's clients, with the credential and address of `environ`, else those that it finds by itself."""

    def __init__(self, platform: str, environ: Mapping[str, str] | None = None) -> None:
        self.platform = platform
        given = _arguments(platform, environ or {})
        self._clients: LoopClients[Any] = LoopClients(lambda: _build_client(platform, given))

    def __repr__(self) -> str:
        return f"SdkTransport({self.platform!r})"

    def redact(self, text: str) -> str:
        return text  # the credential never leaves the SDK

    async def prepare(self) -> None:
        await self._clients.get()

    async def aclose(self) -> None:
        client = self._clients.pop()
        if client is not None:
            await client.close()

    @contextlib.asynccontextmanager
    async def post(
        self, body: bytes, *, stall_seconds: float, betas: Sequence[str] = (), path: str = MESSAGES_PATH
    ) -> AsyncIterator[HttpReply]:
        if self.platform in _REWRITTEN:
            content: dict[str, Any] = {"body": with_explicit_breakpoint(json.loads(body))}
        else:
            content = {"content": body}

        async def send(client: Any) -> httpx2.Response:
            return await client.post(path, **content, **_as_raw_stream(stall_seconds, betas))  # type: ignore[no-any-return]

        asyncio.get_running_loop().call_soon(request_sent.get())  # the SDK does not say when that is
        async with self._sent(send, stall_seconds, in_frames=self.platform == "bedrock") as reply:
            yield reply

    @contextlib.asynccontextmanager
    async def get(self, path: str, *, seconds: float) -> AsyncIterator[HttpReply]:
        async def send(client: Any) -> httpx2.Response:
            return await client.get(path, **_as_raw_stream(seconds))  # type: ignore[no-any-return]

        async with self._sent(send, seconds) as reply:
            yield reply

    @contextlib.asynccontextmanager
    async def _sent(self, send: Send, stall_seconds: float, *, in_frames: bool = False) -> AsyncIterator[HttpReply]:
        """Send it; `in_frames`: the stream of an answer comes in frames of AWS."""
        from cellwright.model.transports.httpx_client import as_failures, reply_of

        client = await self._clients.get()
        with as_failures(client.base_url.host, stall_seconds):
            response = await self._response(client, send, stall_seconds)
            async with contextlib.aclosing(response):
                if in_frames and response.is_success:
                    yield HttpReply(response.status_code, dict(response.headers), _sse_of_aws_frames(response))
                else:
                    yield reply_of(response, stall_seconds)

    async def _response(self, client: Any, send: Send, stall_seconds: float) -> httpx2.Response:
        import anthropic  # loaded by now
        import httpx2

        try:
            try:
                return await send(client)
            except anthropic.AuthenticationError as error:
                if self.platform != "anthropic":
                    return error.response
                # a token that was refused is thrown away by the SDK only when it retries by itself
                return await send(client.with_options(max_retries=1))
        except anthropic.APIStatusError as error:
            return error.response
        except Exception as error:  # noqa: BLE001  each cloud's credential library has exceptions of its own
            if isinstance(error.__cause__, httpx2.TransportError):
                raise error.__cause__ from None
            why = f"{type(error).__name__}: {error}"
            message = f"The credential for {self.platform} cannot be had ({why}). Sign in again or set it."
            raise RequestFailed(FailedAttempt(ErrorCode.API_KEY_INVALID, message, retryable=False)) from None


def with_explicit_breakpoint(body: dict[str, Any]) -> dict[str, Any]:
    """The request with its automatic cache breakpoint put on the last block that can have one.

    Explicit breakpoints work on every platform; the automatic one is not documented for Bedrock and Google Cloud.
    """
    cache_control = body.pop("cache_control", None)
    last = body["messages"][-1]
    if cache_control is None:
        return body
    blocks = [{"type": "text", "text": last["content"]}] if isinstance(last["content"], str) else list(last["content"])
    for position in reversed(range(len(blocks))):
        if _can_be_cached(blocks[position]):
            blocks[position] = {**blocks[position], "cache_control": cache_control}
            body["messages"][-1] = {**last, "content": blocks}
            break
    return body


def _can_be_cached(block: Mapping[str, Any]) -> bool:
    if block["type"] == "text":
        return bool(block["text"].strip())
    return block["type"] not in ("thinking", "redacted_thinking")


def _as_raw_stream(stall_seconds: float, betas: Sequence[str] = ()) -> dict[str, Any]:
    """The options of a call that gives the response as it is, its body not yet read."""
    import httpx2
    from anthropic import AsyncStream

    from cellwright.model.transports.httpx_client import stall_timeout

    return {
        "cast_to": httpx2.Response,
        "stream": True,
        "stream_cls": AsyncStream[Any],
        "options": {
            "timeout": stall_timeout(stall_seconds),
            **({"headers": {BETA_HEADER: ",".join(betas)}} if betas else {}),
        },
    }


def _arguments(platform: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The arguments that `environ` says and the process's own environment does not: the rest the client finds by itself."""
    found = {name: environ.get(variable, "") for name, variable in _ARGUMENTS.get(platform, {}).items()}
    own = {name: os.environ.get(variable, "") for name, variable in _ARGUMENTS.get(platform, {}).items()}
    given = {name: value for name, value in found.items() if value and value != own[name]}
    # a client takes an address in place of a resource, and a key in place of a profile, never both
    if found.get("base_url"):
        given.pop("resource", None)
    if found.get("api_key"):
        given.pop("aws_profile", None)
    return given


def _build_client(platform: str, arguments: Mapping[str, str]) -> Any:
    try:
        import anthropic  # 1.2 s

        from cellwright.model.transports.httpx_client import limits

        logging.getLogger("anthropic._base_client").addFilter(_without_credentials)
        if platform == "bedrock":
            import botocore.eventstream  # noqa: F401  missed here and not at the first answer
        http_client = anthropic.DefaultAsyncHttpxClient(
            limits=limits(KEEP_WARM_SECONDS),
            follow_redirects=False,
        )
        return getattr(anthropic, CLIENTS[platform])(max_retries=0, http_client=http_client, **arguments)
    except ImportError as error:
        message = (
            f"{error}: what signs in at {platform} is not whole. {sys.executable} -m pip install cellwright brings it."
        )
        raise CellwrightError(ErrorCode.CONFIG_INVALID, message) from None
    except (anthropic.AnthropicError, ValueError) as error:
        message = f"The {platform} client of the anthropic SDK cannot be set up: {error}"
        raise CellwrightError(ErrorCode.API_KEY_MISSING, message) from None


def _without_credentials(record: logging.LogRecord) -> bool:
    """A log filter: at DEBUG the SDK logs a request's headers, and Foundry's key is one of them."""
    if isinstance(record.args, Mapping) and isinstance(headers := record.args.get("headers"), Mapping):
        record.args = {**record.args, "headers": dict.fromkeys(headers, "[secret]")}
    return True


async def _sse_of_aws_frames(response: httpx2.Response) -> AsyncGenerator[bytes, None]:
    """Legacy Bedrock's event stream (binary frames of AWS) as server-sent events, by the SDK's own decoder."""
    from anthropic.lib.bedrock._stream_decoder import AWSEventStreamDecoder
    from botocore.eventstream import ParserError

    try:
        async for event in AWSEventStreamDecoder().aiter_bytes(response.aiter_bytes()):
            data = event.data.replace("\n", "\ndata: ")
            yield f"event: {event.event}\ndata: {data}\n\n".encode()
    except ParserError as error:
        raise RequestFailed(broken_stream(f"The answer is not an AWS event stream ({error}).", "")) from None
