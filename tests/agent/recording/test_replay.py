"""Turns recorded over real HTTP and played again with the server gone, with real files and a real namespace."""

import asyncio
import itertools
import json
import shutil
from dataclasses import replace

import pytest

from cellwright.agent.calls.approval import Allow, Deny
from cellwright.agent.loop import run_agent
from cellwright.agent.recording.recorder import Recorder
from cellwright.agent.recording.replay import Replay, UntrustedRecording
from cellwright.agent.recording.replay_drift import Drift, describe_drift
from cellwright.agent.spending import RunLimits
from cellwright.agent.tool import Tool, ToolAccess, ToolContext, ToolResult, tool
from cellwright.conversation.replayed_edits import ReplayedEdits
from cellwright.conversation.runs.run import EventBus
from cellwright.errors import CellwrightError, ErrorCode, ToolError
from cellwright.events import TextDelta, ThinkingDelta, ToolEnd, ToolProgress, TurnEnd
from cellwright.permissions.policy import PermissionPolicy
from cellwright.redaction.redaction import Redaction
from cellwright.sessions.session import Session
from cellwright.testing import say, think, turn, use
from cellwright.tools.files.apply_patch import apply_patch_tool
from cellwright.tools.files.edit import edit_tool, multi_edit_tool
from cellwright.tools.files.file_state import FileState
from cellwright.tools.files.read import read_tool
from cellwright.tools.files.write import write_tool
from cellwright.tools.notebook.file_notebook import FileNotebook
from cellwright.tools.notebook.notebook_edit import notebook_edit_tool
from cellwright.tools.notebook.open_notebook import NothingOpen

EVERYTHING = PermissionPolicy(
    mode="default", allow=("Read", "Write", "Edit", "NotebookEdit", "Python", "Bash", "mcp__db__ask")
)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("CELLWRIGHT_HOME", str(tmp_path / "home"))


class ToolEnvironment:
    """A project folder, the namespace of a kernel, and tools that work in them and say what they ran."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.namespace = {}
        self.ran = []

    @property
    def tools(self):
        state = FileState()

        async def python(tool_input, ctx):
            self.ran.append(tool_input["code"])
            ctx.progress(text="running\n")
            exec(tool_input["code"], self.namespace)
            return "done"

        async def bash(tool_input, ctx):
            self.ran.append(tool_input["command"])
            ctx.progress(text="one\n")
            ctx.progress(text="two\n")
            ctx.progress(output={"text/plain": "a plot"})
            return ToolResult(f"ran in {self.folder}", {"exit_code": 3}, is_error="false" in tool_input["command"])

        def named(name, call, access):
            schema = {"type": "object", "properties": {access.field: {"type": "string"}}}
            return Tool(name=name, description=name, input_schema=schema, call=call, access=access)

        makers = (read_tool, write_tool, edit_tool, multi_edit_tool, apply_patch_tool, notebook_edit_tool)
        return [
            *(make(state, self.folder) for make in makers),
            named("Python", python, ToolAccess("python", "code")),
            named("Bash", bash, ToolAccess("shell", "command")),
        ]

    def files(self):
        return {path.name: path.read_text() for path in self.folder.iterdir() if path.is_file()}


@pytest.fixture
def workplace(tmp_path):
    """`workplace(name)` makes a project folder with a kernel of its own."""
    return lambda name: ToolEnvironment(tmp_path / name)


@pytest.fixture
def record(scene, tmp_path):
    """`record(place, script, *prompts)` runs the prompts for real and records them in one file, which it gives."""

    def record(place, script, *prompts, **options):
        path = options.pop("path", tmp_path / "demo.jsonl")
        recorder = Recorder(path, place.folder, {})
        options = {"policy": replace(EVERYTHING, roots=(place.folder,), cwd=place.folder), **options}
        played = scene(script, tools=options.pop("tools", place.tools), **options)
        for prompt in prompts:
            turn = recorder.listen(prompt)
            bus = EventBus([played.events.append, turn.on_event])
            asyncio.run(run_agent(played.agent, prompt, played.session, bus.publish))
            assert recorder.save(turn) == []
        played.recording = path
        return played

    return record


def play(replay, agent, prompt, session):
    """Play the turn of `prompt` in `session`; its events and what did not go as recorded."""
    recorded, events = replay.turn(prompt), []
    bus = EventBus([events.append, recorded.on_event])
    asyncio.run(run_agent(recorded.played_by(agent, place(replay.project)), prompt, session, bus.publish))
    return events, [drift.text for drift in recorded.drift]


def place(folder, notebooks=None):
    """Where edits are made again."""
    return ReplayedEdits(folder, FileState(), notebooks or NothingOpen(), FileNotebook)


def agent_in(place, recorded, **changes):
    """The recorded scene's agent, at work in another place. Its server is gone."""
    recorded.server.__exit__(None, None, None)
    policy = replace(EVERYTHING, roots=(place.folder,), cwd=place.folder)
    return replace(recorded.agent, **{"tools": place.tools, "policy": policy, **changes})


def texts(events):
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def ends(events):
    return [(event.name, event.status, event.content) for event in events if isinstance(event, ToolEnd)]


def kinds(events):
    """What happened, in order; text that came in pieces counts once."""
    return [kind for kind, _ in itertools.groupby(map(type, events))]


def test_a_turn_is_played_without_a_request_and_python_runs_again(record, workplace, tmp_path):
    here, there = workplace("here"), workplace("there")
    script = [
        turn(think("First x."), say("I set x."), use("Python", code="x = 6 * 7"), use("Bash", command="make")),
        turn(use("Bash", command="false")),
        say("x is 42."),
    ]
    recorded = record(here, script, "Set x")
    assert here.ran == ["x = 6 * 7", "make", "false"]
    requests = len(recorded.server.requests)

    session = Session.create(there.folder, tmp_path / "sessions")
    events, notices = play(Replay(recorded.recording, there.folder), agent_in(there, recorded), "Set x", session)

    assert len(recorded.server.requests) == requests
    assert there.ran == ["x = 6 * 7"]
    assert there.namespace["x"] == 42
    assert texts(events) == "I set x.x is 42."
    assert "".join(event.text for event in events if isinstance(event, ThinkingDelta)) == "First x."
    bash = f"ran in {there.folder}"
    assert ends(events) == [("Python", "success", "done"), ("Bash", "success", bash), ("Bash", "error", bash)]
    assert [event.display for event in events if isinstance(event, ToolEnd)][1:] == [{"exit_code": 3}] * 2
    progress = [(e.text, e.output) for e in events if isinstance(e, ToolProgress)]
    assert progress == [("running\n", None), *[("one\ntwo\n", None), ("", {"text/plain": "a plot"})] * 2]
    assert notices == []
    assert events[-1].ok
    assert kinds(events) == kinds(recorded.events)


def test_a_played_turn_costs_nothing_and_says_that_it_was_played(record, workplace):
    place = workplace("here")
    recorded = record(place, [say("Hello.")], "Hi")
    session = Session.create(place.folder, None)
    events, _ = play(
        Replay(recorded.recording, place.folder),
        agent_in(place, recorded, limits=RunLimits(budget_usd=1e-9)),
        "Hi",
        session,
    )

    (then,), (now,) = recorded.of(TurnEnd), [event for event in events if isinstance(event, TurnEnd)]
    assert (then.replayed, now.replayed) == (False, True)
    assert now.usage == then.usage
    assert then.cost_usd > 0
    assert (now.cost_usd, events[-1].cost_usd, session.cost_usd) == (0.0, 0.0, 0.0)


def test_after_a_turn_was_played_twice_a_real_request_is_accepted(record, workplace, scene):
    place = workplace("here")
    script = [turn(think("Hm."), use("Python", code="n = 1")), turn(think("Hm."), say("One."))]
    recorded = record(place, script, "Count")
    session = Session.create(place.folder, None)
    agent = agent_in(place, recorded)
    for _ in range(2):  # as after a restart of the kernel, in a session that goes on
        play(Replay(recorded.recording, place.folder), agent, "Count", session)

    real = scene([turn(think("Now really."), say("Yes."))], tools=place.tools, session=session)
    again = real.go_on("And now for real?")
    assert again.ok
    assert real.end.text == "Yes."
    assert len(session.messages) == 10


@pytest.fixture
def edited(record, workplace, tmp_path):
    """A recording that makes one file, changes another twice and gives a notebook a cell; the place, before and after."""
    here = workplace("here")
    notebook = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (here.folder / "old.py").write_text("a = 1\n")
    (here.folder / "book.ipynb").write_text(json.dumps(notebook, indent=1))
    before = shutil.copytree(here.folder, tmp_path / "before")
    script = [
        turn(use("Write", file_path="new.py", content="n = 1\n"), use("Read", file_path="old.py")),
        turn(use("Edit", file_path=str(here.folder / "old.py"), old_string="1", new_string="2")),
        turn(use("Read", file_path="book.ipynb")),
        use("NotebookEdit", notebook_path="book.ipynb", new_source="new()", edit_mode="insert", cell_type="code"),
        say("Edited."),
        turn(use("MultiEdit", file_path="old.py", edits=[{"old_string": "2", "new_string": "3"}])),
        say("Again."),
    ]
    recorded = record(here, script, "Edit", "Edit again")
    assert here.files()["old.py"] == "a = 3\n"
    assert "originals" not in recorded.recording.read_text()
    return recorded, before, here


def statuses(events):
    return [event.status for event in events if isinstance(event, ToolEnd)]


def test_edits_are_made_once(edited, workplace, tmp_path):
    recorded, before, here = edited
    there = ToolEnvironment(shutil.copytree(before, tmp_path / "there"))
    agent = agent_in(there, recorded)
    for _ in range(2):
        replay = Replay(recorded.recording, there.folder)
        session = Session.create(there.folder, None)
        events, notices = play(replay, agent, "Edit", session)
        assert (set(statuses(events)), notices) == ({"success"}, [])
        if "done" not in there.namespace:
            assert there.files() == {**here.files(), "old.py": "a = 2\n"}
        there.namespace["done"] = True
        events, notices = play(replay, agent, "Edit again", session)
        assert (statuses(events), notices) == (["success"], [])
        # the second time, the first turn finds the file as the second turn left it, and leaves it so
        assert there.files() == here.files()


def test_a_file_that_is_otherwise_is_left_untouched_and_that_is_said(edited, tmp_path):
    recorded, before, _ = edited
    there = ToolEnvironment(shutil.copytree(before, tmp_path / "there"))
    (there.folder / "old.py").write_text("a = 1  # mine\n")
    (there.folder / "new.py").write_text("mine too\n")
    session = Session.create(there.folder, None)

    events, notices = play(Replay(recorded.recording, there.folder), agent_in(there, recorded), "Edit", session)

    assert there.files()["old.py"] == "a = 1  # mine\n"
    assert there.files()["new.py"] == "mine too\n"
    assert statuses(events) == ["error", "success", "error", "success", "success"]
    created, read, changed = notices
    assert str(there.folder / "new.py") in created
    assert "left untouched" in created
    assert read == f"{there.folder / 'old.py'} was read for this answer, and has changed since."
    assert str(there.folder / "old.py") in changed
    assert changed in ends(events)[2][2]


def test_a_file_that_is_gone_is_not_made_anew(edited, tmp_path):
    recorded, before, _ = edited
    there = ToolEnvironment(shutil.copytree(before, tmp_path / "there"))
    (there.folder / "old.py").unlink()
    _, notices = play(
        Replay(recorded.recording, there.folder), agent_in(there, recorded), "Edit", Session.create(there.folder, None)
    )
    assert "old.py" not in there.files()
    assert str(there.folder / "old.py") in notices[0]
    assert "not there any" in notices[0]
    assert "not there any" in notices[1]


def test_python_that_gives_something_else_is_said_but_not_what_always_differs(record, workplace):
    here, there = workplace("here"), workplace("there")
    results = iter(["rows: 3\n<Model at 0x7f3a12345678>", "rows: 4\n<Model at 0x7f3a99945678>"])

    def python():
        @tool(name="Python")
        async def python(ctx: ToolContext, code: str) -> str:
            """Run code."""
            return next(results)

        return [python]

    recorded = record(here, [use("Python", code="look()"), say("ok")], "Look", tools=python())
    replay = Replay(recorded.recording, there.folder)
    agent = agent_in(there, recorded, tools=python())
    _, notices = play(replay, agent, "Look", Session.create(there.folder, None))
    assert [notice.split("\n")[1:] for notice in notices] == [
        ["-rows: 3", "-<Model at 0x7f3a12345678>", "+rows: 4", "+<Model at 0x7f3a99945678>"]
    ]
    results = iter(["rows: 3\n<Model at 0x7f3a00000000>"])
    replay = Replay(recorded.recording, there.folder)
    assert play(replay, agent, "Look", Session.create(there.folder, None))[1] == []


def test_drift_shows_no_secret(record, workplace):
    here, there = workplace("here"), workplace("there")
    results = iter(["3 rows", "4 rows with AKIA" + "IOSFODNN7EXAMPLE of hunter2-hunter2"])

    @tool(name="Python")
    async def python(ctx: ToolContext, code: str) -> str:
        """Run code."""
        return next(results)

    recorded = record(here, [use("Python", code="look()"), say("ok")], "Look", tools=[python])
    redaction = Redaction(lambda: {"DB_PASSWORD": "hunter2-hunter2"})
    agent = agent_in(there, recorded, tools=[python], redaction=redaction)
    replay = Replay(recorded.recording, there.folder)
    (told,) = play(replay, agent, "Look", Session.create(there.folder, None))[1]
    assert "-3 rows\n+4 rows" in told
    assert "4 rows with [secret" in told
    assert "IOSFODNN7EXAMPLE" not in told
    assert "hunter2" not in told


def test_two_turns_are_kept_whichever_is_saved_first(scene, workplace, tmp_path):
    here = workplace("here")
    recorder = Recorder(tmp_path / "demo.jsonl", here.folder, {})
    played = scene([say("One."), say("Two.")], tools=here.tools)
    turns = [recorder.listen(prompt) for prompt in ("First", "Second")]
    for prompt, heard in zip(("First", "Second"), turns, strict=True):
        asyncio.run(run_agent(played.agent, prompt, played.session, heard.on_event))
    assert [recorder.save(heard) for heard in reversed(turns)] == [[], []]
    replay = Replay(recorder.path, here.folder)
    assert replay.holds("First")
    assert replay.holds("Second")


def test_a_patch_of_several_files_is_made_once(record, workplace, tmp_path):
    here = workplace("here")
    (here.folder / "a.py").write_text("a = 1\n")
    (here.folder / "b.py").write_text("b = 1\n")
    before = shutil.copytree(here.folder, tmp_path / "before")
    patch = (
        "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-a = 1\n+a = 2\n"
        "--- a/b.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-b = 1\n"
        "--- /dev/null\n+++ b/c.py\n@@ -0,0 +1 @@\n+c = 1\n"
    )
    allowing = {"policy": PermissionPolicy(mode="acceptEdits", roots=(tmp_path,), cwd=here.folder)}
    recorded = record(here, [use("ApplyPatch", patch=patch), say("ok")], "Patch", **allowing)
    assert here.files() == {"a.py": "a = 2\n", "c.py": "c = 1\n"}

    there = ToolEnvironment(shutil.copytree(before, tmp_path / "there"))
    agent = agent_in(there, recorded, **allowing)
    for _ in range(2):
        replay = Replay(recorded.recording, there.folder)
        _, notices = play(replay, agent, "Patch", Session.create(there.folder, None))
        assert (there.files(), notices) == (here.files(), [])
    (there.folder / "a.py").write_text("a = 1\n")
    replay = Replay(recorded.recording, there.folder)
    _, notices = play(replay, agent, "Patch", Session.create(there.folder, None))
    assert there.files() == {"a.py": "a = 1\n", "c.py": "c = 1\n"}
    assert "Nothing was written" in notices[0]


def test_a_notebook_that_was_run_again_is_no_drift(record, workplace, tmp_path):
    here = workplace("here")
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "source": ["x = 1\n", "x"], "outputs": []}
    notebook = {"cells": [{**cell, "execution_count": None}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (here.folder / "book.ipynb").write_text(json.dumps(notebook))
    recorded = record(here, [use("Read", file_path="book.ipynb"), say("ok")], "Look")
    agent = agent_in(here, recorded)

    def drift(cells):
        (here.folder / "book.ipynb").write_text(json.dumps({**notebook, "cells": cells}))
        return play(Replay(recorded.recording, here.folder), agent, "Look", Session.create(here.folder, None))[1]

    assert drift([{**cell, "source": "x = 1\nx", "execution_count": 7}]) == []
    assert "has changed since" in drift([{**cell, "source": "x = 2", "execution_count": 7}])[0]


def test_drift_is_told_by_its_kind_and_bounded():
    drifts = [Drift("file", f"{number}.csv has changed.") for number in range(9)] + [Drift("python", "other")] * 2
    files, python = describe_drift(drifts)
    assert "Files are not" in files.splitlines()[0]
    assert files.splitlines()[-2:] == ["- 4.csv has changed.", "- … and 4 more"]
    assert python.splitlines()[1:] == ["- other"]


def test_an_edit_keeps_the_mode_of_the_file(edited, tmp_path):
    recorded, before, _ = edited
    there = ToolEnvironment(shutil.copytree(before, tmp_path / "there"))
    (there.folder / "old.py").chmod(0o755)
    replay = Replay(recorded.recording, there.folder)
    play(replay, agent_in(there, recorded), "Edit", Session.create(there.folder, None))
    assert (there.folder / "old.py").stat().st_mode & 0o777 == 0o755


def test_binary_content_comes_back_as_it_was(record, workplace):
    here, there = workplace("here"), workplace("there")
    for place in (here, there):
        (place.folder / "latin.txt").write_bytes(b"caf\xe9 = 1\n")
    script = [
        use("Read", file_path="latin.txt"),
        use("Edit", file_path="latin.txt", old_string="1", new_string="2"),
        say("ok"),
    ]
    recorded = record(here, script, "Edit")
    replay = Replay(recorded.recording, there.folder)
    play(replay, agent_in(there, recorded), "Edit", Session.create(there.folder, None))
    assert (there.folder / "latin.txt").read_bytes() == b"caf\xe9 = 2\n"


def test_a_content_that_had_a_secret_in_it_is_not_written_without(scene, workplace, tmp_path):
    here, there = workplace("here"), workplace("there")
    recorder = Recorder(tmp_path / "demo.jsonl", here.folder, {})
    policy = replace(EVERYTHING, roots=(here.folder,), cwd=here.folder)
    script = [use("Write", file_path="config.py", content='password = "s3cr3t-w0rd"\n'), say("ok")]
    recorded = scene(script, tools=here.tools, policy=policy)
    turn = recorder.listen("Configure")
    asyncio.run(run_agent(recorded.agent, "Configure", recorded.session, turn.on_event))
    assert "6 secrets replaced:" in recorder.save(turn)[0]

    replay = Replay(recorder.path, there.folder)
    _, notices = play(replay, agent_in(there, recorded), "Configure", Session.create(there.folder, None))
    assert "the new content" in notices[0]
    assert there.files() == {}
    # where the file is as it was recorded, nothing is missing
    replay = Replay(recorder.path, here.folder)
    _, notices = play(replay, agent_in(here, recorded), "Configure", Session.create(here.folder, None))
    assert notices == []


def test_an_edit_of_another_file_than_the_input_names_is_not_made(record, workplace):
    here, there = workplace("here"), workplace("there")
    recorded = record(here, [use("Write", file_path="a.txt", content="x"), say("ok")], "Write")
    data = recorded.recording.read_bytes()
    recorded.recording.write_bytes(
        data.replace(b'"path":"\xe2\x9f\xa6project\xe2\x9f\xa7/a.txt"', b'"path":"/etc/b.txt"')
    )
    replay = Replay(recorded.recording, there.folder)
    replay.trust()
    _, notices = play(replay, agent_in(there, recorded), "Write", Session.create(there.folder, None))
    assert "say which file" in notices[0]
    assert there.files() == {}


def test_a_call_that_took_too_long_then_does_not_run_now(record, workplace):
    place = workplace("here")

    @tool(name="Python")
    async def python(ctx: ToolContext, code: str) -> str:
        """Run code."""
        place.ran.append(code)
        raise ToolError("stopped after 1 s", code=ErrorCode.EXECUTION_TIMEOUT)

    recorded = record(place, [use("Python", code="forever()"), say("ok")], "Wait", tools=[python])
    replay = Replay(recorded.recording, place.folder)
    events, _ = play(replay, agent_in(place, recorded, tools=[python]), "Wait", Session.create(place.folder, None))
    assert (place.ran, statuses(events)) == (["forever()"], ["timeout"])


def test_a_tool_that_must_run_again_and_is_not_there_says_so(record, workplace):
    place = workplace("here")
    recorded = record(place, [use("Python", code="x = 1"), say("ok")], "Set x")
    replay = Replay(recorded.recording, place.folder)
    events, _ = play(replay, agent_in(place, recorded, tools=[]), "Set x", Session.create(place.folder, None))
    assert statuses(events) == ["error"]
    assert "not available here" in ends(events)[0][2]


def test_deny_rules_hold_and_nothing_is_asked(edited, tmp_path):
    recorded, before, _ = edited
    there = ToolEnvironment(shutil.copytree(before, tmp_path / "there"))
    policy = PermissionPolicy(mode="default", deny=("Write",), roots=(there.folder,), cwd=there.folder)

    async def nobody(use):
        raise AssertionError(f"asked for {use.name}")

    agent = agent_in(there, recorded, policy=policy, can_use_tool=nobody)
    events, _ = play(Replay(recorded.recording, there.folder), agent, "Edit", Session.create(there.folder, None))

    assert statuses(events) == ["denied", "success", "success", "success", "success"]
    assert "new.py" not in there.files()
    assert there.files()["old.py"] == "a = 2\n"


def test_what_was_denied_then_does_not_run_now(record, workplace):
    place = workplace("here")

    async def no(use):
        return Deny("not on mine")

    policy = PermissionPolicy(mode="default", roots=(place.folder,), cwd=place.folder)
    script = [use("Python", code="x = 1"), say("Well then.")]
    recorded = record(place, script, "Set x", policy=policy, can_use_tool=no)
    replay = Replay(recorded.recording, place.folder)
    events, _ = play(replay, agent_in(place, recorded), "Set x", Session.create(place.folder, None))

    assert place.ran == []
    assert "not on mine" in ends(events)[0][2]
    assert statuses(events) == ["error"]


def test_what_the_user_edited_runs_as_it_was_edited(record, workplace):
    place = workplace("here")

    async def other(use):
        return Allow({"code": "x = 'edited'"})

    policy = PermissionPolicy(mode="default", roots=(place.folder,), cwd=place.folder)
    recorded = record(
        place, [use("Python", code="x = 'asked'"), say("Set.")], "Set x", policy=policy, can_use_tool=other
    )
    there = workplace("there")
    replay = Replay(recorded.recording, there.folder)
    play(replay, agent_in(there, recorded), "Set x", Session.create(there.folder, None))
    assert there.ran == ["x = 'edited'"]


def test_a_tool_that_is_not_there_gives_what_it_gave(record, workplace):
    place = workplace("here")

    @tool(name="mcp__db__ask")
    async def ask(ctx: ToolContext, sql: str) -> str:
        """Ask the database."""
        return "42 rows"

    recorded = record(place, [use("mcp__db__ask", sql="select"), say("42.")], "How many?", tools=[*place.tools, ask])
    replay = Replay(recorded.recording, place.folder)
    events, _ = play(replay, agent_in(place, recorded), "How many?", Session.create(place.folder, None))
    assert ends(events) == [("mcp__db__ask", "success", "42 rows")]


def test_a_prompt_that_was_not_recorded_says_what_is_different(record, workplace):
    place = workplace("here")
    recorded = record(place, [say("A."), say("B.")], "Load bees.csv\nand plot it", "Now sum up")
    replay = Replay(recorded.recording, place.folder)
    with pytest.raises(CellwrightError) as caught:
        replay.turn("Load wasps.csv\nand plot it")
    assert caught.value.code == ErrorCode.INVALID_PARAMETERS
    assert "\n+Load wasps.csv\n" in caught.value.message
    assert "Now sum up" not in caught.value.message


def test_equal_prompts_are_played_in_their_order(record, workplace):
    place = workplace("here")
    recorded = record(place, [say("One."), say("Two."), say("Other.")], "Next", "Next", "Else")
    replay, agent = Replay(recorded.recording, place.folder), agent_in(place, recorded)
    session = Session.create(place.folder, None)
    played = [texts(play(replay, agent, prompt, session)[0]) for prompt in ("Next", "Else", "  Next\r\n")]
    assert played == ["One.", "Other.", "Two."]
    with pytest.raises(CellwrightError, match="recorded 2 time"):
        replay.turn("Next")


def test_a_foreign_or_altered_recording_plays_nothing_until_it_is_trusted(record, workplace, monkeypatch, tmp_path):
    place = workplace("here")
    recorded = record(place, [use("Python", code="x = 1"), say("Done.")], "Set x")
    assert Replay(recorded.recording, place.folder).trusted

    recorded.recording.write_bytes(recorded.recording.read_bytes().replace(b"x = 1", b"x = 2"))
    altered = Replay(recorded.recording, place.folder)
    assert not altered.trusted
    with pytest.raises(UntrustedRecording, match="not made by you, or was changed since") as caught:
        altered.turn("Set x")
    assert caught.value.code == ErrorCode.PERMISSION_DENIED

    altered.trust()
    assert altered.turn("Set x").drift == []
    assert Replay(recorded.recording, place.folder).trusted
    monkeypatch.setenv("CELLWRIGHT_HOME", str(tmp_path / "somebody else"))
    assert not Replay(recorded.recording, place.folder).trusted


def test_what_is_played_is_what_was_checked(record, workplace):
    place = workplace("here")
    recorded = record(place, [use("Python", code="x = 1"), say("Done.")], "Set x")
    replay = Replay(recorded.recording, place.folder)
    recorded.recording.write_bytes(recorded.recording.read_bytes().replace(b"x = 1", b"x = 2"))
    play(replay, agent_in(place, recorded), "Set x", Session.create(place.folder, None))
    assert place.ran == ["x = 1", "x = 1"]


def test_a_turn_that_needs_more_than_was_recorded_ends_with_an_error(record, workplace):
    place = workplace("here")
    recorded = record(place, [use("Python", code="x = 1"), say("Done.")], "Set x")
    replay, agent = Replay(recorded.recording, place.folder), agent_in(place, recorded)
    session = Session.create(place.folder, None)
    turn_played, edits = replay.turn("Set x"), ReplayedEdits(place.folder, FileState(), NothingOpen(), FileNotebook)
    events = []
    asyncio.run(run_agent(turn_played.played_by(agent, edits), "Set x", session, events.append))
    asyncio.run(run_agent(turn_played.played_by(agent, edits), "Set x", session, events.append))
    assert events[-1].error["code"] == "EXECUTION_ERROR"
    assert "ends here" in events[-1].error["message"]


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (None, ErrorCode.FILE_NOT_FOUND),
        (b"", ErrorCode.CONFIG_PARSE_ERROR),
        (b'{"a": 1}\n', ErrorCode.CONFIG_PARSE_ERROR),
    ],
)
def test_what_is_no_recording_is_named(tmp_path, content, code):
    path = tmp_path / "notes.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CellwrightError, match=r"notes\.jsonl") as caught:
        Replay(path, tmp_path)
    assert caught.value.code == code
