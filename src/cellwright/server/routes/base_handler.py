"""The base of all routes under `/cellwright/api`: who may use them, how much may be sent, how errors are told.

Authentication, authorizers, XSRF, CORS and the check of the host are Jupyter Server's own (`APIHandler`).
"""

from __future__ import annotations

import asyncio
import functools
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from jupyter_server.auth.decorator import allow_unauthenticated, authorized
from jupyter_server.base.handlers import APIHandler
from tornado.web import HTTPError, stream_request_body

from cellwright.errors import CellwrightError
from cellwright.server.api_error import RouteError
from cellwright.server.runs.runs import ClientRuns
from cellwright.text import lazy_pattern

_MESSAGE_CHARS = 300
_FILE = Path(__file__).with_name("openapi.json")

EVERYBODY = ""
"""The owner where users have no names: who knows the server's token is the server's user."""

RESOURCE = "cellwright"
ALLOW_HEADERS = "Access-Control-Allow-Headers"
Handles = TypeVar("Handles", bound=Callable[..., Any])

_ANONYMOUS = lazy_pattern(r"[0-9a-f]{32}")
_CODES = {
    400: "INVALID_PARAMETERS",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "METHOD_NOT_ALLOWED",
    409: "CONFLICT",
    413: "REQUEST_TOO_LARGE",
}


@functools.cache
def description() -> dict[str, Any]:
    """The OpenAPI description as it is in the package; `servers` is filled in for each server."""
    content: dict[str, Any] = json.loads(_FILE.read_text("utf-8"))
    return content


@functools.cache
def _problem_finder(schema: str) -> Callable[[Any], tuple[str, str] | None]:
    """The function that finds what is wrong with a body of that form: its place in `data`, and the words for it."""
    import fastjsonschema  # most servers never take a body

    whole = {"$ref": f"#/components/schemas/{schema}", "components": description()["components"]}
    check = fastjsonschema.compile(whole, use_default=False, use_formats=False)

    def problem_of(content: Any) -> tuple[str, str] | None:
        try:
            check(content)
        except fastjsonschema.JsonSchemaValueException as problem:
            return str(problem.name), problem.message
        return None

    return problem_of


def checked_body(body: bytes, schema: str) -> dict[str, Any]:
    """`body` as JSON of that form. Raises ApiError 400: where it is wrong and what was expected."""
    try:
        content = json.loads(body or b"{}", parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise RouteError(400, "INVALID_PARAMETERS", f"The body is not valid JSON: {error}") from error
    if (problem := _problem_finder(schema)(content)) is not None:
        name, message = problem
        where = name.removeprefix("data").removeprefix(".")
        message = message.removeprefix(name).lstrip()
        if len(message) > _MESSAGE_CHARS:  # names that the caller made up may stand in it
            message = f"{message[:100]} … {message[100 - _MESSAGE_CHARS :]}"
        said = f"The body{where and ' at ' + where} {message}"
        raise RouteError(400, "INVALID_PARAMETERS", said)
    if b"\\u" in body:
        # halves of surrogate pairs, which JSON's escapes can write, are no text in UTF-8: no kernel takes them
        text = json.dumps(content, ensure_ascii=False)
        content = json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    return content  # type: ignore[no-any-return]


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not valid JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is too large a number")
    return number


def _may(action: str, resource: str = RESOURCE) -> Callable[[Handles], Handles]:
    """Ask Jupyter's authorizers whether the user may do `action` with `resource`."""
    return authorized(action, resource=resource)


may_read, may_write, may_execute = _may("read"), _may("write"), _may("execute")
may_use_kernels = _may("execute", "kernels")


@stream_request_body
class CellwrightRoute(APIHandler):
    """The base of all handlers. The body is read after the user is known to be allowed, and no more of it than may be."""

    auth_resource = RESOURCE
    drained_bytes = 0
    """A body that is too large is read up to this size, and thrown away: who is still sending hears no answer."""

    def initialize(self, runs: ClientRuns, **_settings: Any) -> None:
        self.runs = runs
        self.disconnected = asyncio.Event()
        """Set when the client has left."""
        self._body = bytearray()
        self._too_large = False
        self._received = 0

    async def prepare(self) -> None:  # type: ignore[override]  # as APIHandler does
        # a compressed body is not taken, so its length is what arrives
        length = self._declared_length
        self._too_large = length > self.runs.limits.max_request_bytes
        await super().prepare()
        if self._too_large and length > self.drained_bytes:
            self._refuse_size()

    @property
    def _declared_length(self) -> int:
        said = self.request.headers.get("Content-Length", "0")
        return int(said) if said.isdigit() else 0

    def data_received(self, chunk: bytes) -> None:
        self._received += len(chunk)
        # a body in chunks says its length nowhere: the rest is read, and not kept
        self._too_large = self._too_large or len(self._body) + len(chunk) > self.runs.limits.max_request_bytes
        if not self._too_large:
            self._body += chunk

    def _refuse_size(self) -> None:
        most = self.runs.limits.max_request_bytes
        raise RouteError(413, "REQUEST_TOO_LARGE", f"The request is larger than {most:,} bytes (max_request_bytes).")

    def body(self, schema: str) -> dict[str, Any]:
        """The request's body, as `schema` of the OpenAPI description has it. Raises ApiError 400, 413."""
        if self._too_large:
            self._refuse_size()
        return checked_body(bytes(self._body), schema)

    @property
    def owner(self) -> str:
        """Whose runs this request sees. Users without a name get a new one with each request that has no cookie."""
        user = self.current_user
        name = str(getattr(user, "username", user))
        return EVERYBODY if _ANONYMOUS.fullmatch(name) else name

    def argument(self, name: str, default: str = "") -> str:
        """A parameter of the address, once. Raises ApiError 400 for bytes that are no text."""
        try:
            return self.get_query_argument(name, default, strip=False)
        except HTTPError as error:
            raise RouteError(400, "INVALID_PARAMETERS", f"{name} is not text in UTF-8.") from error

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """A whole number of the address. Raises ApiError 400."""
        text = self.argument(name, str(default))
        if not re.fullmatch(r"-?[0-9]{1,15}", text) or not least <= int(text) <= most:
            raise RouteError(400, "INVALID_PARAMETERS", f"{name} is a whole number from {least} to {most}.")
        return int(text)

    def choice(self, name: str, *choices: str) -> str:
        """One of `choices`, the last where nothing is said. Raises ApiError 400."""
        said = self.argument(name, choices[-1])
        if said not in choices:
            raise RouteError(400, "INVALID_PARAMETERS", f"{name} is one of {', '.join(choices)}.")
        return said

    def answer(self, content: Any, status: int = 200) -> None:
        """Answer with JSON."""
        self.set_status(status)
        self.set_header("Cache-Control", "no-store")
        self.finish(json.dumps(content, ensure_ascii=False, default=str).encode("utf-8", "backslashreplace"))

    @allow_unauthenticated
    def options(self, *args: Any, **kwargs: Any) -> None:
        super().options(*args, **kwargs)
        # what a page of another origin sends besides, where Jupyter's settings let it
        self.set_header(ALLOW_HEADERS, f"{self._headers.get(ALLOW_HEADERS, '')}, last-event-id")

    def on_connection_close(self) -> None:
        self.disconnected.set()
        super().on_connection_close()

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        if self._received < self._declared_length:
            # Tornado closes a connection on which it leaves a body unread: a client must not send the next request on it
            self.set_header("Connection", "close")
        error = kwargs.get("exc_info", (None, None, None))[1]
        if isinstance(error, CellwrightError):
            error = RouteError.of(error)
        if isinstance(error, RouteError):
            self.set_status(error.status)
            if error.retry_after is not None:
                self.set_header("Retry-After", str(error.retry_after))
            body = error.to_json()
        else:
            said = error.log_message if isinstance(error, HTTPError) else None
            message = said or ("The server failed; its log says why." if status_code >= 500 else self._reason)
            body = {"code": _CODES.get(status_code, "EXECUTION_ERROR"), "message": message, "details": {}}
        self.finish(json.dumps(body, default=str))

    def log_exception(self, kind: Any, error: Any, trace: Any) -> None:
        if not isinstance(error, (RouteError, CellwrightError)):  # what a client did is no fault of the server
            super().log_exception(kind, error, trace)


class NoSuchRoute(CellwrightRoute):
    """The handler of paths under the interface's that are none of its routes: in JSON, like everything else."""

    async def prepare(self) -> None:  # type: ignore[override]  # as APIHandler does
        await super().prepare()
        raise RouteError(404, "NOT_FOUND", f"{self.request.path} was not found. openapi.json lists the routes.")
