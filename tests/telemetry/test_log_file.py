"""The log in a file: without secrets, for the user alone, of bounded size."""

from __future__ import annotations

import logging
import logging.handlers
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cellwright.conversation.core import Host
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import RunSurface
from cellwright.events import UserPrompt
from cellwright.features.conversation import Conversation
from cellwright.redaction.redaction import Redaction
from cellwright.telemetry import log_file
from cellwright.telemetry.log_file import RUNS, LogFile, RunLog, last_lines, log_path, log_to_file
from cellwright.testing import fault, say, use

SECRET = "hunter2-and-some-more"


@pytest.fixture
def logged() -> Iterator[logging.Logger]:
    redaction = Redaction(lambda: {"MY_TOKEN": SECRET})
    stop = log_to_file(lambda text: redaction.clean(text).text)
    yield logging.getLogger("cellwright.somewhere")
    stop()


def test_warnings_are_kept_without_the_secrets_in_them(logged: logging.Logger) -> None:
    assert not log_path().parent.exists(), "nothing is made before there is something to log"
    logged.info("not worth a line")
    try:
        raise ValueError(f"refused: {SECRET}")
    except ValueError:
        logged.exception("it failed with sk-ant-api03-%s", "x" * 40)
    lines = last_lines(100)
    assert "it failed with [secret removed: " in lines[0]
    assert lines[-1] == "ValueError: refused: [secret removed: value of $MY_TOKEN]"
    assert not any(SECRET in line or "not worth" in line or "x" * 40 in line for line in lines)
    assert stat.S_IMODE(log_path().stat().st_mode) == 0o600
    assert stat.S_IMODE(log_path().parent.stat().st_mode) == 0o700


def test_what_runs_do_is_our_files_alone(logged: logging.Logger) -> None:
    users = logging.handlers.BufferingHandler(1_000)
    logging.getLogger().addHandler(users)
    try:
        logging.getLogger(log_file.RUNS).info("run-1: begins")
        logged.warning("a warning, seen wherever the user looks")
    finally:
        logging.getLogger().removeHandler(users)
    assert [line.rpartition(": ")[2] for line in last_lines(5)] == ["begins", "a warning, seen wherever the user looks"]
    assert [record.getMessage() for record in users.buffer] == ["a warning, seen wherever the user looks"]


def test_the_log_does_not_grow_beyond_two_files(tmp_path: Path) -> None:
    handler = LogFile(log_path(), lambda text: text)
    before = log_path().with_name("cellwright.log.1")
    for number in range(32):
        message = f"{number} " + "x" * 200_000
        handler.emit(logging.LogRecord("cellwright", logging.WARNING, "", 0, message, None, None))
    assert sorted(path.name for path in log_path().parent.iterdir()) == ["cellwright.log", "cellwright.log.1"]
    assert max(before.stat().st_size, log_path().stat().st_size) < log_file.MAX_BYTES + 500_000
    lines = last_lines(8)
    assert [line.split(": ")[1].split()[0] for line in lines] == [str(number) for number in range(24, 32)]
    assert max(map(len, lines)) <= log_file.LINE_CHARS


def test_a_log_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    handler = LogFile(tmp_path / "file" / "cellwright.log", lambda text: text)
    handler.emit(logging.LogRecord("cellwright", logging.WARNING, "", 0, "lost", None, None))
    assert last_lines(10) == []


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


def test_a_handler_that_raises_ends_nothing_that_is_logged_later() -> None:
    class Raising(logging.Handler):
        raised = 0

        def emit(self, record: logging.LogRecord) -> None:
            self.raised += 1
            raise RuntimeError("a handler that the user has added")

    raising = Raising()
    runs = logging.getLogger(RUNS)
    before = runs.level
    runs.setLevel(logging.INFO)
    runs.addHandler(raising)
    later: list[Callable[[], None]] = []
    try:
        run: Any = SimpleNamespace(id="run-1", origin="[3]")
        RunLog(later.append).on_event(run, UserPrompt(prompt="", session_id="", mode="default"))
        later[0]()  # an event loop would print what comes out of it, into the cell's answer
    finally:
        runs.removeHandler(raising)
        runs.setLevel(before)
    assert raising.raised == 1
