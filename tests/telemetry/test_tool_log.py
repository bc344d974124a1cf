"""The tool log: numbers and hashes, never what a call was about."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

from cellwright.events import Call, Event, EventLog, ToolEnd, ToolStart, TurnEnd, UserPrompt
from cellwright.telemetry.tool_log import ToolLog, ToolSums

SECRET = "sk-ant-very-secret-0123456789"


def call(id: str, name: str = "Grep", **tool_input: Any) -> Call:
    return Call({"type": "tool_use", "id": id, "name": name, "input": tool_input}, name)


def played(log: ToolLog, *events: Event) -> list[dict[str, Any]]:
    emit = EventLog(log.add).emit
    for event in events:
        emit(event)
    return [json.loads(line) for line in log.path.read_text().splitlines()] if log.path and log.path.exists() else []


RUN: tuple[Event, ...] = (
    UserPrompt("find it", session_id="s1"),
    TurnEnd({}, "tool_use", {"input_tokens": 12, "output_tokens": 3}, "m", request_id="r1", cost_usd=0.01),
    ToolStart((call("t1", pattern=SECRET), call("t2", pattern=SECRET, head_limit=5)), parallel=True),
    ToolEnd("t1", "Grep", "success", "a.py\nb.py", 12.345, structured={"numMatches": 2}),
    ToolEnd("t2", "Grep", "timeout", "stopped", 30_000.0, None, {"code": "EXECUTION_TIMEOUT"}),
    ToolStart((call("t3", "Bash", command="rm x"),)),
    ToolEnd("t3", "Bash", "denied", "no", 0.0),
)


def test_a_log_holds_sizes_times_and_hashes_and_nothing_else(tmp_path: Path) -> None:
    log = ToolLog(tmp_path / "logs" / "tools.jsonl", lambda: b"key")
    lines = played(log, *RUN)
    assert [line["type"] for line in lines] == ["api_call", "tool_call", "tool_call", "tool_call"]
    api, first, second, third = lines
    assert (api["model"], api["input_tokens"], api["cost_usd"], api["request_id"]) == ("m", 12, 0.01, "r1")
    assert {key: first[key] for key in ("session", "id", "tool", "status", "ms", "result_chars", "matches")} == {
        "session": "s1",
        "id": "t1",
        "tool": "Grep",
        "status": "success",
        "ms": 12.35,
        "result_chars": 9,
        "matches": 2,
    }
    assert first["parameters"]["pattern"]["chars"] == len(SECRET)
    assert first["parameters"]["pattern"] == second["parameters"]["pattern"], "equal values are seen to be equal"
    assert (first["batch"], first["parallel"], third["batch"], third["parallel"]) == (1, True, 2, False)
    assert (second["status"], third["status"], second["matches"]) == ("timeout", "denied", None)
    assert first["cpu_ms"] >= 0
    assert log.path is not None
    text = log.path.read_text()
    assert SECRET not in text
    assert "rm x" not in text
    assert "b.py" not in text
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600


def test_hashes_cannot_be_compared_with_another_users(tmp_path: Path) -> None:
    one = played(ToolLog(tmp_path / "one", lambda: b"key"), *RUN)
    other = played(ToolLog(tmp_path / "other", lambda: b"another key"), *RUN)
    assert one[1]["parameters"]["pattern"]["hash"] != other[1]["parameters"]["pattern"]["hash"]


def test_sums_are_kept_without_a_file() -> None:
    log = ToolLog()
    played(log, *RUN, *RUN)
    assert log.sums == {
        "Grep": ToolSums(4, 2, 0, 2 * 30_012.345, 30_000.0, 32),
        "Bash": ToolSums(2, 0, 2, 0.0, 0.0, 4),
    }


def test_a_log_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    log = ToolLog(tmp_path / "file" / "log", lambda: b"key")
    played(log, *RUN)
    assert log.sums["Bash"].calls == 1


def test_two_conversations_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    played(ToolLog(path, lambda: b"key"), *RUN)
    assert len(played(ToolLog(path, lambda: b"key"), *RUN)) == 8
