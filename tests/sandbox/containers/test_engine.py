"""The command lines of the container programs, held against the programs' own parsers, and which program runs here."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from cellwright.agent.calls.confinement import Container
from cellwright.sandbox.containers.engine import (
    PLACES,
    Engine,
    Mount,
    build_arguments,
    exec_arguments,
    find_engine,
    run_arguments,
    why_no_engine,
)
from cellwright.sandbox.containers.rules import why_no_container

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


def test_a_program_on_another_machine_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")
    assert find_engine("docker") is None
    assert re.search("not installed|on another machine", why_no_engine("docker"))


def test_what_cannot_run_says_what_to_do(tmp_path: Path) -> None:
    assert "apt install podman" in why_no_container(Container(image="x", program="docker"))
    assert "Leave `program` out" in why_no_container(Container(files=str(tmp_path), program="docker"))
    assert "apt install bubblewrap" in why_no_container(Container(files=str(tmp_path)))
