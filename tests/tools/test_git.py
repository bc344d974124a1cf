from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.calls.input_schema import check_input
from cellwright.agent.calls.tool_results import json_of
from cellwright.agent.tool import ToolContext, ToolResult
from cellwright.errors import ErrorCode, ToolError
from cellwright.tools.git import git_tool
from row_tables import for_each_row

ENVIRONMENT = {
    "GIT_AUTHOR_DATE": "2024-03-01T10:00:00+01:00",
    "GIT_COMMITTER_DATE": "2024-03-01T10:00:00+01:00",
}


class Repository:
    """A small repository, read by the tool and changed by git itself."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def git(self, *arguments: str) -> str:
        command = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", *arguments]
        environ = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder.parent), **ENVIRONMENT}
        return subprocess.run(command, cwd=self.folder, check=True, capture_output=True, text=True, env=environ).stdout

    def put(self, name: str, text: str) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)

    def commit(self, message: str) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD").strip()

    def result(self, subcommand: str, *args: str, **more: Any) -> ToolResult:
        tool = git_tool(self.folder)
        tool_input = {"subcommand": subcommand, "args": list(args), **more}
        check_input(tool, tool_input)
        result = asyncio.run(tool.call(tool_input, ToolContext("", print)))
        assert isinstance(result, ToolResult)
        return result

    def text(self, subcommand: str, *args: str, **more: Any) -> str:
        content = self.result(subcommand, *args, **more).content
        assert isinstance(content, str)
        return content

    def facts(self, subcommand: str, *args: str) -> dict[str, Any]:
        structured: dict[str, Any] = json_of(self.result(subcommand, *args).structured, "Git")
        return structured

    def error(self, subcommand: str, *args: str, **more: Any) -> ToolError:
        with pytest.raises(ToolError) as caught:
            self.result(subcommand, *args, **more)
        return caught.value


@pytest.fixture
def repository(tmp_path):
    made = Repository(tmp_path / "project")
    made.folder.mkdir()
    made.git("init", "-q", "-b", "main")
    made.put("a.txt", "one\ntwo\nthree\n")
    made.put("src/b.py", "x = 1\n")
    made.commit("First things\n\nWith a body.")
    made.put("a.txt", "one\n2\nthree\n")
    made.commit("Second things")
    return made


def test_status(repository):
    assert "branch main\nNothing" in repository.text("status")
    repository.put("a.txt", "changed\n")
    repository.put("new\nfile", "")
    repository.put("src/staged.py", "")
    repository.git("add", "src/staged.py")
    repository.git("mv", "src/b.py", "src/c d.py")
    assert repository.text("status", "--short").splitlines() == [
        "On branch main",
        "Staged (2):",
        "  renamed: src/b.py -> src/c d.py",
        "  added: src/staged.py",
        "Not staged (1):",
        "  modified: a.txt",
        "Untracked (1):",
        "  new⏎file",
    ]
    facts = repository.facts("status")
    assert facts["branch"]["head"] == "main"
    assert {"path": "a.txt", "code": ".M", "unstaged": "modified"} in facts["entries"]
    assert {"path": "src/c d.py", "from": "src/b.py", "code": "R.", "staged": "renamed"} in facts["entries"]
    assert repository.text("status", "--", "src").count("\n") == 3
    assert "are relative to" in repository.text("status", path="src")


def test_status_of_a_conflict_and_of_a_branch_behind(repository):
    repository.git("checkout", "-q", "-b", "other", "HEAD~1")
    repository.git("branch", "-q", "--set-upstream-to=main")
    assert "Upstream main: 0" in repository.text("status")
    repository.put("a.txt", "mine\n")
    repository.commit("mine")
    with pytest.raises(subprocess.CalledProcessError):
        repository.git("merge", "main")
    assert "Unmerged (1):\n  a.txt" in repository.text("status")


def test_log(repository):
    second, first = repository.git("log", "--format=%H").split()
    assert repository.text("log") == (
        f"commit {second} (HEAD -> main)\nAuthor: Ada <ada@example.org>\nDate: 2024-03-01T10:00:00+01:00\n\n"
        f"    Second things\n\n"
        f"commit {first}\nAuthor: Ada <ada@example.org>\nDate: 2024-03-01T10:00:00+01:00\n\n"
        "    First things\n    \n    With a body."
    )
    assert repository.text("log", "--oneline", "-1").endswith(" Second things")
    assert repository.text("log", "-n", "1", "--oneline", "main~1") == f"{first[:10]} First things"
    assert repository.text("log", "--oneline", "--", "src").endswith("First things")
    assert repository.text("log", "--oneline", "src").endswith("First things")
    assert repository.text("log", "--format=%h %s", "-1").endswith("Second things")
    assert "+2" in repository.text("log", "-p", "-1")
    assert " a.txt | 2 +-" in repository.text("log", "--stat", "-1", "--oneline")
    assert "* " in repository.text("log", "--graph", "--oneline")
    commits = repository.facts("log")["commits"]
    assert commits[1]["subject"] == "First things"
    assert commits[0]["parents"] == [first]
    assert commits[0]["refs"] == ["HEAD -> main"]
    assert repository.text("log", "--author=nobody") == "(nothing)"


def test_log_gives_fifty_commits_and_says_how_to_go_on(repository):
    stream = "".join(
        f"commit refs/heads/main\ncommitter Ada <ada@example.org> {number} +0000\ndata 2\nno\n" for number in range(54)
    )
    subprocess.run(
        ["git", "fast-import", "--quiet", "--force"], cwd=repository.folder, input=stream, text=True, check=True
    )
    text = repository.text("log", "--oneline")
    assert len(text.splitlines()) == 51
    assert "first 50 commits" in text
    assert "--skip=50" in text
    assert len(repository.text("log", "--oneline", "-n", "60").splitlines()) == 54


def test_diff(repository):
    assert repository.text("diff") == "No differences."
    repository.put("a.txt", "one\n2\nthree\nfour\n")
    assert "+four" in repository.text("diff")
    assert "+four" in repository.text("diff", "a.txt")
    assert repository.text("diff", "--", "src") == "No differences."
    assert repository.text("diff", "--cached") == "No differences."
    assert repository.text("diff", "--name-only", "HEAD~1") == "a.txt"
    assert "-two\n+2" in repository.text("diff", "HEAD~1..HEAD", "--", "a.txt")
    facts = repository.facts("diff", "HEAD~1")
    assert (facts["files"], facts["added"], facts["removed"]) == (["a.txt"], 2, 1)
    assert repository.text("diff", "--", str(repository.folder / "a.txt")).count("+four") == 1


def test_changed_lines_that_look_like_the_names_of_files_count(repository):
    repository.put("a.txt", "-- one\n")
    repository.git("add", "a.txt")
    # of another size: git takes a file for unchanged by its size and its time, where the clock is set back
    repository.put("a.txt", "++ one more\n")
    assert "\n--- one\n+++ one more" in repository.text("diff")
    facts = repository.facts("diff")
    assert (facts["added"], facts["removed"]) == (1, 1)


def test_a_path_through_a_link_to_the_repository(repository, tmp_path):
    (tmp_path / "alias").symlink_to(repository.folder)
    repository.put("a.txt", "changed\n")
    assert "+changed" in repository.text("diff", "--", str(tmp_path / "alias" / "a.txt"))


def test_show(repository):
    assert repository.text("show", "HEAD~1:a.txt") == "one\ntwo\nthree"
    assert "Second things" in repository.text("show")
    assert "+2" in repository.text("show", "HEAD")
    assert repository.facts("show")["commits"][0]["subject"] == "Second things"
    repository.git("tag", "-a", "v1", "-m", "a tag")
    assert "a tag" in repository.text("show", "v1")


def test_branches_and_descriptions(repository):
    repository.git("branch", "feature/x", "HEAD~1")
    lines = repository.text("branch").splitlines()
    assert [line.split()[:2] for line in lines] == [["feature/x", lines[0].split()[1]], ["*", "main"]]
    assert repository.text("branch", "--show-current") == "main"
    assert "feature/x" not in repository.text("branch", "--contains", "HEAD")
    assert "main" not in repository.text("branch", "feature/*")
    assert {"name": "main", "current": True}.items() <= repository.facts("branch", "-a")["branches"][1].items()
    assert repository.text("describe", "--always")
    repository.git("tag", "v1.0", "HEAD~1")
    assert repository.text("describe", "--tags").startswith("v1.0-1-g")
    assert "No names found" in repository.error("describe", "--match", "nothing").message


def test_remotes_show_no_passwords(repository):
    repository.git("remote", "add", "origin", "https://ada:hunter2@example.org/x.git")
    assert "https://***@example.org/x.git" in repository.text("remote")
    assert repository.text("remote", "get-url", "origin") == "https://***@example.org/x.git"
    assert "hunter2" not in repository.text("remote", "show", "origin")
    assert "hunter2" not in repository.text("config", "--list")


def test_blame(repository):
    second, first = repository.git("log", "--format=%H").split()
    assert repository.text("blame", "--", "a.txt").splitlines()[:2] == [
        f"{first[:10]} 2024-03-01 Ada{'':21}     1\tone",
        f"{second[:10]} 2024-03-01 Ada{'':21}     2\t2",
    ]
    assert repository.text("blame", "-L", "2,2", "a.txt").endswith("\t2")
    assert repository.text("blame", "-L2,2", "HEAD~1", "--", "a.txt").endswith("\ttwo")
    assert repository.facts("blame", "a.txt")["lines"][1]["summary"] == "Second things"
    assert "one file" in repository.error("blame").message


def test_files_and_configuration(repository):
    repository.put("ignored.log", "")
    repository.put(".gitignore", "*.log\n")
    assert repository.text("ls-files").splitlines() == ["a.txt", "src/b.py"]
    assert repository.text("ls-files", "--others", "--exclude-standard") == ".gitignore"
    repository.git("config", "user.name", "Ada")
    repository.git("config", "http.extraheader", "AUTHORIZATION: basic abc")
    assert repository.text("config", "user.name") == "Ada"
    assert repository.text("config", "--get", "user.nothing") == "(not set)"
    everything = repository.text("config")
    assert "user.name=Ada" in everything
    assert "core.fsmonitor" not in everything, "our own settings are not the user's"
    assert "http.extraheader=(withheld" in everything


def test_a_linked_work_tree_and_a_submodule_are_read(repository, tmp_path):
    repository.git("worktree", "add", "-q", str(tmp_path / "linked"), "-b", "linked")
    assert Repository(tmp_path / "linked").text("status").startswith("On branch linked")
    repository.git("-c", "protocol.file.allow=always", "submodule", "-q", "add", str(repository.folder), "inner")
    assert Repository(repository.folder / "inner").text("log", "--oneline").endswith("First things")


def test_what_git_says_is_told(repository, tmp_path):
    assert "bad revision" in repository.error("log", "nowhere").message
    assert repository.error("log", path="a.txt").code == ErrorCode.FILE_PATH_INVALID
    assert repository.error("log", path="nowhere").code == ErrorCode.FILE_NOT_FOUND
    (tmp_path / "plain").mkdir()
    error = repository.error("status", path=str(tmp_path / "plain"))
    assert error.code == ErrorCode.FILE_PATH_INVALID
    assert "git repository" in error.message
    assert "Flags: " in repository.error("log", "--no-such-flag").message
    assert repository.error("log", timeout_seconds=1).code == ErrorCode.INVALID_PARAMETERS


def test_much_is_cut_with_the_way_to_go_on(repository):
    repository.put("big.txt", "".join(f"line {number}\n" for number in range(200_000)))
    repository.commit("big")
    text = repository.text("show", "HEAD")
    assert len(text) < 61_000
    assert "Cut after" in text
    assert "--stat" in text


def test_title_and_examples(repository):
    tool = git_tool(repository.folder)
    assert tool.title is not None
    assert tool.title({"subcommand": "log", "args": ["-n", "3"]}) == "git log -n 3"
    assert tool.read_only
    for example in tool.input_examples:
        check_input(tool, example)


@dataclass
class Hostile:
    """A repository, the folder it is in, and the file that appears when a program of its configuration has run."""

    folder: Path
    marker: Path
    program: Path

    def git(self, *arguments: str, check: bool = True) -> str:
        run = subprocess.run(["git", *arguments], cwd=self.folder, check=False, capture_output=True, text=True)
        assert run.returncode == 0 or not check, run.stderr
        return run.stdout

    def config(self, key: str, value: str | None = None) -> None:
        self.git("config", key, str(self.program) if value is None else value)

    def attributes(self, line: str) -> None:
        (self.folder / ".gitattributes").write_text(f"{line}\n")

    def touch(self) -> None:
        """A tracked file that git must look at again, since its time has changed."""
        (self.folder / "a.txt").write_text("two\n")
        os.utime(self.folder / "a.txt", (1, 1))

    def ran(self) -> bool:
        """Whether the program ran since this was asked last."""
        ran = self.marker.exists()
        self.marker.unlink(missing_ok=True)
        return ran

    def call(self, subcommand: str, *args: str, path: Path | None = None) -> ToolResult:
        tool_input = {"subcommand": subcommand, "args": list(args), "path": str(path or self.folder)}
        result = asyncio.run(git_tool(self.folder).call(tool_input, ToolContext("", print)))
        assert isinstance(result, ToolResult)
        return result


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    folder = tmp_path / "repository"
    folder.mkdir()
    marker, program = tmp_path / "marker", tmp_path / "program.sh"
    program.write_text(f"#!/bin/sh\ntouch {marker}\n")
    program.chmod(0o755)
    made = Hostile(folder, marker, program)
    made.git("init", "-q", "-b", "main")
    for key, value in {"user.name": "Ada", "user.email": "ada@example.org"}.items():
        made.config(key, value)
    (folder / "a.txt").write_text("one\n")
    made.git("add", ".")
    made.git("commit", "-q", "-m", "first")
    return made


def fsmonitor(hostile: Hostile) -> None:
    hostile.config("core.fsmonitor")


def clean_filter(hostile: Hostile) -> None:
    hostile.config("filter.a=b.c.clean")
    hostile.config("filter.a=b.c.required", "true")
    hostile.attributes("*.txt filter=a=b.c")
    hostile.touch()


def process_filter(hostile: Hostile) -> None:
    hostile.config("filter.evil.process")
    hostile.attributes("*.txt filter=evil")
    hostile.touch()


def external_diff(hostile: Hostile) -> None:
    hostile.config("diff.external")
    hostile.touch()


def diff_driver(hostile: Hostile) -> None:
    hostile.config("diff.evil.command")
    hostile.attributes("*.txt diff=evil")
    hostile.touch()


def textconv(hostile: Hostile) -> None:
    hostile.config("diff.evil.textconv")
    hostile.attributes("*.txt diff=evil")
    hostile.touch()


def signatures(hostile: Hostile) -> None:
    """A commit that looks signed, and a program to check it."""
    raw = hostile.git("cat-file", "commit", "HEAD").split("\n\n", 1)
    signed = f"{raw[0]}\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n aaaa\n -----END PGP SIGNATURE-----\n\n{raw[1]}"
    run = subprocess.run(
        ["git", "hash-object", "-t", "commit", "-w", "--stdin"],
        cwd=hostile.folder,
        input=signed,
        capture_output=True,
        text=True,
        check=True,
    )
    hostile.git("update-ref", "HEAD", run.stdout.strip())
    hostile.config("gpg.program")
    hostile.config("log.showSignature", "true")


def signature_format(hostile: Hostile) -> None:
    signatures(hostile)
    hostile.config("log.showSignature", "false")
    hostile.config("pretty.evil", "%G?")
    hostile.config("format.pretty", "evil")


def index_hook(hostile: Hostile) -> None:
    hooks = hostile.folder / "hooks"
    hooks.mkdir()
    (hooks / "post-index-change").write_bytes(hostile.program.read_bytes())
    (hooks / "post-index-change").chmod(0o755)
    hostile.config("core.hooksPath", "hooks")
    (hostile.folder / "a.txt").write_text("one\n")
    os.utime(hostile.folder / "a.txt", (1, 1))


def missing_object(hostile: Hostile) -> None:
    """A partial clone: what is missing is fetched, from an address that is a command."""
    hostile.config("extensions.partialClone", "origin")
    hostile.config("remote.origin.promisor", "true")
    hostile.config("remote.origin.url", f"ext::{hostile.program}")
    hostile.config("protocol.ext.allow", "always")
    hostile.config("core.repositoryFormatVersion", "1")
    blob = hostile.git("rev-parse", "HEAD:a.txt").strip()
    (hostile.folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()


def remote_helper(hostile: Hostile) -> None:
    missing_object(hostile)
    hostile.config("remote.origin.url", "ssh://nowhere.invalid/x")
    hostile.config("core.sshCommand")


def submodule_filter(hostile: Hostile) -> None:
    """A submodule has a configuration of its own, which a status in it would read."""
    inner = hostile.folder / "inner"
    inner.mkdir()
    sub = Hostile(inner, hostile.marker, hostile.program)
    sub.git("init", "-q", "-b", "main")
    sub.config("user.name", "Ada")
    sub.config("user.email", "ada@example.org")
    (inner / "a.txt").write_text("one\n")
    sub.git("add", ".")
    sub.git("commit", "-q", "-m", "inner")
    hostile.git("add", "inner")
    hostile.git("commit", "-q", "-m", "with inner")
    sub.config("filter.evil.clean")
    (inner / ".git" / "info" / "attributes").write_text("*.txt filter=evil\n")
    sub.touch()


Attack = tuple[Callable[[Hostile], None], str, tuple[str, ...], tuple[str, ...]]
ATTACKS: list[Attack] = [
    # how it is laid, subcommand, arguments, more that plain git needs
    (fsmonitor, "status", (), ()),
    (fsmonitor, "diff", (), ()),
    (fsmonitor, "ls-files", ("-m",), ()),
    (fsmonitor, "blame", ("--", "a.txt"), ()),
    (clean_filter, "status", (), ()),
    (clean_filter, "diff", (), ()),
    (clean_filter, "blame", ("--", "a.txt"), ()),
    (clean_filter, "diff", ("--stat", "HEAD"), ()),
    (clean_filter, "ls-files", ("-m",), ()),
    (process_filter, "status", (), ()),
    (process_filter, "diff", (), ()),
    (external_diff, "diff", (), ()),
    (external_diff, "log", ("-p",), ("--ext-diff",)),
    (external_diff, "show", ("HEAD",), ("--ext-diff",)),
    (diff_driver, "diff", (), ()),
    (textconv, "diff", (), ()),
    (textconv, "log", ("-p",), ()),
    (textconv, "log", ("-Gone",), ()),
    (textconv, "log", ("--stat", "-p", "--", "a.txt"), ()),
    (textconv, "show", ("HEAD",), ()),
    (textconv, "show", ("HEAD:a.txt",), ("--textconv",)),
    (textconv, "blame", ("--", "a.txt"), ()),
    (signatures, "log", (), ()),
    (signatures, "show", (), ()),
    (signature_format, "log", (), ()),
    (signature_format, "show", (), ()),
    (index_hook, "status", (), ()),
    (index_hook, "diff", (), ()),
    (missing_object, "show", ("HEAD:a.txt",), ()),
    (missing_object, "log", ("-p",), ()),
    (remote_helper, "show", ("HEAD:a.txt",), ()),
    (submodule_filter, "status", (), ()),
    (submodule_filter, "diff", (), ()),
]


@pytest.mark.parametrize(("lay", "subcommand", "args", "more"), ATTACKS)
def test_nothing_runs(hostile, lay, subcommand, args, more):
    lay(hostile)
    hostile.ran()
    hostile.git(subcommand, *more, *args, check=False)
    assert hostile.ran(), "this attack does not work on plain git: the test shows nothing"
    if lay is index_hook:
        lay_again = hostile.folder / "a.txt"
        os.utime(lay_again, (2, 2))
    if lay in (missing_object, remote_helper):
        with pytest.raises(ToolError):
            hostile.call(subcommand, *args)
    else:
        hostile.call(subcommand, *args)
    assert not hostile.ran()


@pytest.mark.parametrize(
    ("name", "subcommand"),
    [("GIT_EXTERNAL_DIFF", "diff"), ("GIT_CONFIG_PARAMETERS", "status"), ("GIT_CONFIG_COUNT", "status")],
)
def test_the_kernels_own_git_variables_have_no_say(hostile, monkeypatch, name, subcommand):
    hostile.touch()
    values = {
        "GIT_EXTERNAL_DIFF": {name: str(hostile.program)},
        "GIT_CONFIG_PARAMETERS": {name: f"'core.fsmonitor={hostile.program}'"},
        "GIT_CONFIG_COUNT": {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "core.fsmonitor",
            "GIT_CONFIG_VALUE_0": str(hostile.program),
        },
    }
    for variable, value in values[name].items():
        monkeypatch.setenv(variable, value)
    hostile.git(subcommand)
    assert hostile.ran()
    hostile.call(subcommand)
    assert not hostile.ran()


def test_a_git_beside_the_files_is_not_run(hostile, monkeypatch):
    (hostile.folder / "git").write_bytes(hostile.program.read_bytes())
    (hostile.folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f".{os.pathsep}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(hostile.folder)
    hostile.call("status")
    assert not hostile.ran()


def test_a_bare_repository_among_the_files_is_not_read(hostile):
    bare = hostile.folder / "fixture"
    bare.mkdir()
    inner = Hostile(bare, hostile.marker, hostile.program)
    inner.git("init", "-q", "--bare", ".")
    inner.config("core.bare", "false")
    inner.config("core.worktree", str(hostile.folder))
    inner.config("core.fsmonitor")
    inner.git("status", check=False)
    assert hostile.ran()
    with pytest.raises(ToolError) as caught:
        hostile.call("status", path=bare)
    assert caught.value.code == ErrorCode.FILE_PATH_INVALID
    assert not hostile.ran()


def test_another_folder_is_not_made_the_work_tree(hostile, tmp_path):
    private = tmp_path / "private"
    private.mkdir()
    (private / "a.txt").write_text("a secret\n")
    hostile.config("core.worktree", str(private))
    assert "a secret" in hostile.git("diff")
    for subcommand in ("diff", "status", "ls-files"):
        with pytest.raises(ToolError, match=r"core\.worktree"):
            hostile.call(subcommand)


@pytest.mark.parametrize(
    "args",
    [
        ("--", "/etc/hostname", "/etc/passwd"),
        ("/etc/hostname", "/etc/passwd"),
        ("--", "a.txt", "../private.txt"),
        ("--", ":(top)../private.txt", "a.txt"),
        ("--", "linked/private.txt", "a.txt"),
        ("--no-index", "a.txt", "../private.txt"),
    ],
)
def test_files_outside_are_not_compared(hostile, tmp_path, args):
    (tmp_path / "private.txt").write_text("a secret\n")
    (hostile.folder / "linked").symlink_to(tmp_path)
    if args[:2] == ("--", "linked/private.txt"):
        assert hostile.call("diff", *args).content == "No differences."
        return
    with pytest.raises(ToolError) as caught:
        hostile.call("diff", *args)
    assert caught.value.code in (ErrorCode.FILE_PATH_INVALID, ErrorCode.INVALID_PARAMETERS)


@for_each_row(
    ("subcommand", "args"),
    [
        ("log", ["--output=x"]),
        ("log", ["--ext-diff"]),
        ("log", ["--textconv"]),
        ("log", ["--show-signature"]),
        ("log", ["--format=%G?"]),
        ("log", ["--format=%H %GK"]),
        ("log", ["--pretty=format:%(describe)"]),
        ("log", ["--pretty=evil"]),
        ("log", ["--format", "evil"]),
        ("log", ["-O", "order"]),
        ("log", ["--stdin"]),
        ("log", ["--help"]),
        ("log", ["--no-such"]),
        ("log", ["-n"]),
        ("log", ["a\0b"]),
        ("diff", ["--no-index", "a", "b"]),
        ("diff", ["--output", "x"]),
        ("diff", ["-c", "--ext-diff"]),
        ("status", ["-sbv"]),
        ("status", ["--ignore-submodules=none"]),
        ("show", ["--submodule=log"]),
        ("branch", ["-d", "main"]),
        ("branch", ["-m", "other"]),
        ("branch", ["-rd", "x"]),
        ("branch", ["--edit-description"]),
        ("branch", ["--sort=signature"]),
        ("branch", ["--format=%(signature)"]),
        ("remote", ["add", "x", "y"]),
        ("remote", ["update"]),
        ("remote", ["show"]),
        ("remote", ["prune", "origin"]),
        ("describe", ["--dirty"]),
        ("describe", ["--broken"]),
        ("blame", ["--contents", "/etc/passwd", "--", "a.txt"]),
        ("blame", ["--ignore-revs-file=/etc/passwd", "--", "a.txt"]),
        ("ls-files", ["--exclude-from=/etc/passwd"]),
        ("ls-files", ["--recurse-submodules"]),
        ("config", ["user.name", "Mallory"]),
        ("config", ["--unset", "user.name"]),
        ("config", ["--file", "/etc/passwd", "--list"]),
        ("config", ["-e"]),
        ("config", ["get", "user.name"]),
        ("config", ["list"]),
    ],
)
def test_what_is_not_on_the_list_is_refused(hostile, subcommand, args):
    before = hostile.git("config", "--local", "--list"), hostile.git("branch", "-a")
    with pytest.raises(ToolError) as caught:
        hostile.call(subcommand, *args)
    assert caught.value.code == ErrorCode.INVALID_PARAMETERS
    assert (hostile.git("config", "--local", "--list"), hostile.git("branch", "-a")) == before


def test_a_branch_is_listed_and_never_made(hostile):
    hostile.call("branch", "fresh")
    hostile.call("branch", "--", "fresh")
    assert "fresh" not in hostile.git("branch", "-a")


def test_reading_leaves_the_index_alone(hostile):
    os.utime(hostile.folder / "a.txt", (1, 1))
    index = hostile.folder / ".git" / "index"
    before = index.read_bytes(), index.stat().st_mtime_ns
    assert hostile.call("diff").content == "No differences."
    hostile.call("status")
    assert (index.read_bytes(), index.stat().st_mtime_ns) == before
    hostile.git("diff")
    assert index.read_bytes() != before[0], "plain git would have written it: otherwise this shows nothing"
