"""What is cut at a limit is said: folders of skills, commands, agents, styles and rules, and patches of many files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cellwright.config.agents import MAX_AGENTS
from cellwright.config.memory import MAX_RULES
from cellwright.config.output_styles import MAX_STYLES
from cellwright.config.skills import MAX_SKILLS
from cellwright.conversation.core import Host
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import RunSurface
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.events import Event, Notice
from cellwright.features.conversation import Conversation
from cellwright.permissions.judges.patch import MAX_FILES_JUDGED
from cellwright.permissions.policy import PermissionPolicy
from cellwright.testing import MessagesServer, say

FOLDERS = {
    "skills": (MAX_SKILLS, "{}/SKILL.md"),
    "commands": (MAX_SKILLS, "{}.md"),
    "agents": (MAX_AGENTS, "{}.md"),
    "output-styles": (MAX_STYLES, "{}.md"),
    "rules": (MAX_RULES, "{}.md"),
}


def test_a_folder_that_holds_more_than_is_taken_is_named(
    messages_server: Callable[..., MessagesServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home))
    for name, (most, file) in FOLDERS.items():
        for number in range(most + 1):
            path = home / name / file.format(f"n{number}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    server = messages_server([say("Hello."), say("Again.")])
    environ = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key, "CLAUDE_CONFIG_DIR": str(home)}
    conversation = Conversation(Host(cwd=tmp_path, interface="a test", environ=environ))
    said: list[list[str]] = []
    try:
        for _ in range(2):
            events: list[Event] = []
            request = RunRequest(prompt="hi", options=RunOptions())
            conversation.jobs.work_until_done(conversation.start(request, RunSurface(events.append)))
            said.append([e.message for e in events if isinstance(e, Notice) and "are taken" in e.message])
    finally:
        conversation.close()
    assert sorted(text.partition(":")[0] for text in said[0]) == sorted(str(home / name) for name in FOLDERS)
    assert said[1] == []


@pytest.mark.parametrize(
    ("mode", "behavior"), [("bypassPermissions", "allow"), ("acceptEdits", "allow"), ("default", "ask")]
)
def test_a_patch_of_many_files_is_asked_about_where_one_of_few_would_be(
    tmp_path: Path, mode: str, behavior: str
) -> None:
    names = [f"f{number}.txt" for number in range(MAX_FILES_JUDGED + 1)]
    patch = "".join(f"--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-old\n+new\n" for name in names)
    few = PermissionPolicy(mode, roots=[tmp_path], cwd=tmp_path)
    assert few.decide("ApplyPatch", {"patch": patch}).behavior == behavior
    denying = PermissionPolicy(mode, deny=["Edit(f7.txt)"], roots=[tmp_path], cwd=tmp_path)
    assert denying.decide("ApplyPatch", {"patch": patch}).behavior == "deny"
