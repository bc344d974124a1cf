"""Repositories that run a program when plain git reads them: each does so first, and the tool then must not."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from cellwright.agent.tool import ToolContext, ToolResult
from cellwright.errors import ErrorCode, ToolError
from cellwright.tools.git import git_tool
from row_tables import for_each_row


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
def repository(tmp_path, monkeypatch):
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


def fsmonitor(repository: Hostile) -> None:
    repository.config("core.fsmonitor")


def clean_filter(repository: Hostile) -> None:
    repository.config("filter.a=b.c.clean")
    repository.config("filter.a=b.c.required", "true")
    repository.attributes("*.txt filter=a=b.c")
    repository.touch()


def process_filter(repository: Hostile) -> None:
    repository.config("filter.evil.process")
    repository.attributes("*.txt filter=evil")
    repository.touch()


def external_diff(repository: Hostile) -> None:
    repository.config("diff.external")
    repository.touch()


def diff_driver(repository: Hostile) -> None:
    repository.config("diff.evil.command")
    repository.attributes("*.txt diff=evil")
    repository.touch()


def textconv(repository: Hostile) -> None:
    repository.config("diff.evil.textconv")
    repository.attributes("*.txt diff=evil")
    repository.touch()


def signatures(repository: Hostile) -> None:
    """A commit that looks signed, and a program to check it."""
    raw = repository.git("cat-file", "commit", "HEAD").split("\n\n", 1)
    signed = f"{raw[0]}\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n aaaa\n -----END PGP SIGNATURE-----\n\n{raw[1]}"
    run = subprocess.run(
        ["git", "hash-object", "-t", "commit", "-w", "--stdin"],
        cwd=repository.folder,
        input=signed,
        capture_output=True,
        text=True,
        check=True,
    )
    repository.git("update-ref", "HEAD", run.stdout.strip())
    repository.config("gpg.program")
    repository.config("log.showSignature", "true")


def signature_format(repository: Hostile) -> None:
    signatures(repository)
    repository.config("log.showSignature", "false")
    repository.config("pretty.evil", "%G?")
    repository.config("format.pretty", "evil")


def index_hook(repository: Hostile) -> None:
    hooks = repository.folder / "hooks"
    hooks.mkdir()
    (hooks / "post-index-change").write_bytes(repository.program.read_bytes())
    (hooks / "post-index-change").chmod(0o755)
    repository.config("core.hooksPath", "hooks")
    (repository.folder / "a.txt").write_text("one\n")
    os.utime(repository.folder / "a.txt", (1, 1))


def missing_object(repository: Hostile) -> None:
    """A partial clone: what is missing is fetched, from an address that is a command."""
    repository.config("extensions.partialClone", "origin")
    repository.config("remote.origin.promisor", "true")
    repository.config("remote.origin.url", f"ext::{repository.program}")
    repository.config("protocol.ext.allow", "always")
    repository.config("core.repositoryFormatVersion", "1")
    blob = repository.git("rev-parse", "HEAD:a.txt").strip()
    (repository.folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()


def remote_helper(repository: Hostile) -> None:
    missing_object(repository)
    repository.config("remote.origin.url", "ssh://nowhere.invalid/x")
    repository.config("core.sshCommand")


def submodule_filter(repository: Hostile) -> None:
    """A submodule has a configuration of its own, which a status in it would read."""
    inner = repository.folder / "inner"
    inner.mkdir()
    sub = Hostile(inner, repository.marker, repository.program)
    sub.git("init", "-q", "-b", "main")
    sub.config("user.name", "Ada")
    sub.config("user.email", "ada@example.org")
    (inner / "a.txt").write_text("one\n")
    sub.git("add", ".")
    sub.git("commit", "-q", "-m", "inner")
    repository.git("add", "inner")
    repository.git("commit", "-q", "-m", "with inner")
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
def test_nothing_runs(repository, lay, subcommand, args, more):
    lay(repository)
    repository.ran()
    repository.git(subcommand, *more, *args, check=False)
    assert repository.ran(), "this attack does not work on plain git: the test shows nothing"
    if lay is index_hook:
        lay_again = repository.folder / "a.txt"
        os.utime(lay_again, (2, 2))
    if lay in (missing_object, remote_helper):
        with pytest.raises(ToolError):
            repository.call(subcommand, *args)
    else:
        repository.call(subcommand, *args)
    assert not repository.ran()


@pytest.mark.parametrize(
    ("name", "subcommand"),
    [("GIT_EXTERNAL_DIFF", "diff"), ("GIT_CONFIG_PARAMETERS", "status"), ("GIT_CONFIG_COUNT", "status")],
)
def test_the_kernels_own_git_variables_have_no_say(repository, monkeypatch, name, subcommand):
    repository.touch()
    values = {
        "GIT_EXTERNAL_DIFF": {name: str(repository.program)},
        "GIT_CONFIG_PARAMETERS": {name: f"'core.fsmonitor={repository.program}'"},
        "GIT_CONFIG_COUNT": {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "core.fsmonitor",
            "GIT_CONFIG_VALUE_0": str(repository.program),
        },
    }
    for variable, value in values[name].items():
        monkeypatch.setenv(variable, value)
    repository.git(subcommand)
    assert repository.ran()
    repository.call(subcommand)
    assert not repository.ran()


def test_a_git_beside_the_files_is_not_run(repository, monkeypatch):
    (repository.folder / "git").write_bytes(repository.program.read_bytes())
    (repository.folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f".{os.pathsep}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(repository.folder)
    repository.call("status")
    assert not repository.ran()


def test_a_bare_repository_among_the_files_is_not_read(repository):
    bare = repository.folder / "fixture"
    bare.mkdir()
    inner = Hostile(bare, repository.marker, repository.program)
    inner.git("init", "-q", "--bare", ".")
    inner.config("core.bare", "false")
    inner.config("core.worktree", str(repository.folder))
    inner.config("core.fsmonitor")
    inner.git("status", check=False)
    assert repository.ran()
    with pytest.raises(ToolError) as caught:
        repository.call("status", path=bare)
    assert caught.value.code == ErrorCode.FILE_PATH_INVALID
    assert not repository.ran()


def test_another_folder_is_not_made_the_work_tree(repository, tmp_path):
    private = tmp_path / "private"
    private.mkdir()
    (private / "a.txt").write_text("a secret\n")
    repository.config("core.worktree", str(private))
    assert "a secret" in repository.git("diff")
    for subcommand in ("diff", "status", "ls-files"):
        with pytest.raises(ToolError, match=r"core\.worktree"):
            repository.call(subcommand)


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
def test_files_outside_are_not_compared(repository, tmp_path, args):
    (tmp_path / "private.txt").write_text("a secret\n")
    (repository.folder / "linked").symlink_to(tmp_path)
    if args[:2] == ("--", "linked/private.txt"):
        assert repository.call("diff", *args).content == "No differences."
        return
    with pytest.raises(ToolError) as caught:
        repository.call("diff", *args)
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
def test_what_is_not_on_the_list_is_refused(repository, subcommand, args):
    before = repository.git("config", "--local", "--list"), repository.git("branch", "-a")
    with pytest.raises(ToolError) as caught:
        repository.call(subcommand, *args)
    assert caught.value.code == ErrorCode.INVALID_PARAMETERS
    assert (repository.git("config", "--local", "--list"), repository.git("branch", "-a")) == before


def test_a_branch_is_listed_and_never_made(repository):
    repository.call("branch", "fresh")
    repository.call("branch", "--", "fresh")
    assert "fresh" not in repository.git("branch", "-a")


def test_reading_leaves_the_index_alone(repository):
    os.utime(repository.folder / "a.txt", (1, 1))
    index = repository.folder / ".git" / "index"
    before = index.read_bytes(), index.stat().st_mtime_ns
    assert repository.call("diff").content == "No differences."
    repository.call("status")
    assert (index.read_bytes(), index.stat().st_mtime_ns) == before
    repository.git("diff")
    assert index.read_bytes() != before[0], "plain git would have written it: otherwise this shows nothing"
