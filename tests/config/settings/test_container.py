"""`sandbox.container`: what of a setting, a Dockerfile and a devcontainer.json is used, and what makes it no container."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cellwright.config.settings.container import brings_files_of, container, container_setting, named_in

DEVCONTAINER = """
// for everybody
{
    "name": "project", /* the name */
    "build": {"dockerfile": "Dockerfile", "context": "..", "args": {"PYTHON": "3.12"}},
    "workspaceFolder": "/workspaces/${localWorkspaceFolderBasename}",
    "containerEnv": {"URL": "http://x//y", "TOKEN": "${localEnv:SECRET}"},
    "remoteEnv": {"WORK": "${containerWorkspaceFolder}/src",},
    "remoteUser": "dev",
    "postCreateCommand": "pip install -r requirements.txt",
    "initializeCommand": "rm -rf ~",
    "runArgs": ["--privileged"],
    "mounts": ["source=/,target=/host,type=bind"],
}
"""


@pytest.mark.parametrize(
    "value",
    [
        "python:3.12",
        "ghcr.io/a/b@sha256:" + "0" * 64,
        False,
        {"image": "x", "network": True, "memory": "2g", "cpus": 1.5, "processes": 64, "keep": True},
        {"dockerfile": "Dockerfile", "buildArgs": {"A": "b"}},
        {"devcontainer": ".devcontainer", "agents": "own"},
        {"files": "/rootfs", "program": "bubblewrap", "env": {"A": "b"}},
    ],
)
def test_forms_that_are_known(value: Any) -> None:
    assert container(value) == ""


@pytest.mark.parametrize(
    "value",
    [
        "",
        "--privileged",
        "a b",
        True,
        3,
        {},
        {"image": "x", "files": "/y"},
        {"image": "-v/:/host"},
        {"image": "x", "runArgs": ["--privileged"]},
        {"image": "x", "memory": "lots"},
        {"image": "x", "cpus": 0},
        {"image": "x", "cpus": True},
        {"image": "x", "env": {"A=B": "c"}},
        {"image": "x", "user": "--privileged"},
        {"image": "x", "program": "sh"},
    ],
)
def test_forms_that_are_not(value: Any) -> None:
    assert container(value) != ""


def test_a_devcontainer_says_what_runs_inside_and_nothing_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "hunter2")
    (tmp_path / ".devcontainer").mkdir()
    (tmp_path / ".devcontainer/devcontainer.json").write_text(DEVCONTAINER)
    found = container_setting({"devcontainer": ".devcontainer"}, tmp_path, tmp_path)
    assert found.problem == ""
    assert ["initializeCommand, mounts, runArgs" in notice for notice in found.notices] == [True]
    made = found.container
    assert made is not None
    assert (made.dockerfile, made.context) == (f"{tmp_path}/.devcontainer/Dockerfile", str(tmp_path))
    assert made.build_arguments == (("PYTHON", "3.12"),)
    assert made.workspace == f"/workspaces/{tmp_path.name}"
    assert dict(made.variables) == {
        "URL": "http://x//y",
        "TOKEN": "",
        "WORK": f"/workspaces/{tmp_path.name}/src",
    }
    assert made.user == "dev"
    assert [command[:2] for command in made.after_making] == [("/bin/sh", "-c")]
    assert made.network is False


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "cannot be read"),
        ("{", "cannot be read"),
        ("[]", "is not an object"),
        ("{}", "names no `image`"),
        ('{"dockerComposeFile": "x.yml", "service": "a"}', "for several containers"),
        ('{"image": "--privileged"}', "is not the name of an image"),
        ('{"image": "x", "remoteUser": "--privileged"}', "is not a user"),
        ('{"image": "x", "postCreateCommand": 3}', "postCreateCommand"),
    ],
)
def test_what_cannot_be_used_is_no_container_and_says_so(text: str | None, problem: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "devcontainer.json").write_text(text)
    found = container_setting({"devcontainer": "devcontainer.json"}, tmp_path, tmp_path)
    assert found.container is None
    assert problem in found.problem


def test_trust_is_bound_to_the_files_of_the_project(tmp_path: Path) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    (project / "devcontainer.json").write_text('{"image": "x", "postCreateCommand": ["bash", "setup.sh"]}')
    value = {"devcontainer": str(project / "devcontainer.json")}
    assert brings_files_of(value, project, home)
    assert list(named_in(value, project, home)) == [str(project / "devcontainer.json"), "bash setup.sh"]
    assert not brings_files_of({"devcontainer": "devcontainer.json"}, project, home)
    assert not brings_files_of("python:3.12", project, home)
