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
from cellwright.conversation.resolve_options import sandbox_rules
from cellwright.conversation.runs import in_force
from cellwright.conversation.runs.in_force import SandboxFound, look_for_sandbox
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import Run, RunSurface
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Decided, Event, ModeChanged, Notice, ToolEnd
from cellwright.features.conversation import Conversation
from cellwright.permissions.sandboxing import SandboxAbilities, SandboxRules
from cellwright.testing import Gate, hold, say, turn, use
from eventual import eventually

WRITE = {"file_path": "new.txt", "content": "x"}

LANDLOCK = SandboxAbilities(name="Landlock", hides=False, protects=False, hosts=False)


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


@pytest.fixture
def conversing(messages_server: Any, tmp_path: Path, own_place: Path) -> Iterator[Callable[..., Conversation]]:
    made: list[Conversation] = []

    def make(abilities: SandboxAbilities | None = LANDLOCK, replies: int = 2, **settings: Any) -> Conversation:
        found = SandboxFound(abilities, {} if abilities else {"Landlock": "this Linux has none"})
        (own_place / ".claude").mkdir()
        (own_place / ".claude" / "settings.json").write_text(json.dumps(settings), "utf-8")
        server = messages_server([say("The tide.")] * replies)
        environ = {"HOME": str(own_place), "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}
        made.append(Conversation(Host(cwd=tmp_path, interface="a test", environ=environ, find_sandbox=lambda: found)))
        return made[-1]

    yield make
    for each in made:
        each.close()


def rules_of(conversation: Conversation, **options: Any) -> SandboxRules:
    return sandbox_rules(RunOptions(**options), conversation.in_force.settings, conversation.cwd, LANDLOCK)


def notices_of(conversation: Conversation, prompt: str) -> list[str]:
    told: list[str] = []
    surface = RunSurface(lambda event: told.append(event.message) if isinstance(event, Notice) else None)
    run = conversation.start(RunRequest(prompt=prompt), surface)
    run.future.result(60)
    return [text for text in told if "confined" in text]


def test_rules_about_files_and_pages_go_into_the_lists(conversing, tmp_path):
    (tmp_path / "notes.md").touch()
    (tmp_path / "src").mkdir()
    conversation = conversing(
        permissions={
            "allow": ["Edit(//opt/build/**)", "Edit(./notes.md)", "Edit(./src)", "Edit(*.py)", "Edit", "Write(//x/**)"],
            "ask": ["WebFetch(domain:c.b.example)", "WebFetch"],
            "deny": ["Edit(//opt/build/keep)", "Read(//srv/**)", "Read(.env)", "WebFetch(domain:a.b.example)"],
        },
        sandbox={"filesystem": {"allowWrite": ["/cache"]}, "network": {"allowedDomains": ["x.example"]}},
    )
    rules = rules_of(conversation, allow=("WebFetch(domain:*.b.example)", "WebFetch"), deny=("Write(//opt/y)",))
    assert set(rules.allow_write) == {"/cache", "/opt/build", str(tmp_path / "notes.md")}
    assert set(rules.deny_write) == {"/opt/build/keep", "/opt/y"}
    assert rules.deny_read == ("/srv",)
    assert (rules.allowed_hosts, rules.denied_hosts) == (("x.example", "*.b.example"), ("a.b.example",))
    assert rules.asked_hosts == ("c.b.example",)
    assert rules.abilities is LANDLOCK


def test_where_nothing_confines_commands_it_is_told_once(conversing):
    conversation = conversing(abilities=None)
    conversation.sandbox.found()  # no run waits for it
    (told,) = notices_of(conversation, "What is it?")
    assert told.startswith("Commands cannot be")
    assert "Landlock" in told
    assert notices_of(conversation, "And now?") == []


def test_it_is_told_in_the_first_run_that_calls_a_tool(messages_server, tmp_path, own_place):
    (tmp_path / "tides.csv").write_text("2.1", "utf-8")
    turns = iter([turn(use("Read", file_path="tides.csv")), say("The tide."), say("The same.")])

    def answer(_body):
        eventually(conversation.sandbox.found_by_now)  # a model thinks longer than the search takes
        return next(turns)

    server = messages_server(answer)
    environ = {"HOME": str(own_place), "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}
    missing = SandboxFound(None, {"Landlock": "this Linux has none"})
    conversation = Conversation(Host(cwd=tmp_path, interface="a test", environ=environ, find_sandbox=lambda: missing))
    assert len(notices_of(conversation, "What is it?")) == 1
    assert notices_of(conversation, "And now?") == []
    conversation.close()


def test_a_search_that_fails_finds_nothing_and_no_run_fails_by_it(messages_server, tmp_path, own_place, caplog):
    server = messages_server([turn(use("LS", path=".")), say("The tide."), say("The same.")])
    environ = {"HOME": str(own_place), "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}

    def find() -> SandboxFound:
        raise FileNotFoundError(2, "No such file", "/tmp/gone")

    conversation = Conversation(Host(cwd=tmp_path, interface="a test", environ=environ, find_sandbox=find))
    told = notices_of(conversation, "What is it?")
    conversation.sandbox.found()
    told += notices_of(conversation, "And now?")
    conversation.close()
    (text,) = told
    assert "sandbox:" in text
    assert "[Errno 2]" in text
    assert {record.name for record in caplog.records} == {in_force.__name__}


def test_where_something_does_nothing_is_told(conversing):
    assert notices_of(conversing(), "What is it?") == []


def test_the_search_for_a_sandbox_is_not_in_the_way_of_the_first_request(messages_server, tmp_path, own_place):
    server = messages_server([say("The tide.")])
    environ = {"HOME": str(own_place), "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}
    runs: list[Run] = []
    has_left: list[bool] = []

    def find() -> SandboxFound:
        has_left.append(runs[0].request_sent.is_set())
        return SandboxFound(LANDLOCK)

    conversation = Conversation(Host(cwd=tmp_path, interface="a test", environ=environ, find_sandbox=find))
    conversation.start(RunRequest(prompt="What is it?"), RunSurface(belongs_to=runs.append)).future.result(60)
    conversation.sandbox.found()
    conversation.close()
    assert has_left == [True]


def test_a_sandbox_that_is_required_and_not_there_ends_the_run_before_it_begins(conversing):
    conversation = conversing(abilities=None, replies=0, sandbox={"enabled": True, "failIfUnavailable": True})
    with pytest.raises(CellwrightError, match="Commands cannot be confined here") as raised:
        conversation.start(RunRequest(prompt="What is it?"), RunSurface())
    assert raised.value.code == ErrorCode.CONFIG_INVALID
    assert "settings.json" in raised.value.message
    assert conversation.sessions.current.encoded == []


def test_a_sandbox_that_is_required_and_there_is_used(conversing):
    conversation = conversing(sandbox={"enabled": True, "failIfUnavailable": True})
    assert notices_of(conversation, "What is it?") == []


@pytest.mark.skipif(
    (found := look_for_sandbox()).abilities is None or not found.abilities.hosts, reason="hosts cannot be bounded here"
)
def test_a_confined_command_that_connects_somewhere_new_asks_while_it_runs(messages_server, tmp_path, own_place):
    (own_place / ".claude").mkdir()
    (own_place / ".claude" / "settings.json").write_text(json.dumps({"sandbox": {"enabled": True}}), "utf-8")
    folder = tmp_path / "project"
    folder.mkdir()
    # the model's own server is as good a host as any
    server = messages_server([])
    port = server.url.rpartition(":")[2]
    command = f"curl -sS -m 20 -o got -w '%{{http_code}}' http://localhost:{port}/"
    server.add(turn(use("Bash", command=command)), turn(use("Bash", command=command)), turn(say("Done.")))
    asked: list[ToolUse] = []

    async def answer(question: ToolUse) -> Allow | Deny:
        asked.append(question)
        (rules,) = {each.rules for each in question.decision.suggestions}
        return (
            Allow(scope="session", rules=rules, by="input") if question.name == "WebFetch" else Deny("no", by="input")
        )

    environ = {
        **{"HOME": str(own_place), "PATH": "/usr/bin:/bin"},
        **{"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key},
    }
    conversation = Conversation(Host(cwd=folder, interface="a test", environ=environ))
    conversation.start(RunRequest(prompt="Fetch it."), RunSurface(can_use_tool=answer)).future.result(60)
    messages = conversation.sessions.current.messages
    conversation.close()
    assert [f"localhost:{port}" in question.preview.title for question in asked] == [True]
    results = [block["content"] for at in (2, 4) for block in messages[at]["content"]]
    assert [result[:3] for result in results] == ["404", "404"]
    assert (folder / "got").exists()
