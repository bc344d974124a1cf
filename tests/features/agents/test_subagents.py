"""Agents that work for Claude: alone, side by side, nested, in the background; what they may, what they cost."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.calls.approval import Allow
from cellwright.commands.command import CommandCall
from cellwright.commands.extensions.pages import agents_page
from cellwright.commands.sessions.conversation import tasks_page
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import CellwrightError
from cellwright.events import Answered, Asked, Event, Notice, RunEnd, SubagentEvent, ToolEnd, ToolStart, TurnEnd
from cellwright.sessions.catalog.catalog import delete_session
from cellwright.telemetry.json_lines import JsonLines
from cellwright.testing import Gate, MessagesServer, hold, say, turn, use
from project_talk import ProjectTalk


class Talk(ProjectTalk):
    """With agents of the user's own."""

    def define(self, name: str, front: str = "", body: str = "You work.") -> None:
        self.write(f".claude/agents/{name}.md", f"---\nname: {name}\ndescription: Does {name}.\n{front}\n---\n{body}\n")

    def within(self, kind: type[Event]) -> list[Any]:
        return [e.event for e in self.events if isinstance(e, SubagentEvent) and isinstance(e.event, kind)]

    def request(self, words: str) -> dict[str, Any]:
        """The newest request whose first message has these words."""
        return next(r.body for r in reversed(self.server.requests) if words in json.dumps(r.body["messages"][0]))


@pytest.fixture
def talk(messages_server: Callable[..., MessagesServer], tmp_path: Path) -> Iterator[Talk]:
    made = Talk(messages_server(), tmp_path)
    yield made
    made.end()


def hand(prompt: str, kind: str = "general-purpose", **more: Any) -> Any:
    return use("Agent", description="a task", prompt=prompt, subagent_type=kind, **more)


def begin_slow_agent(talk: Talk) -> tuple[Gate, Any]:
    """An agent that works in the background until the gate is opened."""
    talk.begin()
    gate = Gate()
    talk.say(
        "Go",
        hand("slow task", run_in_background=True),
        turn(hold(gate), say("never"), when="slow task"),
        turn(say("It works."), when="works in the background"),
    )
    (working,) = talk.conversation.features.subagents.background
    return gate, working


def agent_id(result: ToolEnd) -> str:
    return str(result.structured["agent_id"])


def test_an_agent_has_its_own_prompt_tools_and_session(talk: Talk) -> None:
    talk.define("reader", "tools: Read, Grep, Agent, AskUserQuestion\nmodel: sonnet\neffort: low", "You only read.")
    talk.write("project/CLAUDE.md", "Be kind.")
    talk.write("project/a.txt", "the secret is 7")
    talk.begin()
    end = talk.say(
        "Go",
        hand("What is the secret?", "reader"),
        use("Read", file_path=str(talk.project / "a.txt")),
        say("It is 7."),
        say("Seven."),
    )
    (result,) = talk.results
    assert (end.text, result.status) == ("Seven.", "success")
    assert str(result.content).startswith("It is 7.\n\n[agentId: ")
    shown = [result.structured[key] for key in ("status", "agent_type", "total_tool_use_count")]
    assert shown == ["completed", "reader", 1]
    body = talk.request("What is the secret?")
    assert body["model"] == "claude-sonnet-5-5"
    assert body["output_config"]["effort"] == "low"
    assert body["system"][0]["text"].startswith("You only read.")
    assert [tool["name"] for tool in body["tools"]] == ["Read", "Grep", "Agent"]
    told = json.dumps(body["messages"][0])
    assert "<environment>" in told
    assert "<agents digest" in told
    assert [each.name for each in talk.within(ToolEnd)] == ["Read"]
    session = talk.conversation.sessions.current
    assert session.path is not None
    assert [path.stem for path in session.path.parent.glob("*.jsonl")] == [session.id]
    assert (session.path.parent / session.id / "subagents" / f"{agent_id(result)}.jsonl").is_file()


def test_an_agent_that_works_itself_has_its_prompt_tools_hooks_and_no_looser_mode(talk: Talk) -> None:
    hook = "hooks:\n  PreToolUse:\n    - hooks:\n        - type: command\n          command: echo guarded >&2; exit 2"
    front = f"tools: Read, LS, Write\ndisallowedTools: LS\nmodel: sonnet\npermissionMode: bypassPermissions\n{hook}"
    talk.define("reader", front, "You only read.")
    talk.begin()
    talk.say("Hello")
    before = talk.conversation.sessions.current
    talk.say("Go", use("Write", file_path="a.txt", content="a"), say("No."), agent="reader")
    body = talk.server.requests[-1].body
    assert (body["model"], body["system"][0]["text"].strip()) == ("claude-sonnet-5-5", "You only read.")
    assert [tool["name"] for tool in body["tools"]] == ["Read", "Write"]
    (result,) = talk.results
    assert "guarded" in str(result.content)
    assert talk.conversation.sessions.current is not before, "a session keeps its own prompt and tools"
    talk.say("Go", use("Read", file_path="a.txt"), say("No."), agent="reader", mode="plan", model="opus")
    assert talk.server.requests[-1].body["model"] == "claude-opus-5-5"
    talk.define("loose", "permissionMode: bypassPermissions")
    talk.begin()
    talk.say("Go", use("Write", file_path="b.txt", content="b"), say("Done."), agent="loose")
    assert [each.name for each in talk.asked] == ["Write"]
    with pytest.raises(CellwrightError, match="Agent raeder was not found"):
        talk.run("Go", agent="raeder")


def test_an_agent_that_works_itself_stays_for_its_session_with_its_skills_and_notes(talk: Talk) -> None:
    talk.define("keeper", "tools: Read\nskills: [tides]\nmemory: user\ninitialPrompt: Look around first.", "You keep.")
    talk.write(".claude/skills/tides/SKILL.md", "---\nname: tides\ndescription: Tides.\n---\nThe tide turns at six.\n")
    talk.write(".claude/agent-memory/keeper/MEMORY.md", "The gauge is in Brest.")
    talk.begin()
    talk.say("Go", agent="keeper")
    first = talk.server.requests[-1].body
    told = json.dumps(first["messages"])
    assert [told.count(each) for each in ("turns at six", "gauge is in Brest", "Look around first")] == [1, 1, 1]
    assert [tool["name"] for tool in first["tools"]] == ["Read", "Write", "Edit"]
    session = talk.conversation.sessions.current.id
    talk.conversation.close()
    talk.begin()
    talk.say("And then?", resume=session)
    body = talk.server.requests[-1].body
    assert (body["system"], body["tools"]) == (first["system"], first["tools"])
    assert json.dumps(body["messages"]).count("turns at six") == 1
    assert talk.conversation.sessions.current.id == session
    (talk.home / ".claude/agents/keeper.md").unlink()
    talk.say("Still there?")
    assert any("Agent keeper was" in str(getattr(event, "message", "")) for event in talk.events)
    talk.define("keeper", "", "You keep.")
    talk.write(".claude/settings.json", json.dumps({"agent": "keeper"}))
    talk.begin()
    talk.say("Anew")
    assert talk.server.requests[-1].body["system"][0]["text"].strip() == "You keep."


def test_agents_of_one_message_work_at_the_same_time(talk: Talk) -> None:
    talk.begin()
    first, second = Gate(), Gate()
    run = talk.start(
        "Go",
        turn(hand("task one"), hand("task two")),
        turn(hold(first), say("one done"), when="task one"),
        turn(hold(second), say("two done"), when="task two"),
        say("Both."),
    )
    first.wait_until_reached()
    second.wait_until_reached()
    second.open()
    first.open()
    talk.conversation.jobs.work_until_done(run)
    assert run.result().text == "Both."
    assert {str(each.content).splitlines()[0] for each in talk.results} == {"one done", "two done"}
    (start,) = (event for event in talk.events if isinstance(event, ToolStart))
    assert start.parallel


def test_what_agents_spend_is_the_runs(talk: Talk) -> None:
    talk.begin()
    end = talk.say("Go", hand("task"), use("LS", path="."), say("Done."), say("End."))
    turns = [*talk.within(TurnEnd), *(event for event in talk.events if isinstance(event, TurnEnd))]
    assert len(turns) == 4
    assert end.cost_usd == pytest.approx(sum(each.cost_usd for each in turns))
    assert end.session_cost_usd == pytest.approx(end.cost_usd)
    assert end.usage["output_tokens"] == sum(each.usage["output_tokens"] for each in turns)


def test_the_budget_is_that_of_all_together(talk: Talk) -> None:
    talk.begin()
    gate = Gate()
    run = talk.start(
        "Go",
        turn(hand("a task"), hand("a task")),
        turn(hold(gate), say("First."), usage={"output_tokens": 4_000}),
        turn(say("Second."), usage={"output_tokens": 10}),
        say("End."),
        budget_usd=0.4,
    )
    gate.wait_until_reached()
    gate.open()
    talk.conversation.jobs.work_until_done(run)
    end = run.result()
    assert (end.text, [each.status for each in talk.results]) == ("End.", ["success", "success"])
    first, second = (r.body["max_tokens"] for r in talk.server.requests[1:3])
    assert first < 32_000
    # it waited until what the first had set aside was known not to be spent
    assert second < first - 3_000
    assert end.cost_usd is not None
    assert end.cost_usd <= 0.4


def test_depth_is_limited(talk: Talk) -> None:
    talk.begin()
    talk.say("Go", hand("outer task"), hand("inner task"), say("inner."), say("outer."), say("End."))
    assert "Agent" in [tool["name"] for tool in talk.request("outer task")["tools"]]
    assert "Agent" not in [tool["name"] for tool in talk.request("inner task")["tools"]]
    nested = [e for e in talk.within(SubagentEvent) if isinstance(e.event, RunEnd)]
    assert [each.event.text for each in nested] == ["inner."]


def test_a_question_says_who_asks_and_a_yes_holds_for_all(talk: Talk) -> None:
    talk.begin()
    talk.answer = Allow(scope="session", rules=("Bash(touch *)",))
    touch = use("Bash", command="touch made")
    talk.say("Go", hand("task"), touch, say("Done."), touch, hand("task"), touch, say("Done."), say("End."))
    assert [each.status for each in (*talk.results, *talk.within(ToolEnd))] == ["success"] * 5
    (asked,) = (event for event in talk.events if isinstance(event, Asked))
    (answered,) = (event for event in talk.events if isinstance(event, Answered))
    call = next(event.calls[0].id for event in talk.events if isinstance(event, ToolStart))
    assert asked.preview.title.startswith("Agent general-purpose: ")
    assert (asked.tool_use["id"], answered.tool_use_id) == (call, call)
    assert (asked.tool_use["name"], answered.question_id) == ("Bash", asked.question_id)
    assert [use.preview.title for use in talk.asked] == [asked.preview.title]
    assert (talk.project / "made").exists()


def test_a_denial_reaches_the_agent(talk: Talk) -> None:
    talk.begin()
    talk.say("Go", hand("task"), use("Bash", command="touch made"), say("Could not."), say("End."))
    (denied,) = talk.within(ToolEnd)
    assert denied.status == "denied"
    assert not (talk.project / "made").exists()


def test_a_definition_can_only_tighten(talk: Talk) -> None:
    talk.define("loose", "permissionMode: bypassPermissions")
    talk.define("strict", "permissionMode: plan")
    talk.begin()
    touch = use("Bash", command="touch made")
    talk.say("Go", hand("task", "loose"), touch, say("No."), say("End."))
    assert [each.status for each in talk.within(ToolEnd)] == ["denied"]
    assert len(talk.asked) == 1
    talk.say("Go", hand("task", "strict"), touch, say("No."), say("End."), mode="acceptEdits", allow=("Bash(touch *)",))
    assert [each.status for each in talk.within(ToolEnd)] == ["denied"]
    assert len(talk.asked) == 1


def test_an_agent_does_no_more_than_the_rules_among_its_tools_say(talk: Talk) -> None:
    talk.define("keeper", "tools: Bash(echo *), Write(./notes/**), Read, Python(x)", "You keep notes.")
    talk.begin()
    inside = [
        use("Bash", command="echo one && echo two"),
        use("Write", file_path="notes/a.txt", content="a"),
        use("Read", file_path="notes/a.txt"),
    ]
    outside = [
        use("Bash", command="echo one; ls"),
        use("Bash", command="echo one > notes/b.txt"),
        use("Bash", command="x=1; echo $x"),
        use("Write", file_path="b.txt", content="b"),
        use("Write", file_path="notes/../b.txt", content="b"),
    ]
    expected = ["success"] * len(inside) + ["denied"] * len(outside)
    allow = ["Bash", "Edit"]
    talk.say("Go", hand("Keep", "keeper"), *inside, *outside, say("Kept."), say("Done."), allow=allow)
    ended = talk.within(ToolEnd)
    assert [each.status for each in ended] == expected
    assert "only for `Bash(echo *)`" in str(ended[len(inside)].content)
    talk.conversation.close()
    (talk.project / "notes" / "a.txt").unlink()
    talk.begin()
    talk.say("Go", *inside, *outside, say("Kept."), allow=allow, agent="keeper")
    assert [each.status for each in talk.results] == expected
    definition = talk.conversation.features.agents.found().agents["keeper"]
    assert list(definition.tool_rules) == ["Bash", "Write", "Python"]
    assert [why for why in definition.unclear if "Python(x)" in why]


def test_a_rule_keeps_an_agent_away(talk: Talk) -> None:
    talk.begin()
    talk.say("Go", hand("task", "Explore"), say("End."), deny=("Agent(Explore)",))
    assert [each.status for each in talk.results] == ["denied"]
    assert "- Explore" not in json.dumps(talk.request("Go")["messages"][0])
    assert "- Plan" in json.dumps(talk.request("Go")["messages"][0])


def test_what_one_read_the_other_may_edit(talk: Talk) -> None:
    file = talk.write("project/a.txt", "one\n")
    talk.begin()
    talk.say(
        "Go",
        hand("task"),
        use("Read", file_path=str(file)),
        say("Read."),
        use("Edit", file_path=str(file), old_string="one", new_string="two"),
        say("End."),
        mode="acceptEdits",
    )
    assert file.read_text() == "two\n"


def test_what_an_agent_changes_is_undone_with_the_turn(talk: Talk) -> None:
    talk.begin()
    talk.say(
        "Go",
        hand("task"),
        use("Write", file_path=str(talk.project / "new.txt"), content="x"),
        use("Bash", command="touch other"),
        say("Done."),
        say("End."),
        mode="acceptEdits",
        allow=("Bash(touch *)",),
    )
    (changed,) = (event for event in talk.events if type(event).__name__ == "TurnChanged")
    assert [file.where for file in changed.files] == ["new.txt"]
    assert changed.effects == ("Bash: touch other",)


def test_stopping_the_run_stops_its_agents(talk: Talk) -> None:
    talk.begin()
    gate = Gate()
    run = talk.start("Go", hand("task"), turn(say("I begin"), hold(gate)))
    gate.wait_until_reached()
    run.cancel()
    talk.conversation.jobs.work_until_done(run)
    with pytest.raises(CancelledError):
        run.result()
    assert [end.stop_reason for end in talk.within(RunEnd)] == ["interrupted"]
    assert [each.status for each in talk.results] == ["interrupted"]
    gate.open()
    talk.say("Again", say("Good."))


def test_max_turns_of_a_definition(talk: Talk) -> None:
    talk.define("short", "maxTurns: 1")
    talk.begin()
    talk.say("Go", hand("task", "short"), turn(say("Looking."), use("LS", path=".")), say("End."))
    (result,) = talk.results
    assert result.status == "error"
    assert "Stopped after 1 requests" in str(result.content)
    assert "Looking." in str(result.content)


def test_an_agent_goes_on_where_it_was(talk: Talk) -> None:
    talk.begin()
    talk.say("Go", hand("first task", "Explore"), say("Found."), say("End."))
    known = agent_id(talk.results[0])
    talk.say("More", hand("and then?", "Explore", resume=known), say("More found."), say("End."))
    assert str(talk.results[0].content).startswith("More found.")
    texts = json.dumps(talk.request("first task")["messages"])
    assert "Found." in texts
    assert "and then?" in texts
    talk.say("More", hand("x", resume=known), hand("x", resume="../../x"), hand("x", resume="no"), say("End."))
    messages = [str(each.content) for each in talk.results]
    assert "the type Explore" in messages[0]
    assert all("can be resumed" in each for each in messages[1:])


def test_an_agent_in_the_background_is_told_when_it_has_ended(talk: Talk) -> None:
    talk.begin()
    gate = Gate()
    talk.say(
        "Go",
        hand("slow task", run_in_background=True),
        turn(hold(gate), say("Slowly done."), when="slow task"),
        say("It works."),
    )
    (result,) = talk.results
    assert "in the background" in str(result.content)
    (working,) = talk.conversation.features.subagents.background
    assert not working.task.done()
    gate.open()
    ended = talk.conversation.thread.submit(_ended(working.task)).future
    ended.result(60)
    talk.say("And?", say("Done."))
    told = json.dumps(talk.server.requests[-1].body["messages"][-1])
    assert re.search(r'<agent id=\\"[\w-]+\\" type=\\"general-purpose\\">.*has ended.*Slowly done\.', told)
    talk.say("And?", say("Done."))
    assert "Slowly done." not in json.dumps(talk.server.requests[-1].body["messages"][-1])
    cost = talk.conversation.sessions.current.cost_usd
    assert cost is not None


async def _ended(task: Any) -> None:
    import asyncio

    await asyncio.wait([task])


def test_an_agent_in_the_background_is_stopped_and_asks_nobody(talk: Talk) -> None:
    talk.begin()
    gate = Gate()
    talk.say(
        "Go",
        hand("slow task", run_in_background=True),
        turn(use("Bash", command="touch made"), when="slow task"),
        turn(hold(gate), say("never"), when="Nobody can be asked"),
        turn(say("It works."), when="works in the background"),
    )
    gate.wait_until_reached()
    assert talk.asked == []
    (working,) = talk.conversation.features.subagents.background
    talk.say("Stop it", use("TaskStop", task_id=working.id), say("Stopped."))
    assert f"The agent general-purpose ({working.id}) was stopped (by TaskStop)." in str(talk.results[0].content)
    gate.open()


def test_an_agent_that_the_user_names_is_wanted(talk: Talk) -> None:
    talk.begin()
    talk.say("Have @agent-Explore look, and @agent-nobody.", say("Good."))
    last = json.dumps(talk.server.requests[-1].body["messages"][-1])
    assert '<wanted agent=\\"Explore\\">' in last
    assert any("@agent-nobody: there" in getattr(event, "message", "") for event in talk.events)


def test_hooks_are_told_of_agents(talk: Talk) -> None:
    script = talk.write("hook.sh", f"cat >> {talk.home}/told; echo >> {talk.home}/told\n")
    hooks = {
        event: [{"hooks": [{"type": "command", "command": f"sh {script}"}]}]
        for event in ("SubagentStart", "SubagentStop", "PreToolUse", "UserPromptSubmit", "Stop")
    }
    talk.write(".claude/settings.json", json.dumps({"hooks": hooks}))
    talk.begin()
    talk.say("Go", hand("task", "Explore"), use("LS", path="."), say("Done."), say("End."))
    told = [json.loads(line) for line in (talk.home / "told").read_text().splitlines() if line.strip()]
    names = [(each["hook_event_name"], each.get("agent_type")) for each in told]
    assert names == [
        ("UserPromptSubmit", None),
        ("PreToolUse", None),
        ("SubagentStart", "Explore"),
        ("PreToolUse", "Explore"),
        ("SubagentStop", "Explore"),
        ("Stop", None),
    ]
    assert len({each["session_id"] for each in told}) == 1
    stop = told[4]
    assert Path(stop["agent_transcript_path"]).stem == stop["agent_id"]


def test_json_lines_carry_what_an_agent_does(talk: Talk) -> None:
    talk.begin()
    talk.say("Go", hand("task"), use("LS", path="."), say("Done."), say("End."))
    lines_of = JsonLines()
    lines = [line for event in talk.events for line in lines_of.lines(event)]
    inner = [line["data"]["event"]["type"] for line in lines if line["type"] == "subagent_event"]
    assert [each for each in inner if each.startswith("tool")] == ["tool_execution_start", "tool_completion"]
    assert [line["type"] for line in lines].count("session_complete") == 1


def test_the_older_name_is_taken(talk: Talk) -> None:
    talk.begin()
    talk.say("Go", use("Task", description="a task", prompt="task"), say("Done."), say("End."))
    assert [each.status for each in talk.results] == ["success"]


def test_a_skill_that_forks_is_done_by_its_agent(talk: Talk) -> None:
    talk.write(".claude/skills/look/SKILL.md", "---\ndescription: L.\ncontext: fork\nagent: Explore\n---\nLook at $0.")
    talk.begin()
    touch = use("Write", file_path=str(talk.project / "x"), content="x")
    talk.say("Go", use("Skill", skill="look", args="a.py"), touch, say("Seen."), say("End."), allow=("Skill",))
    (result,) = talk.results
    assert (str(result.content).splitlines()[0], result.structured["skill"]) == ("Seen.", "look")
    assert result.structured["agent_id"] in str(result.content)
    assert {e.agent_type for e in talk.events if isinstance(e, SubagentEvent)} == {"Explore"}
    assert "Look at a.py." in json.dumps(talk.request("Look at a.py.")["messages"][0])
    talk.say("/look b.py", say("Good."))
    assert '<wanted agent=\\"Explore\\">' in json.dumps(talk.server.requests[-1].body["messages"][-1])
    talk.say("Go", use("Skill", skill="look"), say("End."), allow=("Skill",), deny=("Agent(Explore)",))
    assert [each.status for each in talk.results] == ["error"]


def test_agents_go_with_their_session(talk: Talk) -> None:
    talk.begin()
    talk.say("Go", hand("task"), say("Done."), say("End."))
    path = talk.conversation.sessions.current.path
    assert path is not None
    folder = path.with_suffix("")
    assert folder.is_dir()
    talk.conversation.sessions.start_new()
    delete_session(path)
    assert not folder.exists()


def test_the_page_of_agents(talk: Talk) -> None:
    talk.define("mine", "tools: Read\nmodel: haiku")
    talk.write(".claude/agents/broken.md", "no front matter")
    talk.begin()
    page = agents_page(CommandCall(talk.conversation, RunOptions()))
    agents, rights, others, problems = page.sections
    assert ("mine", "Does mine.") in agents.rows
    assert ("mine", "haiku", "Read") in rights.rows
    assert next(row[2] for row in rights.rows if row[0] == "reviewer").endswith("MCP server gitlab")
    assert [row[0] for row in others.rows[1:]] == ["mine"]
    assert any("has no name" in row[1] for row in problems.rows)


def test_what_ends_while_claude_ends_is_told_in_the_same_run(talk: Talk) -> None:
    talk.begin()
    last = Gate()
    run = talk.start(
        "Go",
        hand("slow task", run_in_background=True),
        turn(say("Slowly done."), when="slow task"),
        turn(say("It works."), hold(last), when="works in the background"),
        turn(say("It said so."), when="Slowly done."),
    )
    last.wait_until_reached()
    (working,) = talk.conversation.features.subagents.background
    talk.conversation.thread.submit(_ended(working.task)).future.result(60)
    last.open()
    talk.conversation.jobs.work_until_done(run)
    assert run.result().text == "It said so."


def test_tasks_lists_and_stops_agents(talk: Talk) -> None:
    gate, working = begin_slow_agent(talk)

    def page(text: str) -> str:
        call = CommandCall(talk.conversation, RunOptions(), text)
        return talk.conversation.thread.submit(tasks_page(call)).future.result(60).plain()

    assert re.search(rf"{working.id} +general-purpose +a task ", page(""))
    assert "(by the user" in page(f"stop {working.id}")
    assert "(by the user" in page("")
    gate.open()


def test_a_model_of_the_users_choice(talk: Talk) -> None:
    talk.define("cheap", "model: haiku")
    talk.environ["CLAUDE_CODE_SUBAGENT_MODEL"] = "sonnet"
    talk.begin()
    talk.say("Go", hand("with which model?", "cheap"), say("Done."), say("End."))
    assert talk.request("with which model?")["model"] == "claude-sonnet-5-5"


def test_an_unknown_agent_is_named_with_those_there_are(talk: Talk) -> None:
    talk.begin()
    talk.say("Go", hand("task", "nobody"), say("End."))
    (result,) = talk.results
    assert result.status == "error"
    assert "Agent nobody was" in str(result.content)
    assert ": Explore, Plan, " in str(result.content)


def test_closing_the_conversation_ends_agents_in_the_background(talk: Talk) -> None:
    gate, working = begin_slow_agent(talk)
    talk.conversation.close()
    assert working.task.cancelled()
    gate.open()


def test_a_slip_in_an_agents_tools_is_told_and_never_gives_more(talk: Talk) -> None:
    talk.define("checker", "tools: [Raed, 'Bash(', 7, bash]\ndisallowedTools: Wriet, edit")
    talk.define("nothing", "tools: []")
    talk.define("number", "tools: 7")
    talk.begin()
    talk.say("Begin", say("Begun."))
    told = [notice.message for notice in talk.events if isinstance(notice, Notice) and "The agent" in notice.message]
    assert [re.sub(r" \(.*\):", ":", each) for each in told] == [
        "The agent checker:\n"
        "- `tools`: no tool is called Raed, but one is called Read. It gives no tool.\n"
        "- `tools`: '7' is not the name of a tool. It gives no tool.\n"
        "- `tools`: `Bash(` allows no call. The permission rule `Bash(` is not of the form `Tool` or `Tool(pattern)`.\n"
        "- `disallowedTools`: no tool is called Wriet, but one is called Write. Write is taken away.",
        "The agent number: `tools`: '7' is not the name of a tool. It gives no tool.",
    ]
    agents = talk.conversation.features.agents.found().agents
    assert agents["checker"].tools == ("Raed", "Bash", "7", "Bash")
    assert agents["checker"].disallowed_tools == ("Wriet", "Edit", "Write")
    assert agents["nothing"].tools == ()
    talk.say("Next", say("Done."))
    assert not [notice for notice in talk.events if isinstance(notice, Notice) and "The agent" in notice.message], (
        "each is told once"
    )
