"""A conversation that is summed up: by `/compact` and by itself; what Claude must not lose is told again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cellwright.commands.command import CommandCall, CommandPage
from cellwright.commands.registry import answer_of, command_of
from cellwright.config.settings.settings import load_settings
from cellwright.conversation.core import Host
from cellwright.conversation.resolve_options import compaction_settings
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import RunSurface
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import CellwrightError
from cellwright.events import ContextCompacted, Event, Notice, RunEnd
from cellwright.features.conversation import Conversation
from cellwright.sessions.session import Session
from cellwright.testing import MessagesServer, fault, say, turn, use
from long_session import play

ASKED = "Everything above will be replaced by a summary"
SUMMARY = turn(say("<summary>Gauge of Brest.</summary>"), when=ASKED)


class Talk:
    """A conversation in a trusted project."""

    def __init__(self, server: MessagesServer, root: Path) -> None:
        self.server, self.project = server, root / "project"
        self.project.mkdir()
        self.events: list[Event] = []
        environ = {
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": server.api_key,
            "HOME": str(root),
            "PATH": "/usr/bin:/bin",
        }
        self.conversation = Conversation(
            Host(cwd=self.project, interface="a test", environ=environ, trusts_folder=True)
        )

    def write(self, name: str, text: str) -> None:
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")

    def say(self, prompt: str, *turns: Any, **options: Any) -> RunEnd:
        self.server.add(*turns)
        options = {"mode": "bypassPermissions", **options}
        request = RunRequest(prompt=prompt, options=RunOptions(**options))
        task = self.conversation.start(request, RunSurface(self.events.append))
        self.conversation.jobs.work_until_done(task)
        end = task.result()
        assert end.error is None, end.error
        return end

    def command(self, prompt: str, **options: Any) -> CommandPage:
        command, text = command_of(prompt)
        call = CommandCall(self.conversation, RunOptions(**options), text, self.events.append)
        return self.conversation.thread.submit(answer_of(command, call)).future.result(60)

    @property
    def session(self) -> Session:
        return self.conversation.sessions.current

    @property
    def last_messages(self) -> list[dict[str, Any]]:
        return list(self.server.requests[-1].body["messages"])


@pytest.fixture
def talk(
    messages_server: Callable[..., MessagesServer], tmp_path: Path, own_place: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Talk]:
    monkeypatch.setenv("IS_SANDBOX", "1")
    made = Talk(messages_server([]), tmp_path)
    yield made
    made.conversation.close()


def test_compact_sums_up_with_attention_to_its_focus(talk: Talk) -> None:
    with pytest.raises(CellwrightError, match="nothing to summarise"):
        talk.command("/compact")
    talk.say("The gauge?", say("It is broken. " * 200))
    talk.server.add(SUMMARY)
    page = talk.command("/compact the gauges above all")
    assert "Earlier conversation summarised" in page.plain()
    assert "Gauge of Brest." in page.plain()
    assert "gauges above all" in json.dumps(talk.last_messages[-1])
    [done] = [each for each in talk.events if isinstance(each, ContextCompacted) and each.state == "done"]
    assert (done.trigger, done.summary) == ("manual", "Gauge of Brest.")
    talk.say("And now?", say("We mend it."))
    first, second, prompt = talk.last_messages
    assert "Gauge of Brest." in first["content"][0]["text"]
    assert second["content"][0]["text"].startswith("<conversation-continues>")
    assert "And now?" in json.dumps(prompt)
    assert not any("filled the context" in json.dumps(each.body) for each in talk.server.requests)
    assert talk.server.rejected == []
    cost = talk.command("/cost").plain()
    assert "of it summaries" in cost
    assert "Summary of the" in talk.command("/context").plain()
    assert "summarised at 800,000" in talk.command("/context").plain()
    with pytest.raises(CellwrightError, match="takes nothing"):
        talk.command("/context x")


def test_what_must_not_be_lost_is_told_again(talk: Talk) -> None:
    talk.write("CLAUDE.md", "Write tide, not flood.")
    talk.write(".claude/skills/gauge/SKILL.md", "---\nname: gauge\ndescription: gauges\n---\nRead gauges twice.\n")
    talk.write("levels.py", "LEVEL = 3\n")
    talk.write("huge.txt", "sand\n" * 20_000)
    todos = [
        {"content": "Mend the gauge", "status": "in_progress", "activeForm": "Mending"},
        {"content": "Paint it", "status": "pending", "activeForm": "Painting"},
    ]
    talk.say(
        "/gauge",
        turn(use("Read", file_path=str(talk.project / "levels.py")), use("TodoWrite", todos=todos)),
        turn(
            use("Edit", file_path="levels.py", old_string="3", new_string="4"),
            use("Read", file_path="huge.txt", limit=9),
        ),
        say("Read. " * 100),
    )
    talk.server.add(SUMMARY)
    talk.command("/compact")
    talk.say("Go on.", say("Done."))
    told = "\n".join(str(block.get("text")) for block in talk.last_messages[1]["content"])
    assert talk.server.rejected == []
    for what in (
        "Working folder:",
        "Write tide, not flood.",
        "Read gauges twice.",
        "[>] Mend the gauge",
        "LEVEL = 4",
        "too long to send again: huge.txt",
    ):
        assert what in told, what
    assert told.count("not flood.") == 1
    assert "Write tide" not in json.dumps(talk.last_messages[2]), "it is not told twice"
    changed = talk.say(
        "Change it.", turn(use("Edit", file_path="levels.py", old_string="4", new_string="5")), say("ok")
    )
    assert changed.tools_failed == 0, "what was told again counts as read"


def test_a_resumed_conversation_goes_on_behind_its_summary_and_can_go_back_before_it(talk: Talk) -> None:
    talk.say("First words.", say("First answer. " * 200))
    talk.server.add(SUMMARY)
    talk.command("/compact")
    talk.say("Second words.", say("Second answer."))
    sent = list(talk.session.encoded)
    session_id = talk.session.id
    talk.command("/clear")
    talk.command(f"/resume {session_id}")
    assert talk.session.encoded == sent
    exported = talk.project / "story.md"
    talk.command(f"/export markdown {exported}")
    [written] = [path.read_text("utf-8") for path in talk.project.rglob("*.md")]
    assert "First words." in written
    assert "Second words." in written
    assert "conversation-summary" not in written
    talk.command(f"/fork {session_id} 1")
    talk.say("Another way.", say("Fine."))
    told = json.dumps(talk.last_messages)
    assert "First answer." in told
    assert "gauge of Brest" not in told


def test_it_happens_by_itself_in_a_run(talk: Talk) -> None:
    talk.write("../.claude/settings.json", '{"autoCompactWindow": 100000, "cellwright": {"autoCompactShare": 0.18}}')
    talk.write("sand.txt", "mud and sand\n" * 1_000)
    reads = [use("Read", file_path="sand.txt", offset=number, limit=400) for number in range(1, 6)]
    talk.say("Read the sand.", SUMMARY, SUMMARY, SUMMARY, *reads, say("Read."))
    done = [each for each in talk.events if isinstance(each, ContextCompacted) and each.state == "done"]
    assert done
    assert talk.server.rejected == []
    assert "Read the sand." in json.dumps(talk.last_messages)


@pytest.mark.parametrize(
    ("settings", "environ", "limit"),
    [
        ({}, {}, 160_000),
        ({"autoCompactWindow": 100_000}, {}, 80_000),
        ({"cellwright": {"autoCompactShare": 0.5}}, {}, 100_000),
        ({}, {"CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": "50"}, 100_000),
        ({}, {"CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": "95"}, 160_000),
        ({}, {"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "120000"}, 96_000),
        ({"autoCompactEnabled": False}, {}, None),
        ({}, {"DISABLE_AUTO_COMPACT": "1"}, None),
    ],
)
def test_settings_and_variables_say_when(
    tmp_path: Path, settings: dict[str, Any], environ: dict[str, str], limit: int | None
) -> None:
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").write_text(json.dumps(settings))
    loaded = load_settings(tmp_path / "project", {"HOME": str(tmp_path)})
    found = compaction_settings(loaded, environ)
    assert (found.limit("claude-haiku-4-5") if found.automatic else None) == limit


def test_a_long_session_forgets_nothing_that_it_must_not(tmp_path: Path, own_place: Path) -> None:
    """The short form of `tests/legs/slow/test_long_conversation.py`."""
    settings = {"autoCompactWindow": 100_000, "cellwright": {"autoCompactShare": 0.3}}
    played = play(tmp_path / "home", 60, settings)
    assert (played.errors, played.rejected, played.missing) == ([], [], [])
    assert len(played.compactions) >= 3
    assert played.max_input_tokens < 33_000
    session = Session.load(played.transcript)
    assert session.encoded == played.sent
    assert len(session.story) == played.story


def test_where_the_model_does_not_sum_up_the_next_one_does(talk: Talk) -> None:
    talk.say("Measure.", say("At three."), fallback_models=("claude-sonnet-5-5",))
    talk.server.add(fault("status", status=404, error_type="not_found_error"), SUMMARY)
    page = talk.command("/compact", fallback_models=("claude-sonnet-5-5",))
    assert "summarised" in page.plain()
    assert [request.body["model"] for request in talk.server.requests[-2:]] == ["claude-opus-5-5", "claude-sonnet-5-5"]
    assert [event.message for event in talk.events if isinstance(event, Notice) and "sums up instead" in event.message]


def test_a_compaction_that_fails_leaves_the_session_as_it_was(talk: Talk) -> None:
    talk.say("Measure.", say("At three."))
    before = list(talk.session.encoded)
    broken = fault("status", status=400, error_type="invalid_request_error", message="a picture is gone")
    talk.server.add(broken, broken)
    with pytest.raises(CellwrightError, match="a picture is gone"):
        talk.command("/compact")
    assert talk.session.encoded == before
    assert [event.state for event in talk.events if isinstance(event, ContextCompacted)] == ["started", "failed"]
    assert talk.say("And then?", say("At four.")).text == "At four."
    talk.server.add(broken, SUMMARY)
    assert "Gauge of Brest." in talk.command("/compact").plain()
