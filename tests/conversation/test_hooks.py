"""Hooks of settings files in a conversation: whose run, when a session begins and ends, what changed settings do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cellwright.conversation.core import Host
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import RunSurface
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import ErrorCode
from cellwright.events import Event, Notice, RunEnd, ToolEnd
from cellwright.features.conversation import Conversation
from cellwright.testing import MessagesServer, say, use
from eventual import eventually
from processes.marked_processes import wait_until_gone


class Talk:
    """A conversation in `project`, with a server that answers from a script and hooks that write into `log`."""

    def __init__(self, server: MessagesServer, project: Path, home: Path) -> None:
        self.server, self.project, self.home = server, project, home
        self.log = home / "log"
        self.environ = {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": server.api_key,
        }
        self.events: list[Event] = []
        self._conversation: Conversation | None = None

    @property
    def conversation(self) -> Conversation:
        if self._conversation is None:
            self._conversation = Conversation(Host(cwd=self.project, interface="a test", environ=self.environ))
        return self._conversation

    def settings(self, folder: Path, **events: str) -> None:
        """Write a settings file with one command for each event."""
        hooks = {event: [{"hooks": [{"type": "command", "command": text}]}] for event, text in events.items()}
        self.write(folder, {"hooks": hooks})

    def write(self, folder: Path, content: Any) -> None:
        (folder / ".claude").mkdir(exist_ok=True)
        (folder / ".claude" / "settings.json").write_text(json.dumps(content), "utf-8")

    def noting(self, *fields: str) -> str:
        """A command that notes these fields of its event."""
        code = "import json, sys; event = json.load(sys.stdin); print(*[event.get(key) for key in sys.argv[1:]])"
        return f"{sys.executable} -c '{code}' hook_event_name {' '.join(fields)} >> {self.log}"

    @property
    def noted(self) -> list[str]:
        return self.log.read_text("utf-8").splitlines() if self.log.exists() else []

    def say(self, prompt: str = "go", **options: Any) -> RunEnd:
        self.events.clear()
        options.setdefault("mode", "bypassPermissions")
        task = self.conversation.start(
            RunRequest(prompt=prompt, options=RunOptions(**options)), RunSurface(self.events.append)
        )
        self.conversation.jobs.work_until_done(task)
        return task.result()

    def notices(self) -> list[str]:
        return [event.message for event in self.events if isinstance(event, Notice)]


@pytest.fixture
def talk(messages_server: Any, tmp_path: Path, own_place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("IS_SANDBOX", "1")
    made: list[Talk] = []

    def make(*script: Any) -> Talk:
        made.append(Talk(messages_server([*script]), tmp_path, own_place))
        made[0].environ["IS_SANDBOX"] = "1"
        return made[0]

    yield make
    for each in made:
        each.conversation.close()
        assert each.server.rejected == []


def test_a_users_hook_denies_a_call(talk):
    talking = talk(use("Bash", command="git push"), say("ok"))
    talking.settings(talking.home, PreToolUse="echo 'never push' >&2; exit 2")
    assert talking.say().ok
    (end,) = [event for event in talking.events if isinstance(event, ToolEnd)]
    assert ": never push" in end.content


def test_a_session_begins_and_ends_once_for_hooks(talk):
    talking = talk(say("one"), say("two"), say("three"), say("four"))
    note = {"SessionStart": talking.noting("source"), "SessionEnd": talking.noting("reason")}
    talking.settings(talking.home, **note, UserPromptSubmit=talking.noting("prompt"))
    talking.say("first")
    talking.say("second")
    first = talking.conversation.sessions.current.id
    talking.conversation.sessions.start_new()
    talking.say("third")
    talking.conversation.sessions.resume(first)
    talking.say("fourth")
    talking.conversation.close()
    assert sorted(talking.noted) == sorted(
        [
            "SessionStart startup",
            "UserPromptSubmit first",
            "UserPromptSubmit second",
            "SessionEnd clear",
            "SessionStart clear",
            "UserPromptSubmit third",
            "SessionEnd resume",
            "SessionStart resume",
            "UserPromptSubmit fourth",
            "SessionEnd other",
        ]
    )
    assert talking.noted[0] == "SessionStart startup"
    assert talking.noted[-1] == "SessionEnd other"


def test_a_session_that_had_no_prompt_does_not_end(talk):
    talking = talk(say("never"))
    talking.settings(talking.home, SessionEnd=talking.noting("reason"))
    _ = talking.conversation.sessions.current
    talking.conversation.sessions.start_new()
    talking.conversation.close()
    assert talking.noted == []


def test_a_folder_that_is_not_trusted_has_no_hooks_not_even_the_users(talk):
    talking = talk(say("one"), say("two"))
    talking.settings(talking.home, Stop=talking.noting())
    talking.settings(talking.project, UserPromptSubmit=talking.noting())
    talking.say()
    assert talking.noted == []
    in_force = talking.conversation.in_force
    question = in_force.question()
    assert "UserPromptSubmit" in question.detail
    in_force.answer(question, yes=True)
    talking.say()
    assert talking.noted == ["UserPromptSubmit", "Stop"]


def test_a_folder_that_brings_nothing_along_has_the_users_hooks(talk):
    talking = talk(say("one"))
    talking.settings(talking.home, Stop=talking.noting())
    talking.say()
    assert talking.noted == ["Stop"]


def test_callables_run_also_where_nothing_is_trusted(talk):
    talking = talk(say("one"))
    talking.settings(talking.project, Stop="exit 2")
    heard = []

    async def hear(hook_input, *_):
        heard.append(hook_input["hook_event_name"])

    assert talking.say(hooks={"Stop": [hear]}).ok
    assert heard == ["Stop"]


@pytest.mark.parametrize("mode", ["default", "plan"])
def test_hooks_hear_the_users_prompt_and_not_what_is_told_with_it(talk, mode):
    talking = talk(say("one"))
    talking.settings(talking.home, UserPromptSubmit=talking.noting("prompt"))
    talking.say("only this", mode=mode)
    assert talking.noted == ["UserPromptSubmit only this"]


def test_what_hooks_export_is_there_for_shell_commands_of_the_session(talk):
    talking = talk(
        use("Bash", command='echo "$GREETING, $LD_PRELOAD$MY_TOKEN."'),
        say("ok"),
        use("Bash", command='echo "$GREETING."'),
        say("ok"),
    )
    script = """name=world
echo "export GREETING='hello $name'; export LD_PRELOAD=/evil.so MY_TOKEN=t" >> "$CLAUDE_ENV_FILE"
"""
    hook = {"hooks": [{"type": "command", "command": script}], "matcher": "startup"}
    talking.write(talking.home, {"hooks": {"SessionStart": [hook]}})
    talking.say()
    talking.conversation.sessions.start_new()
    talking.write(talking.home, {"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "true"}]}]}})
    outputs = [event.content for event in talking.events if isinstance(event, ToolEnd)]
    talking.say()
    outputs += [event.content for event in talking.events if isinstance(event, ToolEnd)]
    assert outputs == ["hello world, .", "."]


def test_a_change_of_settings_is_told_to_the_hooks_from_before_it(talk):
    talking = talk(say("one"), say("two"), say("three"))
    talking.settings(talking.home, ConfigChange=talking.noting("source", "file_path"))
    talking.say()
    talking.write(talking.home, {"hooks": {}})
    talking.say()
    talking.say()
    file = talking.home / ".claude" / "settings.json"
    assert talking.noted == [f"ConfigChange user_settings {file}"]


def test_a_change_that_a_hook_refuses_holds_every_run_back_until_it_is_taken_back(talk):
    talking = talk(say("one"), say("two"))
    guard = {"ConfigChange": f"grep -q '\"Stop\"' {talking.home}/.claude/settings.json || exit 0; echo no >&2; exit 2"}
    talking.settings(talking.home, **guard)
    talking.say()
    talking.settings(talking.home, Stop="true")
    for _ in range(2):
        error = talking.say().error
        assert error["code"] == ErrorCode.PERMISSION_DENIED
        assert "ConfigChange hook refuses" in error["message"]
    assert len(talking.server.requests) == 1
    talking.settings(talking.home, **guard)
    assert talking.say().ok


def test_rules_that_a_hook_gives_for_local_settings_are_kept_there(talk):
    talking = talk(use("Bash", command="touch a"), use("Bash", command="touch b"), say("ok"))
    update = {
        "type": "addRules",
        "rules": [{"toolName": "Bash", "ruleContent": "touch *"}],
        "behavior": "allow",
        "destination": "localSettings",
    }
    decision = {"behavior": "allow", "updatedPermissions": [update]}
    answer = json.dumps({"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}})
    talking.settings(talking.home, PermissionRequest=f"echo x >> {talking.log}; echo '{answer}'")
    assert talking.say(mode="default").tools_succeeded == 2
    assert talking.noted == ["x"]
    local = json.loads((talking.project / ".claude" / "settings.local.json").read_text("utf-8"))
    assert local["permissions"]["allow"] == ["Bash(touch *)"]


def test_a_hook_that_refuses_a_task_says_why(talk):
    talking = talk(
        use("TaskCreate", subject="Fix it", description="All of it"),
        use("TaskUpdate", taskId="1", status="completed"),
        say("ok"),
    )
    talking.environ["CLAUDE_CODE_ENABLE_TASKS"] = "1"
    talking.settings(
        talking.home,
        TaskCreated=talking.noting("task_id", "task_subject"),
        TaskCompleted="echo 'no tests yet' >&2; exit 2",
    )
    talking.say()
    ends = [event for event in talking.events if isinstance(event, ToolEnd)]
    assert talking.noted == ["TaskCreated 1 Fix it"]
    assert ": no tests yet" in ends[1].content


@pytest.mark.parametrize("event", ["UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolBatch", "Stop"])
def test_stop_ends_a_hook_that_hangs_and_leaves_no_process(talk, event):
    talking = talk(use("Bash", command="true"), *[say("ok")] * 3)
    talking.environ["HOOK_TEST_MARK"] = marker = f"mark-{os.getpid()}-{event}"
    ready = talking.home / "ready"
    hang = f"test -e {ready} && exit 0; sleep 1000 & trap '' TERM; echo x > {ready}; sleep 1000; wait"
    talking.settings(talking.home, **{event: hang})
    task = talking.conversation.start(
        RunRequest(prompt="go", options=RunOptions(mode="bypassPermissions")), RunSurface(talking.events.append)
    )
    eventually(ready.exists)
    task.cancel()
    talking.conversation.jobs.work_until_done(task)
    wait_until_gone(marker)
    assert talking.say("again").ok  # and the session goes on: every call was answered


def test_without_hooks_nothing_of_them_is_imported(own_place, tmp_path):
    code = """
import sys
from pathlib import Path
from cellwright.features.conversation import Conversation
from cellwright.conversation.core import Host
from cellwright.conversation.runs.run import RunSurface
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.testing import MessagesServer, say

with MessagesServer([say("ok")]) as server:
    environ = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key, "HOME": sys.argv[1]}
    talking = Conversation(Host(cwd=Path.cwd(), interface="a test", environ=environ))
    task = talking.start(RunRequest(prompt="go"), RunSurface())
    talking.jobs.work_until_done(task)
    talking.close()
print([name for name in sys.modules if name.startswith("cellwright.config.hooks.") and "in_force" not in name])
"""
    run = subprocess.run(
        [sys.executable, "-c", code, str(own_place)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"
