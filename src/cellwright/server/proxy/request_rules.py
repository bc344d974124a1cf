"""Rules of the proxy: its limits, what of a request may go, and its refusals in the form of the API's errors.

The limits are what the administrator lets through, and a user's requests at once and in a minute. The rules are about
paths, models, sizes, and those tools of the API's that reach the network. A body is read once and written anew from what
was read, so that nothing can be understood in one way here and in another there (a key that stands in it twice, for
one). A refusal is `{"type": "error", "error": {"type", "message", "details": {"error_code"}}}`
(https://platform.claude.com/docs/en/api/errors). The codes say which of the proxy's own rules it was, for programs.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NoReturn

from msgspec import Struct

from cellwright.model.models import is_among, limits
from cellwright.text import lazy_pattern

BUDGET = "cellwright_budget_exceeded"
POLICY = "cellwright_forbidden"
BUSY = "cellwright_too_many_requests"

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    502: "api_error",
    504: "timeout_error",
}

MAX_REQUEST_BYTES = 32 * 1024 * 1024
"""The largest request that the Messages API takes."""

Kind = Literal["messages", "count_tokens", "models", "model"]

_PATHS: dict[tuple[str, str], Kind] = {
    ("POST", "/v1/messages"): "messages",
    ("POST", "/v1/messages/count_tokens"): "count_tokens",
    ("GET", "/v1/models"): "models",
}
_MODEL_PATH = lazy_pattern(r"/v1/models/(?P<model>[A-Za-z0-9][A-Za-z0-9._:@-]{0,127})")
_QUERIES: Mapping[Kind, frozenset[str]] = {
    "messages": frozenset({"beta"}),
    "count_tokens": frozenset({"beta"}),
    "models": frozenset({"beta", "limit", "after_id", "before_id"}),
    "model": frozenset({"beta"}),
}
_QUERY_VALUE = lazy_pattern(r"[A-Za-z0-9._:@-]{1,128}")
_WEB_TOOLS = ("web_search", "web_fetch", "code_execution", "browser_toolset")
_BYTES_PER_TOKEN = 3
_IMAGE_TOKENS = 5_000
"""More than the API counts for any image."""


class Refusal(Exception):
    """The request goes no further; `message` is for the user. `retry_after` is in seconds, None: it would not help."""

    def __init__(self, status: int, message: str, *, code: str = "", retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.retry_after = retry_after

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers that tell clients whether to try again."""
        if self.retry_after is None:
            return {"x-should-retry": "false"}
        return {"retry-after": str(max(1, math.ceil(self.retry_after))), "x-should-retry": "true"}

    def body(self) -> bytes:
        error = {"type": _TYPES[self.status], "message": self.message}
        if self.code:
            return json.dumps({"type": "error", "error": {**error, "details": {"error_code": self.code}}}).encode()
        return json.dumps({"type": "error", "error": error}).encode()


def forbidden(message: str) -> Refusal:
    """Build the refusal of what the administrator does not allow."""
    return Refusal(403, message, code=POLICY)


def over_budget(message: str) -> Refusal:
    return Refusal(402, message, code=BUDGET)


class ProxyLimits(Struct, frozen=True, kw_only=True):
    """None is no limit. `allowed_models` are names, patterns with `*`, or lines of models (`haiku`).

    Budgets are US dollars: a user's for a day (UTC), and one kernel's for its life. `web_tools` and `mcp` are the API's
    own tools that reach the network from Anthropic's side.
    """

    allowed_models: tuple[str, ...] | None = None
    max_tokens: int | None = None
    max_request_bytes: int = MAX_REQUEST_BYTES
    requests_per_minute: int | None = None
    concurrent_requests: int | None = None
    budget_usd_per_day: float | None = None
    budget_usd_per_kernel: float | None = None
    web_tools: bool = True
    mcp: bool = True

    @property
    def has_budget(self) -> bool:
        return self.budget_usd_per_day is not None or self.budget_usd_per_kernel is not None


WINDOW_SECONDS = 60.0


class Traffic:
    """Counts the requests of each user. Used from one event loop; `clock` gives seconds."""

    def __init__(
        self, *, per_minute: int | None, at_once: int | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_minute = per_minute
        self._at_once = at_once
        self._clock = clock
        self._begun: dict[str, deque[float]] = {}
        self._open: dict[str, int] = {}

    @contextlib.contextmanager
    def passing(self, user: str) -> Iterator[None]:
        """One request of `user` is on its way. Raises `Refusal` when it is one too many."""
        self._admit(user)
        self._open[user] = self._open.get(user, 0) + 1
        try:
            yield
        finally:
            self._open[user] -= 1
            if not self._open[user]:
                del self._open[user]

    def _admit(self, user: str) -> None:
        if self._at_once is not None and self._open.get(user, 0) >= self._at_once:
            message = f"The administrator of this server allows {self._at_once} requests to Claude at the same time."
            raise Refusal(429, message, code=BUSY, retry_after=1)
        if self._per_minute is None:
            return
        now = self._clock()
        begun = self._begun.setdefault(user, deque())
        while begun and begun[0] <= now - WINDOW_SECONDS:
            begun.popleft()
        if len(begun) >= self._per_minute:
            wait = begun[0] + WINDOW_SECONDS - now if begun else WINDOW_SECONDS
            message = f"The administrator of this server allows {self._per_minute} requests to Claude in a minute."
            raise Refusal(429, message, code=BUSY, retry_after=wait)
        begun.append(now)


class CheckedRequest(Struct, frozen=True):
    """A request that may go. `path` has its query; `input_tokens` and `max_tokens` are the most it can come to.

    `other_models` may answer it as well, or a part of it.
    """

    kind: Kind
    method: str
    path: str
    body: dict[str, Any] | None = None
    model: str = ""
    other_models: tuple[str, ...] = ()
    streamed: bool = False
    input_tokens: int = 0
    max_tokens: int = 0

    def encoded(self, max_tokens: int | None = None) -> bytes | None:
        """The body as it is sent, perhaps with fewer tokens for the answer."""
        if self.body is None:
            return None
        body = self.body if max_tokens is None else {**self.body, "max_tokens": max_tokens}
        return json.dumps(body, separators=(",", ":"), allow_nan=False).encode()


def kind_of(method: str, path: str) -> Kind:
    """Find the kind of request that `path` asks for. Raises `Refusal` for what the proxy does not pass on."""
    if (kind := _PATHS.get((method, path))) is not None:
        return kind
    if method == "GET" and _MODEL_PATH.fullmatch(path):
        return "model"
    if _MODEL_PATH.fullmatch(path) or any(path == known for _, known in _PATHS):
        raise Refusal(405, f"{method} is not what {path} takes.")
    raise Refusal(404, "This proxy passes on /v1/messages, /v1/messages/count_tokens and /v1/models, nothing else.")


def check(method: str, path: str, query: Mapping[str, str], body: bytes, rules: ProxyLimits) -> CheckedRequest:
    """Check the request and return what of it may go. Raises `Refusal`."""
    kind = kind_of(method, path)
    for name, value in query.items():
        if name not in _QUERIES[kind] or not _QUERY_VALUE.fullmatch(value):
            raise Refusal(400, "The query has a part that this proxy does not pass on.")
    if query:
        path += "?" + "&".join(f"{name}={value}" for name, value in query.items())
    if kind in ("models", "model"):
        return CheckedRequest(kind, method, path, model=_asked_model(kind, path, rules))
    content = _read(body)
    model = content.get("model")
    if not isinstance(model, str):
        raise Refusal(400, "model: Field required")
    others = tuple(_other_models(content))
    for named in (model, *others):
        if rules.allowed_models is not None and not is_among(named, rules.allowed_models):
            allowed = ", ".join(rules.allowed_models) or "none"
            message = f"The administrator of this server does not allow the model {named[:80]}. Allowed: {allowed}."
            raise forbidden(message)
    _refuse_tools(content, rules)
    if kind == "count_tokens":
        return CheckedRequest(kind, method, path, content, model)
    max_tokens = _max_tokens(content, model, rules)
    window = limits(model).context_window
    return CheckedRequest(
        kind,
        method,
        path,
        {**content, "max_tokens": max_tokens},
        model,
        others,
        streamed=content.get("stream") is True,
        # at most: by its bytes, but images by what images count, and what is fetched as all that fits
        input_tokens=window if content.get("mcp_servers") else int(min(_tokens_of(content), window)),
        max_tokens=max_tokens,
    )


def visible_models(answer: bytes, rules: ProxyLimits) -> bytes:
    """A list of models without those that may not be used."""
    if rules.allowed_models is None:
        return answer
    listed = json.loads(answer)
    listed["data"] = [each for each in listed["data"] if is_among(each["id"], rules.allowed_models)]
    return json.dumps(listed).encode()


def _asked_model(kind: Kind, path: str, rules: ProxyLimits) -> str:
    if kind == "models":
        return ""
    model = path.partition("?")[0].rpartition("/")[2]
    if rules.allowed_models is not None and not is_among(model, rules.allowed_models):
        raise Refusal(404, f"model: {model}")
    return model


def _read(body: bytes) -> dict[str, Any]:
    try:
        content = json.loads(body, parse_constant=_no_number, parse_float=_number)
    except (ValueError, RecursionError):
        raise Refusal(400, "The request's body is not valid JSON.") from None
    if not isinstance(content, dict) or _depth_exceeds(content, 200):
        raise Refusal(400, "The request's body is not an object that the Messages API takes.")
    return content


def _no_number(name: str) -> NoReturn:
    raise ValueError(name)


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _depth_exceeds(value: dict[str, Any], most: int) -> bool:
    level: list[Any] = [value]
    while level and most:
        most -= 1
        members = (each.values() if isinstance(each, dict) else each for each in level)
        level = [inner for within in members for inner in within if isinstance(inner, dict | list)]
    return bool(level)


def _other_models(content: Mapping[str, Any]) -> Iterator[str]:
    """Every other model that the request would have answer: fallbacks, advisors. What is not understood is one, too."""
    fallbacks = content.get("fallbacks")
    for each in fallbacks if isinstance(fallbacks, list) else () if fallbacks is None else (fallbacks,):
        named = each.get("model") if isinstance(each, dict) else each
        yield named if isinstance(named, str) else "of `fallbacks`"
    for each in _objects(content.get("tools")):
        if "model" in each:
            yield each["model"] if isinstance(each["model"], str) else "of a tool"


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _refuse_tools(content: Mapping[str, Any], rules: ProxyLimits) -> None:
    types = [str(each.get("type", "")) for each in _objects(content.get("tools"))]
    if not rules.web_tools and any(type_.startswith(_WEB_TOOLS) for type_ in types):
        raise forbidden("The administrator of this server does not allow web tools.")
    if not rules.mcp and (content.get("mcp_servers") or any(type_.startswith("mcp") for type_ in types)):
        raise forbidden("The administrator of this server does not allow MCP servers.")


def _max_tokens(content: Mapping[str, Any], model: str, rules: ProxyLimits) -> int:
    asked = content.get("max_tokens")
    if not isinstance(asked, int) or isinstance(asked, bool) or asked < 0:
        raise Refusal(400, "max_tokens: Field required: a whole number")
    if rules.max_tokens is not None and asked > rules.max_tokens:
        return rules.max_tokens
    # a number beyond what the model gives would be refused by the API, after a reservation that nobody can pay
    return asked if asked <= limits(model).max_output or not limits(model).known else limits(model).max_output


def _tokens_of(value: Any) -> float:
    total: float = 0
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, str):
            total += len(each.encode("utf-8", "surrogatepass")) // _BYTES_PER_TOKEN + 1
        elif isinstance(each, list):
            left += each
        elif isinstance(each, dict) and each.get("type") == "image":
            total += _IMAGE_TOKENS
        elif isinstance(each, dict) and _is_of_unknown_length(each):
            return math.inf
        elif isinstance(each, dict):
            total += len(each) * 2
            left += [*each, *each.values()]
        else:
            total += 2
    return total


def _is_of_unknown_length(block: Mapping[str, Any]) -> bool:
    """A document that is fetched, or a PDF: its pages count, whatever its bytes."""
    source = block.get("source")
    kind = source.get("type") if isinstance(source, dict) else None
    return block.get("type") == "container_upload" or (
        block.get("type") == "document" and kind not in ("text", "content")
    )
