"""The command lines of the container programs, held against the programs' own parsers, and which program runs here."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from cellwright.agent.calls.approval import Container
from cellwright.sandbox.containers.engine import (
    PLACES,
    Engine,
    Mount,
    build_arguments,
    exec_arguments,
    find_engine,
    podman_has,
    run_arguments,
    why_no_container,
    why_no_engine,
)
from processes.container_images import settings_for_podman

CONTAINER = Container(
    image="x",
    project="/p",
    dockerfile="/p/Dockerfile",
    build_arguments=(("A", "b"),),
    variables=(("A", "b c"),),
    user="dev",
    cpus="1.5",
)


@pytest.mark.parametrize("kind", ["podman", "docker"])
def test_every_option_is_one_that_the_program_knows(kind: str) -> None:
    path = next((file for place in PLACES if os.access(file := f"{place}/{kind}", os.X_OK)), "")
    if not path:
        pytest.skip(f"{kind} is not installed")
    engine = Engine(kind, path)
    mounts = [Mount("/a, b", "/a, b", writable=True), Mount("", "/hidden")]
    lines = [
        run_arguments(
            engine,
            CONTAINER,
            "x",
            name="n",
            mounts=mounts,
            labels={"project": "/p"},
            keeps_installed=False,
            network=False,
        ),
        exec_arguments(engine, "n", ["true"], cwd="/p", user="dev", environ={"A": "b"})[1:],
        build_arguments(CONTAINER, "tag"),
    ]
    for line in lines:
        said = subprocess.run([path, line[0], "--help"], capture_output=True, text=True, check=True).stdout
        known = set(re.findall(r"--[a-z][a-z-]*", said))
        ends = line.index("x") if line[0] == "run" else line.index("n") if line[0] == "exec" else len(line)
        used = {word for word in line[:ends] if re.fullmatch(r"--[a-z][a-z-]*", word)}
        assert used <= known, (line[0], used - known)


@pytest.mark.containers
def test_podman_of_a_user_without_ranges_of_ids_maps_the_user_alone(tmp_path: Path) -> None:
    podman = next((file for place in PLACES if os.access(file := f"{place}/podman", os.X_OK)), "")
    setpriv = shutil.which("setpriv")
    if not (podman and setpriv and os.geteuid() == 0):
        pytest.skip("NO CONTAINER: podman as another user needs podman, setpriv and root")
    user = 54_321
    assert str(user) not in Path("/etc/subuid").read_text("utf-8")
    home = Path(tempfile.mkdtemp())  # pytest's own folders are root's alone
    try:
        settings = settings_for_podman(home)
        (home / "run").mkdir()
        for each in (home, *home.iterdir()):
            os.chown(each, user, user)
        told = [
            f"{name}={value}" for name, value in {**settings, "HOME": home, "XDG_RUNTIME_DIR": home / "run"}.items()
        ]
        as_user = [setpriv, f"--reuid={user}", f"--regid={user}", "--clear-groups", "env", *told, podman]
        program = tmp_path / "podman"
        program.write_text(f'#!/bin/sh\nexec {shlex.join(as_user)} "$@"\n')
        program.chmod(0o755)
        has_ranges, limits_hold = podman_has(Engine("podman", str(program)))
        subprocess.run(
            [program, "system", "migrate"], capture_output=True, check=True
        )  # ends the process that holds its namespace
    finally:
        shutil.rmtree(home)
    assert not has_ranges
    assert limits_hold == Path("/sys/fs/cgroup/cgroup.controllers").exists()
    assert podman_has(Engine("podman", podman)) == (True, True)


def test_a_program_on_another_machine_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")
    assert find_engine("docker") is None
    assert re.search("not installed|on another machine", why_no_engine("docker"))


def test_what_cannot_run_says_what_to_do(tmp_path: Path) -> None:
    assert "apt install podman" in why_no_container(Container(image="x", program="docker"))
    assert "Leave `program` out" in why_no_container(Container(files=str(tmp_path), program="docker"))
    assert "apt install bubblewrap" in why_no_container(Container(files=str(tmp_path)))
