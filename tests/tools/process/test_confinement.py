"""The bounds that a decision gives a call are those that its processes are started with."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.calls.approval import Confinement
from cellwright.agent.hooks.protocol import HookRun
from cellwright.agent.tool import ToolContext
from cellwright.config.hooks.hooks import hooks_from
from cellwright.config.settings.settings import HooksSource
from cellwright.permissions.policy import PermissionPolicy
from cellwright.permissions.sandboxing import SandboxAbilities, SandboxRules
from cellwright.tools.process.child_processes import ChildProcesses, Command, Launched
from cellwright.tools.process.runner import RunningProgram
from cellwright.tools.shell.bash import bash_tool
from eventual import SECONDS

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs bash")

ABILITIES = SandboxAbilities(name="test", hides=True, protects=True, hosts=True)


class NotedChildren(ChildProcesses):
    """Children that run without bounds, on any machine; `bounds` are those they were to have."""

    def __init__(self) -> None:
        super().__init__()
        self.bounds: list[Confinement | None] = []

    def launch(self, command: Command, **options: Any) -> Launched:
        self.bounds.append(command.confinement)
        return super().launch(replace(command, confinement=None), **options)


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


def test_the_loop_goes_on_while_a_command_is_confined(tmp_path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()

    class SlowChildren(NotedChildren):
        def launch(self, command: Command, **options: Any) -> Launched:
            begun.set()
            assert go_on.wait(SECONDS)
            return super().launch(command, **options)

    async def scene(*, cancelled: bool) -> None:
        children = SlowChildren()
        marker = tmp_path / "ran"
        command = Command(
            arguments=("/bin/sh", "-c", f"sleep 1000; : > {marker}" if cancelled else f": > {marker}"),
            cwd=tmp_path,
            environ=dict(os.environ),
            confinement=Confinement(read=(str(tmp_path),)),
        )
        starting = asyncio.create_task(RunningProgram.started(command, output=lambda _: True, children=children))
        await asyncio.to_thread(begun.wait, SECONDS)
        assert not starting.done()  # this loop runs on all the same
        if cancelled:
            starting.cancel()
        go_on.set()
        if cancelled:
            with pytest.raises(asyncio.CancelledError):
                await starting
            while children.running:
                await asyncio.sleep(0)
        else:
            await (await starting).wait(SECONDS)
        assert marker.exists() is not cancelled

    for cancelled in (True, False):
        begun.clear()
        go_on.clear()
        asyncio.run(scene(cancelled=cancelled))
