"""What runs do, as lines of the log: how they went, and nothing of what was said."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cellwright.conversation.core import Host
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import RunSurface
from cellwright.features.conversation import Conversation
from cellwright.telemetry.log_file import RunLog, last_lines, log_to_file
from cellwright.testing import fault, say, use


@pytest.fixture
def logging_to_file() -> Iterator[None]:
    stop = log_to_file(lambda text: text)
    yield
    stop()


@pytest.mark.usefixtures("logging_to_file")
def test_a_run_can_be_followed_in_the_log(messages_server: Any, tmp_path: Path, own_place: Path) -> None:
    script = [fault("status", retry_after_ms=1), use("Read", file_path="secret-plans.txt"), say("The plan is secret.")]
    server = messages_server(script)
    environ = {"HOME": str(own_place), "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}
    conversation = Conversation(Host(cwd=tmp_path, interface="a test", environ=environ))
    later: list[Callable[[], None]] = []
    conversation.observers.add(RunLog(later.append))
    try:
        conversation.start(RunRequest(prompt="What is the plan?", origin="[3]"), RunSurface()).future.result(60)
    finally:
        conversation.close()
    (log_beginning,) = later
    log_beginning()  # the run was logged before that: nothing is said twice, and in its order
    lines = last_lines(100)
    told = [line.split("cellwright.runs: ")[1] for line in lines if "cellwright.runs: " in line]
    [run] = [line for line in told if "begins" in line]
    assert run == told[0]
    assert run.endswith("mode default")
    assert run.startswith("run-1 [3]: begins, session 2")
    assert any("request failed, tried again (1 of 8)" in line and "API_OVERLOADED" in line for line in told)
    assert any(": Read " in line and "FILE_NOT_FOUND" in line for line in told)
    assert any("ends with end_turn" in line for line in told)
    assert told[-1].startswith("run-1: ends (end_turn)")
    assert not any(word in line for line in lines for word in ("secret", "What is the plan"))
