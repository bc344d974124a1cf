"""What a container is made of: a Dockerfile, what is run in it once, and images that are not there."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
from pathlib import Path

import pytest

from cellwright.agent.calls.confinement import Confinement
from cellwright.tools.process.child_processes import ChildProcesses, Command
from cellwright.tools.process.runner import OutputHead, RunningProgram, child_environment
from eventual import eventually
from processes.container_images import IMAGE
from processes.containers_at_work import bounds, engine_of, ours, run

BUILD_SECONDS = 600 + os.getpid()
"""Of a build that never comes to its end: a number that no other process sleeps."""

pytestmark = pytest.mark.containers


def made_of(confinement: Confinement, **more: object) -> Confinement:
    assert confinement.container is not None
    container = dataclasses.replace(confinement.container, **more)  # type: ignore[arg-type]
    return dataclasses.replace(confinement, container=container)


def test_a_dockerfile_is_built_and_built_again_when_it_changes(
    engine_kind: str, root: Path, children: ChildProcesses
) -> None:
    file = root / "Dockerfile"
    file.write_text(f"FROM {IMAGE}\nARG WORD\nENV SAYS=$WORD\n")
    inside = made_of(
        bounds(root, engine_kind), image="", dockerfile=str(file), context=str(root), build_arguments=(("WORD", "one"),)
    )
    assert run("echo $SAYS", root, children, inside) == (0, "one\n")
    children.stop()
    file.write_text(f"FROM {IMAGE}\nENV SAYS=two\n")
    assert run("echo $SAYS", root, children, inside) == (0, "two\n")


def test_what_is_run_once_is_there_for_all_commands(engine_kind: str, root: Path, children: ChildProcesses) -> None:
    inside = made_of(
        bounds(root, engine_kind),
        after_making=(("/bin/sh", "-c", "echo made >> /usr/local/thing; echo ran >> ran"),),
        workspace="/workspaces/project",
        variables=(("NAME", "value"),),
    )
    script = "cat /usr/local/thing /workspaces/project/ran; echo $NAME"
    assert run(script, root, children, inside) == (0, "made\nran\nvalue\n")
    reads = dataclasses.replace(inside, write=(), keeps_installed=False)
    assert run(script, root, children, reads) == (0, "made\nran\nvalue\n")
    children.stop()
    listed = engine_of(engine_kind).ask("images", "--filter", "label=cellwright.owner", "--format", "{{.ID}}")
    assert listed.split() == []


def test_agents_share_one_or_have_their_own(engine_kind: str, root: Path, children: ChildProcesses) -> None:
    inside = bounds(root, engine_kind)
    for agent in ("", "one", "two"):
        run("true", root, children, made_of(inside, agent=agent))
    assert len(ours(engine_kind, root)) == 3
    run("true", root, children, made_of(inside, agent="one"))
    assert len(ours(engine_kind, root)) == 3


def test_an_image_that_is_not_there_says_so(engine_kind: str, root: Path, children: ChildProcesses) -> None:
    with pytest.raises(
        OSError, match=r"not-there:1 .* could not be fetched \(`(podman|docker) pull`: .* load --input FILE`"
    ):
        run("true", root, children, made_of(bounds(root, engine_kind), image="localhost/not-there:1"))
    assert ours(engine_kind, root) == []


def test_an_image_that_would_be_an_option_is_not_tried(engine_kind: str, root: Path, children: ChildProcesses) -> None:
    with pytest.raises(OSError, match="is not the name of an image"):
        run("true", root, children, made_of(bounds(root, engine_kind), image="--privileged"))


def test_a_build_is_shown_and_an_interrupt_ends_it(engine_kind: str, root: Path, children: ChildProcesses) -> None:
    file = root / "Dockerfile"
    file.write_text(f"FROM {IMAGE}\nRUN echo it is built here; sleep {BUILD_SECONDS}\n")
    inside = made_of(bounds(root, engine_kind), image="", dockerfile=str(file), context=str(root))

    async def play() -> None:
        said: asyncio.Queue[str] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        command = Command(
            arguments=["/usr/bin/bash", "-c", "true"],
            cwd=root,
            environ=child_environment(os.environ),
            confinement=inside,
            says=lambda line: loop.call_soon_threadsafe(said.put_nowait, line),
        )
        output = OutputHead(1_000)

        def start() -> asyncio.Task[RunningProgram]:
            return asyncio.create_task(RunningProgram.started(command, output=output.take, children=children))

        building = start()
        while "it is built here" not in (line := await said.get()) or "STEP" in line:
            assert line.startswith(f"{engine_kind} build: ")
        waiting = start()  # for the one that builds
        for task in (waiting, building):
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(asyncio.wait_for(play(), 120))
    assert ours(engine_kind, root) == []
    assert run("true", root, children, bounds(root, engine_kind))[0] == 0, "another command can run"
    eventually(_sleeping, lambda found: not found)


def _sleeping() -> list[str]:
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if file.read_bytes() == b"sleep\0%d\0" % BUILD_SECONDS:
                found.append(file.parent.name)
    return found
