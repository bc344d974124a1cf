"""`cellwright doctor --server URL`: what a server that speaks the Messages API can do, tried with small requests.

Each check is one request or two. A server of models on this machine may take minutes for them; they cost what its tokens do.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import urllib.parse
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from msgspec import Struct

from cellwright.doctor.check import Finding, Status
from cellwright.doctor.examination import Examination
from cellwright.errors import CellwrightError
from cellwright.model.anthropic import COUNT_PATH
from cellwright.model.credentials import choose_transport
from cellwright.model.models import limits, thinking_field
from cellwright.model.retry import RequestFailed
from cellwright.model.transports.transport import MESSAGES_PATH, Transport

SECONDS = 300.0
"""The silence after which a server is given up on: a large model is loaded with the first request."""

MODELS_PATH = "/v1/models?limit=100"

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A picture of one pixel, as PNG in base64."""

SENTENCE = "The quick brown fox jumps over the lazy dog. "
CLAUDES_SENTENCES = 400
"""About 4,000 tokens: Anthropic's API keeps no shorter beginning in its cache."""
OTHERS_SENTENCES = 60
"""About 600 tokens: a small machine reads twenty a second."""

TOOL = {
    "name": "note_number",
    "description": "Note a number.",
    "input_schema": {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
}


class Ability(NamedTuple):
    """Something that a server may be able to do. `needed`: nothing works without it; `without` is what happens then."""

    title: str
    needed: bool
    without: str


ABILITIES: Mapping[str, Ability] = {
    "messages": Ability("Answers", True, "Nothing works."),
    "stream": Ability("Streams", True, "Nothing works: every request of a conversation streams."),
    "tools": Ability("Tools", False, "Claude cannot look at or change anything. Ask with `--no-tools`."),
    "tool results": Ability(
        "Results of tools", False, "A conversation stops at its first call. Ask with `--no-tools`."
    ),
    "thinking": Ability("Thinking", False, "No thinking is shown. Models that are not Claude are not asked for it."),
    "images": Ability("Pictures", False, "A prompt or a result with a picture is refused. Leave pictures out."),
    "count_tokens": Ability("Counts tokens", False, "Sizes are estimated from the last answer's counts."),
    "caching": Ability("Caches", False, "The server reads each request from the start: long sessions become slow."),
    "window": Ability(
        "Names its context window",
        False,
        "200,000 tokens are assumed. Set `CLAUDE_CODE_AUTO_COMPACT_WINDOW`, and old messages are summarized in time.",
    ),
}
"""In the order in which they are tried."""


class _Refused(Exception):
    """Raised for an answer that is none; says what came."""


class _Server(Struct, frozen=True):
    transport: Transport
    model: str

    async def send(self, path: str = MESSAGES_PATH, **body: Any) -> dict[str, Any]:
        """The answer to a request, as JSON. Raises _Refused."""
        answer = await self.raw(path, **body)
        try:
            made = json.loads(answer)
        except ValueError:
            raise _Refused(f"the answer is not JSON: {answer[:100].decode('utf-8', 'replace')}") from None
        if not isinstance(made, dict):
            raise _Refused("the answer is not a JSON object")
        return made

    async def raw(self, path: str = MESSAGES_PATH, **body: Any) -> bytes:
        """The answer's bytes. Raises _Refused."""
        about = {"model": self.model, "messages": [{"role": "user", "content": "Say hello."}]}
        limit = {} if path == COUNT_PATH else {"max_tokens": 64}
        request = json.dumps({**about, **limit, **body}).encode()
        async with self.transport.post(request, stall_seconds=SECONDS, path=path) as reply:
            content = await reply.body(1_000_000)
            if reply.status != 200:
                raise _Refused(f"refused with status {reply.status}: {_said(content)}")
            return content


def _said(content: bytes) -> str:
    """The words of an error, as the API and others give them."""
    try:
        error = json.loads(content).get("error", {})
        words = error.get("message") if isinstance(error, dict) else error
    except (ValueError, AttributeError):
        words = None
    return str(words or content.decode("utf-8", "replace")).strip()[:300] or "no words"


def _types(answer: Mapping[str, Any]) -> list[str]:
    """The types of the blocks of an answer."""
    content = answer.get("content")
    return [str(block.get("type")) for block in content if isinstance(block, dict)] if isinstance(content, list) else []


async def _messages(server: _Server) -> str:
    answer = await server.send()
    if answer.get("type") != "message" or "text" not in _types(answer):
        raise _Refused(f"the answer is no message with text: {json.dumps(answer)[:200]}")
    return f"the model that answers is {answer.get('model')}"


async def _stream(server: _Server) -> str:
    text = (await server.raw(stream=True)).decode("utf-8", "replace")
    missing = [name for name in ("message_start", "content_block_delta", "message_stop") if name not in text]
    if missing:
        raise _Refused(f"the stream has no {', '.join(missing)}")
    return "whole streams"


async def _tools(server: _Server) -> str:
    answer = await server.send(**_CALL)
    if "tool_use" not in _types(answer):
        raise _Refused("it takes tools, but the model did not call the one it was to call")
    return "the model calls a tool"


_CALL: dict[str, Any] = {
    "tools": [TOOL],
    "tool_choice": {"type": "auto"},
    "messages": [{"role": "user", "content": "Call the tool note_number with the number 7."}],
}


async def _tool_results(server: _Server) -> str:
    call = {"type": "tool_use", "id": "toolu_01", "name": TOOL["name"], "input": {"number": 7}}
    result = {"type": "tool_result", "tool_use_id": "toolu_01", "content": "Noted."}
    messages = [
        *_CALL["messages"],
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]
    await server.send(**{**_CALL, "messages": messages})
    return "results are taken"


async def _thinking(server: _Server) -> str:
    field = thinking_field(server.model, budget=1_024) or {"type": "enabled", "budget_tokens": 1_024}
    answer = await server.send(thinking=field, max_tokens=2_048)
    if not {"thinking", "redacted_thinking"} & set(_types(answer)):
        raise _Refused("it takes the request, and answers without thinking")
    return "thinking comes as a block of its own"


async def _images(server: _Server) -> str:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    content = [picture, {"type": "text", "text": "Which colour is this?"}]
    await server.send(messages=[{"role": "user", "content": content}])
    return "pictures are taken"


async def _count_tokens(server: _Server) -> str:
    answer = await server.send(COUNT_PATH)
    if not isinstance(answer.get("input_tokens"), int):
        raise _Refused("the answer has no `input_tokens`")
    return "counts are exact"


async def _caching(server: _Server) -> str:
    text = SENTENCE * (CLAUDES_SENTENCES if limits(server.model).known else OTHERS_SENTENCES)
    system = [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]
    await server.send(system=system, max_tokens=1)
    usage = (await server.send(system=system, max_tokens=1)).get("usage") or {}
    if not usage.get("cache_read_input_tokens"):
        raise _Refused("marks of the cache are taken, and nothing is said to come from it")
    return "a second request reads from the cache"


async def _window(server: _Server) -> str:
    if limits(server.model).known:
        return f"{limits(server.model).context_window:,} tokens, as Claude has"
    described = await _json(server.transport, f"/v1/models/{urllib.parse.quote(server.model, safe='')}")
    listed = (await _json(server.transport, MODELS_PATH)).get("data")
    models = [described, *(listed if isinstance(listed, list) else ())]
    sizes = [_window_of(each) for each in models if isinstance(each, dict) and each.get("id") == server.model]
    size = next((each for each in sizes if isinstance(each, int)), None)
    if size is None:
        raise _Refused("`/v1/models` names no size")
    return f"{size:,} tokens: set `CLAUDE_CODE_AUTO_COMPACT_WINDOW={size}`"


def _window_of(model: Mapping[str, Any]) -> Any:
    """The size of the window by the names of Anthropic's API, vLLM and llama.cpp."""
    meta = model.get("meta")
    return (
        model.get("max_input_tokens")
        or model.get("max_model_len")
        or (meta.get("n_ctx") if isinstance(meta, dict) else None)
    )


async def _json(transport: Transport, path: str) -> dict[str, Any]:
    """The JSON object at `path`, empty where there is none."""
    async with transport.get(path, seconds=SECONDS) as reply:
        content = await reply.body(1_000_000)
    try:
        found = json.loads(content) if reply.status == 200 else {}
    except ValueError:
        found = {}
    return found if isinstance(found, dict) else {}


_TRIED: Mapping[str, Callable[[_Server], Awaitable[str]]] = {
    "messages": _messages,
    "stream": _stream,
    "tools": _tools,
    "tool results": _tool_results,
    "thinking": _thinking,
    "images": _images,
    "count_tokens": _count_tokens,
    "caching": _caching,
    "window": _window,
}


def examine_server(url: str, environ: Mapping[str, str], model: str = "") -> Examination:
    """Try what the server at `url` can do, with `model` (default: the first that it lists); blocks.

    The credential is the environment's, as a conversation would send it, or none. Never raises for what the server does.
    """
    started = time.monotonic()
    findings = asyncio.run(_tried(url, environ, model))
    return Examination(findings, time.monotonic() - started)


async def _tried(url: str, environ: Mapping[str, str], model: str) -> list[Finding]:
    own = {name: value for name, value in environ.items() if not name.startswith("CLAUDE_CODE_USE_")}
    if not (own.get("ANTHROPIC_API_KEY") or own.get("ANTHROPIC_AUTH_TOKEN")):
        own["ANTHROPIC_AUTH_TOKEN"] = "none"
    try:
        transport = choose_transport({**own, "ANTHROPIC_BASE_URL": url})
    except CellwrightError as error:
        return [Finding("address", "problem", error.message)]
    findings: list[Finding] = []
    try:
        if not model:
            with contextlib.suppress(RequestFailed, LookupError, TypeError):
                model = str((await _json(transport, MODELS_PATH))["data"][0]["id"])
        model = model or own.get("ANTHROPIC_MODEL", "")
        if not model:
            return [Finding("model", "problem", "the server lists no models", "Name one: --model NAME.")]
        findings.append(Finding("model", "ok", model))
        server = _Server(transport, model)
        for name, ability in ABILITIES.items():
            findings.append(finding := await _found(server, name, ability))
            if finding.status == "problem":
                break
    finally:
        await transport.aclose()
    return findings


async def _found(server: _Server, name: str, ability: Ability) -> Finding:
    try:
        return Finding(ability.title, "ok", await _TRIED[name](server))
    except _Refused as refusal:
        found = str(refusal)
    except RequestFailed as failed:
        found = failed.failure.message
    except CellwrightError as error:
        found = error.message
    status: Status = "problem" if ability.needed else "warning"
    return Finding(ability.title, status, server.transport.redact(found), ability.without)
