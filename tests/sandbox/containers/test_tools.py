"""The tools that run programs do so in the container that they are given: tests, and cells in a fresh kernel."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest
from nbformat import v4

from cellwright.agent.calls.approval import Confinement, Container
from cellwright.agent.tool import ToolContext
from cellwright.events import Notice
from cellwright.kernel.cells.fresh_kernel import FreshCell, run_fresh
from cellwright.kernel.cells.verify_command import verify
from cellwright.tools.code.run_tests import run_tests_tool
from cellwright.tools.process.child_processes import child_processes
from cellwright.tools.shell.bash import bash_tool
from confined import sandbox_by
from processes.container_images import archive, go_without, make_root, runs, settings_for_podman

SITE = str(Path(nbclient.__file__).parent.parent)


@pytest.fixture(scope="module")
def python_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_root(tmp_path_factory.mktemp("python") / "files", python=True)


@pytest.fixture(
    scope="module",
    params=["bubblewrap", *(pytest.param(name, marks=pytest.mark.containers) for name in ("podman", "docker"))],
)
def inside(
    request: pytest.FixtureRequest, python_files: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Any]]:
    """What a container is made of here that has the system's Python."""
    if request.param == "bubblewrap":
        sandbox_by("bubblewrap")
        yield {"files": str(python_files), "program": "bubblewrap"}
        return
    folder = tmp_path_factory.mktemp(request.param)
    with pytest.MonkeyPatch.context() as patched:
        if request.param == "podman":
            for name, value in settings_for_podman(folder).items():
                patched.setenv(name, value)
        image = "localhost/cellwright-tests:python"
        if why := runs(request.param, archive(python_files, folder / "image.tar"), image):
            go_without(request.param, why)
        yield {"image": image, "program": request.param}
        child_processes().stop()


def bounds(root: Path, inside: Mapping[str, Any]) -> Confinement:
    container = Container(project=str(root), variables=(("PYTHONPATH", SITE),), **inside)
    return Confinement(read=(str(root), SITE), write=(str(root),), container=container, keeps_installed=True)


def test_tests_run_in_it(inside: Mapping[str, Any], root: Path) -> None:
    (root / "test_it.py").write_text(
        "from pathlib import Path\n"
        "def test_there(): assert Path('/etc/image').read_text() == 'the image of the tests\\n'\n"
        "def test_fails(): assert 1 == 2\n"
    )
    context = ToolContext("toolu_1", lambda **_: None, confinement=bounds(root, inside))
    result = asyncio.run(run_tests_tool(root).call({"framework": "pytest"}, context))
    assert "1 failed, 1 passed" in str(result.content)
    result = asyncio.run(run_tests_tool(root).call({"framework": "unittest"}, context))
    assert "No tests were found" in str(result.content)


def test_cells_run_in_a_kernel_in_it(inside: Mapping[str, Any], root: Path) -> None:
    cells = [FreshCell("from pathlib import Path"), FreshCell("print(Path('/etc/image').read_text(), end='')")]
    result = asyncio.run(
        run_fresh(
            cells,
            kernel="whatever",
            cwd=root,
            environ=os.environ,
            cell_seconds=60,
            seconds=120,
            begins=lambda _index: None,
            confinement=bounds(root, inside),
        )
    )
    assert result.failed == set()
    assert [output["text"] for output in result.outputs[1] or ()] == ["the image of the tests\n"]


def test_a_run_of_the_users_own_is_in_it_too(
    inside: Mapping[str, Any], root: Path, own_place: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    code = "from pathlib import Path\nprint(Path('/etc/image').read_text(), end='')"
    cell = v4.new_code_cell(code, id="a", outputs=[v4.new_output("stream", text="the image of the tests\n")])
    nbformat.write(v4.new_notebook(cells=[cell]), root / "there.ipynb")
    monkeypatch.chdir(root)
    settings = own_place / ".claude/settings.json"
    settings.parent.mkdir(exist_ok=True)

    def in_container(container: Mapping[str, Any]) -> None:
        given = {"sandbox": {"container": container}, "permissions": {"additionalDirectories": [SITE]}}
        settings.write_text(json.dumps(given))

    in_container({**inside, "env": {"PYTHONPATH": SITE}})
    assert verify(["--run", "--json", "there.ipynb"]) == 0
    assert json.loads(capsys.readouterr().out)["run"]["reproduces"] is True
    for wrong in ({**inside, "devcontainer": "x"}, {"devcontainer": "x"}, {"files": "/not/there"}):
        in_container(wrong)
        assert verify(["--run", "there.ipynb"]) == 2, wrong
        assert capsys.readouterr().err.startswith("there.ipynb: ")


def test_what_is_protected_and_new_is_kept_back_or_said(inside: Mapping[str, Any], root: Path) -> None:
    (root / ".git").mkdir()
    hooks = root / ".git/hooks"
    events: list[Any] = []
    confinement = replace(bounds(root, inside), protected=(str(hooks), str(root / ".claude")))
    context = ToolContext("toolu_1", lambda **_: None, confinement=confinement, emit=events.append)
    bash = bash_tool(root, environ=os.environ)
    result = asyncio.run(bash.call({"command": "mkdir -p .git/hooks && echo x > .git/hooks/pre-commit; true"}, context))
    notices = [event.message for event in events if isinstance(event, Notice)]
    if inside["program"] == "bubblewrap":
        assert (hooks.exists(), notices) == (False, [])
        return
    assert f"It made {hooks}." in str(result.content)
    assert [str(hooks) in notice for notice in notices] == [True]
    again = asyncio.run(bash.call({"command": "echo y > .git/hooks/pre-push"}, context))
    assert "Read-only file system" in str(again.content)
    assert len(events) == 1
