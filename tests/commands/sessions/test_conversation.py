"""Commands that users know from Claude Code: questions beside the conversation, goals, folders, other names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cellwright.agent.calls.approval import Allow, ToolUse
from cellwright.commands.command import CommandCall, CommandPage
from cellwright.commands.completion import commands
from cellwright.commands.registry import COMMANDS, INSTEAD, OTHER_NAMES, answer_of, command_of, is_answered_here
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import RunSurface
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.testing import MessagesServer, say, use
from talk import Talk


@pytest.fixture
def talk(messages_server: Callable[..., MessagesServer], tmp_path: Path) -> Iterator[Talk]:
    talk = Talk(messages_server([]), tmp_path)
    yield talk
    assert not talk.server.rejected
    talk.close()


def test_a_question_beside_the_conversation_is_answered_from_it_and_not_kept(talk: Talk) -> None:
    with pytest.raises(CellwrightError, match="Nothing was said"):
        talk.page("/btw which file?")
    talk.write("project/tides.py", "HIGH = 3\n")
    talk.say("look", use("Read", file_path="tides.py"), say("HIGH is 3."))
    session = talk.conversation.sessions.current
    kept, cost, read = list(session.encoded), session.cost_usd or 0, session.usage["cache_read_input_tokens"]
    talk.server.add(say("It was `tides.py`. <b>bold</b>"))
    page = talk.page("/btw which file?")
    assert "It was `tides.py`." in page.markdown()
    assert "<b>" not in page.markdown().replace("&lt;", "")
    assert "not part of" in page.plain()
    assert session.encoded == kept
    assert (session.cost_usd or 0) > cost
    assert session.usage["cache_read_input_tokens"] > read
    assert talk.body()["messages"][-1]["content"][0]["text"].endswith("which file?")
    talk.say("go on")
    assert "which file?" not in json.dumps(talk.body()["messages"])


def test_a_question_can_be_asked_while_claude_works(talk: Talk) -> None:
    heard: list[CommandPage] = []

    async def ask_and_allow(_use: ToolUse) -> Allow:
        command, text = command_of("/btw what are you at?")
        heard.append(await answer_of(command, CommandCall(talk.conversation, RunOptions(), text)))
        return Allow()

    turns = (use("Write", file_path="a.txt", content="a"), say("Writing a.txt."), say("done"))
    talk.server.add(*turns)
    run = talk.conversation.start(RunRequest(prompt="write"), RunSurface(can_use_tool=ask_and_allow))
    talk.conversation.jobs.work_until_done(run)
    assert run.result().text == "done"
    assert "Writing a.txt." in heard[0].plain()
    assert (talk.project / "a.txt").read_text() == "a"


def test_claude_works_until_its_goal_is_met(talk: Talk) -> None:
    assert "No goal" in talk.page("/goal").plain()
    assert "all tests pass" in talk.page("/goal all tests pass").plain()
    verdicts = (say('{"ok": false, "reason": "no test was run"}'), say('{"ok": true}'))
    talk.say("go on", say("Done."), verdicts[0], say("3 passed."), verdicts[1])
    assert [notice.partition(": ")[2] for notice in talk.notices] == ["no test was run", "all tests pass"]
    first, judged, second, _ = [request.body for request in talk.server.requests]
    assert ": all tests pass" in json.dumps(first["messages"])
    assert judged["model"] == "claude-haiku-5-5"
    assert "Done." in json.dumps(judged["messages"])
    assert ": no test was" in second["messages"][-1]["content"][0]["text"]
    talk.say("more")  # nobody asks about a goal that is met
    talk.page("/goal the moon")
    talk.page("/clear")
    talk.say("anew")
    assert "moon" not in json.dumps(talk.body())


def test_a_folder_is_added_and_hooks_are_told(talk: Talk) -> None:
    log = talk.home / "log"
    hook = {"type": "command", "command": f"cat >> {log}"}
    talk.settings(hooks={"DirectoryAdded": [{"matcher": "slash_command", "hooks": [hook]}]})
    file = talk.write("other/notes.txt", "high tide at nine")
    talk.say("read", use("Read", file_path=str(file)), say("no"), headless=True)
    assert talk.results[0][0] == "denied"
    assert "may read" in talk.page("/add-dir ../other").plain()
    told = json.loads(log.read_text())
    assert (told["hook_event_name"], told["directory"]) == ("DirectoryAdded", str(file.parent))
    talk.say("read", use("Read", file_path=str(file)), say("yes"), headless=True)
    assert "high tide" in talk.results[0][1]
    assert str(file.parent) in talk.page("/permissions").plain()
    assert "already" in talk.page("/add-dir ../other").plain()
    with pytest.raises(CellwrightError) as refused:
        talk.page("/add-dir ../nowhere")
    assert refused.value.code == ErrorCode.FILE_NOT_FOUND


def test_plan_mode_and_automatic_summaries_are_chosen(talk: Talk) -> None:
    talk.page("/plan")
    talk.say("write", use("Write", file_path="a.txt", content="a"), say("no"))
    assert not (talk.project / "a.txt").exists()
    assert "fills 80% of" in talk.page("/autocompact").plain()
    assert "fills 40% of" in talk.page("/autocompact 40%").plain()
    assert "not summarised automatically" in talk.page("/autocompact off").plain()
    assert "fills 40% of" in talk.page("/autocompact on").plain()
    for wrong in ("5%", "often"):
        with pytest.raises(CellwrightError, match="takes on, off"):
            talk.page(f"/autocompact {wrong}")


def test_other_names_lead_to_their_commands_and_others_say_what_to_do(talk: Talk) -> None:
    assert not (OTHER_NAMES.keys() | INSTEAD.keys()) & COMMANDS.keys()
    assert set(OTHER_NAMES.values()) <= COMMANDS.keys()
    assert talk.page("/usage").sections[0].title == "Cost"
    assert talk.page("/continue").sections[0].title == "Sessions"
    skills = talk.conversation.features.skills
    assert is_answered_here("/usage", skills)
    assert not is_answered_here("/review last commit", skills)  # the skill's prompt
    called = skills.called_by("/review last commit")
    assert called is not None
    assert called.skill.name == "code-review"
    assert ["/cost" in item["about"] for item in commands("usag", skills.all())] == [True]
    for typed, first in (("res", "/resume [ID | WORDS]"), ("reset", "/reset"), ("con", "/config")):
        assert commands(typed, skills.all())[0]["label"] == first, typed
    for typed, said in (("/login", "auth login"), ("/loop 5m x", "/goal"), ("/contxt", "Did you mean /context?")):
        with pytest.raises(CellwrightError) as unknown:
            command_of(typed)
        assert said in unknown.value.message, typed


def test_each_command_has_help_of_its_own(talk: Talk) -> None:
    for name in (*COMMANDS, *OTHER_NAMES, "code-review"):
        (section,) = talk.page(f"/help {name}").sections
        assert section.title.startswith("/"), name
        assert section.text, name
    assert "Also called /usage." in talk.page("/help cost").plain()
    with pytest.raises(CellwrightError, match="Did you mean /cost"):
        talk.page("/help cots")
