"""Claude's own notes: kept only where the user wants it, told at the beginning, bounded; and InstructionsLoaded hooks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.hooks.callbacks import HookMatcher
from cellwright.testing import MessagesServer, say, use
from talk import Talk


@pytest.fixture
def talk(messages_server: Callable[..., MessagesServer], tmp_path: Path) -> Iterator[Talk]:
    talk = Talk(messages_server([]), tmp_path)
    yield talk
    talk.close()


def told(talk: Talk) -> str:
    return json.dumps(talk.body()["messages"], ensure_ascii=False)


def test_nothing_is_kept_unasked(talk: Talk) -> None:
    talk.say("hi")
    assert talk.conversation.in_force.notes_folder is None
    assert "own-notes" not in told(talk)


def test_notes_are_written_with_the_file_tools_and_told_to_later_sessions(talk: Talk) -> None:
    talk.settings(autoMemoryEnabled=True)
    folder = talk.conversation.in_force.notes_folder
    assert folder is not None
    assert talk.project not in folder.parents
    talk.say("remember", use("Write", file_path=str(folder / "MEMORY.md"), content="- tests: make test\n"), say("ok"))
    assert [ask.name for ask in talk.asked] == ["Write"]
    assert told(talk).count("<own-notes folder=") == 1
    talk.page("/clear")
    # reading them asks nobody
    (folder / "build.md").write_text("make all\n")
    talk.say("hi", use("Read", file_path=str(folder / "build.md")), say("ok"))
    assert "- tests: make test" in told(talk)
    assert [status for status, _ in talk.results] == ["success"]
    assert len(talk.asked) == 1
    assert "Claude's own notes" in talk.page("/memory").plain()


def test_the_index_is_told_up_to_its_bound_and_imports_nothing(talk: Talk) -> None:
    secret = talk.write("secret.txt", "hunter2")
    talk.settings(autoMemoryEnabled=True, autoMemoryDirectory=str(talk.home / "notes"))
    talk.write("notes/MEMORY.md", "".join(f"- line {number} @{secret}\n" for number in range(1, 301)))
    talk.say("hi")
    assert "- line 200 " in told(talk)
    assert "- line 201 " not in told(talk)
    assert "first 200 lines" in told(talk)
    assert "hunter2" not in told(talk)


def test_the_variable_switches_them_off(messages_server: Callable[..., MessagesServer], tmp_path: Path) -> None:
    talk = Talk(messages_server([]), tmp_path, CLAUDE_CODE_DISABLE_AUTO_MEMORY="1")
    talk.settings(autoMemoryEnabled=True)
    assert talk.conversation.in_force.notes_folder is None
    talk.close()


def test_hooks_are_told_of_each_file_that_claude_is_told(talk: Talk) -> None:
    heard: list[Mapping[str, Any]] = []

    async def note(given: Mapping[str, Any], tool_use_id: str | None, context: Any) -> dict[str, Any]:
        heard.append(given)
        return {}

    talk.write(".claude/CLAUDE.md", "See @more.md")
    talk.write(".claude/more.md", "more")
    talk.write("project/.claude/rules/py.md", "---\npaths: '*.py'\n---\nrule")
    talk.write("project/sub/CLAUDE.md", "sub")
    talk.write("project/sub/a.py", "x")
    talk.trust()
    hooks = {"InstructionsLoaded": [HookMatcher("", [note])]}
    talk.say("hi", use("Read", file_path="sub/a.py"), say("ok"), hooks=hooks)
    project = talk.project
    found = {Path(each["file_path"]).name: each for each in heard if each["hook_event_name"] == "InstructionsLoaded"}
    reasons = [(Path(each["file_path"]).parent.name, each["load_reason"], each["memory_type"]) for each in heard]
    assert sorted(reasons) == [
        (".claude", "include", "User"),
        (".claude", "session_start", "User"),
        ("rules", "path_glob_match", "Project"),
        ("sub", "nested_traversal", "Project"),
    ]
    assert found["more.md"]["parent_file_path"].endswith("CLAUDE.md")
    assert found["py.md"]["globs"] == ["*.py"]
    assert found["py.md"]["trigger_file_path"] == str(project / "sub/a.py")
    heard.clear()
    talk.say("again", hooks=hooks)
    assert heard == []
