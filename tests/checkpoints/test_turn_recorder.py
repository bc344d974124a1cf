"""Files that change by other ways than an editing tool: a linter's fix, a hook, a command; and files in an editor."""

from __future__ import annotations

import json
import sys
import threading
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from cellwright.agent.agent_setup import NO_CHECKPOINTS
from cellwright.checkpoints.checkpoints import Checkpoints
from cellwright.conversation.core import Host
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import RunSurface
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.events import Event, RunEnd, TextDelta, ToolStart
from cellwright.features.conversation import Conversation
from cellwright.testing import Gate, hold, say, turn, use


def test_what_a_linter_fixed_is_taken_back(work):
    there = work([use("Lint", paths=["a.py"], linter="ruff", fix=True)])
    there.put("a.py", "import os\nx = 1\n")
    there.put("b.py", "import os\n")
    there.say()
    assert there.read("a.py") == "x = 1\n"
    assert [file.where for file in there.changed.files] == ["a.py"]
    there.type("/undo")
    assert there.read("a.py") == "import os\nx = 1\n"


def test_what_a_hook_made_of_a_file_is_taken_back_with_it(work, own_place):
    hook = own_place / "format.py"
    hook.write_text(
        "import json, sys\npath = json.load(sys.stdin)['tool_input']['file_path']\n"
        "text = open(path).read()\nopen(path, 'w').write(text.upper())\n"
    )
    command = f"{sys.executable} {hook}"
    hooks = {"PostToolUse": [{"matcher": "Write", "hooks": [{"type": "command", "command": command}]}]}
    (own_place / ".claude").mkdir()
    (own_place / ".claude" / "settings.json").write_text(json.dumps({"hooks": hooks}))
    there = work([use("Write", file_path="a.py", content="one\n")])
    there.say()
    assert there.read("a.py") == "ONE\n"
    page = there.type("/undo")
    assert "as they are" not in page
    assert there.read("a.py") is None
    there.type("/redo")
    assert there.read("a.py") == "ONE\n"


def test_a_write_that_failed_is_no_change(work):
    there = work([use("Write", file_path="a.py", content="one\n"), use("Write", file_path="a.py/b.py", content="x")])
    there.say()
    assert [file.where for file in there.changed.files] == ["a.py"]
    there.type("/undo")
    assert there.read("a.py") is None


def test_a_file_with_unsaved_changes_is_left(work):
    there = work([use("Write", file_path="a.py", content="one\n"), use("Write", file_path="b.py", content="b\n")])
    unsaved: list[Path] = []
    there.conversation.close()
    there.conversation = Conversation(
        Host(cwd=there.cwd, interface="a test", environ=there.environ, is_unsaved=lambda path: path in unsaved)
    )
    there.say()
    unsaved.append(there.cwd / "a.py")
    page = there.type("/undo force")
    assert "open in an" in page
    assert "not saved" in page
    assert (there.read("a.py"), there.read("b.py")) == ("one\n", None)


def test_a_link_or_a_folder_in_a_files_place_is_left(work):
    there = work([use("Write", file_path=name, content="one\n") for name in ("a.py", "b.py")])
    there.say()
    elsewhere = there.put("mine.txt", "mine\n")
    (there.cwd / "a.py").unlink()
    (there.cwd / "a.py").symlink_to(elsewhere)
    (there.cwd / "b.py").unlink()
    (there.cwd / "b.py").mkdir()
    page = there.type("/undo force")
    assert "symbolic link now" in page
    assert elsewhere.read_text() == "mine\n"
    assert (there.cwd / "b.py").is_dir()


def test_where_the_journal_cannot_be_written_turns_go_on(work, own_place):
    (own_place / "cellwright").mkdir()
    (own_place / "cellwright" / "checkpoints").write_text("no folder")
    there = work([use("Write", file_path="a.py", content="one\n")])
    there.say()
    assert there.read("a.py") == "one\n"


def test_one_that_is_not_enabled_begins_nothing(tmp_path):
    checkpoints = Checkpoints(lambda: (tmp_path,), lambda: False, lambda: 30)
    assert checkpoints.begin(None, "Go.", 1) is NO_CHECKPOINTS  # type: ignore[arg-type]


def test_what_the_user_saves_between_two_calls_is_the_users(work):
    there = work([use("Write", file_path="a.py", content="one\n"), use("LS", path="."), use("LS", path=".")])

    def listen(event: Event) -> None:
        if isinstance(event, ToolStart) and event.calls[0].name == "LS":
            there.put("a.py", "mine\n")

    task = there.conversation.start(
        RunRequest(prompt="Go.", options=RunOptions(mode="bypassPermissions")), RunSurface(listen)
    )
    there.conversation.jobs.work_until_done(task)
    task.result()
    assert "has changed since" in there.type("/undo")
    assert there.read("a.py") == "mine\n"


def test_an_interrupted_turn_is_taken_back(work):
    there = work()
    gate = Gate()
    there.server.add(turn(use("Write", file_path="a.py", content="one\n")), turn(say("I go on"), hold(gate)))
    streaming = threading.Event()

    def listen(event: Event) -> None:
        there.events.append(event)
        if isinstance(event, TextDelta):
            streaming.set()

    task = there.conversation.start(
        RunRequest(prompt="Go.", options=RunOptions(mode="bypassPermissions")), RunSurface(listen)
    )
    assert streaming.wait(60)
    task.cancel()
    there.conversation.jobs.work_until_done(task)
    with pytest.raises(CancelledError):
        task.result()
    gate.open()
    assert [file.where for file in there.changed.files] == ["a.py"]
    assert isinstance(there.events[-1], RunEnd)
    there.type("/undo")
    assert there.read("a.py") is None
