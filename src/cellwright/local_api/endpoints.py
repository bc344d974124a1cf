"""What the server answers: routes, credentials, and the way from a request to a scripted turn."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cellwright.local_api.api_error import ApiRejection, error_json
from cellwright.local_api.faults import comes_before_head, strike_before_head
from cellwright.local_api.http_connection import Answer, HttpRequest
from cellwright.local_api.invariants import check_request
from cellwright.local_api.message_stream import DEFAULT_DELTA_CHARS, MessageStream, Reply
from cellwright.local_api.models import MODELS, ServedModel, served_model
from cellwright.local_api.playback import Playback
from cellwright.local_api.prefix import Prefix, RecentPrefixes
from cellwright.local_api.recorded import RecordedRequest, RequestLog, last_user_text
from cellwright.local_api.script import Script, Turn
from cellwright.local_api.thinking_binding import check_binding, signer
from cellwright.local_api.usage import PromptCache

_MESSAGES = re.compile(r"(?:/anthropic)?/v1/messages")


@dataclass(slots=True, kw_only=True)
class Endpoints:
    """The API of one server: its script, its memory of conversations, its cache."""

    script: Script
    log: RequestLog
    api_key: str
    validate: bool = True
    delta_chars: int = DEFAULT_DELTA_CHARS
    seconds_between_deltas: float = 0.0
    prefixes: RecentPrefixes = field(default_factory=RecentPrefixes)
    cache: PromptCache = field(default_factory=PromptCache)
    in_flight: dict[int, RecordedRequest] = field(default_factory=dict)
    exhausted: bool = False
    served: int = 0

    async def answer(self, request: HttpRequest, answer: Answer) -> None:
        record = self._record(request)
        self.log.add(record)
        self.in_flight[id(request)] = record
        self.served += 1
        request_id = f"req_local{self.served:020d}"
        headers = {"request-id": request_id, "content-type": "application/json", **self._rate_limits()}
        try:
            await self._route(record, request, answer, headers)
            self.log.update(record, finished_at=time.monotonic())
        except ApiRejection as rejection:
            body = error_json(rejection.error_type, rejection.message, request_id)
            self.log.update(record, status=rejection.status, error=rejection.message)
            await _respond(answer, rejection.status, headers, body)
            self.log.update(record, finished_at=time.monotonic())
        finally:
            self.in_flight.pop(id(request), None)

    def client_gone(self, request: HttpRequest) -> None:
        record = self.in_flight.get(id(request))
        if record is not None:
            self.log.update(record, disconnected=True)

    def _record(self, request: HttpRequest) -> RecordedRequest:
        try:
            body = json.loads(request.body) if request.body else None
        except ValueError:
            body = None
        headers = {name.lower(): value for name, value in request.headers.items()}
        return RecordedRequest(
            request.method, request.path, request.query, headers, request.body, body, request.arrived_at
        )

    def _rate_limits(self) -> dict[str, str]:
        headers = {}
        for name, limit in (
            ("requests", 4000),
            ("tokens", 2_400_000),
            ("input-tokens", 2_000_000),
            ("output-tokens", 400_000),
        ):
            headers[f"anthropic-ratelimit-{name}-limit"] = str(limit)
            headers[f"anthropic-ratelimit-{name}-remaining"] = str(max(0, limit - self.served))
            headers[f"anthropic-ratelimit-{name}-reset"] = "2030-01-01T00:00:00Z"
        return headers

    async def _route(
        self, record: RecordedRequest, request: HttpRequest, answer: Answer, headers: dict[str, str]
    ) -> None:
        self._check_credentials(record.headers)
        if request.too_large:
            raise ApiRejection("Request exceeds the maximum allowed number of bytes.", status=413)
        if _MESSAGES.fullmatch(record.path) and record.method == "POST":
            return await self._messages(record, answer, headers)
        raise ApiRejection("Not Found", status=404)

    def _check_credentials(self, headers: Mapping[str, str]) -> None:
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        given = headers.get("x-api-key") or bearer
        if not given:
            raise ApiRejection("x-api-key header is required", status=401)
        if given != self.api_key:
            raise ApiRejection("invalid x-api-key", status=401)
        if "anthropic-version" not in headers:
            raise ApiRejection("anthropic-version: header is required")

    async def _messages(self, record: RecordedRequest, answer: Answer, headers: dict[str, str]) -> None:
        body = record.body
        if not isinstance(body, dict):
            raise ApiRejection("The request body is not valid JSON.")
        model = served_model(str(body.get("model", ""))) if self.validate else MODELS["claude-opus-5-5"]
        if model is None:
            raise ApiRejection(f"model: {body.get('model')}", status=404)
        prefix = self._checked_prefix(body, model)
        turn = self.script.take(body, lambda: last_user_text(body))
        if turn is None:
            self.exhausted = True
            raise ApiRejection(f"script exhausted: no turn is left for {last_user_text(body)[:200]!r}")
        await self._play(turn, record, answer, headers, self._reply(record, turn, model, prefix))

    def _checked_prefix(self, body: dict[str, Any], model: ServedModel) -> Prefix:
        if not self.validate:
            return Prefix(body)
        check_request(body, model)
        prefix, known = self.prefixes.of(body)
        check_binding(model, prefix, known)
        self.prefixes.remember(prefix)
        return prefix

    def _reply(self, record: RecordedRequest, turn: Turn, model: ServedModel, prefix: Prefix) -> Reply:
        digest = hashlib.sha256(record.raw + b"/%d" % self.served).hexdigest()
        usage = self.cache.usage(record.body, model, prefix)
        thinking = record.body.get("thinking") or {}
        return Reply(
            model=record.body["model"],
            message_id=f"msg_01{digest[:22]}",
            usage={**usage, **turn.usage},
            sign=signer(model, prefix),
            thinking=thinking.get("display", "omitted"),
            delta_chars=turn.delta_chars or self.delta_chars,
        )

    async def _play(
        self, turn: Turn, record: RecordedRequest, answer: Answer, headers: dict[str, str], reply: Reply
    ) -> None:
        fault = turn.fault
        if fault is not None and comes_before_head(fault, first=turn.parts[0] is fault):
            if fault.kind == "status":
                self.log.update(record, status=fault.status)
            return await strike_before_head(fault, answer, headers, headers["request-id"])
        self.log.update(record, status=200)
        stream = MessageStream(turn, reply)
        if not record.body.get("stream"):
            return await _respond(answer, 200, headers, json.dumps(stream.message()).encode())
        playback = Playback(
            answer=answer,
            turn=turn,
            headers={**headers, "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"},
            request_id=headers["request-id"],
            pause=self.seconds_between_deltas if turn.seconds_between_deltas is None else turn.seconds_between_deltas,
            on_event=lambda name: self._count_event(record, name),
        )
        await playback.run(stream.steps())
        return None

    def _count_event(self, record: RecordedRequest, name: str) -> None:
        record.events_sent += 1
        if record.first_delta_at is None and name == "content_block_delta":
            record.first_delta_at = time.monotonic()


async def _respond(answer: Answer, status: int, headers: Mapping[str, str], body: bytes) -> None:
    await answer.start(status, {**headers, "content-length": str(len(body))})
    await answer.write(body)
    await answer.end()
