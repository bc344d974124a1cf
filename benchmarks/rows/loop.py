"""Rows of the loop: start, requests, tool turns, streams, long sessions."""

from __future__ import annotations

import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.rows.row import Row
from cellwright.testing import MessagesServer, RecordedRequest, Turn, say, turn, use

ROOT = Path(__file__).parents[2]
WORD = "some words of an answer "
DELTAS = 20_000

Script = Callable[[Path], Sequence[Turn] | Callable[[dict[str, Any]], Turn]]


def _play(
    subject: str, row: str, script: Script, **server_options: Any
) -> tuple[dict[str, Any], list[RecordedRequest]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "small.txt").write_text("a line\n" * 20, "utf-8")
        with MessagesServer(script(folder), validate=False, **server_options) as server:
            command = [sys.executable, "-m", "benchmarks.rows.subjects", subject, row, server.url, name]
            run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
            if run.returncode:
                raise RuntimeError(f"{subject} {row} failed:\n{run.stderr[-3000:]}")
            return json.loads(run.stdout.splitlines()[-1]), server.requests


def nothing(subject: str) -> Mapping[str, float]:
    """The row's figure came with another row's measurement."""
    return {}


def _gaps_ms(requests: Sequence[RecordedRequest]) -> list[float]:
    """From the end of one answer to the arrival of the next request."""
    pairs = itertools.pairwise(requests)
    return [(after.arrived_at - before.finished_at) * 1000 for before, after in pairs if before.finished_at]


def _tool_turns(count: int, calls: Callable[[Path], list[Any]]) -> Script:
    def script(folder: Path) -> Callable[[dict[str, Any]], Turn]:
        left = count

        def answer(body: dict[str, Any]) -> Turn:
            nonlocal left
            left -= 1
            return turn(*calls(folder)) if left >= 0 else turn(say("done"))

        return answer

    return script


def start(subject: str) -> Mapping[str, float]:
    result, requests = _play(subject, "warm", lambda folder: [turn(say("one")), turn(say("two"))])
    return {
        "a import": result["import_cpu_s"] * 1000,
        "b cold": (requests[0].arrived_at - result["begun"]) * 1000,
        "b warm": (requests[1].arrived_at - result["runs"][1]["submitted"]) * 1000,
        "g memory": result["rss_mb"],
    }


def tool_turns(subject: str) -> Mapping[str, float]:
    def read(folder: Path) -> list[Any]:
        return [use("Read", file_path=str(folder / "small.txt"))]

    _, requests = _play(subject, "tools", _tool_turns(50, read))
    return {"d tool turn": statistics.median(_gaps_ms(requests)[2:])}


def parallel(subject: str) -> Mapping[str, float]:
    _, requests = _play(subject, "tools", _tool_turns(3, lambda folder: [use("wait") for _ in range(10)]))
    return {"e parallel": statistics.median(_gaps_ms(requests)[:3])}


def commands(subject: str) -> Mapping[str, float]:
    """Commands: ten that only read in one turn, which may run side by side, and one after another."""
    gaps = {}
    for row, count, calls in (
        ("e commands", 3, lambda folder: [use("Bash", command="sleep 0.2") for _ in range(10)]),
        ("d Bash turn", 20, lambda folder: [use("Bash", command=f"cat {folder}/small.txt")]),
    ):
        _, requests = _play(subject, "tools", _tool_turns(count, calls))
        gaps[row] = statistics.median(_gaps_ms(requests)[:count])
    return gaps


def stream(subject: str) -> Mapping[str, float]:
    answer = turn(say(WORD * DELTAS), delta_chars=len(WORD), events_per_write=20)
    result, _ = _play(subject, "stream", lambda folder: [answer])
    return {"f stream": result["runs"][0]["cpu_s"] / DELTAS * 1e6}


def long_session(subject: str) -> Mapping[str, float]:
    def read(folder: Path) -> list[Any]:
        return [say("Let me read that file once more. "), use("Read", file_path=str(folder / "small.txt"))]

    _, requests = _play(subject, "tools", _tool_turns(500, read))
    gaps = _gaps_ms(requests)
    return {"h long": statistics.median(gaps[480:500]), "h early": statistics.median(gaps[5:25])}


def resume(subject: str) -> Mapping[str, float]:
    """A 500-turn session from disk; the floor parses the same lines with json."""
    from cellwright.sessions.session import Session

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        session = Session.create(folder, folder)
        session.begin(model="claude-opus-5-5", system=[{"type": "text", "text": "x" * 3000}], tools=[])
        for number in range(500):
            call = {"type": "tool_use", "id": f"toolu_{number}", "name": "Read", "input": {"file_path": "x"}}
            result = {"type": "tool_result", "tool_use_id": call["id"], "content": "a line of text\n" * 100}
            session.append(
                {"role": "assistant", "content": [{"type": "text", "text": "Reading."}, call]}, cost_usd=0.01
            )
            session.append({"role": "user", "content": [result]})
        session.close()
        assert session.path is not None
        begun = time.perf_counter()
        if subject == "floor":
            _ = [json.loads(line) for line in session.path.read_bytes().splitlines()]
        else:
            Session.load(session.path).close()
        return {"i resume": (time.perf_counter() - begun) * 1000}


LOOP_ROWS = [
    Row("b cold", "import + submit → first request at the server", "ms", start, max_ratio=2.5),
    Row("b warm", "submit → request", "ms", nothing, max_ratio=4.0),
    Row("g memory", "RSS added by a run", "MB", nothing, max_value=25),
    Row(
        "d tool turn",
        "gap per turn over 50 tool turns (permission check and transcript included)",
        "ms",
        tool_turns,
        max_ratio=1.75,
    ),
    Row("e parallel", "ten calls of 0.2 s in one turn", "ms", parallel, max_ratio=1.15),
    Row(
        "e commands",
        "ten calls of Bash in one turn, each `sleep 0.2`, in the sandbox",
        "ms",
        commands,
        max_ratio=1.3,
    ),
    Row(
        "d Bash turn",
        "gap per turn over 20 turns of a `cat` by Bash, in the sandbox",
        "ms",
        nothing,
        max_ratio=3.5,
    ),
    Row("f stream", "CPU per text delta over 20,000 deltas", "µs", stream, max_ratio=1.1),
    Row("h long", "gap per tool turn at turn 490 of 500", "ms", long_session, max_ratio=0.7),
    Row("i resume", "resume a 500-turn session", "ms", resume, subjects=("floor", "cellwright"), max_ratio=2.0),
]
