"""The folder that a shell is said to be in: whatever is reported, the next command is judged and runs in one real folder."""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.calls.approval import Confinement
from cellwright.agent.calls.input_schema import check_input
from cellwright.agent.tool import ToolContext, ToolResult
from cellwright.errors import ToolError
from cellwright.sandbox.mechanisms import Sandbox
from cellwright.tools.process.child_processes import ChildProcesses, Command, folder_id
from cellwright.tools.process.runner import OutputHead, RunningProgram
from cellwright.tools.shell.bash import bash_tool
from cellwright.tools.shell.run_command import FolderFile, find_git_bash
from confined import sandbox_by

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs bash")

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


class Shell:
    """A Bash tool; each command is given the facts that a policy would have judged it by."""

    def __init__(self, cwd: Path, sandbox: Sandbox | None = None) -> None:
        children = None if sandbox is None else ChildProcesses(lambda: sandbox)
        self.tool = bash_tool(cwd, children=children)
        self.bounds = None if sandbox is None else Confinement(read=(str(cwd),))

    def facts(self, command: str, **more: Any) -> Mapping[str, Any]:
        assert self.tool.facts is not None
        return self.tool.facts({"command": command, **more})

    def run(self, command: str, facts: Mapping[str, Any] | None = None, **more: Any) -> str:
        tool_input = {"command": command, **more}
        check_input(self.tool, tool_input)
        judged = self.facts(command, **more) if facts is None else facts
        ctx = ToolContext("toolu_1", lambda **_: None, facts=judged, confinement=self.bounds)
        result = asyncio.run(self.tool.call(tool_input, ctx))
        assert isinstance(result, ToolResult)
        return str(result.content)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "proj"
    (folder / ".git" / "hooks").mkdir(parents=True)
    (folder / "sub" / "deep").mkdir(parents=True)
    (folder / "link").symlink_to("sub/deep")
    (folder / "hooked").symlink_to(".git/hooks")
    (folder / "out").symlink_to(tmp_path)
    (folder / "file").write_text("x", "utf-8")
    return folder


REPORTS = (
    *(
        "{0}/link/..",
        "{0}/link/../..",
        "{0}/hooked",
        "{0}/hooked/../x/..",
        "{0}/out/..",
        "{0}/out",
        "{0}/./sub",
        "{0}//sub",
    ),
    *(
        "{0}/.git/hooks",
        "{0}/none",
        "{0}/file",
        "..",
        "sub",
        "/",
        "/etc",
        "{0}/sub\\n{0}",
        "{0}\\n{0}/sub",
        "",
        "\\n",
        "x" * 9000,
    ),
)


@pytest.mark.parametrize(
    "write", ["printf {} >&10; trap - EXIT", "printf {} >&10", "pwd() {{ printf {}; }}", "printf {} >&10; kill -9 $$"]
)
def test_whatever_is_reported_the_next_command_runs_where_it_was_judged(project: Path, write: str) -> None:
    for report in REPORTS:
        shell = Shell(project)
        shell.run(write.format(shlex.quote(report.format(project)).replace("\\n", "\n")))
        judged = str(shell.facts("pwd")["cwd"])
        assert os.path.realpath(judged) == judged
        assert Path(judged).is_relative_to(project)
        assert shell.run("pwd -P") == judged, report


def test_no_program_that_a_command_starts_has_the_descriptor(project: Path) -> None:
    listed = f"{shlex.quote(sys.executable)} -c 'import os; print(sorted(int(fd) for fd in os.listdir(\"/dev/fd\")))'"
    standard = subprocess.run(["bash", "-c", listed], capture_output=True, check=True, text=True).stdout.strip()
    shell = Shell(project)
    for way in ("{}", "({})", "true && {}", "{} | cat", "exec {}", 'x=$({}); echo "$x"', "f() {{ {}; }}; f"):
        assert shell.run(way.format(listed)) == standard, way


@pytest.mark.parametrize(
    ("command", "ends_in"),
    [
        ("cd sub; exit 3", "sub"),
        ("set -e; cd sub; false; cd deep", "sub"),
        ("cd sub && nosuch_", "sub"),
        ("cd sub\nif true; then cd deep; fi", "sub/deep"),
        ("cd link", "sub/deep"),
        ("cd 'sub'; echo \"it's\"", "sub"),
        ("(cd sub)", "."),
        ("cd sub; cat <<'X'\n'text'\nX", "sub"),
    ],
)
def test_the_folder_a_command_ends_in_is_kept(project: Path, command: str, ends_in: str) -> None:
    shell = Shell(project)
    shell.run(command)
    assert shell.run("pwd") == str((project / ends_in).resolve())


def test_a_kept_folder_that_is_replaced_is_left(project: Path) -> None:
    def by_link() -> None:
        (project / "sub").symlink_to(".git")

    for replace in (by_link, lambda: (project / "sub").mkdir()):
        shell = Shell(project)
        shell.run("cd sub")
        (project / "sub").rename(project / "gone")
        replace()
        assert shell.run("pwd -P") == str(project)
        if (project / "sub").is_symlink():
            (project / "sub").unlink()
        else:
            (project / "sub").rmdir()
        (project / "gone").rename(project / "sub")


def test_a_folder_that_changes_after_the_judgement_is_not_entered(project: Path) -> None:
    shell = Shell(project)
    (project / "work").symlink_to("sub")
    facts = shell.facts("pwd", working_directory="work")
    assert shell.run("pwd -P", facts, working_directory="work") == str(project / "sub")
    (project / "work").unlink()
    (project / "work").symlink_to(".git/hooks")
    with pytest.raises(ToolError, match="no longer the one"):
        shell.run("touch pre-commit", facts, working_directory="work")
    facts = shell.facts("touch x")
    shell.run("cd sub")  # a call that came between
    with pytest.raises(ToolError, match="no longer the one"):
        shell.run("touch x", facts)
    assert not (project / "sub" / "x").exists()
    assert not list((project / ".git" / "hooks").iterdir())


def test_a_child_enters_the_folder_meant_or_none(project: Path) -> None:
    async def ended_in(identity: tuple[int, int] | None) -> str:
        output = OutputHead(4096)
        command = Command(arguments=["pwd"], cwd=project / "link", environ=os.environ, folder_id=identity)
        program = RunningProgram(command, output=output.take, children=children)
        await program.wait()
        return output.text().strip()

    children = ChildProcesses()
    try:
        assert asyncio.run(ended_in(folder_id(project / "sub" / "deep"))).endswith("/sub/deep")
        with pytest.raises(OSError, match="replaced"):
            asyncio.run(ended_in(folder_id(project / "sub")))
    finally:
        children.stop()


INHERITED = "import os\nfor fd in range(3, 64):\n try: os.fstat(fd)\n except OSError: pass\n else: print(fd)"
FORGE = "for fd in /proc/$$/fd/* /proc/1/fd/* /proc/$PPID/fd/*; do echo -n {}/.git/hooks > $fd; done 2>/dev/null; true"


@pytest.mark.parametrize("means", ["bubblewrap", "Landlock"])
def test_a_confined_command_reports_its_folder_and_holds_no_descriptor_of_ours(project: Path, means: str) -> None:
    shell = Shell(project, sandbox_by(means))
    assert shell.run(f"{shlex.quote(sys.executable)} -I -c {shlex.quote(INHERITED)}") == "(no output)"
    assert shell.run("cd sub/deep") == "(no output)"
    assert shell.run("pwd") == f"{project}/sub/deep"
    shell.run(FORGE.format(project))
    judged = str(shell.facts("pwd")["cwd"])
    assert judged in (f"{project}/sub/deep", f"{project}/.git/hooks")
    assert shell.run("pwd -P") == judged


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
