"""An image's files as the root, by bubblewrap: what a command sees of them, and what it changes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cellwright.agent.calls.confinement import Confinement, Container
from cellwright.tools.process.child_processes import ChildProcesses
from confined import sandbox_by, staging_sandbox
from processes.container_images import archive
from processes.containers_at_work import run
from processes.marked_processes import wait_until_gone


@pytest.fixture
def children() -> Iterator[ChildProcesses]:
    sandbox = sandbox_by("bubblewrap")
    processes = ChildProcesses(lambda: sandbox)
    yield processes
    processes.stop()


def bounds(root: Path, files: Path, *, writes: bool = True, **more: object) -> Confinement:
    container = Container(files=str(files), program="bubblewrap", project=str(root), **more)  # type: ignore[arg-type]
    return Confinement(
        read=(str(root),), write=(str(root),) if writes else (), container=container, keeps_installed=writes
    )


def test_a_command_sees_the_files_and_the_project(image_files: Path, root: Path, children: ChildProcesses) -> None:
    (root / "a.txt").write_text("of the project\n")
    outside = root.parent / "outside.txt"
    outside.write_text("of this machine\n")
    code, output = run(
        f'cat /etc/image a.txt; cat {outside} 2> /dev/null; echo "[$OF_THIS_MACHINE]"; echo made > b.txt; exit 7',
        root,
        children,
        bounds(root, image_files),
        memory_mb=4096,
    )
    assert (code, output) == (7, "the image of the tests\nof the project\n[]\n")
    assert (root / "b.txt").read_text() == "made\n"


@pytest.mark.parametrize(
    ("memory", "of_the_command", "holds"), [("100m", 4096, 100), ("4g", 64, 64), ("200m", None, 200)]
)
def test_memory_holds_for_each_process(
    image_files: Path, root: Path, children: ChildProcesses, memory: str, of_the_command: int | None, holds: int
) -> None:
    inside = bounds(root, image_files, memory=memory)
    for script in ("ulimit -d", "/usr/bin/bash -c 'ulimit -d'"):
        assert run(script, root, children, inside, memory_mb=of_the_command) == (0, f"{holds * 1024}\n")
    code, output = run("x=$(seq 100000000 130000000)", root, children, inside, memory_mb=of_the_command)
    assert (code != 0, "cannot allocate" in output) == (True, True)


def test_a_folder_of_files_is_never_changed(image_files: Path, root: Path, children: ChildProcesses) -> None:
    before = sorted(str(path) for path in image_files.rglob("*"))
    _, output = run("echo x > /usr/bin/x; echo x > /etc/x", root, children, bounds(root, image_files))
    assert output.count("Read-only file") == 2
    assert sorted(str(path) for path in image_files.rglob("*")) == before


def test_an_archive_is_unpacked_once_and_keeps_what_was_installed(
    image_files: Path, root: Path, tmp_path: Path, children: ChildProcesses
) -> None:
    inside = bounds(root, archive(image_files, tmp_path / "image.tar"))
    cell = run("echo installed > /usr/local/bin/thing", root, children, inside)
    assert cell == (0, "")
    cell = run("cat /usr/local/bin/thing", root, children, inside)
    assert cell == (0, "installed\n")
    reads = bounds(root, tmp_path / "image.tar", writes=False)
    cell = run("cat /usr/local/bin/thing", root, children, reads)
    assert cell == (0, "installed\n")
    _, output = run("echo x > /usr/local/bin/thing; echo x > b", root, children, reads)
    assert output.count("Read-only file") == 2


def test_there_is_no_network(image_files: Path, root: Path, children: ChildProcesses) -> None:
    _, output = run("(echo > /dev/tcp/1.1.1.1/80)", root, children, bounds(root, image_files))
    assert "Network is unreachable" in output or "Operation not permitted" in output


def test_a_workspace_is_another_name_of_the_project(image_files: Path, root: Path, children: ChildProcesses) -> None:
    (root / "a.txt").write_text("of the project\n")
    inside = bounds(root, image_files, workspace="/workspaces/project", variables=(("NAME", "value"),))
    assert run("cat /workspaces/project/a.txt; echo $NAME", root, children, inside) == (0, "of the project\nvalue\n")


def test_changes_are_judged_before_they_are_made(image_files: Path, root: Path) -> None:
    sandbox = staging_sandbox()
    children = ChildProcesses(lambda: sandbox)
    container = Container(files=str(image_files), program="bubblewrap", project=str(root))
    confinement = Confinement(
        read=(str(root),), write=(str(root),), protects=lambda path: path.endswith("/kept"), container=container
    )
    assert run("echo x > made", root, children, confinement)[0] == 0
    cell = run("echo x > other; echo x > kept", root, children, confinement)
    assert cell[0] == 2
    assert sorted(file.name for file in root.iterdir()) == ["made"]
    children.stop()


def test_a_command_whose_time_is_over_ends_inside(image_files: Path, root: Path, children: ChildProcesses) -> None:
    mark = f"4321.{os.getpid()}"
    run(f"(sleep {mark} & wait)", root, children, bounds(root, image_files), seconds=1)
    wait_until_gone(mark)
