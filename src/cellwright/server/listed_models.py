"""The models that the API lists (`GET /v1/models`), asked for with the credential at hand and remembered for a while.

https://platform.claude.com/docs/en/api/models-list
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from msgspec import Struct, field

from cellwright.conversation.model_connection import CREDENTIAL_NAMES
from cellwright.errors import CellwrightError
from cellwright.model.credentials import choose_transport
from cellwright.model.retry import RequestFailed, failure_of_response
from cellwright.model.transports.sdk_transport import SdkTransport
from cellwright.server.proxy.proxy import Upstream
from cellwright.server.proxy.request_rules import Refusal

PATH = "/v1/models?limit=1000"
ASK_SECONDS = 5.0
REMEMBERED_SECONDS = 300.0
FAILURE_SECONDS = 30.0
"""So long after a failure the API is not asked again: who looks at a list does not wait each time."""

MAX_BYTES = 4_000_000


class NotListed(Exception):
    """The reason why there is no list, in words for the user, without a credential in them."""


class ListedModelNames(Struct, frozen=True):
    """The API's descriptions of its models by their ids, newest first; `problem` says why there are none."""

    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    problem: str = ""


class ListedModels:
    """On the server's loop only. Where the key stays on the server, `upstream` has it, and no other way is taken."""

    def __init__(self, upstream: Upstream | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._upstream = upstream
        self._clock = clock
        self._known: dict[bytes, tuple[float, ListedModelNames]] = {}
        self._asking = asyncio.Lock()

    async def of(self, environ: Mapping[str, str]) -> ListedModelNames:
        """The list for the credential in `environ`. Never fails; what keeps it from coming is told after `ASK_SECONDS`."""
        # stands for the credential and the address, without holding them
        said = sorted((name, value) for name, value in environ.items() if name.startswith(CREDENTIAL_NAMES))
        digest = hashlib.sha256(json.dumps(said).encode("utf-8", "backslashreplace")).digest()
        async with self._asking:  # who asks meanwhile waits for the same answer
            until, listed = self._known.get(digest, (0.0, ListedModelNames()))
            if until > self._clock():
                return listed
            listed = await self._fetch(environ)
            if len(self._known) >= 100:
                self._known.clear()
            seconds = FAILURE_SECONDS if listed.problem else REMEMBERED_SECONDS
            self._known[digest] = (self._clock() + seconds, listed)
            return listed

    async def _fetch(self, environ: Mapping[str, str]) -> ListedModelNames:
        try:
            async with asyncio.timeout(ASK_SECONDS):
                body = await (_by_upstream(self._upstream) if self._upstream is not None else _by_key(environ))
            return ListedModelNames(_models(body))
        except TimeoutError:
            return ListedModelNames(problem=f"The API did not answer within {ASK_SECONDS:g} s.")
        except NotListed as why:
            return ListedModelNames(problem=str(why))


async def _by_upstream(upstream: Upstream) -> bytes:
    try:
        async with upstream.send("GET", PATH, {}, None) as reply:
            body = await _whole(reply.chunks)
            _check(reply.status, reply.headers, upstream.without_key(body))
    except Refusal as refusal:
        raise NotListed(refusal.message) from None
    return body


async def _by_key(environ: Mapping[str, str]) -> bytes:
    try:
        transport = choose_transport(environ)
    except CellwrightError as error:
        raise NotListed(error.message.partition("\n")[0]) from None
    if isinstance(transport, SdkTransport) and transport.platform != "anthropic":
        raise NotListed(f"{transport.platform} does not list models as the API does.")
    try:
        async with transport.get(PATH, seconds=ASK_SECONDS) as reply:
            body = await _whole(reply.chunks)
            _check(reply.status, reply.headers, body)
    except (RequestFailed, CellwrightError) as error:
        said = error.failure.message if isinstance(error, RequestFailed) else error.message
        raise NotListed(transport.redact(said)) from None
    except NotListed as why:
        raise NotListed(transport.redact(str(why))) from None
    finally:
        await transport.aclose()
    return body


async def _whole(chunks: AsyncIterator[bytes]) -> bytes:
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > MAX_BYTES:
            raise NotListed("The API's list of models is larger than any that it has.")
    return bytes(body)


def _check(status: int, headers: Mapping[str, str], body: bytes) -> None:
    if status == 404:
        raise NotListed("The address of the API lists no models: a gateway, or a local server.")
    if status != 200:
        raise NotListed(failure_of_response(status, headers, body, model="", now=time.time()).message)


def _models(body: bytes) -> dict[str, Mapping[str, Any]]:
    try:
        models = {str(each["id"]): each for each in json.loads(body)["data"]}
    except (ValueError, KeyError, TypeError, RecursionError):
        models = {}
    if not models:
        raise NotListed("The API's answer is not a list of models.")
    return models
