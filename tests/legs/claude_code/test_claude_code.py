"""Runs through the program Claude Code: what it is asked, what our loop does with its calls, and how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from notebook_kernel import NotebookKernel, started_kernel

from cellwright.agent.calls.approval import Deny
from cellwright.agent.structured_output import answer_type
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import RunSurface
from cellwright.doctor.examination import ExaminedEnvironment, examine
from cellwright.errors import ErrorCode
from cellwright.events import TextDelta, TurnEnd
from cellwright.testing import Gate, fault, hold, say, think, turn, use
from eventual import eventually
from talk import Talk

pytestmark = [pytest.mark.claude_code, pytest.mark.timeout(300)]

PICTURE = Path(__file__).parents[3] / "docs" / "images" / "todos.png"


def ours(tool: str, **input: object) -> object:
    """A call of our tool, as the model makes it there."""
    return use(f"mcp__cellwright__{tool}", **input)


def results(talk: Talk, at: int = -1) -> list[dict[str, object]]:
    """The results of calls in the last message of the user's side of a request."""
    last = [message for message in talk.body(at)["messages"] if message["role"] == "user"][-1]
    return [block for block in last["content"] if block["type"] == "tool_result"]


def running_programs() -> list[int]:
    """The programs that this process has started and that run."""
    listed = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(os.getpid())], capture_output=True, text=True)
    return [int(line.split()[0]) for line in listed.stdout.splitlines() if "claude" in line]


def test_it_answers_with_our_prompt_and_our_tools_alone(talk: Talk) -> None:
    (talk.project / "CLAUDE.md").write_text("The word is heron.")
    end = talk.say("How are you?", turn(think("Hm."), say("Well, thank you.")))
    assert (end.error, end.text, end.stop_reason) == (None, "Well, thank you.", "end_turn")
    assert "".join(event.text for event in talk.events if isinstance(event, TextDelta)) == "Well, thank you."
    [message] = [event for event in talk.events if isinstance(event, TurnEnd)]
    assert (message.model, message.usage["output_tokens"] > 0) == ("claude-opus-5-5", True)
    assert "You are Claude" in talk.system
    assert all(tool["name"].startswith("mcp__cellwright__") for tool in talk.body()["tools"])
    assert {"mcp__cellwright__Read", "mcp__cellwright__Bash"} <= {tool["name"] for tool in talk.body()["tools"]}
    assert json.dumps(talk.body()).count("The word is heron.") <= 1, "it reads no instructions besides ours"
    assert talk.server.rejected == []
    assert not list(talk.home.glob(".claude/projects/*/*.jsonl")), "it keeps no session of its own"


def test_our_loop_asks_runs_and_denies(talk: Talk) -> None:
    call = ours("Bash", command="echo heron > word.txt", description="write")
    assert talk.say("Write it.", call, say("Written.")).text == "Written."
    assert [question.name for question in talk.asked] == ["Bash"]
    assert (talk.project / "word.txt").read_text() == "heron\n"
    talk.answer = Deny("Not now.")
    again = ours("Bash", command="echo egret > word.txt", description="write")
    assert talk.say("Write another.", again, say("I did not.")).text == "I did not."
    assert (talk.project / "word.txt").read_text() == "heron\n"
    [denied] = results(talk)
    assert denied["is_error"] is True
    assert "Not now." in json.dumps(denied)
    assert talk.server.rejected == []


def test_calls_of_one_message_and_the_next_prompt_stay_with_the_program(talk: Talk) -> None:
    for name in ("one", "two"):
        (talk.project / f"{name}.txt").write_text(f"this is {name}\n")
    both = turn(*(ours("Read", file_path=str(talk.project / f"{name}.txt")) for name in ("one", "two")))
    talk.say("Read both.", both, say("Read."))
    assert ["this is one" in json.dumps(result) for result in results(talk)] == [True, False]
    assert ["this is two" in json.dumps(result) for result in results(talk)] == [False, True]
    end = talk.say("And now?", say("Now nothing."))
    assert end.usage["cache_read_input_tokens"] > 0
    programs = {request.headers["x-claude-code-session-id"] for request in talk.server.requests}
    assert len(programs) == 1
    assert talk.server.rejected == []


def test_a_picture_is_seen(talk: Talk) -> None:
    (talk.project / "picture.png").write_bytes(PICTURE.read_bytes())
    talk.say("Look.", ours("Read", file_path=str(talk.project / "picture.png")), say("I see."))
    [result] = results(talk)
    assert [block["type"] for block in result["content"]].count("image") == 1
    assert talk.server.rejected == []


def test_a_run_that_is_stopped_ends_the_request_and_goes_on_later(talk: Talk) -> None:
    gate = Gate()
    talk.server.add(turn(say("It begins"), hold(gate), say(" and never ends")))
    begun: list[object] = []
    run = talk.conversation.start(RunRequest(prompt="Talk."), RunSurface(begun.append))
    eventually(lambda: any(isinstance(event, TextDelta) for event in begun))
    run.cancel()
    talk.conversation.jobs.work_until_done(run)
    assert run.last_event is not None
    assert run.last_event.stop_reason == "interrupted"
    talk.server.wait_for_disconnect(1)
    gate.open()
    assert talk.say("Go on.", say("I go on.")).text == "I go on."
    assert "It begins" in json.dumps(talk.body()["messages"])


def test_a_stop_while_a_call_runs_ends_the_program(talk: Talk) -> None:
    talk.server.add(ours("Bash", command="sleep 600", description="wait"))
    begun: list[object] = []

    async def allow(use: object) -> object:
        return talk.answer

    run = talk.conversation.start(RunRequest(prompt="Wait."), RunSurface(begun.append, can_use_tool=allow))
    eventually(lambda: any(type(event).__name__ == "ToolStart" for event in begun))
    run.cancel()
    talk.conversation.jobs.work_until_done(run)
    # the session says that the call was interrupted: no result that the waiting program could have got
    assert talk.say("Go on.", say("I go on.")).text == "I go on."
    assert "interrupted" in json.dumps(talk.body()["messages"]).lower()
    assert eventually(running_programs, lambda programs: len(programs) == 1), (
        "that which waited for the call's result is gone"
    )
    assert talk.server.rejected == []


def test_a_session_is_resumed_as_it_was(talk: Talk) -> None:
    (talk.project / "word.txt").write_text("heron\n")
    call = turn(think("I look."), say("I look."), ours("Read", file_path=str(talk.project / "word.txt")))
    first = talk.say("Which word?", call, say("It is heron."))
    talk.close()
    later = Talk.__new__(Talk)
    later.__dict__.update(talk.__dict__, events=[], _made=None)
    try:
        later.server.add(say("It was heron."))
        request = RunRequest(prompt="Which was it?", resume=first.session_id)
        run = later.conversation.start(request, RunSurface(later.events.append))
        later.conversation.jobs.work_until_done(run)
        assert run.result().text == "It was heron."
    finally:
        later.close()
    told = [message for message in talk.body()["messages"] if message["role"] != "system"]
    assert [message["role"] for message in told] == ["user", "assistant", "user", "assistant", "user"]
    assert told[1]["content"][-1]["name"] == "mcp__cellwright__Read"
    assert "heron" in json.dumps(told[2]["content"][0])
    assert told[3]["content"] == [{"type": "text", "text": "It is heron."}]
    assert talk.server.rejected == []


@pytest.mark.parametrize(
    ("key", "code", "says"),
    [
        ("sk-ant-wrong", ErrorCode.API_KEY_INVALID, "Invalid API key"),
        ("", ErrorCode.API_KEY_MISSING, "Not logged in"),
    ],
)
def test_who_is_not_signed_in_reads_how(talk: Talk, key: str, code: ErrorCode, says: str) -> None:
    talk.environ |= {"ANTHROPIC_API_KEY": key, "CELLWRIGHT_MAX_RETRIES": "0"}
    error = talk.say("Hello?").error
    assert error is not None
    assert error["code"] == code
    assert says in error["message"]
    assert "auth login" in error["message"]


def test_an_overloaded_model_is_asked_again_and_told(talk: Talk) -> None:
    end = talk.say("Hello?", fault("status", status=529, retry_after_ms=1), say("Here I am."))
    assert (end.error, end.text) == (None, "Here I am.")
    assert [event.code for event in talk.events if type(event).__name__ == "Retrying"] == [ErrorCode.API_OVERLOADED]


def test_the_doctor_and_status_say_who_is_signed_in(talk: Talk) -> None:
    rows = dict(row for row in talk.page("/status").sections[0].rows if len(row) == 2)
    assert "claude-code" in rows["provider"]
    settings = talk.conversation.in_force.settings
    patient = ExaminedEnvironment(talk.project, {**os.environ, **talk.environ}, settings)
    found = {finding.name: finding for finding in examine(patient, offline=True, seconds=60).findings}
    assert found["Claude Code"].status == "ok"
    assert "an API key" in found["Claude Code"].found
    patient = ExaminedEnvironment(talk.project, {**os.environ, **talk.environ, "ANTHROPIC_API_KEY": ""}, settings)
    found = {finding.name: finding for finding in examine(patient, offline=True, seconds=60).findings}
    assert found["Claude Code"].status == "problem"
    assert "auth login" in found["Claude Code"].advice


def test_a_cell_and_the_terminal_choose_it(talk: Talk) -> None:
    talk.settings()
    environ = {**os.environ, **talk.environ}
    talk.server.add(say("From the terminal."), say("From the cell."))
    command = [sys.executable, "-m", "cellwright.terminal.main", "-p", "Hello?", "--provider", "claude-code"]
    said = subprocess.run(command, cwd=talk.project, env=environ, capture_output=True, text=True, timeout=120)
    assert "From the terminal." in said.stdout, said.stderr
    with started_kernel(talk.project, environ) as (manager, client):
        kernel = NotebookKernel(manager, client)
        assert kernel.run("%load_ext cellwright").status == "ok"
        cell = kernel.run("%%claude --provider claude-code\nHello?")
        assert cell.status == "ok", cell.error
    users = [request.headers["user-agent"] for request in talk.server.requests if request.action == "messages"]
    assert [user.startswith("claude-cli/") for user in users] == [True, True]
    assert talk.server.rejected == []


def test_a_typed_answer_is_asked_for_in_words_and_checked(talk: Talk) -> None:
    schema = answer_type(list[int])
    end = talk.say("Two primes?", say("Two and three."), say("[2, 3]"), answer_type=schema)
    assert (end.error, schema.read(end.text)) == (None, [2, 3])
    assert "JSON schema" in talk.system
    assert talk.server.rejected == []


def test_an_agent_works_in_a_program_of_its_own(talk: Talk) -> None:
    call = ours("Agent", subagent_type="Explore", description="look", prompt="Which files are there?")
    talk.server.add(turn(say("None."), when="Which files are there?"))
    assert talk.say("Have somebody look.", call, turn(say("There are none."), when="None.")).text == "There are none."
    programs = {request.headers["x-claude-code-session-id"] for request in talk.server.requests}
    assert len(programs) == 2
    assert talk.server.rejected == []


def test_the_page_of_costs_says_who_pays(talk: Talk) -> None:
    talk.say("Hello?")
    assert "a subscription pays" in talk.page("/cost").sections[0].text
    assert talk.conversation.sessions.current.cost_usd
