"""Commands in real containers: what they see, what they leave behind, and how they end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cellwright.agent.calls.approval import Confinement
from cellwright.sandbox.containers.engine import holds_limits
from cellwright.tools.process.child_processes import ChildProcesses
from eventual import eventually
from processes.containers_at_work import bounds, engine_of, ours, run

pytestmark = pytest.mark.containers


def test_a_command_sees_the_images_files_and_the_project(
    engine_kind: str, root: Path, children: ChildProcesses
) -> None:
    (root / "a.txt").write_text("of the project\n")
    outside = root.parent / "outside.txt"
    outside.write_text("of this machine\n")
    code, output = run(
        f'cat /etc/image a.txt; cat {outside} 2> /dev/null; echo "[$OF_THIS_MACHINE]"; pwd; echo made > b.txt; exit 7',
        root,
        children,
        bounds(root, engine_kind),
    )
    assert code == 7
    assert output.startswith("the image of the tests\nof the project\n")
    assert "of this machine" not in output
    assert f"[]\n{root}\n" in output
    assert (root / "b.txt").read_text() == "made\n"
    assert (root / "b.txt").stat().st_uid == os.geteuid()


def test_a_container_is_used_again_and_keeps_what_was_installed(
    engine_kind: str, root: Path, children: ChildProcesses
) -> None:
    inside = bounds(root, engine_kind)
    cell = run("echo installed > /usr/local/bin/thing", root, children, inside)
    assert cell[0] == 0
    cell = run("cat /usr/local/bin/thing", root, children, inside)
    assert cell == (0, "installed\n")
    assert len(ours(engine_kind, root)) == 1
    children.stop()
    assert ours(engine_kind, root) == []


def test_what_reads_can_change_nothing(engine_kind: str, root: Path, children: ChildProcesses) -> None:
    (root / "a.txt").write_text("as it was\n")
    code, output = run(
        "cat a.txt; echo x > a.txt; echo x > b.txt; echo x > /usr/bin/ls; (echo > /dev/tcp/1.1.1.1/80)",
        root,
        children,
        bounds(root, engine_kind, writes=False),
    )
    assert code != 0
    assert output.count("Read-only file system") == 3
    assert "Network is unreachable" in output
    assert [file.name for file in root.iterdir()] == ["a.txt"]
    assert (root / "a.txt").read_text() == "as it was\n"


def test_hidden_and_protected_places(engine_kind: str, root: Path, children: ChildProcesses) -> None:
    for name in (".env", "secrets/key", ".git/hooks/x"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("hidden\n")
    inside = bounds(root, engine_kind)
    confinement = Confinement(
        read=inside.read,
        write=inside.write,
        hidden=(str(root / ".env"), str(root / "secrets")),
        protected=(str(root / ".git/hooks"),),
        container=inside.container,
        keeps_installed=True,
    )
    _, output = run("cat .env; ls secrets; echo x > .git/hooks/y; cat .git/hooks/x", root, children, confinement)
    assert output.count("hidden\n") == 1
    assert not (root / ".git/hooks/y").exists()


def test_bounds_that_have_changed_keep_what_was_installed(
    engine_kind: str, root: Path, children: ChildProcesses
) -> None:
    inside = bounds(root, engine_kind)
    run("echo installed > /usr/local/bin/thing", root, children, inside)
    (root / ".env").write_text("secret\n")
    confinement = Confinement(
        read=inside.read,
        write=inside.write,
        hidden=(str(root / ".env"),),
        container=inside.container,
        keeps_installed=True,
    )
    _, output = run("cat /usr/local/bin/thing; cat .env", root, children, confinement)
    assert "installed\n" in output
    assert "secret" not in output
    assert len(ours(engine_kind, root)) == 1


@pytest.mark.parametrize("script", ["sleep 1234", "trap '' TERM; sleep 1234", "(sleep 1234 & wait)"])
def test_a_command_whose_time_is_over_ends_inside(
    script: str, engine_kind: str, root: Path, children: ChildProcesses
) -> None:
    inside = bounds(root, engine_kind)
    run("true", root, children, inside)
    run(script, root, children, inside, seconds=1.5)
    _, output = run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '", root, children, inside)
    assert "1234" not in output


def test_a_kernel_that_is_killed_leaves_no_container(engine_kind: str, root: Path) -> None:
    program = f"""
import asyncio, os, sys
sys.path[:0] = {sys.path!r}
from pathlib import Path
from processes import containers_at_work as tests
children = tests.ChildProcesses()
root = Path({str(root)!r})
tests.run("true", root, children, tests.bounds(root, {engine_kind!r}))
print("runs", flush=True)
tests.run("sleep 1234", root, children, tests.bounds(root, {engine_kind!r}))
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"runs\n"
        assert len(ours(engine_kind, root)) == 1
        process.kill()
    eventually(lambda: ours(engine_kind, root) == [], seconds=30)


def test_a_kept_container_is_there_in_the_next_session(engine_kind: str, root: Path) -> None:
    inside = bounds(root, engine_kind, keep=True)
    first, second = ChildProcesses(), ChildProcesses()
    run("echo installed > /usr/local/bin/thing", root, first, inside)
    first.stop()
    [kept] = ours(engine_kind, root)
    try:
        cell = run("cat /usr/local/bin/thing", root, second, inside)
        assert cell == (0, "installed\n")
        assert ours(engine_kind, root) == [kept]
    finally:
        second.stop()
        engine_of(engine_kind).ask("rm", "--force", kept)


def test_limits_hold(engine_kind: str, root: Path, children: ChildProcesses) -> None:
    if not holds_limits(engine_of(engine_kind)):
        pytest.skip("NO LIMITS: Podman without root ignores them with cgroups v1, as the doctor says")
    _, output = run(
        "for each in $(seq 60); do sleep 3 & done; wait",
        root,
        children,
        bounds(root, engine_kind, processes=20),
    )
    assert "Resource temporarily unavailable" in output or "Cannot fork" in output or "retry" in output
    quota = "cat /sys/fs/cgroup/cpu.max 2>/dev/null || cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us"  # cgroups v2, v1
    assert run(quota, root, children, bounds(root, engine_kind, cpus="0.5"))[1].split()[0] == "50000"


def test_names_with_commas_and_spaces(engine_kind: str, tmp_path: Path, children: ChildProcesses) -> None:
    root = tmp_path / 'a, b "c": d'
    root.mkdir()
    (root / "x").write_text("found\n")
    assert run("cat x", root, children, bounds(root, engine_kind)) == (0, "found\n")
