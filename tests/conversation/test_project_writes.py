"""A project whose every folder and file that we would write is a link to a place of the user's: nothing there changes."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cellwright.agent.calls.approval import Allow, keep_rules
from cellwright.agent.recording.recorder import Recorder, apply_edit
from cellwright.agent.recording.recordings import edits_of
from cellwright.errors import CellwrightError, ToolError
from cellwright.features.agents.worktree import make_worktree
from cellwright.features.memory import memory_folder, read_notes
from cellwright.python_api.map_result import AnswerStore
from cellwright.terminal.subcommands.extensions import mcp
from cellwright.testing import say
from talk import Talk

NAMES = (".claude", "docs", "recording.jsonl", "answers.jsonl", "log.jsonl", ".mcp.json", "notes.md")


@pytest.fixture
def talk(messages_server: Callable[..., object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Talk]:
    made = Talk(messages_server([]), tmp_path)  # type: ignore[arg-type]
    (made.project / ".git").rmdir()
    monkeypatch.chdir(made.project)
    for arguments in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "x"]):
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *identity, *arguments], cwd=made.project, check=True, capture_output=True)
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in NAMES:
        (outside / name).write_text("{}", "utf-8") if "." in name[1:] else (outside / name).mkdir()
        (made.project / name).symlink_to(outside / name)
    yield made
    made.conversation.close()


def always(talk: Talk) -> str:
    save = talk.conversation.in_force.save_rules
    answer = asyncio.run(keep_rules(Allow(scope="always", rules=("Bash(make)",)), save))
    assert isinstance(answer, Allow)
    assert (answer.scope, answer.rules) == ("session", ("Bash(make)",))
    assert "for this session" in answer.notice
    return answer.notice


def work_tree(talk: Talk) -> str:
    return refusal(lambda: asyncio.run(make_worktree(talk.project, "x", talk.environ)))


def export(talk: Talk) -> str:
    talk.say("Hello.", say("Good."))
    return refusal(lambda: talk.page("/export docs/x.md"))


def recording(talk: Talk) -> str:
    return refusal(lambda: Recorder(Path("recording.jsonl"), talk.project, talk.environ))


def recording_in_a_folder(talk: Talk) -> str:
    return refusal(lambda: Recorder(Path("docs/recording.jsonl"), talk.project, talk.environ))


def replayed_edit(talk: Talk) -> str:
    display = {"path": "docs/new.py", "before_sha256": None, "after_sha256": "0" * 64}
    (edit,) = edits_of(display, talk.project)
    return refusal(lambda: apply_edit(edit, b"content"))


def answers(talk: Talk) -> str:
    return refusal(lambda: AnswerStore(talk.project / "answers.jsonl"))


def tool_log(talk: Talk) -> str:
    talk.settings(cellwright={"toolLog": "log.jsonl"})
    talk.say("Hello.", say("Good."))
    return "is a symbolic link"  # it is in the log of the process


def mcp_server(talk: Talk) -> str:
    return refusal(lambda: mcp(["add-json", "x", '{"command": "true"}', "--scope", "project"]))


FEATURES = [always, work_tree, export, recording, recording_in_a_folder, replayed_edit, answers, tool_log, mcp_server]


@pytest.mark.parametrize("feature", FEATURES, ids=[feature.__name__ for feature in FEATURES])
def test_no_feature_writes_through_a_link_of_the_project(talk: Talk, tmp_path: Path, feature: Callable[[Talk], str]):
    before = content(tmp_path / "outside")
    assert "symlink" in (said := feature(talk)) or "symbolic link" in said
    assert content(tmp_path / "outside") == before
    assert all((talk.project / name).is_symlink() for name in NAMES)


def test_notes_of_an_agent_are_not_read_through_a_link(talk: Talk, tmp_path: Path) -> None:
    folder = memory_folder("project", "reviewer", users=talk.home / ".claude", project=talk.project)
    (tmp_path / "outside" / ".claude" / "agent-memory" / "reviewer").mkdir(parents=True)
    (folder / "MEMORY.md").write_text("a secret", "utf-8")
    assert read_notes(folder, talk.project) == ""
    (talk.project / ".claude").unlink()
    folder.mkdir(parents=True)
    (folder / "MEMORY.md").write_text("a note", "utf-8")
    assert read_notes(folder, talk.project) == "a note"


def refusal(write: Callable[[], object]) -> str:
    with pytest.raises((CellwrightError, ToolError, OSError)) as caught:
        write()
    return str(caught.value)


def content(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}
