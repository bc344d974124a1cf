"""Commands in the containers of a test, by the program that it asks for."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from cellwright.agent.calls.approval import Confinement, Container
from cellwright.sandbox.containers.engine import Engine, find_engine
from cellwright.sandbox.containers.pool import our_containers
from cellwright.tools.process.child_processes import ChildProcesses, Command
from cellwright.tools.process.runner import OutputHead, RunningProgram, child_environment
from processes.container_images import IMAGE


def engine_of(kind: str) -> Engine:
    engine = find_engine(kind)
    assert engine is not None
    return engine


def ours(kind: str, root: Path) -> list[str]:
    return [each.name for each in our_containers(engine_of(kind)) if each.project == str(root)]


def bounds(root: Path, kind: str, *, writes: bool = True, **more: object) -> Confinement:
    container = Container(image=IMAGE, program=kind, project=str(root), **more)  # type: ignore[arg-type]
    return Confinement(
        read=(str(root),), write=(str(root),) if writes else (), container=container, keeps_installed=writes
    )


def run(
    script: str, root: Path, children: ChildProcesses, confinement: Confinement, seconds: float = 60, **more: object
) -> tuple[int, str]:
    async def play() -> tuple[int, str]:
        output = OutputHead(100_000)
        command = Command(
            arguments=["/usr/bin/bash", "-c", script],
            cwd=root,
            environ={**child_environment(os.environ), "OF_THIS_MACHINE": "seen"},
            confinement=confinement,
            **more,  # type: ignore[arg-type]
        )
        program = await RunningProgram.started(command, output=output.take, children=children)
        await program.finish(seconds)
        return program.exit_code, output.text()

    return asyncio.run(play())
