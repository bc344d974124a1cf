"""What `make` and `pip` say on a machine that lacks something, before they begin; nothing is installed here."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHELL_PROGRAMS = ("sh", "bash", "make", "find", "grep", "sed", "expand", "rm", "mkdir", "touch", "git", "id")


def programs(folder: Path, fakes: Mapping[str, str] | None = None) -> str:
    """A PATH with what a shell needs, and with scripts in place of other programs."""
    folder.mkdir()
    for name in SHELL_PROGRAMS:
        if found := shutil.which(name):
            (folder / name).symlink_to(found)
    for name, line in (fakes or {}).items():
        (folder / name).write_text(f"#!/bin/sh\n{line}\n")
        (folder / name).chmod(0o755)
    return str(folder)


def run(path: str, *command: str, **environ: str) -> tuple[int, str]:
    """Run the command in an environment that has nothing else (`env -i`)."""
    given = {"PATH": path, **environ}
    done = subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, done.stdout + done.stderr


def make_demo(path: str, tmp_path: Path) -> tuple[int, str]:
    """`make demo` in a tree in which nothing was built."""
    nothing = tmp_path / "nothing"
    return run(
        path, "make", "demo", f"VENV={nothing}/venv", f"WIDGET={nothing}/transcript.js", f"EXTENSION={nothing}/p.json"
    )


def test_make_says_all_that_is_missing_at_once(tmp_path: Path) -> None:
    code, said = make_demo(programs(tmp_path / "bin"), tmp_path)
    assert code != 0
    assert ": no python3 in" in said
    assert ": no node in" in said
    assert "npm: not in" in said
    assert not (tmp_path / "nothing").exists()


def test_make_says_which_versions_are_too_old(tmp_path: Path) -> None:
    old = {"node": "echo 18.20.4", "npm": "exit 0", "python3": "echo 3.9"}
    code, said = make_demo(programs(tmp_path / "bin", old), tmp_path)
    assert code != 0
    assert ": node is 18.20.4" in said
    assert ": python3 is 3.9" in said
    assert "npm" not in said.replace("npm --prefix", "")


def test_a_shell_that_has_lost_node_since_is_told_the_same(tmp_path: Path) -> None:
    path = programs(tmp_path / "bin")
    installed = "--old-file=labextension/node_modules/.installed"
    for target in ("test-ts", "check-browser-side"):
        packages = f"{installed} --old-file=labextension/typecheck/node_modules/.installed".split()
        code, said = run(path, "make", *packages, target, PYTHON=sys.executable)
        assert code != 0
        assert "Node 20.19 or newer: no node in PATH" in said


def test_what_is_new_enough_is_enough(tmp_path: Path) -> None:
    for number, version in enumerate(("20.19.0", "22.1.0", "24.0.0")):
        path = programs(tmp_path / str(number), {"node": f"echo {version}", "npm": "exit 0"})
        assert run(path, ".ci/needs", "build", "node", PYTHON=sys.executable) == (0, ""), version


def test_make_test_ends_with_what_was_not_tested(tmp_path: Path) -> None:
    code, said = run(programs(tmp_path / "bin"), ".ci/needs", "untested")
    assert code == 0
    assert "Not tested" in said
    for name in ("chromium", "bubblewrap", "strace"):
        assert f"apt install {name}" in said
    there = dict.fromkeys(("chromium", "bwrap", "strace"), "exit 0")
    assert run(programs(tmp_path / "all", there), ".ci/needs", "untested") == (0, "")


def test_programs_of_tests_are_installed_by_root_where_there_is_apt(tmp_path: Path) -> None:
    log = tmp_path / "log"
    fakes = {"apt-get": f'echo "$*" >> {log}', "id": "echo 0"}
    path = programs(tmp_path / "bin", {name: line for name, line in fakes.items() if name != "id"})
    (tmp_path / "bin" / "id").unlink()
    (tmp_path / "bin" / "id").write_text("#!/bin/sh\necho 0\n")
    (tmp_path / "bin" / "id").chmod(0o755)
    code, said = run(path, ".ci/needs", "programs")
    assert (code, said) == (0, "Installing for the tests: bubblewrap strace chromium\n")
    asked = log.read_text()
    assert "install -y -qq bubblewrap" in asked
    assert "install -y -qq chromium-headless-shell" in asked
    (tmp_path / "bin" / "id").write_text("#!/bin/sh\necho 1000\n")
    log.unlink()
    assert run(path, ".ci/needs", "programs") == (0, "")
    assert not log.exists(), "who is not root installs nothing"
