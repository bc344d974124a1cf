"""The numbers of a run's answer: in the result, in the events, in what the cell draws and keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cellwright.conversation.conversation import Conversation
from cellwright.conversation.core import Host
from cellwright.conversation.runs.run_options import Result, RunOptions, result_of
from cellwright.conversation.runs.run_request import RunRequest, RunSurface
from cellwright.events import Event, NumbersTraced, RunEnd
from cellwright.kernel.output.saved_markdown import SavedTranscript
from cellwright.kernel.output.saved_ops import saved_transcripts
from cellwright.testing import say, use

ANSWER = "Of 7,043 customers 26.5 % left, 31.8 % of those with a contract of 14.25 months."


@pytest.fixture
def asked(messages_server: Any, tmp_path: Path, own_place: Path) -> Any:
    (tmp_path / "churn.txt").write_text("customers 7043\nchurn_rate 0.26536\n")

    def ask(*turns: Any, settings: str = "{}") -> tuple[Result, list[Event]]:
        (own_place / ".claude").mkdir(exist_ok=True)
        (own_place / ".claude/settings.json").write_text(settings)
        server = messages_server(list(turns))
        environ = {"HOME": str(own_place), "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}
        conversation = Conversation(Host(cwd=tmp_path, interface="a test", environ=environ))
        events: list[Event] = []
        try:
            run = conversation.start(
                RunRequest(prompt="How many left?", options=RunOptions()), RunSurface(emit=events.append)
            )
            end = run.future.result(60)
        finally:
            conversation.close()
        return result_of(end, events), events

    return ask


def test_the_result_has_them_with_their_sources(asked: Any, tmp_path: Path) -> None:
    result, events = asked(use("Read", file_path=str(tmp_path / "churn.txt")), say(ANSWER))
    assert [(n.text, n.value, n.verdict, n.marked) for n in result.numbers] == [
        ("7,043", 7043, "seen", False),
        ("26.5 %", 26.5, "seen", False),
        ("31.8 %", 31.8, "not_found", True),
        ("14.25", 14.25, "not_found", True),
    ]
    source = result.numbers[1].source
    assert source is not None
    assert (source.name, source.line, source.path) == (
        "churn.txt, read in call 1",
        2,
        str(tmp_path / "churn.txt"),
    )
    assert isinstance(events[-2], NumbersTraced)
    assert isinstance(events[-1], RunEnd)


def test_an_answer_without_numbers_has_none_and_a_setting_switches_it_off(asked: Any, tmp_path: Path) -> None:
    assert asked(say("Nobody."))[0].numbers == ()
    result, _ = asked(say(ANSWER), settings='{"cellwright": {"numbers": false}}')
    assert result.numbers == ()


def test_what_a_cell_draws_and_a_notebook_keeps(asked: Any, tmp_path: Path) -> None:
    _, events = asked(use("Read", file_path=str(tmp_path / "churn.txt")), say(ANSWER))
    saved = SavedTranscript()
    for event in events:
        saved.emit(event)
    [transcript] = saved_transcripts(saved.state, 1, lambda texts: {})
    [op] = [op for op in transcript["ops"] if op["op"] == "numbers"]
    call = next(op["id"] for op in transcript["ops"] if op["op"] == "tool")
    assert [(n["text"], n["call"], n["marked"]) for n in op["numbers"]] == [
        ("7,043", call, False),
        ("26.5 %", call, False),
        ("31.8 %", "", True),
        ("14.25", "", True),
    ]
    assert "not in any result: 31.8 %, 14.25" in saved.parts()[-1]["text/markdown"]
