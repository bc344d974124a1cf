"""Trials: commands that may do anything run confined before anybody is asked, and are asked about if they need more."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.calls.approval import Allow, Deny, ToolUse
from cellwright.agent.hooks.callbacks import HookMatcher
from cellwright.agent.loop import run_agent
from cellwright.agent.recording.replay import RecordedApproval
from cellwright.conversation.system_prompt import system_blocks
from cellwright.events import Answered, Asked, Decided, ToolEnd, ToolProgress, ToolStart
from cellwright.model.anthropic import connect
from cellwright.permissions.policy import PermissionPolicy
from cellwright.permissions.sandboxing import SandboxRules
from cellwright.sandbox.mechanisms import Sandbox
from cellwright.sandbox.refusals import absent_gpu
from cellwright.sessions.session import Session
from cellwright.testing import MessagesServer, say, turn, use
from cellwright.tools.process.child_processes import ChildProcesses
from cellwright.tools.shell.bash import bash_tool
from confined import sandbox_by, staging_sandbox
from row_tables import for_each_row


class Scene:
    """One Bash call in a project, decided and run for real."""

    def __init__(self, project: Path, sandbox: Sandbox) -> None:
        self.project = project
        self.sandbox = sandbox
        self.events: list[Any] = []
        self.asked: list[ToolUse] = []

    def play(
        self, *commands: str, answer: Allow | Deny | None = None, hooks: Any = None, **policy: Any
    ) -> Sequence[Mapping[str, Any]]:
        """The results that Claude gets of `commands`, each in a message of its own; `answer` None: nobody can be asked."""
        self.events.clear()
        self.asked.clear()
        return asyncio.run(self._play(commands, answer, hooks, policy))

    async def _play(self, commands: Sequence[str], answer: Any, hooks: Any, policy: Any) -> Sequence[Mapping[str, Any]]:
        async def can_use_tool(asked: ToolUse) -> Allow | Deny:
            self.asked.append(asked)
            return answer

        children = ChildProcesses(find_sandbox=lambda: self.sandbox)
        turns = [turn(use("Bash", command=command)) for command in commands]
        try:
            with MessagesServer([*turns, turn(say("Well."))]) as server:
                agent = AgentSetup(
                    provider=connect({"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}),
                    model="claude-opus-5-5",
                    system=system_blocks(),
                    tools=[bash_tool(self.project, children=children)],
                    policy=PermissionPolicy(
                        roots=[self.project],
                        cwd=self.project,
                        sandbox=SandboxRules(means=self.sandbox.abilities),
                        **policy,
                    ),
                    can_use_tool=None if answer is None else can_use_tool,
                    **({} if hooks is None else {"hooks": hooks}),
                )
                session = Session.create(self.project, None)
                await run_agent(agent, "Go.", session, self.events.append)
                return [message["content"][0] for message in session.messages[2::2]]
        finally:
            children.stop()

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def scene_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sandbox: Sandbox) -> Scene:
    home = tmp_path / "home"
    project = home / "project"
    project.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    (project / "data.csv").write_text("a,b\n1,2\n", "utf-8")
    (project / "writes.py").write_text("print('first')\nopen('out.csv', 'w').write('x')\nprint('done')\n", "utf-8")
    (project / "reads.py").write_text("print(open('data.csv').read())\n", "utf-8")
    (project / "fails.py").write_text("raise SystemExit('no such column')\n", "utf-8")
    return Scene(project, sandbox)


@pytest.fixture(params=["Landlock", "bubblewrap"])
def scene(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return scene_in(tmp_path, monkeypatch, sandbox_by(request.param))


@pytest.fixture
def staged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return scene_in(tmp_path, monkeypatch, staging_sandbox())


def test_what_only_reads_runs_whatever_the_program_is(scene: Scene) -> None:
    for command in (
        "python reads.py",
        "python -c \"print(open('data.csv').read())\"",
        "python - <<'E'\nprint(open('data.csv').read())\nE",
        "bash -c \"$(echo 'cat data.csv')\"",
        "eval 'cat data.csv'",
        "perl -pe 1 data.csv",
        "x=cat; $x data.csv",
    ):
        for mode in ("default", "plan", "dontAsk", "acceptEdits"):
            (result,) = scene.play(command, mode=mode)
            assert result["content"].startswith("a,b\n1,2"), (command, mode, result)
    # what fails for a reason of its own is not asked about
    (result,) = scene.play("python fails.py", answer=Allow())
    assert result["is_error"]
    assert scene.asked == []
    assert result["content"].endswith("[It ran without a network, and could change nothing.]")


def test_a_refused_trial_asks_once_and_runs_again_with_a_yes(scene: Scene) -> None:
    (result,) = scene.play("python writes.py", answer=Allow())
    assert (scene.project / "out.csv").read_text("utf-8") == "x"
    assert result["content"] == "first\ndone"
    (asked,) = scene.of(Asked)
    assert asked.reason.startswith("The sandbox allowed only reading and blocked writing")
    assert "out.csv after 0." in asked.reason
    assert asked.reason.endswith("If you allow it, it runs again.")
    # one call: one decision, one start, one end, and the question between the runs
    order = [
        type(event) for event in scene.events if isinstance(event, Decided | ToolStart | Asked | Answered | ToolEnd)
    ]
    assert order == [ToolStart, Decided, Asked, Answered, ToolEnd]
    shown = "".join(event.text for event in scene.of(ToolProgress))
    assert shown.count("first") == 2
    assert "It runs again" in shown


def test_a_no_gives_claude_the_first_result_and_changes_nothing(scene: Scene) -> None:
    (result,) = scene.play("python writes.py", answer=Deny("not now"))
    assert not (scene.project / "out.csv").exists()
    assert result["is_error"]
    assert "first" in result["content"]
    assert "blocked writing" in result["content"]
    assert "did not run again: not now" in result["content"]


@pytest.mark.parametrize(
    ("mode", "said"), [("default", "would allow it"), ("dontAsk", "would allow it"), ("plan", "plan")]
)
def test_where_nobody_is_asked_the_first_result_stays(scene: Scene, mode: str, said: str) -> None:
    (result,) = scene.play("python writes.py", mode=mode)
    assert not (scene.project / "out.csv").exists()
    assert "first" in result["content"]
    assert "out.csv" in result["content"]
    assert said in result["content"].lower()
    # nor is anything asked in these modes where somebody could be
    if mode != "default":
        scene.play("python writes.py", mode=mode, answer=Allow())
        assert scene.asked == []
        assert not (scene.project / "out.csv").exists()


def test_a_failure_that_a_pipe_hides_is_asked_about(scene: Scene) -> None:
    for command in ("python writes.py 2>&1 | tail -3", "python writes.py || true", "python writes.py; date"):
        scene.play(command, answer=Deny("no"))
        assert len(scene.asked) == 1, command


def test_the_network_is_asked_about(scene: Scene) -> None:
    code = "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9/')"
    scene.play(f'python -c "{code}"', answer=Deny("no"))
    (asked,) = scene.asked
    assert "The sandbox allowed only" in asked.decision.reason


def test_rules_and_hooks_come_before_a_trial(scene: Scene) -> None:
    command = "python writes.py"
    (result,) = scene.play(command, answer=Deny("no"), ask=["Bash(python *)"])
    assert "first" not in result["content"]
    (result,) = scene.play(command, answer=Allow(), deny=["Bash(python *)"])
    assert "first" not in result["content"]
    assert scene.asked == []
    # what a rule allows is not confined
    (result,) = scene.play(command, allow=["Bash(python *)"])
    assert (result["content"], (scene.project / "out.csv").exists()) == ("first\ndone", True)


def test_a_folder_that_a_refused_trial_ended_in_is_not_the_next_calls(scene: Scene) -> None:
    (scene.project / "sub").mkdir()
    first, second = scene.play("cd sub && python ../writes.py", "pwd", answer=Deny("no"))
    assert "did not run again" in first["content"]
    assert second["content"] == str(scene.project)
    (first,) = scene.play("cd sub && python ../writes.py", answer=Allow())
    assert first["content"] == "first\ndone"
    assert (scene.project / "sub" / "out.csv").exists()


def test_a_yes_for_the_session_is_no_trial_any_more(scene: Scene) -> None:
    yes = Allow(scope="session", rules=("Bash(python writes.py)",))
    scene.play("python writes.py", "python writes.py", answer=yes)
    assert len(scene.asked) == 1
    assert "".join(event.text for event in scene.of(ToolProgress)).count("first") == 3


def test_an_edited_command_runs_with_the_yes(scene: Scene) -> None:
    edited = Allow({"command": "python writes.py && mv out.csv other.csv"})
    (result,) = scene.play("python writes.py", answer=edited)
    assert (scene.project / "other.csv").exists()
    assert "done" in result["content"]


def test_in_accept_edits_a_trial_changes_the_sessions_folders(staged: Scene) -> None:
    (result,) = staged.play("python writes.py", mode="acceptEdits", answer=Deny("no"))
    assert result["content"] == "first\ndone"
    assert staged.asked == []
    assert (staged.project / "out.csv").read_text("utf-8") == "x"
    # a failure of its own keeps what it made till then
    (result,) = staged.play("python -c \"open('half', 'w').write('x'); 1/0\"", mode="acceptEdits", answer=Deny("no"))
    assert "ZeroDivisionError" in result["content"]
    assert (staged.project / "half").exists()


def test_a_staged_trial_that_needs_more_leaves_nothing_without_a_yes(staged: Scene) -> None:
    outside = staged.project.parent / "outside.txt"
    for more, said in {
        f"open('{outside}', 'w')": "outside.txt",
        "import socket; socket.create_connection(('127.0.0.1', 9))": "not permitted",
        "import os; os.makedirs('.git/hooks'); open('.git/hooks/pre-commit', 'w').write('x')": ".git",
    }.items():
        code = f"open('made.txt', 'w').write('x'); {more}"
        (result,) = staged.play(f'python -c "{code}"', mode="acceptEdits", answer=Deny("no"))
        assert len(staged.asked) == 1, more
        assert said in staged.asked[0].decision.reason
        assert "only changes in the session's folders" in staged.asked[0].decision.reason
        # whoever only sees the output, as of a command that has gone on in the background, sees it there
        shown = "".join(event.text for event in staged.of(ToolProgress))
        assert "none of its changes were made" in shown or "Nothing was changed" in shown
        assert sorted(path.name for path in staged.project.iterdir()) == [
            "data.csv", "fails.py", "reads.py", "writes.py",
        ], result  # fmt: skip
    assert not outside.exists()


@for_each_row(
    ("word", "answer", "first_runs", "asks", "told_of"),
    [
        # once each, and with the question only when there is one
        ("", Allow(), True, 1, ["PreToolUse", "PermissionRequest", "PostToolUse"]),
        ("", Deny("no"), True, 1, ["PreToolUse", "PermissionRequest", "PostToolUseFailure"]),
        # what a hook has said of the call counts: no trial
        ("allow", Deny("no"), False, 0, ["PreToolUse", "PostToolUse"]),
        ("ask", Deny("no"), False, 1, ["PreToolUse", "PermissionRequest"]),
        ("deny", Allow(), False, 0, ["PreToolUse"]),
    ],
)
def test_hooks_hear_of_one_call(
    scene: Scene, word: str, answer: Any, first_runs: bool, asks: int, told_of: list[str]
) -> None:
    heard: list[str] = []

    async def hear(fields: Mapping[str, Any], _id: str | None, _context: Any) -> dict[str, Any]:
        event = fields["hook_event_name"]
        heard.append(event)
        decides = {"permissionDecision": word} if word and event == "PreToolUse" else {}
        return {"hookSpecificOutput": {"hookEventName": event, **decides}} if decides else {}

    events = ("PreToolUse", "PermissionRequest", "PostToolUse", "PostToolUseFailure")
    (scene.project / "out.csv").unlink(missing_ok=True)
    scene.play("python writes.py", answer=answer, hooks={event: [HookMatcher("", [hear])] for event in events})
    assert heard == told_of
    assert len(scene.asked) == asks
    refused = any("The sandbox allowed only" in asked.decision.reason for asked in scene.asked)
    assert refused is first_runs


def test_a_permission_request_hook_answers_for_the_user(scene: Scene) -> None:
    async def yes(_fields: Any, _id: str | None, _context: Any) -> dict[str, Any]:
        return {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}}

    (result,) = scene.play("python writes.py", hooks={"PermissionRequest": [HookMatcher("", [yes])]})
    assert result["content"] == "first\ndone"


def test_what_goes_on_in_the_background_is_not_tried(scene: Scene) -> None:
    rules = SandboxRules(means=scene.sandbox.abilities)
    policy = PermissionPolicy(roots=[scene.project], cwd=scene.project, sandbox=rules)
    bash = bash_tool(scene.project)
    for given in (
        {"command": "python reads.py", "run_in_background": True},
        {"command": "python reads.py &"},
        {"command": "nohup python reads.py > /dev/null 2>&1 &"},
        {"command": "python reads.py", "dangerouslyDisableSandbox": True},
        {"command": "python reads.py", "environment_variables": {"PATH": "."}},
    ):
        assert policy.decide(bash, given).behavior == "ask", given
    assert policy.decide(bash, {"command": "python reads.py"}).trial
    assert policy.without_trials().decide(bash, {"command": "python reads.py"}).behavior == "ask"


def test_a_recording_that_is_trusted_is_asked_about_neither_before_nor_after(scene: Scene) -> None:
    rules = SandboxRules(means=scene.sandbox.abilities)
    policy = RecordedApproval(PermissionPolicy(roots=[scene.project], cwd=scene.project, sandbox=rules))
    given = {"command": "python writes.py"}
    assert policy.decide(bash_tool(scene.project), given).behavior == "allow"
    after = policy.without_trials().decide(bash_tool(scene.project), given)
    assert (after.behavior, after.trial) == ("allow", False)


def test_an_absent_gpu_is_said_where_the_machine_has_one(tmp_path: Path) -> None:
    device = tmp_path / "nvidiactl"
    assert absent_gpu("import torch", [str(device)]) == ""
    device.touch()
    assert "no GPU can be used" in absent_gpu("import torch", [str(device)])
    assert absent_gpu("import pandas", [str(device)]) == ""
