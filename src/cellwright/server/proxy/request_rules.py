"""Rules for requests to the API: paths, models, sizes, and those tools of the API's that reach the network.

A body is read once and written anew from what was read, so that nothing can be understood in one way here and in
another there (a key that stands in it twice, for one).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NoReturn

from msgspec import Struct

from cellwright.model.models import is_among, limits
from cellwright.server.proxy.limits import ProxyLimits, Refusal, forbidden
from cellwright.text import lazy_pattern

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

_DEEPEST = 200


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
    path += _query(kind, query)
    if kind in ("models", "model"):
        return CheckedRequest(kind, method, path, model=_asked_model(kind, path, rules))
    content = _read(body)
    model = content.get("model")
    if not isinstance(model, str):
        raise Refusal(400, "model: Field required")
    others = tuple(_other_models(content))
    for named in (model, *others):
        _refuse_model(named, rules)
    _refuse_tools(content, rules)
    if kind == "count_tokens":
        return CheckedRequest(kind, method, path, content, model)
    max_tokens = _max_tokens(content, model, rules)
    return CheckedRequest(
        kind,
        method,
        path,
        {**content, "max_tokens": max_tokens},
        model,
        others,
        streamed=content.get("stream") is True,
        input_tokens=_most_tokens(content, limits(model).context_window),
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


def _query(kind: Kind, query: Mapping[str, str]) -> str:
    for name, value in query.items():
        if name not in _QUERIES[kind] or not _QUERY_VALUE.fullmatch(value):
            raise Refusal(400, "The query has a part that this proxy does not pass on.")
    return "?" + "&".join(f"{name}={value}" for name, value in query.items()) if query else ""


def _read(body: bytes) -> dict[str, Any]:
    try:
        content = json.loads(body, parse_constant=_no_number, parse_float=_number)
    except (ValueError, RecursionError):
        raise Refusal(400, "The request's body is not valid JSON.") from None
    if not isinstance(content, dict) or _depth_exceeds(content, _DEEPEST):
        raise Refusal(400, "The request's body is not an object that the Messages API takes.")
    return content


def _no_number(name: str) -> NoReturn:
    raise ValueError(name)


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _depth_exceeds(value: Any, most: int) -> bool:
    level = [value]
    while level and most:
        most -= 1
        level = [inner for each in level for inner in _inside(each)]
    return bool(level)


def _inside(value: Any) -> Iterator[Any]:
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (each for each in members if isinstance(each, dict | list))


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


def _refuse_model(model: str, rules: ProxyLimits) -> None:
    if rules.allowed_models is not None and not is_among(model, rules.allowed_models):
        allowed = ", ".join(rules.allowed_models) or "none"
        message = f"The administrator of this server does not allow the model {model[:80]}. Allowed: {allowed}."
        raise forbidden(message)


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


def _most_tokens(content: Mapping[str, Any], window: int) -> int:
    """The input in tokens, at most: by its bytes, but images by what images count, and what is fetched as all that fits."""
    return window if content.get("mcp_servers") else int(min(_tokens_of(content), window))


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
