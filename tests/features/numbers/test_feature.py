"""The numbers of a run's answer: in the result, in the events, in what the cell draws and keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.structured_output import answer_type
from cellwright.conversation.core import Host
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import RunSurface
from cellwright.conversation.runs.run_options import Result, RunOptions, result_of
from cellwright.events import ContextAttached, Event, NumbersTraced, RunEnd, UserPrompt
from cellwright.features.conversation import Conversation
from cellwright.features.numbers.answers import check_instructions, checked_numbers
from cellwright.features.numbers.sources import source
from cellwright.features.numbers.trace import trace, with_marks
from cellwright.kernel.output.saved_markdown import SavedTranscript
from cellwright.kernel.output.saved_ops import saved_transcripts
from cellwright.testing import say, use

ANSWER = "Of 7,043 customers 26.5 % left, 31.8 % of those with a contract of 14.25 months."


@pytest.fixture
def asked(messages_server: Any, tmp_path: Path, own_place: Path) -> Any:
    """Asks once for each of the lists of answers, in one conversation; gives the results and all events."""
    (tmp_path / "churn.txt").write_text("customers 7043\nchurn_rate 0.26536\n")

    def ask(
        *runs: list[Any], options: RunOptions | None = None, settings: str = "{}"
    ) -> tuple[list[Result], list[Event]]:
        (own_place / ".claude").mkdir(exist_ok=True)
        (own_place / ".claude/settings.json").write_text(settings)
        server = messages_server([turn for run in runs for turn in run])
        environ = {"HOME": str(own_place), "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}
        conversation = Conversation(Host(cwd=tmp_path, interface="a test", environ=environ))
        results: list[Result] = []
        events: list[Event] = []
        prompt = "How many left?"
        try:
            for _ in runs:
                heard: list[Event] = []
                run = conversation.start(
                    RunRequest(prompt=prompt, options=options or RunOptions()), RunSurface(emit=heard.append)
                )
                results.append(result_of(run.future.result(60), heard))
                events += heard
                prompt = next((event.check for event in heard if isinstance(event, NumbersTraced)), "") or prompt
        finally:
            conversation.close()
        return results, events

    return ask


def test_the_result_has_them_with_their_sources(asked: Any, tmp_path: Path) -> None:
    [result], events = asked([use("Read", file_path=str(tmp_path / "churn.txt")), say(ANSWER)])
    assert [(n.text, n.value, n.verdict, n.marked) for n in result.numbers] == [
        ("7,043", 7043, "seen", False),
        ("26.5 %", 26.5, "seen", False),
        ("31.8 %", 31.8, "not_found", True),
        ("14.25", 14.25, "not_found", True),
    ]
    source = result.numbers[1].source
    assert source is not None
    assert (source.name.partition(",")[0], source.line, source.path) == ("churn.txt", 2, str(tmp_path / "churn.txt"))
    assert isinstance(events[-2], NumbersTraced)
    assert isinstance(events[-1], RunEnd)


def test_an_answer_without_numbers_has_none_and_a_setting_switches_it_off(asked: Any, tmp_path: Path) -> None:
    assert asked([say("Nobody.")])[0][0].numbers == ()
    assert asked([say(ANSWER)], settings='{"cellwright": {"numbers": false}}')[0][0].numbers == ()
    assert asked([say(ANSWER)], options=RunOptions(numbers=False))[0][0].numbers == ()


def test_the_numeric_fields_of_a_typed_answer(asked: Any, tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "properties": {"customers": {"type": "integer"}, "rates": {"type": "array", "items": {"type": "number"}}},
        "required": ["customers", "rates"],
        "additionalProperties": False,
    }
    [result], _ = asked(
        [use("Read", file_path=str(tmp_path / "churn.txt")), say('{"customers": 7043, "rates": [0.265, 0.3187]}')],
        options=RunOptions(answer_type=answer_type(schema)),
    )
    assert [(n.path, n.text, n.verdict) for n in result.numbers] == [
        ("customers", "7043", "seen"),
        ("rates[0]", "0.265", "seen"),
        ("rates[1]", "0.3187", "not_found"),
    ]


def test_check_these_computes_them_and_renews_the_marks(asked: Any, tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("check 1 0.3184\n")
    results, events = asked(
        [use("Read", file_path=str(tmp_path / "churn.txt")), say(ANSWER)],
        [use("Bash", command="cat more.txt"), say("I stated 31.8 %, and 31.84 % is right. 14.25 cannot be computed.")],
    )
    first, second = [event for event in events if isinstance(event, NumbersTraced)]
    # people see its title; Claude receives the instructions beside it
    assert first.check == "Check 2 numbers"
    assert [event.prompt for event in events if isinstance(event, UserPrompt)] == ["How many left?", "Check 2 numbers"]
    sent = next(
        event.parts
        for event in events
        if isinstance(event, ContextAttached) and event.parts[-1].title == "Instructions"
    )
    assert "1. 31.8 % in “" in sent[-1].text
    assert "14.25 months" in sent[-1].text
    assert second.checked is not None
    assert second.checked.answer == first.answer
    [checked] = second.checked.numbers
    assert (checked.number, checked.text, checked.agrees) == (1, "31.8 %", True)
    assert "0.3184 in Bash, call" in checked.words
    # what the check repeats is no claim, and what the prompt of the check says is no source
    assert [(n.text, n.verdict) for n in results[1].numbers] == [("31.8 %", "seen"), ("31.84 %", "seen")]


def test_a_number_that_was_written_into_the_code_is_not_computed() -> None:
    prompt = check_instructions(
        "0a1b", with_marks(trace("It is 31.8 % of 41.37.", [source("output", "P", "age 41.37")]))
    )
    assert "31.8 %" in prompt
    output = source("output", "Python, call 2", "check 1 31.8", id="t2")
    assert checked_numbers(prompt, [output]) is not None
    assert checked_numbers(prompt, [source("code", "code", "print('check 1', 31.8)", id="t2"), output]) is None


def test_what_a_cell_draws_and_a_notebook_keeps(asked: Any, tmp_path: Path) -> None:
    _, events = asked([use("Read", file_path=str(tmp_path / "churn.txt")), say(ANSWER)])
    saved = SavedTranscript()
    for event in events:
        saved.emit(event)
    [transcript] = saved_transcripts(saved.state, 1, lambda texts: {})
    [op] = [op for op in transcript["ops"] if op["op"] == "numbers"]
    call = next(op["id"] for op in transcript["ops"] if op["op"] == "tool")
    assert NumbersTraced(events[-2].numbers).summary == "2 of 4 numbers traced · 2 not found"  # type: ignore[union-attr]
    assert [(n["text"], n["source"] and n["source"]["call"], n["marked"]) for n in op["numbers"]] == [
        ("7,043", call, False),
        ("26.5 %", call, False),
        ("31.8 %", None, True),
        ("14.25", None, True),
    ]
    markdown = saved.parts()[-1]["text/markdown"]
    assert "- 31.8 % in “" in markdown
