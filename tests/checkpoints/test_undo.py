"""Whatever turns do to files, and the user in between: an undo restores bytes exactly, and never changes the user's."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cellwright.agent.tool import ToolContext
from cellwright.checkpoints.checkpoints import Checkpoints
from cellwright.checkpoints.journal import CheckpointTurn
from cellwright.checkpoints.undo import Undo
from cellwright.conversation.core import Host
from cellwright.errors import ToolError
from cellwright.events import ContextAttached, Notice
from cellwright.features.conversation import Conversation
from cellwright.sessions.session import Session
from cellwright.testing import use
from cellwright.tools.files.apply_patch import apply_patch_tool
from cellwright.tools.files.edit import edit_tool
from cellwright.tools.files.file_state import FileState
from cellwright.tools.files.read import read_tool
from cellwright.tools.files.write import write_tool
from cellwright.tools.notebook.file_notebook import FileNotebook
from cellwright.tools.notebook.notebook_edit import notebook_edit_tool
from cellwright.tools.notebook.notebook_read import notebook_read_tool
from cellwright.tools.notebook.open_notebook import NothingOpen, OpenNotebook

NAMES = ("a.txt", "folder/c.txt")
TEXTS = ("", "one\n", "one\ntwo\n", "two\r\nthree", "ä\n", "1\n2\n3\n4\n")
NOTEBOOK = '{"cells": [{"cell_type": "code", "id": "x1", "metadata": {}, "source": "a = 1", "outputs": [], '

CUT_OFF_NAMES = ("a.txt", "b.txt", "c.txt")
OLD, NEW = ["old\n"] * 3, ["new\n"] * 3
PATCH = "".join(f"--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-old\n+new\n" for name in CUT_OFF_NAMES)

KILLED = """
import os, signal, sys
from pathlib import Path
from cellwright.commands.command import CommandCall
from cellwright.commands.registry import answer_of, command_of
from cellwright.features.conversation import Conversation
from cellwright.conversation.core import Host
from cellwright.conversation.runs.run import RunSurface
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run_options import RunOptions
def kill(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
real, target, does = os.replace, sys.argv[1], sys.argv[2]
def killing(source, to, **named):
    if str(to) == target:
        kill()
    real(source, to, **named)
conversation = Conversation(Host(cwd=Path.cwd(), interface="a test", environ=dict(os.environ)))
if does == "patch":
    os.replace = killing
    options = RunOptions(mode="bypassPermissions")
    task = conversation.start(RunRequest(prompt="Go.", options=options), RunSurface(lambda event: None))
else:
    conversation.sessions.resume_newest()
    if target == "end":
        from cellwright.checkpoints.undo import Undo
        Undo._change_cells = kill
    else:
        os.replace = killing
    command, text = command_of(does)
    call = CommandCall(conversation, RunOptions(), text, lambda event: None, None)
    task = conversation.thread.submit(answer_of(command, call))
conversation.jobs.work_until_done(task)
task.result()
"""


NOTEBOOK += '"execution_count": null}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'


CONTEXT = ToolContext("toolu_test", lambda **_: None)

step = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(NAMES), st.sampled_from(TEXTS)),
    st.tuples(st.just("edit"), st.sampled_from(NAMES), st.sampled_from(TEXTS)),
    st.tuples(st.just("delete"), st.sampled_from(NAMES), st.just("")),
    st.tuples(st.just("cell"), st.just("n.ipynb"), st.sampled_from(("x = 1", "y = 2"))),
    st.tuples(st.just("user"), st.sampled_from(NAMES), st.sampled_from(("mine\n", "mine too\n"))),
    st.tuples(st.just("user deletes"), st.sampled_from(NAMES), st.just("")),
    st.tuples(st.just("look"), st.just("n.ipynb"), st.just("")),
    st.tuples(st.just("next turn"), st.just(""), st.just("")),
)

numbers = itertools.count()


class Place:
    """Tools whose turns are kept, in a folder of its own."""

    def __init__(self, cwd: Path) -> None:
        self.cwd = cwd
        self.checkpoints = Checkpoints(lambda: (cwd,), lambda: True, lambda: 30)
        self.state = FileState(keeper=self.checkpoints)
        editing = (write_tool, edit_tool, apply_patch_tool, notebook_edit_tool)
        makers = (read_tool, notebook_read_tool, *editing)
        self.tools = {tool.name: tool for tool in (make(self.state, cwd) for make in makers)}
        self.session = Session.create(cwd, cwd.parent / "sessions")
        self.session.begin(model="m", system=[], tools=[])
        self.record: Any = None

    @property
    def taking(self) -> Undo:
        return Undo(
            journal=self.checkpoints.journal(self.session),
            session=self.session,
            file_state=self.state,
            notebooks=NothingOpen(),
            cwd=self.cwd,
        )

    @property
    def turns(self) -> list[CheckpointTurn]:
        return self.taking.journal.history.turns

    async def next_turn(self) -> None:
        if self.record is not None:
            self.record.end()
        self.session.next_seq += 2
        self.record = self.checkpoints.begin(self.session, "Go.", self.session.next_seq)

    async def call(self, name: str, **tool_input: Any) -> bool:
        tool = self.tools[name]
        await self.record.before_call(tool, tool_input)
        try:
            await tool.call(tool_input, CONTEXT)
        except ToolError:
            return False
        finally:
            await self.record.after_call(tool)
        return True

    async def do(self, what: str, name: str, text: str) -> None:
        path = self.cwd / name
        match what:
            case "write":
                await self.call("Read", file_path=name)
                await self.call("Write", file_path=name, content=text)
            case "edit" if path.exists():
                old = path.read_bytes().decode()
                await self.call("Read", file_path=name)
                await self.call("Edit", file_path=name, old_string=old, new_string=text)
            case "delete" if path.exists() and path.read_bytes().endswith(b"\n"):
                lines = path.read_bytes().decode().split("\n")[:-1]
                body = "".join(f"-{line}\n" for line in lines)
                patch = f"--- a/{name}\n+++ /dev/null\n@@ -1,{len(lines)} +0,0 @@\n{body}"
                await self.call("ApplyPatch", patch=patch)
            case "look":
                await self.call("Read", file_path=name)
            case "cell":
                await self.call("NotebookRead", notebook_path=name)
                await self.call(
                    "NotebookEdit", notebook_path=name, edit_mode="insert", cell_type="code", new_source=text
                )
            case "user":
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)
            case "user deletes":
                path.unlink(missing_ok=True)
            case "next turn":
                await self.next_turn()

    def snapshot(self) -> dict[str, bytes]:
        files = (path for path in self.cwd.rglob("*") if path.is_file())
        return {str(path.relative_to(self.cwd)): path.read_bytes() for path in files}


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    return tmp_path


def place_in(folder: Path) -> Place:
    cwd = folder / str(next(numbers)) / "project"
    cwd.mkdir(parents=True)
    (cwd / "a.txt").write_bytes(b"one\ntwo\n")
    (cwd / "n.ipynb").write_text(NOTEBOOK)
    (cwd / "a.txt").chmod(0o640)
    return Place(cwd)


generated = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=100)


@generated
@given(steps=st.lists(step.filter(lambda each: not each[0].startswith("user")), max_size=14))
def test_all_turns_taken_back_leave_what_was_there_and_brought_back_what_they_left(folders, steps):
    async def scene() -> None:
        place = place_in(folders)
        before = place.snapshot()
        await place.next_turn()
        for each in steps:
            await place.do(*each)
        place.record.end()
        after = place.snapshot()
        for _ in range(2):
            turns = [turn for turn in reversed(place.turns) if turn.to_undo()]
            plan = await place.taking.plan(turns, "code")
            assert not plan.refused
            if turns:
                await place.taking.apply(plan)
            assert place.snapshot() == before
            undo = place.taking.journal.history.to_redo()
            if undo is not None:
                await place.taking.apply(await place.taking.plan_redo(undo))
            assert place.snapshot() == after
        place.session.close()

    asyncio.run(scene())


@generated
@given(steps=st.lists(step, max_size=16), one_by_one=st.booleans())
def test_what_the_user_wrote_is_never_taken_back(folders, steps, one_by_one):
    """Each file that the user touched last stays; each other is as before the first turn, or as the user left it.

    What the user makes of a file is theirs unless Claude left it so, or it was so at first: then nothing tells them apart.
    """

    async def scene() -> None:
        place = place_in(folders)
        theirs: dict[str, set[bytes | None]] = {name: {content} for name, content in place.snapshot().items()}
        await place.next_turn()
        not_theirs: dict[str, set[bytes | None]] = {name: {content} for name, content in place.snapshot().items()}
        users_last: dict[str, bytes | None] = {}
        for what, name, text in steps:
            before = place.snapshot()
            await place.do(what, name, text)
            if what.startswith("user"):
                content = place.snapshot().get(name)
                theirs.setdefault(name, {None}).add(content)
                if before.get(name) != content:
                    users_last[name] = content
                if content in not_theirs.get(name, {None}):
                    users_last.pop(name, None)
            elif what != "next turn" and before.get(name) != place.snapshot().get(name):
                not_theirs.setdefault(name, {None}).add(place.snapshot().get(name))
                users_last.pop(name, None)
        place.record.end()
        while turns := [turn for turn in reversed(place.turns) if turn.to_undo()][: 1 if one_by_one else None]:
            plan = await place.taking.plan(turns, "code")
            await place.taking.apply(plan)
            for name, content in users_last.items():
                assert place.snapshot().get(name) == content
        left = {Path(name).relative_to(place.cwd).as_posix() for turn in place.turns for name in turn.left}
        for name in {*theirs, *place.snapshot()} - left:
            assert place.snapshot().get(name) in theirs.get(name, {None})
        place.session.close()

    asyncio.run(scene())


def kill(there: Any, at: str, does: str = "patch") -> None:
    if does != "patch":
        there.conversation.close()
    environ = {**os.environ, **there.environ}
    child = subprocess.run([sys.executable, "-c", KILLED, at, does], cwd=there.cwd, env=environ, check=False)
    assert child.returncode == -signal.SIGKILL


def contents(there: Any) -> list[str | None]:
    return [there.read(name) for name in CUT_OFF_NAMES]


def notices(there: Any) -> list[str]:
    return [event.message for event in there.events if isinstance(event, Notice)]


def told_claude(there: Any) -> str:
    parts = [part for event in there.events if isinstance(event, ContextAttached) for part in event.parts]
    return "\n".join(part.text for part in parts if "interrupted" in part.text or "undo" in part.text)


def anew(there: Any) -> None:
    there.conversation.close()
    there.conversation = Conversation(Host(cwd=there.cwd, interface="a test", environ=there.environ))


@pytest.fixture
def patched(work: Any) -> Any:
    if sys.platform == "win32":
        pytest.skip("there is no SIGKILL")
    there = work([use("ApplyPatch", patch=PATCH)], [], [])
    for name in CUT_OFF_NAMES:
        there.put(name, "old\n")
    return there


def test_a_new_session_finds_the_patch_finished_and_is_told_once(patched):
    there = patched
    kill(there, "b.txt")
    assert contents(there) == ["new\n", "old\n", "old\n"]
    there.say("Another prompt in a process that lived all the time.")
    assert contents(there) == NEW
    [text] = [text for text in notices(there) if "killed" in text]
    assert text.startswith("A change of 3 files was cut off")
    assert text in told_claude(there)
    there.say("Once more.")
    assert not any("killed" in text for text in notices(there))
    assert "interrupted" not in told_claude(there)


def test_another_project_finishes_it_and_the_right_one_is_told(patched, tmp_path):
    there, project = patched, patched.cwd
    kill(there, "b.txt")
    there.cwd = tmp_path / "elsewhere"
    there.cwd.mkdir()
    anew(there)
    assert [(project / name).read_text() for name in CUT_OFF_NAMES] == NEW, (
        "it was not finished before the first prompt"
    )
    there.say("Elsewhere.")
    assert not any("killed" in text for text in notices(there))
    there.cwd = project
    anew(there)
    there.say("Here.")
    assert any("killed" in text for text in notices(there))


@pytest.mark.parametrize("resumed", [True, False])
def test_a_killed_undo_is_finished_and_told(patched, resumed):
    there = patched
    there.say()
    assert contents(there) == NEW
    kill(there, "b.txt", "/undo both yes")
    assert contents(there) == ["old\n", "new\n", "new\n"]
    there.again() if resumed else anew(there)
    there.say("And now?")
    assert contents(there) == OLD
    [text] = [text for text in notices(there) if "killed" in text]
    assert text.startswith("The undo of turn 1")
    if not resumed:
        assert text in told_claude(there)
        return
    assert "The user has undone turn 1" in told_claude(there)
    assert len(there.server.requests[-1].body["messages"]) == 1, "the undone turn is still in the conversation"


def test_an_undo_killed_before_its_end_is_ended_by_the_next_undo(patched):
    there = patched
    there.say()
    kill(there, "end", "/undo both yes")
    assert contents(there) == OLD
    there.again()
    assert "no turn to undo" in there.type("/undo")
    there.say("And now?")
    assert any("The undo of turn 1" in text and "finished now" in text for text in notices(there))
    assert "The user has undone turn 1" in told_claude(there)


def test_an_undo_killed_before_its_first_file_has_not_happened(patched):
    there = patched
    there.say()
    kill(there, "a.txt", "/undo yes")
    there.again()
    there.say("And now?")
    assert contents(there) == NEW
    assert any("has changed nothing. /undo starts it again" in text for text in notices(there))
    assert "undone turn" not in told_claude(there)
    there.type("/undo")
    assert contents(there) == OLD


class OpenInAPage:
    """A front end whose document is a file: what it shows is what is in there."""

    def __init__(self, path: Path) -> None:
        self.notebook = FileNotebook(path)

    def own(self) -> OpenNotebook | None:
        return None

    def at(self, path: Path) -> OpenNotebook | None:
        return self.notebook if path == self.notebook.path else None

    async def settled(self) -> None:
        pass

    def refusal(self, path: Path) -> str:
        return "it is open in a page" if path.name == "other.ipynb" else ""


def cell(name: str, source: str, kind: str = "code", count: int | None = None) -> dict[str, Any]:
    more = {"outputs": [], "execution_count": count} if kind == "code" else {}
    return {"cell_type": kind, "id": name, "metadata": {}, "source": source, **more}


def edit(mode: str, **fields: Any) -> Any:
    return use("NotebookEdit", notebook_path="n.ipynb", edit_mode=mode, **fields)


READ = use("NotebookRead", notebook_path="n.ipynb")
CELLS = [cell("one", "a = 1", count=7), cell("two", "b = 2"), cell("three", "# three", "markdown")]
EMPTY = json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
CHANGES = [
    READ,
    edit("replace", cell_id="one", new_source="a = 10"),
    edit("delete", cell_id="two"),
    edit("insert", cell_type="code", new_source="c = 3", position="end"),
]


@pytest.fixture
def notebook(work, tmp_path):
    def make(*prompts: list[Any]) -> Any:
        there = work(*prompts)
        path = there.put("n.ipynb", json.dumps({"cells": CELLS, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
        there.conversation.close()
        there.conversation = Conversation(
            Host(cwd=there.cwd, interface="a test", environ=there.environ, open_notebooks=OpenInAPage(path))
        )
        return there

    return make


def sources(there: Any) -> dict[str, str]:
    found = json.loads(there.read("n.ipynb"))["cells"]
    return {each["id"]: "".join(each["source"]) for each in found}


def typed(there: Any, name: str, source: str) -> None:
    """The user types into a cell."""
    found = json.loads(there.read("n.ipynb"))
    for each in found["cells"]:
        each["source"] = source if each["id"] == name else each["source"]
    there.put("n.ipynb", json.dumps(found))


def test_changed_deleted_and_new_cells_are_taken_back_and_brought_back(notebook):
    there = notebook(CHANGES)
    before = sources(there)
    there.say("Work on it")
    after = sources(there)
    assert after["one"] == "a = 10"
    assert "two" not in after
    assert [(each.where, each.kind) for each in there.changed.cells] == [
        ("cell [7] in n.ipynb", "changed"),
        ("cell “b = 2” in n.ipynb", "deleted"),
        ("cell “c = 3” in n.ipynb", "created"),
    ]
    assert there.changed.files == ()
    page = there.type("/undo")
    assert "cell “b = 2” in n.ipynb" in page
    assert list(sources(there).items()) == list(before.items())
    there.type("/redo")
    assert sources(there) == after


def test_a_deleted_cell_comes_back_below_one_that_goes(notebook):
    insertion = edit("insert", cell_id="one", cell_type="code", new_source="c = 3")
    there = notebook([READ, insertion, edit("delete", cell_id="two")])
    before = sources(there)
    there.say("Work on it")
    after = sources(there)
    assert "two" not in after
    there.type("/undo")
    assert list(sources(there).items()) == list(before.items())
    there.type("/redo")
    assert list(sources(there).values()) == list(after.values())


def test_what_the_user_typed_since_is_left(notebook):
    there = notebook(CHANGES)
    there.say()
    typed(there, "one", "a = 11  # mine")
    page = there.type("/undo")
    assert "cell [7] in n." in page
    assert "it has changed since then" in page
    assert sources(there) == {"one": "a = 11  # mine", "two": "b = 2", "three": "# three"}


def test_what_the_user_typed_between_two_turns_is_left(notebook):
    there = notebook(
        [READ, edit("replace", cell_id="one", new_source="a = 10")],
        [READ, edit("replace", cell_id="one", new_source="a = 12")],
    )
    there.say()
    typed(there, "one", "a = 11")
    there.say()
    page = there.type("/undo 2")
    assert "has changed since" in page
    assert sources(there)["one"] == "a = 12"
    there.type("/undo")
    assert sources(there)["one"] == "a = 11"


def test_a_moved_cell_goes_back(notebook):
    there = notebook([READ, edit("move", cell_id="three", position="start")])
    there.say()
    assert list(sources(there)) == ["three", "one", "two"]
    there.type("/undo")
    assert list(sources(there)) == ["one", "two", "three"]


def test_an_edit_that_was_refused_is_no_change(notebook):
    there = notebook([READ, edit("replace", cell_id="nowhere", new_source="x")])
    there.say()
    assert not any(event for event in there.events if type(event).__name__ == "TurnChanged")


def test_a_notebook_that_is_gone_is_named(notebook):
    there = notebook(CHANGES)
    there.say()
    (there.cwd / "n.ipynb").unlink()
    assert "as they are" in there.type("/undo")


def test_the_file_of_a_notebook_that_was_opened_since_is_left(notebook):
    there = notebook([use("Write", file_path="other.ipynb", content=EMPTY)])
    there.say()
    assert "open in a page" in there.type("/undo force")
    assert there.read("other.ipynb") == EMPTY
