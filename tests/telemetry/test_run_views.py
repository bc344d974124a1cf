"""What each view makes of the same runs: cell, notebook, panel, terminal, Claude Code's messages and JSON lines.

`runs.json` holds the events of 38 runs, most of them as real conversations had them, and `run-views.json` what was
drawn, saved and written of each. A change of a view shows here as a change of that file:

    python tests/telemetry/test_run_views.py

writes it anew.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from cellwright import events
from cellwright.events import Event, SubagentEvent, ToolEnd
from cellwright.kernel.output.code_displays import CodeDisplays
from cellwright.kernel.output.op_log import OpLog, OpReader
from cellwright.kernel.output.saved_markdown import SavedTranscript
from cellwright.kernel.output.saved_ops import saved_transcripts
from cellwright.terminal.claude_code.messages import ClaudeJsonView, ClaudeOutput, ClaudeStreamView
from cellwright.terminal.views.live_view import LiveView
from cellwright.terminal.views.plain_view import AnswerView, JsonLinesView, PlainView, View

HERE = Path(__file__).parent
RUNS: Mapping[str, Sequence[Any]] = json.loads((HERE / "runs.json").read_text("utf-8"))
DRAWN = HERE / "run-views.json"


def event_of(encoded: Sequence[Any]) -> Event:
    """The event that is written as its name and those of its fields that say something."""
    name, fields = encoded
    if name == "SubagentEvent":
        return SubagentEvent(**{**fields, "event": event_of(fields["event"])})
    made: Event = msgspec.convert(fields, getattr(events, name))
    return made


def nothing_secret(_texts: object) -> Mapping[str, str]:
    return {}


def in_a_cell(run: Sequence[Event], *, quiet: bool) -> dict[str, list[str]]:
    saved, displays, parts, displayed = SavedTranscript(quiet=quiet), CodeDisplays(), 1, False
    for event in run:
        saved.emit(event)
        displayed = any(True for _ in displays.take(event)) or displayed
        if displayed and isinstance(event, ToolEnd):
            saved.state.begin_part()
            parts, displayed = parts + 1, False
    texts = saved.parts()
    return {
        "operations": [
            json.dumps(op, ensure_ascii=False)
            for part in saved_transcripts(saved.state, parts, nothing_secret, quiet=quiet)
            for op in part["ops"]
        ],
        "markdown": "\n--\n".join(text["text/markdown"] for text in texts).split("\n"),
        "plain": "\n--\n".join(text["text/plain"] for text in texts).split("\n"),
    }


def in_a_panel(run: Sequence[Event]) -> list[str]:
    log = OpLog()
    for event in run:
        log.on_event(event)
    return [json.dumps(op, ensure_ascii=False) for op in OpReader(log).after(0)]


class Screen(io.StringIO):
    encoding = "utf-8"  # type: ignore[assignment]


_CLOCK = re.compile(r"(?<=Thought for )[\d.]+ s")
_UUID = re.compile(r'(?<="uuid":")[^"]+')


def on(make: Callable[[Screen], View], run: Sequence[Event]) -> list[str]:
    screen = Screen()
    view = make(screen)
    for event in run:
        view.emit(event)
    view.close()
    return _UUID.sub("", _CLOCK.sub("0.0 s", screen.getvalue())).split("\n")


def drawn_on_a_terminal(screen: Screen, *, details: bool = False) -> LiveView:
    console = Console(file=screen, width=100, force_terminal=False, color_system=None)
    return LiveView(console, details=details, in_session=True)


def claude_output(screen: Screen, *, partial_messages: bool = False) -> ClaudeOutput:
    return ClaudeOutput(out=screen, facts=lambda: {"cwd": "/home/ada"}, partial_messages=partial_messages)


def views_of(run: Sequence[Event]) -> dict[str, Any]:
    return {
        "cell": in_a_cell(run, quiet=False),
        "quiet cell": in_a_cell(run, quiet=True),
        "panel": in_a_panel(run),
        "plain": on(PlainView, run),
        "answer and log": on(lambda screen: AnswerView(screen, screen), run),
        "drawn": on(drawn_on_a_terminal, run),
        "drawn with details": on(lambda screen: drawn_on_a_terminal(screen, details=True), run),
        "stream-json": on(lambda screen: ClaudeStreamView(claude_output(screen, partial_messages=True)), run),
        "claude-json": on(lambda screen: ClaudeJsonView(claude_output(screen), all_messages=False), run),
        "json-lines": on(JsonLinesView, run),
    }


def each_run() -> Iterator[tuple[str, list[Event]]]:
    for name, encoded in RUNS.items():
        yield name, [event_of(each) for each in encoded]


@pytest.mark.parametrize(("name", "run"), [pytest.param(name, run, id=name) for name, run in each_run()])
def test_each_view_shows_the_run_as_before(name: str, run: Sequence[Event]) -> None:
    assert views_of(run) == json.loads(DRAWN.read_text("utf-8"))[name]


if __name__ == "__main__":
    drawn = {name: views_of(run) for name, run in each_run()}
    DRAWN.write_text(json.dumps(drawn, indent=0, ensure_ascii=False) + "\n", "utf-8")
