"""An agent of a program's own: what holds for all its prompts, what changes while one is at work, what is taken back."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import cellwright
from cellwright.agent.thread import running_agent_code
from cellwright.events import Event, Notice, RunEnd, TextDelta, ToolEnd, UserPrompt
from cellwright.python_api.ask_options import AGENT_ROWS
from cellwright.testing import Gate, MessagesServer, hold, say, turn, use
from forked.forked_python import program_in

SERVERS = Path(__file__).parents[1] / "shared" / "mcp_servers"
REVIEWER = {"description": "Reviews code.", "prompt": "You review.", "tools": ["Read"], "model": "haiku"}


class Program:
    """A program in a folder of its own, with a scripted model."""

    def __init__(self, server: MessagesServer, folder: Path) -> None:
        self.server, self.folder = server, folder
        self.agents: list[cellwright.Agent] = []

    def agent(self, *script: Any, **options: Any) -> cellwright.Agent:
        self.server.add(*script)
        self.agents.append(cellwright.Agent(cwd=self.folder, **options))
        return self.agents[-1]

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    @property
    def body(self) -> dict[str, Any]:
        return self.server.requests[-1].body

    @property
    def tools(self) -> list[str]:
        return [tool["name"] for tool in self.body.get("tools", ())]


@pytest.fixture
def program(
    messages_server: Callable[..., MessagesServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Program]:
    server = messages_server()
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", server.api_key)
    folder = tmp_path / "project"
    folder.mkdir()
    made = Program(server, folder)
    yield made
    for agent in made.agents:
        agent.close()


def in_thread(work: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """Do `work` beside the test; what it gives, or raises, is in the list when the thread has ended."""
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(work())
        except cellwright.CellwrightError as error:
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, results


def test_options_hold_for_all_prompts_of_one_session(program: Program) -> None:
    agent = program.agent(say("One."), say("Two."), model="haiku", system_prompt="Be brief.", builtin_tools=False)
    first, second = agent.ask("One?"), agent.ask("Two?", max_tokens=100)
    assert (first.text, second.text, first.session_id) == ("One.", "Two.", second.session_id)
    one, two = (request.body for request in program.server.requests)
    assert one["model"] == two["model"] == "claude-haiku-5-5"
    assert one["system"][0]["text"] == "Be brief."
    assert (two["max_tokens"], len(two["messages"])) == (100, 3)
    assert agent.session.path is not None
    assert agent.session.path.exists()
    with cellwright.Agent(cwd=program.folder, session=None) as other:
        assert other.session.path is None


def test_an_earlier_session_is_gone_on_with_or_forked(program: Program) -> None:
    with program.agent(say("One."), say("Two."), say("Three.")) as agent:
        first = agent.ask("One?")
    with program.agent(session=first.session_id[:12]) as again:
        assert again.ask("Two?").session_id == first.session_id
    with program.agent(session=first.session_id, fork=True) as copy:
        assert copy.ask("Three?").session_id != first.session_id
    assert len(program.body["messages"]) == 5
    assert {entry.id for entry in cellwright.Catalog().entries(program.folder)} >= {first.session_id}
    with pytest.raises(cellwright.CellwrightError, match="SESSION_NOT_FOUND"):
        program.agent(session="nonesuch")


def test_a_stream_has_what_the_model_writes_as_it_writes(program: Program) -> None:
    gate = Gate()
    agent = program.agent(turn(say("One, "), hold(gate), say("two.")))

    async def pieces() -> list[Event]:
        found: list[Event] = []
        async for event in agent.stream("Count."):
            found.append(event)
            if isinstance(event, TextDelta):
                gate.open()  # nothing more would come without what was shown
        return found

    events = asyncio.run(pieces())
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "One, two."
    assert isinstance(events[-1], RunEnd)
    assert events[-1].ok


def test_interrupt_from_another_thread_ends_ask_with_what_there_is(program: Program) -> None:
    gate = Gate()
    agent = program.agent(turn(say("So far"), hold(gate), say("…")), say("Yes."))
    thread, results = in_thread(lambda: agent.ask("Go."))
    gate.wait_until_reached()
    assert agent.interrupt()
    thread.join(60)
    gate.open()
    (error,) = results
    assert isinstance(error, cellwright.RunError)
    assert error.code == "INTERRUPTED"
    assert error.result is not None
    assert error.result.stop_reason == "interrupted"
    assert agent.ask("Still there?").text == "Yes."
    assert not agent.interrupt()


def test_interrupt_from_another_task_ends_a_stream(program: Program) -> None:
    gate = Gate()
    agent = program.agent(turn(say("So far"), hold(gate), say("…")))

    async def run() -> Event:
        last: Event | None = None
        async for event in agent.stream("Go."):
            last = event
            if isinstance(event, TextDelta):
                agent.interrupt()
        assert last is not None
        return last

    end = asyncio.run(run())
    gate.open()
    assert isinstance(end, RunEnd)
    assert end.stop_reason == "interrupted"


def test_a_prompt_that_waits_is_not_interrupted(program: Program) -> None:
    gate = Gate()
    agent = program.agent(turn(say("One"), hold(gate), say("…")), say("Two."))
    first, one = in_thread(lambda: agent.ask("One?"))
    gate.wait_until_reached()
    second, two = in_thread(lambda: agent.ask("Two?"))
    agent.interrupt()
    first.join(60)
    second.join(60)
    gate.open()
    assert isinstance(one[0], cellwright.RunError)
    assert two[0].text == "Two."


def test_model_and_mode_change_between_prompts_and_while_one_is_at_work(program: Program) -> None:
    note = program.write("note.txt", "old\n")
    gate = Gate()
    agent = program.agent(
        turn(hold(gate), use("Read", file_path=str(note))),
        use("Edit", file_path=str(note), old_string="old", new_string="new"),
        say("Done."),
        say("Planned."),
        mode="plan",
        model="opus",
    )
    thread, results = in_thread(lambda: agent.ask("Change it."))
    gate.wait_until_reached()
    agent.set_mode("acceptEdits")
    agent.set_model("sonnet")
    gate.open()
    thread.join(60)
    assert results[0].text == "Done."
    assert note.read_text() == "new\n"
    models = [request.body["model"] for request in program.server.requests]
    assert models == ["claude-opus-5-5", "claude-sonnet-5-5", "claude-sonnet-5-5"]
    agent.set_mode("plan")
    prompt = agent.ask("And now?").events[0]
    assert isinstance(prompt, UserPrompt)
    assert (prompt.mode, prompt.model, agent.model) == ("plan", "claude-sonnet-5-5", "claude-sonnet-5-5")
    agent.set_model(None)
    assert agent.model == "claude-opus-5-5"
    with pytest.raises(cellwright.CellwrightError, match="nonesuch"):
        agent.set_mode("nonesuch")


def test_code_that_claude_runs_cannot_loosen_its_own_bounds(program: Program) -> None:
    agent = program.agent()
    for way in (lambda: agent.set_mode("acceptEdits"), agent.interrupt, lambda: agent.rewind(1)):
        with running_agent_code(), pytest.raises(cellwright.CellwrightError, match="Code that Claude runs cannot"):
            way()


def test_rewind_takes_back_files_and_messages(program: Program) -> None:
    a, b = program.folder / "a.txt", program.folder / "b.txt"
    agent = program.agent(
        use("Write", file_path=str(a), content="a\n"),
        say("One."),
        use("Write", file_path=str(b), content="b\n"),
        say("Two."),
        say("Three."),
        mode="acceptEdits",
    )
    agent.ask("Write a."), agent.ask("Write b.")
    assert agent.rewind(2, "code").changed == ("b.txt",)
    assert (a.exists(), b.exists(), len(agent.session.messages)) == (True, False, 8)
    agent.rewind(2, "conversation")
    assert len(agent.session.messages) == 4
    assert agent.rewind(1) == cellwright.Rewound(("a.txt",))
    assert (a.exists(), agent.session.messages) == (False, [])
    with pytest.raises(cellwright.CellwrightError, match="Turn 7 was not found"):
        agent.rewind(7)
    assert agent.ask("Once more?").text == "Three."


def test_a_fork_goes_its_own_way_with_the_same_options(program: Program) -> None:
    agent = program.agent(say("One."), say("Two."), say("Three."), append_system_prompt="Be kind.", mode="plan")
    agent.ask("One?")
    with agent.fork(model="haiku") as fork:
        fork.ask("Two?")
        assert program.body["model"] == "claude-haiku-5-5"
        assert program.body["system"][-1]["text"] == "Be kind."
        fork.session.rewind(2)
        assert [message["role"] for message in fork.session.messages] == ["user", "assistant"]
        events = fork.ask("Three?").events
    assert isinstance(events[0], UserPrompt)
    assert events[0].mode == "plan"
    assert len(agent.session.messages) == 2


def test_agents_are_defined_in_python(program: Program) -> None:
    camel = SimpleNamespace(description="Tests.", prompt="You test.", tools=None, disallowedTools=["Bash"], maxTurns=3)
    agent = program.agent(
        use("Agent", description="look", prompt="Look at it.", subagent_type="reviewer"),
        say("It is fine."),
        say("Reviewed."),
        agents={"reviewer": REVIEWER, "tester": camel},
    )
    assert agent.ask("Review.").text == "Reviewed."
    first, within, _last = (request.body for request in program.server.requests)
    told = json.dumps(first["messages"][0])
    assert "reviewer: Reviews code." in told
    assert "tester: Tests." in told
    assert within["model"] == "claude-haiku-5-5"
    assert within["system"][0]["text"].startswith("You review.")
    assert [tool["name"] for tool in within["tools"]] == ["Read"]
    assert "the program's" in agent.command("/agents").plain()


def test_mcp_servers_come_with_a_run_and_go_with_it(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("CELLWRIGHT_MCP_WAIT", "120"), ("MCP_TIMEOUT", "120000")):
        monkeypatch.setenv(name, value)
    entry = {"command": program_in(os.environ), "args": [str(SERVERS / "plain_server.py")]}
    file = program.write("servers.json", json.dumps({"mcpServers": {"plain": entry}}))
    agent = program.agent(say("One."), say("Two."), say("Three."), builtin_tools=False, tools=["Read"])
    agent.ask("One?", mcp_servers={"plain": entry})
    assert "Read" in program.tools
    assert [name for name in program.tools if name.startswith("mcp__plain__")]
    agent.ask("Two?", mcp_servers=file)
    assert "plain" in agent.command("/mcp").plain()
    agent.ask("Three?")
    assert "connected" not in agent.command("/mcp").plain()


def test_hooks_and_schema_and_limits_are_options(program: Program) -> None:
    asked: list[str] = []

    async def no_shell(given: dict[str, Any], tool_use_id: str | None, context: dict[str, Any]) -> dict[str, Any]:
        asked.append(given["tool_name"])
        output = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "not here"}
        return {"hookSpecificOutput": output}

    foreign = SimpleNamespace(matcher="Bash", hooks=[no_shell], timeout=5.0)  # as another library has it
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    agent = program.agent(
        turn(use("Bash", command="ls"), use("Glob", pattern="*")),
        say('{"n": 3}'),
        say('{"n": 4}'),
        hooks={"PreToolUse": [foreign]},
        output_schema={"type": "json_schema", "schema": schema},
    )
    result = agent.ask("How many?")
    assert (asked, result.value) == (["Bash"], {"n": 3})
    assert agent.ask("And now?", schema=schema).value == {"n": 4}
    assert [event.status for event in result.events if isinstance(event, ToolEnd)] == ["denied", "success"]


def test_settings_and_sources_are_the_programs(program: Program) -> None:
    (program.folder / ".claude").mkdir()
    program.write(".claude/settings.json", json.dumps({"cellwright": {"maxTurns": 1}, "model": "haiku"}))
    agent = program.agent(say("One."), setting_sources=[], settings={"model": "sonnet"})
    agent.ask("One?")
    assert program.body["model"] == "claude-sonnet-5-5"
    with pytest.raises(TypeError, match="setting_sources is 'user'"):
        program.agent(setting_sources="user")


def test_what_is_meant_otherwise_is_said_by_its_name(program: Program) -> None:
    wrong: dict[str, Any] = {
        "max_turns": "3",
        "budget": "1 USD",
        "tools": [print],
        "allow": "Glob",
        "hooks": [],
        "agents": [],
        "mcp_servers": 3,
        "can_use_tool": lambda name, tool_input: None,
        "system_prompt": 3,
        "session": 3,
        "settings": "x",
    }
    for name, value in wrong.items():
        with pytest.raises(TypeError, match=name):
            program.agent(**{name: value})
    for name, value in {"budget": 0, "on_denied": "never", "agents": {"x": {"description": "x"}}, "mode": "x"}.items():
        with pytest.raises(cellwright.CellwrightError, match=name):
            program.agent(**{name: value})
    with pytest.raises(TypeError, match="unknown option: modell"):
        program.agent(modell="opus")
    with pytest.raises(cellwright.CellwrightError, match="mine is no server in this process"):
        program.agent(mcp_servers={"mine": {"type": "sdk", "name": "mine"}})
    assert not program.server.requests


def test_context_and_commands(program: Program) -> None:
    agent = program.agent(say("One."))
    agent.ask("One?")
    usage = agent.context_usage()
    assert usage.window is not None
    assert 0 < usage.tokens < usage.window
    assert usage.share == usage.tokens / usage.window
    assert sum(usage.parts.values()) == pytest.approx(usage.tokens, abs=5)
    assert "Cost" in agent.command("/cost").plain()
    with pytest.raises(cellwright.CellwrightError, match="Command '!rm x' was not found"):
        agent.command("!rm x")
    assert not [event for event in agent.session.messages if isinstance(event, Notice)]


def test_changed_from_within_can_use_tool(program: Program) -> None:
    """On the agent's own thread, where nothing can be waited for."""

    async def allow_all_edits(use: cellwright.ToolUse) -> cellwright.Allow:
        agent.set_mode("acceptEdits")
        return cellwright.Allow()

    files = [program.folder / name for name in "ab"]
    agent = program.agent(
        *(use("Write", file_path=str(file), content="x") for file in files), say("Done."), can_use_tool=allow_all_edits
    )
    agent.ask("Go.")
    assert all(file.exists() for file in files)


def test_what_has_ended_in_the_background_is_waited_for_and_told(program: Program) -> None:
    gate = program.folder / "gate"
    command = f"while [ ! -e {gate} ]; do sleep 0.05; done"
    agent = program.agent(
        use("Bash", command=command, run_in_background=True),
        say("It runs."),
        say("It has ended."),
        allow=["Bash"],
        settings={"sandbox": {"enabled": False}},
    )
    assert agent.wait_for_background() == ()
    agent.ask("Start it.")
    assert agent.wait_for_background(0) == ()
    gate.touch()
    (told,) = agent.wait_for_background()
    assert "has ended with exit code 0" in told
    assert len(program.server.requests) == 2, "nothing is asked by itself"
    agent.ask("And?")
    assert "<background_command>" in json.dumps(program.body["messages"][-1])
    assert agent.wait_for_background() == ()


BACKGROUND = use("Agent", description="count", prompt="Count.", subagent_type="general-purpose", run_in_background=True)
AGENTS_WORK = (BACKGROUND, turn(say("There are 7."), when="Count."), turn(say("Seven."), when="There are 7."))
SLEEP = use("Bash", command="sleep 1000", run_in_background=True)
ASKS_ONCE = {
    "ask": "import cellwright\nprint(cellwright.ask('go', session=None, allow=['Bash(sleep *)']).text)",
    "stream": "import asyncio, cellwright\n"
    "async def main():\n"
    "    async for event in cellwright.stream('go'):\n"
    "        if isinstance(event, cellwright.events.RunEnd):\n"
    "            print(event.text)\n"
    "asyncio.run(main())",
    "map": "import cellwright\nprint(*(each.text for each in cellwright.map(['go'], tools=['Agent'])))",
    "query": "import asyncio, cellwright.claude_agent_sdk as sdk\n"
    "async def main():\n"
    "    async for message in sdk.query(prompt='go'):\n"
    "        if isinstance(message, sdk.ResultMessage):\n"
    "            print(message.result)\n"
    "asyncio.run(main())",
}


def run_program(program: Program, text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", text], cwd=program.folder, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.parametrize("way", ASKS_ONCE)
def test_a_program_that_asks_once_has_the_results_of_its_agents(program: Program, way: str) -> None:
    program.server.add(*AGENTS_WORK)
    done = run_program(program, ASKS_ONCE[way])
    told = [line for line in done.stderr.splitlines() if "of 1" not in line]  # but for the progress of `map`
    assert (done.stdout, told, program.server.rejected) == ("Seven.\n", [], [])


def test_a_command_that_ends_with_the_program_is_named(program: Program) -> None:
    program.server.add(SLEEP, say("It runs."))
    done = run_program(program, ASKS_ONCE["ask"])
    assert done.stdout == "It runs.\n"
    assert done.stderr == "cellwright: `sleep 1000` was still running: it ends with this program.\n"


def test_an_agent_that_is_closed_warns_of_what_it_ends(program: Program) -> None:
    gate = Gate()
    counts = turn(hold(gate), say("7"), when="Count.")
    agent = program.agent(BACKGROUND, counts, turn(say("It counts."), when="works in the"))
    assert agent.ask("How many?").text == "It counts."
    with pytest.warns(RuntimeWarning, match=r"general-purpose \(count\) had not finished: it ends with this agent"):
        agent.close()
    gate.open()


def test_an_empty_text_is_never_the_default(program: Program) -> None:
    means_none = {"system_prompt", "append_system_prompt"}
    for row in AGENT_ROWS:
        if row.name not in means_none:
            with pytest.raises((TypeError, cellwright.CellwrightError), match=r"Nothing was sent|is not|it is"):
                program.agent(**{row.name: ""})
            if row.kind.trait == "texts" and row.name != "tools":
                with pytest.raises(TypeError, match=f"{row.name} is .*Nothing was sent"):
                    program.agent(**{row.name: [""]})
    assert not program.server.requests
