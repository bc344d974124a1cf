"""The paths the server knows: the API's own, and those of the SDK's clients for Foundry, Vertex and Bedrock."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from cellwright.testing.rules.api_error import ApiRejection

Action = Literal["messages", "count_tokens", "models", "model", "batches", "batch", "batch_results", "batch_cancel"]
Platform = Literal["api", "vertex", "bedrock"]
VERSIONS = ("2023-06-01", "2026-10-21")

# Foundry, Mantle and gateways put the API under /anthropic, Google Cloud under a location
_API = re.compile(
    r"(?:/anthropic|/v1/projects/[^/]+/locations/[^/]+)?/v1/(?:(?P<post>messages(?:/count_tokens)?)|models(?:/(?P<model>[^/]+))?)"
)
_BATCHES = re.compile(r"(?:/anthropic)?/v1/messages/batches(?:/(?P<id>[^/]+))?(?:/(?P<verb>results|cancel))?")
_VERTEX = re.compile(
    r"(?:/v1)?/projects/[^/]+/locations/[^/]+/publishers/anthropic/models/(?P<model>[^/:]+):(?P<verb>rawPredict|streamRawPredict)"
)
_BEDROCK = re.compile(r"/model/(?P<model>[^/]+)/(?P<verb>invoke|invoke-with-response-stream)")
_BETA = re.compile(r"[a-z0-9-]+-\d{4}-\d{2}-\d{2}|claude-code-\d{8}")


@dataclass(frozen=True, slots=True)
class Route:
    """The thing asked for. `model` and `streams` come from the path on platforms whose bodies do not say them, as does
    the id of a batch.
    """

    action: Action
    platform: Platform = "api"
    model: str = ""
    streams: bool | None = None
    batch: str = ""


def route(method: str, path: str) -> Route:
    """The route of a request; an API error for a path or method that is not served."""
    if found := _API.fullmatch(path):
        return _api_route(method, found)
    if found := _BATCHES.fullmatch(path):
        return _batch_route(method, found["id"], found["verb"])
    if found := _VERTEX.fullmatch(path):
        _expect(method, "POST")
        model = urllib.parse.unquote(found["model"])
        if model == "count-tokens":
            return Route("count_tokens", "vertex")
        return Route("messages", "vertex", model)
    if found := _BEDROCK.fullmatch(path):
        _expect(method, "POST")
        streams = found["verb"] == "invoke-with-response-stream"
        return Route("messages", "bedrock", urllib.parse.unquote(found["model"]), streams)
    raise ApiRejection(f"Not Found: {path}", status=404)


def _api_route(method: str, found: re.Match[str]) -> Route:
    if found["post"]:
        _expect(method, "POST")
        return Route("count_tokens" if found["post"].endswith("count_tokens") else "messages")
    _expect(method, "GET")
    return Route("model", model=urllib.parse.unquote(found["model"])) if found["model"] else Route("models")


def _batch_route(method: str, batch: str | None, verb: str | None) -> Route:
    if batch is None:
        if method not in ("GET", "POST"):
            raise ApiRejection("Method Not Allowed", status=405)
        return Route("batches")
    _expect(method, "POST" if verb == "cancel" else "GET")
    actions: dict[str | None, Action] = {"results": "batch_results", "cancel": "batch_cancel"}
    return Route(actions.get(verb, "batch"), batch=batch)


def _expect(method: str, allowed: str) -> None:
    if method != allowed:
        raise ApiRejection("Method Not Allowed", status=405)


def check_credentials(headers: Mapping[str, str], api_key: str, platform: Platform) -> None:
    """`x-api-key` or a bearer token must be the server's key; a SigV4 signature is taken unverified."""
    authorization = headers.get("authorization", "")
    if platform == "bedrock" and authorization.startswith("AWS4-HMAC-SHA256 Credential="):
        return
    key = headers.get("x-api-key")
    scheme, _, token = authorization.partition(" ")
    if key is None and scheme != "Bearer":
        raise ApiRejection("x-api-key header is required", status=401)
    if key is not None and key != api_key:
        raise ApiRejection("invalid x-api-key", status=401)
    if key is None and token != api_key:
        raise ApiRejection("Invalid bearer token", status=401)


def check_version(version: object, platform: Platform) -> None:
    """The API version stands in a header, on Vertex and Bedrock in the body."""
    name = "anthropic-version" if platform == "api" else "anthropic_version"
    if version is None:
        raise ApiRejection(f"{name}: header is required" if platform == "api" else f"{name}: Field required")
    if version not in VERSIONS:
        raise ApiRejection(f'{name}: "{version}" is not a valid version')


def betas_of(header: str, in_body: object) -> frozenset[str]:
    """The betas of a request, from `anthropic-beta` and, on Bedrock and Vertex, the body's `anthropic_beta`."""
    named = [beta.strip() for beta in header.split(",") if beta.strip()]
    named += [str(beta) for beta in in_body] if isinstance(in_body, list) else []
    for beta in named:
        if not _BETA.fullmatch(beta):
            raise ApiRejection(f"Unexpected value(s) `{beta}` for the `anthropic-beta` header.")
    return frozenset(named)
