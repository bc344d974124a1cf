"""An image made of this machine's own programs, and the container programs that run here with it.

No registry is asked for anything. Where a program cannot run a container, the tests with it are skipped and say why; with
CELLWRIGHT_REQUIRE_CONTAINERS=podman or docker they fail.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import pytest

from cellwright.sandbox.containers.engine import PLACES

REQUIRED = os.environ.get("CELLWRIGHT_REQUIRE_CONTAINERS", "").split(",")
IMAGE = "localhost/cellwright-tests:1"
_PROGRAMS = (
    *("bash", "sh", "cat", "ls", "sleep", "grep", "id", "env", "mkdir", "rm", "ln", "touch", "head", "true", "chmod"),
    *("pwd", "tr", "wc", "seq", "mv", "cp", "readlink", "stat", "uname"),
)
_PYTHON = "/usr/bin/python3"


def make_root(folder: Path, *, python: bool = False) -> Path:
    """Make an image's files in `folder`: shell, common programs, with `python` the system's Python too."""
    for name in ("tmp", "proc", "dev", "sys", "run", "etc", "root", "usr/bin", "usr/local/bin", "var/tmp"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "bin").symlink_to("usr/bin")
    (folder / "etc" / "passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (folder / "etc" / "image").write_text("the image of the tests\n")
    programs = [found for name in _PROGRAMS if (found := shutil.which(name, path="/usr/bin:/bin")) is not None]
    if python:
        programs.append(os.path.realpath(_PYTHON))
    for program in programs:
        target = folder / "usr" / "bin" / Path(program).name
        shutil.copy(os.path.realpath(program), target)
    _copy(folder, _libraries(programs))
    if python:
        name = Path(os.path.realpath(_PYTHON)).name
        (folder / "usr/bin/python3").symlink_to(name)
        without = shutil.ignore_patterns(
            "test", "__pycache__", "idlelib", "tkinter", "config-*", "lib2to3", "ensurepip"
        )
        shutil.copytree(
            f"/usr/lib/{name}", folder / "usr/lib" / name, ignore=without, symlinks=False, dirs_exist_ok=True
        )
        # what wheels are linked against
        named = ("librt.so.1", "libgcc_s.so.1", "libstdc++.so.6", "libpthread.so.0", "libdl.so.2", "libutil.so.1")
        _copy(folder, [str(file) for each in named for file in Path("/lib").glob(f"*-linux-gnu/{each}")])
        _copy(folder, _libraries([str(file) for file in (folder / "usr/lib" / name / "lib-dynload").glob("*.so")]))
    return folder


def _copy(folder: Path, libraries: list[str]) -> None:
    for library in libraries:
        target = folder / library.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            shutil.copy(os.path.realpath(library), target)


def _libraries(programs: list[str]) -> list[str]:
    said = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    words = [word for line in said.splitlines() if ":" not in line for word in line.split()]
    return sorted({word for word in words if word.startswith("/")})


def archive(root: Path, file: Path) -> Path:
    """Pack an image's files."""
    with tarfile.open(file, "w") as packed:
        packed.add(root, ".")
    return file


def settings_for_podman(folder: Path) -> Mapping[str, str]:
    """Variables by which Podman keeps all in `folder` and does without what small machines lack."""
    (folder / "containers.conf").write_text(
        '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]\nlog_driver = "none"\n'
        '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\nruntime = "runc"\n'
        '[engine.runtimes]\nrunc = ["/usr/sbin/runc", "/usr/bin/runc"]\n'
    )
    (folder / "storage.conf").write_text(
        f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/storage"\nrunroot = "{folder}/run"\n'
        f'rootless_storage_path = "{folder}/storage"\n'
    )
    return {
        "CONTAINERS_CONF": str(folder / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
    }


def runs(kind: str, file: Path, image: str = IMAGE) -> str:
    """Have the program take `image` from `file`; what keeps it from running a container, "" for nothing."""
    program = next((found for place in PLACES if os.access(found := f"{place}/{kind}", os.X_OK)), "")
    if not program:
        return f"{kind} is not installed"
    for arguments in (
        ["import", str(file), image],
        ["run", "--rm", "--network", "none", image, "/bin/true"],
    ):
        done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
        if done.returncode:
            return f"{kind} {arguments[0]}: {done.stderr.strip()[-300:]}"
    return ""


def go_without(kind: str, reason: str) -> NoReturn:
    """Skip the test, or fail it where this machine is said to have the program."""
    if kind in REQUIRED:
        pytest.fail(f"NO CONTAINER: {reason}")
    pytest.skip(f"NO CONTAINER: {reason}")
