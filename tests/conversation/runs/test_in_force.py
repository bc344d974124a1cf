"""Settings and modes that change while Claude works: the user's count at the next decision, Claude's only tighten."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.calls.approval import Allow, Deny, ToolUse
from cellwright.config.settings.layers import Layer
from cellwright.conversation.core import Host
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import RunSurface
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.conversation.runs.sandbox_lookup import SandboxFound, look_for_sandbox
from cellwright.events import Decided, Event, ModeChanged, ToolEnd
from cellwright.features.conversation import Conversation
from cellwright.testing import Gate, hold, say, turn, use

WRITE = {"file_path": "new.txt", "content": "x"}


class Desk:
    """A conversation whose model writes a file; what happens before it does is the test's."""

    def __init__(self, server: Any, project: Path, home: Path, found: SandboxFound | None) -> None:
        self.project, self.file = project, home / ".claude" / "settings.json"
        self.file.parent.mkdir()
        self.server, self.gate = server, Gate()
        self.given: dict[str, Any] = {}
        self.asked: list[ToolUse] = []
        self.events: list[Event] = []
        environ = {"HOME": str(home), "PATH": "/usr/bin:/bin", "ANTHROPIC_BASE_URL": server.url}
        environ |= {"ANTHROPIC_API_KEY": server.api_key}
        layer = Layer(scope="config", label="c.Claude", root=project, folder=project)
        self.conversation = Conversation(
            Host(
                cwd=project,
                interface="a test",
                environ=environ,
                inline_settings=lambda: ((layer, dict(self.given)),) if self.given else (),
                find_sandbox=look_for_sandbox if found is None else lambda: found,
            )
        )

    def say(self, **settings: Any) -> None:
        self.file.write_text(json.dumps(settings), "utf-8")

    def begin_to_say(self) -> None:
        self.file.write_text('{"permissions": {', "utf-8")

    async def answer(self, question: ToolUse) -> Allow | Deny:
        self.asked.append(question)
        return Deny("no", by="input")

    def run(self, change: Callable[[], None] = lambda: None, *, mode: str | None = None) -> None:
        """Run a prompt to its end; `change` is made while the model speaks, with no call at work."""
        surface = RunSurface(self.events.append, can_use_tool=self.answer)
        run = self.conversation.start(RunRequest(prompt="Go on.", options=RunOptions(mode=mode)), surface)
        self.gate.wait_until_reached(60)
        change()
        self.gate.open()
        assert run.future.result(60).ok

    @property
    def decisions(self) -> Mapping[str, str]:
        return {event.name: event.behavior for event in self.events if isinstance(event, Decided)}

    @property
    def ends(self) -> Mapping[str, str]:
        return {event.name: event.status for event in self.events if isinstance(event, ToolEnd)}

    @property
    def held_back(self) -> list[str]:
        return self.conversation.in_force.quarantined


@pytest.fixture
def desk(messages_server: Any, tmp_path: Path, own_place: Path, request: pytest.FixtureRequest) -> Iterator[Desk]:
    project = tmp_path / "project"
    project.mkdir()
    made = Desk(messages_server([]), project, own_place, getattr(request, "param", None))
    made.server.add(turn(say("Now."), hold(made.gate), use("Write", **WRITE)), turn(say("Done.")))
    yield made
    made.gate.open()
    made.conversation.close()


def test_without_a_change_it_asks(desk: Desk) -> None:
    desk.run()
    assert [question.name for question in desk.asked] == ["Write"]


def test_a_deny_rule_that_is_added_counts_for_the_next_call(desk: Desk) -> None:
    desk.run(lambda: desk.say(permissions={"deny": ["Edit(new.txt)"]}), mode="acceptEdits")
    assert desk.decisions == {"Write": "deny"}
    assert not (desk.project / "new.txt").exists()


@pytest.mark.parametrize("where", ["file", "cell"])
def test_a_mode_that_the_user_sets_counts_for_the_next_call(desk: Desk, where: str) -> None:
    looser = {"permissions": {"defaultMode": "acceptEdits"}}
    desk.run(lambda: desk.say(**looser) if where == "file" else desk.given.update(looser))
    assert desk.decisions == {"Write": "allow"}
    assert [event.mode for event in desk.events if isinstance(event, ModeChanged)] == ["acceptEdits"]
    assert (desk.conversation.in_force.question(), desk.held_back) == (None, [])


def test_a_mode_that_the_user_sets_goes_before_what_the_session_came_to(desk: Desk) -> None:
    session = desk.conversation.sessions.current
    session.mode = "acceptEdits"
    desk.run(lambda: desk.say(permissions={"defaultMode": "plan"}))
    assert (desk.decisions, session.mode) == ({"Write": "deny"}, None)


def test_a_change_while_a_question_is_open_is_the_users(desk: Desk) -> None:
    async def answer(question: ToolUse) -> Allow | Deny:
        desk.asked.append(question)
        desk.say(permissions={"deny": ["Edit"], "allow": ["Bash(make)"]})
        return Allow(by="input")

    desk.answer = answer  # type: ignore[method-assign]
    desk.run()
    assert [question.name for question in desk.asked] == ["Write"]
    assert desk.ends == {"Write": "denied"}
    assert (desk.conversation.in_force.question(), desk.held_back) == (None, [])


def test_what_a_call_writes_loosens_nothing_for_the_next_one(desk: Desk) -> None:
    looser = json.dumps({"permissions": {"defaultMode": "acceptEdits", "deny": ["WebFetch"]}})
    script = f"cat > {desk.file} <<'EOF'\n{looser}\nEOF"
    # a call, then the user's own change, then the call that is judged
    desk.server.clear()
    desk.server.add(
        turn(use("Bash", command=script)),
        turn(say("Now."), hold(desk.gate), use("Write", **WRITE)),
        turn(say("Done.")),
    )

    async def answer(question: ToolUse) -> Allow | Deny:
        desk.asked.append(question)
        return Allow(by="input") if question.name == "Bash" else Deny("no", by="input")

    desk.answer = answer  # type: ignore[method-assign]
    desk.run(lambda: desk.given.update(permissions={"deny": ["WebSearch"], "allow": ["Bash(make)"]}))
    assert [question.name for question in desk.asked] == ["Bash", "Write"]
    settings = desk.conversation.in_force.settings
    assert [str(rule) for rule in settings.deny] == ["WebFetch", "WebSearch"]
    assert [str(rule) for rule in settings.allow] == ["Bash(make)"]
    assert ["acceptEdits" in line for line in desk.held_back] == [True]


def test_a_file_that_is_being_written_takes_no_rule_away(desk: Desk) -> None:
    desk.say(permissions={"deny": ["Edit(new.txt)"]})
    desk.run(desk.begin_to_say, mode="acceptEdits")
    assert desk.decisions == {"Write": "deny"}


@pytest.mark.parametrize("desk", [SandboxFound(None, {"Landlock": "this Linux has none"})], indirect=True)
def test_settings_that_allow_no_run_any_more_stop_every_call(desk: Desk) -> None:
    desk.run(lambda: desk.say(sandbox={"enabled": True, "failIfUnavailable": True}), mode="acceptEdits")
    assert desk.decisions == {"Write": "deny"}
    (reason,) = [event.reason for event in desk.events if isinstance(event, Decided)]
    assert reason.startswith("The settings have")
