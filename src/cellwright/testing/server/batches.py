"""The Message Batches API of the server: a batch is worked off beside, request by request, and ends when all are done."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from cellwright.testing.rules.api_error import ApiRejection

MAX_REQUESTS = 100_000
CUSTOM_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
KINDS = ("succeeded", "errored", "canceled", "expired")


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
