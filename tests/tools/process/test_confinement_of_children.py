"""The bounds that a decision gives a call are those that its processes are started with."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.calls.confinement import Confinement
from cellwright.agent.hooks.protocol import HookRun
from cellwright.agent.tool import ToolContext
from cellwright.config.hooks.hooks import hooks_from
from cellwright.config.settings.settings import HooksSource
from cellwright.permissions.policy import PermissionPolicy
from cellwright.permissions.sandboxing import SandboxAbilities, SandboxRules
from cellwright.tools.process.child_processes import Child, ChildProcesses, Command
from cellwright.tools.shell.bash import bash_tool

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs bash")

ABILITIES = SandboxAbilities(name="test", hides=True, protects=True, hosts=True)


class NotedChildren(ChildProcesses):
    """Children that run without bounds, on any machine; `bounds` are those they were to have."""

    def __init__(self) -> None:
        super().__init__()
        self.bounds: list[Confinement | None] = []

    def start(self, command: Command, **options: Any) -> Child:
        self.bounds.append(command.confinement)
        return super().start(replace(command, confinement=None), **options)


@pytest.mark.parametrize("background", [False, True])
def test_a_shell_command(tmp_path: Path, background: bool) -> None:
    children, bounds = NotedChildren(), Confinement(read=(str(tmp_path),))
    bash = bash_tool(tmp_path, children=children)
    context = ToolContext("toolu_1", lambda **_: None, session_id=str(tmp_path), confinement=bounds)
    asyncio.run(bash.call({"command": "true", "run_in_background": background}, context))
    assert children.bounds == [bounds]


@pytest.mark.parametrize(
    ("scope", "enabled", "confined"), [("project", True, True), ("user", True, False), ("project", False, False)]
)
def test_a_projects_hook(tmp_path: Path, scope: Any, enabled: bool, confined: bool) -> None:
    children = NotedChildren()
    events = {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}
    hooks = hooks_from([HooksSource(events, scope, "x", None)], environ=os.environ, project=tmp_path, children=children)
    policy = PermissionPolicy(cwd=tmp_path, sandbox=SandboxRules(means=ABILITIES, enabled=enabled))
    no_model: Any = None
    run = HookRun(AgentSetup(provider=no_model, model="none", system=(), tools=(), policy=policy), lambda _event: None)
    asyncio.run(hooks.fire("Stop", {"cwd": str(tmp_path), "hook_event_name": "Stop"}, run))
    assert [bounds is not None for bounds in children.bounds] == [confined]
