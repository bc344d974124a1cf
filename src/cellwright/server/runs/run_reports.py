"""Content-free reports of runs to `jupyter_events`: beginning, end, duration, amounts. Off by default.

`run_events.yaml` has the fields; neither a prompt nor an answer, a path, a name of a tool nor of a user is among
them.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from cellwright.server.runs.run import ClientRun

SCHEMA = Path(__file__).with_name("run_events.yaml")
SCHEMA_ID = "urn:cellwright:events:run:v1"


class RunReports:
    """Reports to `logger`, the server's event logger; to nobody where it is None."""

    def __init__(self, logger: Any | None) -> None:
        self._logger = logger
        self._begun: dict[str, float] = {}
        if logger is not None:
            logger.register_event_schema(SCHEMA)

    def started(self, run: ClientRun) -> None:
        self._begun[run.id] = time.monotonic()
        self._emit({"action": "started", "run": run.id, "own_kernel": run.place.own_kernel})

    def ended(self, run: ClientRun) -> None:
        seconds = time.monotonic() - self._begun.pop(run.id)
        metadata = run.metadata
        report = {
            "action": "ended",
            "run": run.id,
            "own_kernel": run.place.own_kernel,
            "stop_reason": str(metadata.get("stop_reason") or ""),
            "duration_ms": round(seconds * 1000),
            "tools": int(metadata.get("tools_executed") or 0),
            "tools_failed": int(metadata.get("tools_failed") or 0),
            "requests": int(metadata.get("total_api_calls") or 0),
            "tokens": int(metadata.get("total_tokens_used") or 0),
            "cost_usd": metadata.get("cost_usd"),
        }
        self._emit(report)

    def _emit(self, data: dict[str, Any]) -> None:
        if self._logger is not None:
            self._logger.emit(schema_id=SCHEMA_ID, data=data)
