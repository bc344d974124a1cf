"""`can_use_tool` as ours and as claude-agent-sdk has it: how it is called, and what its answers come to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import cellwright
from cellwright.events import Answered, Asked, ModeChanged, Notice, ToolEnd
from cellwright.testing import MessagesServer, say, use


@dataclass
class ResultAllow:
    """The SDK's shape of a yes."""

    behavior: str = "allow"
    updated_input: dict[str, Any] | None = None
    updated_permissions: list[Any] | None = None


@dataclass
class ResultDeny:
    """The SDK's shape of a no."""

    behavior: str = "deny"
    message: str = ""
    interrupt: bool = False


@dataclass
class Update:
    """The SDK's shape of a change of permissions."""

    fields: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return self.fields


Ask = Callable[..., cellwright.Result]


@pytest.fixture
def ask(
    messages_server: Callable[..., MessagesServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Ask]:
    """Asks with commands that Claude wants to run, and somebody who is asked about them."""
    server = messages_server()
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", server.api_key)
    agents: list[cellwright.Agent] = []

    def run(can_use_tool: Any, *commands: str, **options: Any) -> cellwright.Result:
        server.add(*(use("Bash", command=command) for command in commands), say("Done."))
        agents.append(cellwright.Agent(cwd=tmp_path, session=None, settings={"sandbox": {"enabled": False}}))
        return agents[-1].ask("Go.", can_use_tool=can_use_tool, **options)

    yield run
    for agent in agents:
        agent.close()


def ends(result: cellwright.Result) -> list[str]:
    return [event.status for event in result.events if isinstance(event, ToolEnd)]


def test_three_arguments_and_dicts(ask: Ask, tmp_path: Path) -> None:
    calls: list[tuple[str, dict[str, Any], cellwright.ToolPermissionContext]] = []

    async def can_use_tool(
        name: str, tool_input: dict[str, Any], context: cellwright.ToolPermissionContext
    ) -> dict[str, Any]:
        calls.append((name, tool_input, context))
        if "no" in tool_input["command"]:
            return {"behavior": "deny", "message": "not this one"}
        return {"behavior": "allow", "updatedInput": {**tool_input, "command": "touch changed"}}

    result = ask(can_use_tool, "touch no", "touch yes")
    assert ends(result) == ["denied", "success"]
    assert [path.name for path in tmp_path.iterdir()] == ["changed"]
    (name, tool_input, context), _ = calls
    assert (name, tool_input) == ("Bash", {"command": "touch no"})
    (asked, _) = [event for event in result.events if isinstance(event, Asked)]
    assert (context.tool_use_id, context.decision_reason, context.agent_id) == (
        asked.tool_use["id"],
        asked.reason,
        None,
    )
    assert not context.signal.is_set()
    assert any(isinstance(event, ToolEnd) and "not this one" in str(event.content) for event in result.events)


def test_objects_with_permissions(ask: Ask) -> None:
    async def keep(name: str, tool_input: dict[str, Any], context: cellwright.ToolPermissionContext) -> ResultAllow:
        mode = Update({"type": "setMode", "mode": "acceptEdits", "destination": "session"})
        return ResultAllow(
            updated_permissions=[*map(Update, context.suggestions), mode, Update({"type": "removeRules"})]
        )

    result = ask(keep, "touch a", "touch a")
    assert ends(result) == ["success", "success"]
    (answered,) = [event for event in result.events if isinstance(event, Answered)]
    assert (answered.behavior, answered.scope, answered.by) == ("allow", "session", "callback")
    assert [event.mode for event in result.events if isinstance(event, ModeChanged)] == ["acceptEdits"]
    assert any("removeRules" in event.message for event in result.events if isinstance(event, Notice))


def test_a_no_may_end_the_run(ask: Ask) -> None:
    async def no(use: cellwright.ToolUse) -> ResultDeny:
        return ResultDeny(message="stop it", interrupt=True)

    with pytest.raises(cellwright.RunError) as caught:
        ask(no, "touch a")
    assert caught.value.result is not None
    assert ends(caught.value.result) == ["denied"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (True, "can_use_tool returned True; it returns Allow"),
        ({"behavior": "maybe"}, "it returns Allow"),
        ({"behavior": "allow", "updatedInput": "ls"}, "returned updatedInput 'ls'"),
        ({"behavior": "allow", "updatedPermissions": "all"}, "returned updatedPermissions 'all'"),
    ],
)
def test_what_is_no_answer_is_a_no_and_says_so(ask: Ask, answer: Any, said: str) -> None:
    async def odd(use: cellwright.ToolUse) -> Any:
        return answer

    result = ask(odd, "touch a")
    assert ends(result) == ["denied"]
    assert any(isinstance(event, ToolEnd) and said in str(event.content) for event in result.events)


def test_a_plain_function_answers_as_well(ask: Ask) -> None:
    assert ends(ask(lambda use: cellwright.Allow(), "touch a")) == ["success"]


def test_the_signal_is_set_when_the_run_is_interrupted(
    messages_server: Callable[..., MessagesServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = messages_server([use("Bash", command="touch a"), say("Done.")])
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", server.api_key)
    signals: list[Any] = []
    asked = threading.Event()

    async def wait(name: str, tool_input: dict[str, Any], context: cellwright.ToolPermissionContext) -> None:
        signals.append(context.signal)
        asked.set()
        await context.signal.wait()

    with cellwright.Agent(cwd=tmp_path, session=None, can_use_tool=wait) as agent:
        errors: list[BaseException] = []

        def run() -> None:
            try:
                agent.ask("Go.")
            except cellwright.RunError as error:
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        assert asked.wait(60)
        agent.interrupt()
        thread.join(60)
    assert [str(error.code) for error in errors if isinstance(error, cellwright.RunError)] == ["INTERRUPTED"]
    assert signals[0].is_set()
