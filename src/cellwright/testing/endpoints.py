"""The server's endpoints: the way from a request to a scripted turn, an estimate, a batch or an error.

The paths are the API's own, and those of the SDK's clients for Foundry, Vertex and Bedrock. A batch is worked off
beside, request by request, and ends when all are done.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import re
import time
import urllib.parse
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NoReturn

from cellwright.testing.http_connection import HttpConnection, HttpRequest, HttpResponse
from cellwright.testing.message_stream import CONTENT_TYPE as AWS_CONTENT_TYPE
from cellwright.testing.message_stream import (
    MessageReply,
    MessageStream,
    Playback,
    answer_whole,
    aws_frame,
    comes_before_head,
    sse_frame,
    strike_before_head,
)
from cellwright.testing.rules.api_error import ApiRejection, error_json
from cellwright.testing.rules.context_editing import edited
from cellwright.testing.rules.invariants import check_request
from cellwright.testing.rules.models import MODELS, ServedModel, model_info, model_list, served_model
from cellwright.testing.rules.prefix import CHARS_PER_TOKEN, Prefix, input_usage
from cellwright.testing.rules.thinking import Memory, signer, thinking_display
from cellwright.testing.script import DEFAULT_DELTA_CHARS, RecordedRequest, RequestLog, Script, Turn, last_user_text

MAX_REQUESTS = 100_000
CUSTOM_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
KINDS = ("succeeded", "errored", "canceled", "expired")

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

SSE_CONTENT_TYPE = "text/event-stream; charset=utf-8"
RATE_LIMITS = {"requests": 4000, "tokens": 2_400_000, "input-tokens": 2_000_000, "output-tokens": 400_000}
ANY_MODEL = MODELS["claude-opus-5-5"]


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """One request of a batch, as it was sent."""

    custom_id: str
    params: Mapping[str, Any]


Answer = Callable[[BatchRequest], Awaitable[dict[str, Any]]]
"""Gives the message that answers a request, or raises ApiRejection."""


@dataclass(slots=True)
class _Batch:
    id: str
    requests: list[BatchRequest]
    created: datetime
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    work: asyncio.Task[None] | None = None
    cancelled: bool = False

    @property
    def ended(self) -> bool:
        return len(self.results) == len(self.requests)

    def to_json(self) -> dict[str, Any]:
        """As the API tells of it: what became of the requests is counted only when all are done."""
        counts = dict.fromkeys(("processing", *KINDS), 0)
        if self.ended:
            for result in self.results.values():
                counts[result["type"]] += 1
        else:
            counts["processing"] = len(self.requests)
        going_on = "canceling" if self.cancelled else "in_progress"
        return {
            "id": self.id,
            "type": "message_batch",
            "processing_status": "ended" if self.ended else going_on,
            "request_counts": counts,
            "created_at": self.created.isoformat(),
            "expires_at": (self.created + timedelta(days=1)).isoformat(),
            "ended_at": datetime.now(UTC).isoformat() if self.ended else None,
            "archived_at": None,
            "cancel_initiated_at": None,
            "results_url": f"/v1/messages/batches/{self.id}/results" if self.ended else None,
        }

    async def work_off(self, answer: Answer) -> None:
        for request in self.requests:
            if self.cancelled:
                self.results[request.custom_id] = {"type": "canceled"}
                continue
            try:
                self.results[request.custom_id] = {"type": "succeeded", "message": await answer(request)}
            except ApiRejection as rejection:
                error = {"type": rejection.error_type, "message": rejection.message}
                self.results[request.custom_id] = {"type": "errored", "error": {"type": "error", "error": error}}


class Batches:
    """The batches of one server; used on its loop only."""

    def __init__(self) -> None:
        self._batches: dict[str, _Batch] = {}

    def create(self, body: Any, answer: Answer) -> dict[str, Any]:
        """Take in the batch of a request's body; `answer` answers each of its requests. Raises ApiRejection."""
        requests = _requests(body)
        batch = _Batch(f"msgbatch_01{len(self._batches):022d}", requests, datetime.now(UTC))
        self._batches[batch.id] = batch
        batch.work = asyncio.get_running_loop().create_task(batch.work_off(answer))
        return batch.to_json()

    def get(self, batch_id: str) -> dict[str, Any]:
        return self._batch(batch_id).to_json()

    def listed(self) -> dict[str, Any]:
        """All batches, the latest first."""
        data = [batch.to_json() for batch in reversed(self._batches.values())]
        return {"data": data, "has_more": False, "first_id": None, "last_id": None}

    def cancel(self, batch_id: str) -> dict[str, Any]:
        batch = self._batch(batch_id)
        batch.cancelled = True
        return batch.to_json()

    def results(self, batch_id: str) -> bytes:
        """The results of an ended batch as JSON lines, in another order than the requests."""
        batch = self._batch(batch_id)
        if not batch.ended:
            raise ApiRejection("Batch results are not available until processing has ended", status=404)
        lines = [{"custom_id": name, "result": result} for name, result in reversed(batch.results.items())]
        return b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines)

    def _batch(self, batch_id: str) -> _Batch:
        if batch_id not in self._batches:
            raise ApiRejection(f"batch {batch_id} not found", status=404)
        return self._batches[batch_id]


def _requests(body: Any) -> list[BatchRequest]:
    if not isinstance(body, dict) or not isinstance(body.get("requests"), list) or not body["requests"]:
        raise ApiRejection("requests: at least one request is required")
    if extra := body.keys() - {"requests"}:
        raise ApiRejection(f"{min(extra)}: Extra inputs are not permitted")
    if len(body["requests"]) > MAX_REQUESTS:
        raise ApiRejection(f"requests: at most {MAX_REQUESTS} requests are allowed")
    found: dict[str, BatchRequest] = {}
    for number, request in enumerate(body["requests"]):
        custom_id = request.get("custom_id") if isinstance(request, dict) else None
        if not isinstance(custom_id, str) or not CUSTOM_ID.fullmatch(custom_id):
            raise ApiRejection(f"requests.{number}.custom_id: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'")
        if custom_id in found:
            raise ApiRejection(f"requests.{number}.custom_id: custom_id must be unique in a batch")
        if not isinstance(request.get("params"), dict):
            raise ApiRejection(f"requests.{number}.params: Field required")
        found[custom_id] = BatchRequest(custom_id, request["params"])
    return list(found.values())


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


@dataclass(slots=True)
class HttpExchange:
    """One request on its way to its answer."""

    record: RecordedRequest
    answer: HttpResponse
    headers: dict[str, str]
    route: Route = field(default_factory=lambda: Route("messages"))

    @property
    def request_id(self) -> str:
        return self.headers["request-id"]


@dataclass(slots=True, kw_only=True)
class Endpoints:
    """The API of one server: its script, and what it remembers of conversations."""

    script: Script
    log: RequestLog
    api_key: str
    validate: bool
    delta_chars: int = DEFAULT_DELTA_CHARS
    seconds_between_deltas: float = 0.0
    memory: Memory = field(default_factory=Memory)
    batches: Batches = field(default_factory=Batches)
    in_flight: dict[int, RecordedRequest] = field(default_factory=dict)
    served: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client until either side closes."""
        await HttpConnection(reader, writer, self.answer, self.client_gone).serve()

    async def answer(self, request: HttpRequest, answer: HttpResponse) -> None:
        """Answer one HTTP request; what goes wrong by the API's rules becomes an API error."""
        self.served += 1
        record = RecordedRequest(
            request.method,
            request.path,
            request.query,
            {name.lower(): value for name, value in request.headers.items()},
            request.body,
            parsed(request.body),
            request.arrived_at,
        )
        work = HttpExchange(record, answer, self._headers())
        self.in_flight[id(request)] = record
        try:
            await self._dispatch(work, request.too_large)
        except ApiRejection as rejection:
            await self._reject(work, rejection)
        except ConnectionError:
            self.log.update(record, disconnected=True)
            raise
        finally:
            self.in_flight.pop(id(request), None)
        self.log.update(record, finished_at=time.monotonic())

    def client_gone(self, request: HttpRequest) -> None:
        record = self.in_flight.get(id(request))
        if record is not None:
            self.log.update(record, disconnected=True)

    def _headers(self) -> dict[str, str]:
        reset = (datetime.now(UTC) + timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        headers = {
            "request-id": f"req_011{self.served:021d}",
            "anthropic-organization-id": "00000000-0000-4000-8000-000000000000",
            "content-type": "application/json",
        }
        for name, limit in RATE_LIMITS.items():
            headers[f"anthropic-ratelimit-{name}-limit"] = str(limit)
            headers[f"anthropic-ratelimit-{name}-remaining"] = str(max(0, limit - self.served))
            headers[f"anthropic-ratelimit-{name}-reset"] = reset
        return headers

    async def _dispatch(self, work: HttpExchange, too_large: bool) -> None:
        record = work.record
        try:
            work.route = route(record.method, record.path)
            record.action = work.route.action
        finally:
            self.log.add(record)
        check_credentials(record.headers, self.api_key, work.route.platform)
        if too_large:
            raise ApiRejection("Request exceeds the maximum allowed number of bytes.", status=413)
        match work.route.action:
            case "messages":
                await self._messages(work)
            case "count_tokens":
                body, prefix, _ = self._checked(work, counting=True)
                await self._respond(
                    work, {"input_tokens": prefix.total_tokens or len(json.dumps(body)) // CHARS_PER_TOKEN}
                )
            case "models":
                await self._respond(work, model_list(record.query))
            case "model":
                model = served_model(work.route.model)
                await self._respond(work, model_info(model or _unknown_model(work.route.model)))
            case _:
                await self._batches(work)

    async def _batches(self, work: HttpExchange) -> None:
        record = work.record
        match work.route.action:
            case "batch":
                await self._respond(work, self.batches.get(work.route.batch))
            case "batch_cancel":
                await self._respond(work, self.batches.cancel(work.route.batch))
            case "batch_results":
                results = self.batches.results(work.route.batch)
                self.log.update(record, status=200)
                await answer_whole(None, work.answer, work.headers, work.request_id, results)
            case _ if record.method == "GET":
                await self._respond(work, self.batches.listed())
            case _:
                check_version(record.headers.get("anthropic-version"), "api")
                await self._respond(work, self.batches.create(record.body, functools.partial(self._batched, work)))

    async def _batched(self, work: HttpExchange, request: BatchRequest) -> dict[str, Any]:
        """The message that answers one request of a batch. Raises ApiRejection, as the API errs one request of many."""
        raw = json.dumps(request.params).encode()
        record = work.record
        self.served += 1
        inner = RecordedRequest("POST", record.path, "", record.headers, raw, dict(request.params), time.monotonic())
        inner.action = "batched"
        self.log.add(inner)
        if request.params.get("stream"):
            raise ApiRejection("stream: Streaming is not supported in a batch")
        body, prefix, model = self._checked(HttpExchange(inner, work.answer, work.headers))
        turn = self._next_turn(body)
        for gate in turn.gates:
            await gate.passage()
        if turn.fault is not None:
            raise ApiRejection(turn.fault.message or "Overloaded", status=turn.fault.status)
        reply = self._reply(inner, body, turn, model, prefix)
        reply = replace(reply, usage={**reply.usage, "service_tier": "batch"})
        self.log.update(inner, status=200, finished_at=time.monotonic())
        return MessageStream(turn, reply).message()

    async def _messages(self, work: HttpExchange) -> None:
        body, prefix, model = self._checked(work)
        if body.get("max_tokens") == 0:
            turn = Turn((), stop_reason="max_tokens", usage={"output_tokens": 0})
        else:
            turn = self._next_turn(body)
        stream = MessageStream(turn, self._reply(work.record, body, turn, model, prefix))
        if await self._play(work, turn, stream, bool(body.get("stream"))):
            self.memory.keep_answer(prefix, stream.content, stream.stop_reason)

    def _checked(self, work: HttpExchange, *, counting: bool = False) -> tuple[dict[str, Any], Prefix, ServedModel]:
        """The body as the API itself would get it, its chain and its model, after every check."""
        body, betas = self._normalised(work)
        model = served_model(str(body.get("model", "")))
        if not self.validate:
            return body, Prefix(body), model or ANY_MODEL
        if model is None:
            raise ApiRejection("model: Field required") if "model" not in body else _unknown_model(body["model"])
        return body, check_request(body, model, betas, self.memory, counting=counting), model

    def _normalised(self, work: HttpExchange) -> tuple[dict[str, Any], frozenset[str]]:
        record = work.record
        if not isinstance(record.body, dict):
            raise ApiRejection(f"The request body is not valid JSON: {json_problem(record.raw)}")
        body = dict(record.body)
        in_body = None
        if work.route.platform != "api":
            check_version(body.pop("anthropic_version", None), work.route.platform)
            in_body = body.pop("anthropic_beta", None)
            if work.route.model:
                body["model"] = work.route.model
            if work.route.streams is not None:
                body["stream"] = work.route.streams
        else:
            check_version(record.headers.get("anthropic-version"), "api")
        return body, betas_of(record.headers.get("anthropic-beta", ""), in_body)

    def _next_turn(self, body: dict[str, Any]) -> Turn:
        try:
            turn = self.script.take(body, lambda: last_user_text(body))
        except Exception as error:  # a script is the test's own code: its failure is shown as the answer
            raise ApiRejection(f"the script raised {error!r}", status=500) from error
        if turn is None:
            raise ApiRejection(f"script exhausted: no turn is left for {last_user_text(body)[:200]!r}")
        return turn

    def _reply(
        self, record: RecordedRequest, body: dict[str, Any], turn: Turn, model: ServedModel, prefix: Prefix
    ) -> MessageReply:
        # the same request to the same server gets the same ids; another conversation never does
        digest = hashlib.sha256(b"%b/%d" % (record.raw, self.served)).hexdigest()
        read, management = edited(prefix) if self.validate else (prefix, None)
        usage = (
            self.memory.cache.usage(read.body, model, read)
            if self.validate
            else input_usage(len(record.raw) // CHARS_PER_TOKEN)
        )
        compacts = body.get("compaction") is not None
        return MessageReply(
            model=str(body.get("model")),
            message_id=f"msg_01{digest[:22]}",
            usage=input_usage(0) | {"output_tokens": 0} if compacts else {**usage, **turn.usage, "output_tokens": 1},
            sign=signer(model, prefix),
            thinking=thinking_display(body, model),
            delta_chars=turn.delta_chars or self.delta_chars,
            context_management=management,
            compaction_usage={**usage, **turn.usage} if compacts else None,
        )

    async def _play(self, work: HttpExchange, turn: Turn, stream: MessageStream, streams: bool) -> bool:
        """Send the answer; whether it was sent whole."""
        fault = turn.fault
        if fault is not None and comes_before_head(fault, first=turn.parts[0] is fault):
            if fault.kind == "status":
                self.log.update(work.record, status=fault.status)
            await strike_before_head(fault, work.answer, work.headers, work.request_id)
            return False
        self.log.update(work.record, status=200)
        if not streams:
            for gate in turn.gates:
                await gate.passage()
            body = json.dumps(stream.message(), ensure_ascii=False).encode()
            return await answer_whole(fault, work.answer, work.headers, work.request_id, body)
        aws = work.route.platform == "bedrock"
        playback = Playback(
            answer=work.answer,
            turn=turn,
            headers={
                **work.headers,
                "content-type": AWS_CONTENT_TYPE if aws else SSE_CONTENT_TYPE,
                "cache-control": "no-cache",
            },
            request_id=work.request_id,
            pause=self.seconds_between_deltas if turn.seconds_between_deltas is None else turn.seconds_between_deltas,
            on_event=work.record.count_event,
            frame=aws_frame if aws else sse_frame,
        )
        return await playback.run(stream.steps())

    async def _respond(self, work: HttpExchange, value: Mapping[str, Any]) -> None:
        self.log.update(work.record, status=200)
        await answer_whole(None, work.answer, work.headers, work.request_id, json.dumps(value).encode())

    async def _reject(self, work: HttpExchange, rejection: ApiRejection) -> None:
        body = error_json(rejection.error_type, rejection.message, work.request_id)
        headers = {**work.headers, "content-length": str(len(body))}
        self.log.update(work.record, status=rejection.status, error=rejection.message)
        await work.answer.start(rejection.status, headers)
        if work.record.method != "HEAD":
            await work.answer.write(body)
        await work.answer.end()


def _unknown_model(name: object) -> NoReturn:
    raise ApiRejection(f"model: {name}", status=404)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not valid JSON")


def parsed(raw: bytes) -> Any:
    """The JSON in a body; None where it is none by the API's rules (NaN, lone surrogates)."""
    try:
        value = json.loads(raw, parse_constant=_no_constant)
        if b"\\ud" in raw or b"\\uD" in raw:
            json.dumps(value, ensure_ascii=False).encode()
    except ValueError:
        return None
    return value


def json_problem(raw: bytes) -> str:
    try:
        json.loads(raw, parse_constant=_no_constant)
    except ValueError as error:
        return str(error)
    return "no low surrogate in string, or not an object"
