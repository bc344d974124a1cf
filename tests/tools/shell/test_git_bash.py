"""Git Bash on Windows: which program is taken, what is said without it, and how a shell reports its folder."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cellwright.errors import ToolError
from cellwright.tools.shell.git_bash import FolderFile, find_git_bash

GIT = r"C:\Program Files\Git"
BASH = rf"{GIT}\bin\bash.exe"

FOUND = [
    ("set by hand", {"CLAUDE_CODE_GIT_BASH_PATH": r"D:\tools\bash.exe"}, {r"D:\tools\bash.exe"}, r"D:\tools\bash.exe"),
    ("beside git in PATH", {"PATH": rf"C:\Windows\System32;{GIT}\cmd"}, {BASH}, BASH),
    ("quoted in PATH", {"PATH": rf'"{GIT}\cmd\";C:\x'}, {BASH}, BASH),
    ("beside git's own programs", {"PATH": rf"{GIT}\mingw64\bin"}, {BASH}, BASH),
    ("where it is installed", {"PATH": r"C:\Windows", "PROGRAMFILES": r"C:\Program Files"}, {BASH}, BASH),
    ("not the one that starts WSL", {"PATH": r"C:\Windows\System32"}, {r"C:\Windows\System32\bash.exe"}, None),
    ("not one of the project", {"PATH": r".;cmd;\cmd;C:cmd;"}, {r"bin\bash.exe", r"\bin\bash.exe"}, None),
    ("not a missing one that is set", {"CLAUDE_CODE_GIT_BASH_PATH": r"D:\no.exe", "PATH": rf"{GIT}\cmd"}, {BASH}, None),
    ("not a relative one that is set", {"CLAUDE_CODE_GIT_BASH_PATH": "bash.exe"}, {"bash.exe"}, None),
]


def test_only_gits_own_bash_is_taken() -> None:
    wrong = {}
    for name, environ, files, expected in FOUND:
        try:
            found = find_git_bash(environ, files.__contains__)
        except ToolError:
            found = None
        if found != expected:
            wrong[name] = found
    assert wrong == {}


def test_what_is_missing_is_said_with_what_to_do() -> None:
    with pytest.raises(ToolError, match=r"needs Git Bash .*Install Git for Windows, or set CLAUDE_CODE_GIT_BASH_PATH"):
        find_git_bash({}, lambda _path: False)
    with pytest.raises(ToolError, match=r"CLAUDE_CODE_GIT_BASH_PATH is x:\\bash.exe, and there is no such file"):
        find_git_bash({"CLAUDE_CODE_GIT_BASH_PATH": r"x:\bash.exe"}, lambda _path: False)


def test_a_shell_reports_its_folder_in_a_file(tmp_path: Path) -> None:
    inside = tmp_path / "it's here"
    inside.mkdir()
    # `pwd -W` is Git Bash's own
    bash = ["bash", "--noprofile", "--norc", "-c"]
    own = 'pwd() { [ "$1" = -W ] && builtin pwd -P; }; '
    folder = FolderFile()
    run = subprocess.run(
        [*bash, own + folder.script(f"cd \"{inside}\"; echo 'done'; exit 3")], capture_output=True, check=False
    )
    assert (run.returncode, run.stdout, run.stderr) == (3, b"done\n", b"")
    assert folder.reported() == str(inside)
    folder.close()
    assert folder.reported() == ""
