"""A process that is killed in a patch or an undo: whoever is next in the project finishes it before anything, and tells."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from cellwright.conversation.core import Host
from cellwright.events import ContextAttached, Notice
from cellwright.features.conversation import Conversation
from cellwright.testing import use

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")

NAMES = ("a.txt", "b.txt", "c.txt")
OLD, NEW = ["old\n"] * 3, ["new\n"] * 3
PATCH = "".join(f"--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-old\n+new\n" for name in NAMES)

KILLED = """
import os, signal, sys
from pathlib import Path
from cellwright.commands.command import CommandCall
from cellwright.commands.registry import answer_of, command_of
from cellwright.features.conversation import Conversation
from cellwright.conversation.core import Host
from cellwright.conversation.runs.run import RunSurface
from cellwright.conversation.runs.run_request import RunRequest
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


def kill(there: Any, at: str, does: str = "patch") -> None:
    if does != "patch":
        there.conversation.close()
    environ = {**os.environ, **there.environ}
    child = subprocess.run([sys.executable, "-c", KILLED, at, does], cwd=there.cwd, env=environ, check=False)
    assert child.returncode == -signal.SIGKILL


def contents(there: Any) -> list[str | None]:
    return [there.read(name) for name in NAMES]


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
    there = work([use("ApplyPatch", patch=PATCH)], [], [])
    for name in NAMES:
        there.put(name, "old\n")
    return there


def test_a_new_session_finds_the_patch_finished_and_is_told_once(patched):
    there = patched
    kill(there, "b.txt")
    assert contents(there) == ["new\n", "old\n", "old\n"]
    there.say("Another prompt in a process that lived all the time.")
    assert contents(there) == NEW
    [text] = [text for text in notices(there) if "killed" in text]
    assert text.startswith("A change of")
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
    assert [(project / name).read_text() for name in NAMES] == NEW, "it was not finished before the first prompt"
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
    assert text.startswith("The undo of")
    if not resumed:
        assert text in told_claude(there)
        return
    assert "undone turn 1" in told_claude(there)
    assert len(there.server.requests[-1].body["messages"]) == 1, "the undone turn is still in the conversation"


def test_an_undo_killed_before_its_end_is_ended_by_the_next_undo(patched):
    there = patched
    there.say()
    kill(there, "end", "/undo both yes")
    assert contents(there) == OLD
    there.again()
    assert "turn to undo" in there.type("/undo")
    there.say("And now?")
    assert any("undo of turn 1" in text and "finished now" in text for text in notices(there))
    assert "undone turn 1" in told_claude(there)


def test_an_undo_killed_before_its_first_file_has_not_happened(patched):
    there = patched
    there.say()
    kill(there, "a.txt", "/undo yes")
    there.again()
    there.say("And now?")
    assert contents(there) == NEW
    assert any("changed nothing. /undo" in text for text in notices(there))
    assert "undone turn" not in told_claude(there)
    there.type("/undo")
    assert contents(there) == OLD
