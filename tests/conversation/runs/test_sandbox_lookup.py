"""What a run makes of the sandbox: the rules its policy gets, what is told where there is none, and what is then refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.calls.approval import Allow, Deny, ToolUse
from cellwright.conversation.core import Host
from cellwright.conversation.resolve_options import sandbox_rules
from cellwright.conversation.runs import sandbox_lookup
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import Run, RunSurface
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.conversation.runs.sandbox_lookup import SandboxFound, look_for_sandbox
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Notice
from cellwright.features.conversation import Conversation
from cellwright.permissions.sandboxing import SandboxAbilities, SandboxRules
from cellwright.testing import say, turn, use
from eventual import eventually

LANDLOCK = SandboxAbilities(name="Landlock", hides=False, protects=False, hosts=False)


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
    assert {record.name for record in caplog.records} == {sandbox_lookup.__name__}


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
