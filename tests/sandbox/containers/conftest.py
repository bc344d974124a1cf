"""Each test of containers is judged with every container program that runs here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cellwright.tools.process.child_processes import ChildProcesses
from processes.container_images import archive, go_without, make_root, runs, settings_for_podman


@pytest.fixture(scope="session")
def image_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of an image, in a folder."""
    return make_root(tmp_path_factory.mktemp("image") / "files")


@pytest.fixture(scope="session", params=["podman", "docker"])
def engine_kind(
    request: pytest.FixtureRequest, image_files: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The name of a program that runs containers here."""
    folder = tmp_path_factory.mktemp(request.param)
    with pytest.MonkeyPatch.context() as patched:
        if request.param == "podman":
            for name, value in settings_for_podman(folder).items():
                patched.setenv(name, value)
        if why := runs(request.param, archive(image_files, folder / "image.tar")):
            go_without(request.param, why)
        yield request.param


@pytest.fixture
def children() -> Iterator[ChildProcesses]:
    processes = ChildProcesses()
    yield processes
    processes.stop()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder
