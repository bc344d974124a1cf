"""Git: what a repository holds and how it came about. It only reads, and runs nothing that the repository brings along."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct, convert

from cellwright.agent.calls.confinement import without_hosts
from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.calls.tool_output import ToolOutput
from cellwright.agent.tool import Tool, ToolAccess, ToolContext, ToolResult, tool
from cellwright.errors import ErrorCode, ToolError
from cellwright.text import lazy_pattern
from cellwright.this_process.temporary_files import scratch_folder
from cellwright.tools.git import output as git_output
from cellwright.tools.git.flags import GitArguments, Subcommand, parse_arguments
from cellwright.tools.git.run_git import Git, GitOutput, Repository, neutral_git, plain_git, repository_of
from cellwright.tools.inputs import HERE, MAX_WORDS, timed_limits, timeout_meta
from cellwright.tools.paths import file_errors, not_found, real_path, resolve_path, shown_path

GIT_SECONDS = 30.0
SHOWN_CHARS = 60_000
COMMITS = 50
"""The number of commits that `log` gives unless it is told."""

_MAGIC = lazy_pattern(r":(?:\([\w,:=.\- ]*\)|[!^/]+)?")
_READING_DIFFS = ("--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=dirty", "--submodule=short")

DESCRIPTION = f"""\
Read a git repository: status, log, diff, show, branch, remote, describe, blame, ls-files, config. Use this for reading, \
not git in Bash; commits and other changes go through Bash.
- args are what would follow the subcommand, one word each: {{"subcommand": "log", "args": ["-n5", "--stat", "--", "src"]}}\
. Paths go after `--`. Only flags that read are taken; an error lists them.
- log gives {COMMITS} commits unless told (-n, --skip). Repository hooks, filters, external diffs and textconv are never \
run."""


class GitInput(ToolInput):
    """The input of Git."""

    subcommand: Annotated[Subcommand, Meta(description="What to read.")]
    args: Annotated[
        tuple[Annotated[str, Meta(min_length=1)], ...],
        Meta(max_length=MAX_WORDS, description="Flags, revisions, then `--` and paths, as separate words."),
    ] = ()
    path: Annotated[
        str, Meta(min_length=1, description="A folder of the repository. Leave it out for the working directory.")
    ] = HERE
    timeout_seconds: Annotated[int, timeout_meta(GIT_SECONDS)] = int(GIT_SECONDS)


class GitFacts(ToolOutput, omit_defaults=True):
    """Facts of a repository, by the subcommand: only what that tells is there.

    status: `branch`, `entries` · log, show: `commits` · diff: `files`, `added`, `removed` · branch: `branches` ·
    blame: `lines`, each with its commit · ls-files: `count`.
    """

    subcommand: str
    branch: dict[str, Any] | None = None
    entries: list[dict[str, Any]] | None = None
    commits: list[dict[str, Any]] | None = None
    files: list[Any] | None = None
    added: int | None = None
    removed: int | None = None
    branches: list[dict[str, Any]] | None = None
    lines: list[dict[str, Any]] | None = None
    count: int | None = None


def git_tool(cwd: Path, environ: Mapping[str, str] = os.environ) -> Tool:
    """Git. Relative paths start at `cwd`; `environ` is read at each call."""

    @tool(
        name="Git",
        output=GitFacts,
        description=DESCRIPTION,
        access=ToolAccess("repository", "path"),
        read_only=True,
        category="git",
        best_for="status, history, diffs",
        limits=timed_limits(),
        examples=[
            {"subcommand": "status"},
            {"subcommand": "log", "args": ["--oneline", "-n", "20", "--", "src"]},
            {"subcommand": "show", "args": ["HEAD~2:README.md"]},
        ],
        title=lambda input: " ".join(["git", input.subcommand, *input.args])[:200],
    )
    async def git(input: GitInput, ctx: ToolContext) -> ToolResult:
        folder = _folder(cwd, input.path)
        words = parse_arguments(input.subcommand, input.args)
        if input.subcommand == "config":
            program = plain_git(folder, environ, input.timeout_seconds, without_hosts(ctx.confinement))
            return await _answer(_Call(program, Repository("", ""), input.subcommand, words))
        program = await neutral_git(folder, environ, input.timeout_seconds, without_hosts(ctx.confinement))
        return await _answer(_Call(program, await repository_of(program), input.subcommand, words))

    return git


class _Call(Struct, frozen=True):
    git: Git
    repository: Repository
    subcommand: Subcommand
    words: GitArguments


async def _answer(call: _Call) -> ToolResult:
    text, facts, output = await _ANSWERS[call.subcommand](call)
    notes = []
    if output.timed_out:
        notes.append(f"[Stopped after {call.git.seconds:g} s. Give fewer commits or paths, or more timeout_seconds.]")
    if len(text) > SHOWN_CHARS or not (output.whole or output.timed_out):
        text = text[:SHOWN_CHARS]
        text = text[: text.rfind("\n") + 1] or text
        notes.append(
            f"[Cut after {len(text):,} characters. {_NARROWER.get(call.subcommand, 'Give paths or patterns.')}]"
        )
    structured = convert({"subcommand": call.subcommand, **facts}, GitFacts)
    return ToolResult("\n".join([text.rstrip("\n") or "(nothing)", *notes]), structured=structured)


_NARROWER = {
    "log": "Go on with --skip, or give -n, paths, or --stat instead of -p.",
    "show": "Give paths after `--`, or --stat; of a file, read it with Read when it is the one in the work tree.",
    "diff": "Give paths after `--`, or see --stat first.",
    "blame": "Give a range: -L 1,200.",
}

_Answer = tuple[str, Mapping[str, Any], GitOutput]


async def _run(call: _Call, *arguments: str, answers: Sequence[int] = (0,), index_file: str = "") -> GitOutput:
    output = await call.git.run(*arguments, index_file=index_file)
    if output.whole and output.exit_code not in answers:
        raise ToolError(f"git {call.subcommand}: {output.errors or f'exit code {output.exit_code}'}")
    if output.timed_out and not output.data:
        raise ToolError(
            f"git {call.subcommand} gave nothing within {call.git.seconds:g} s. Give fewer commits or paths, or more "
            "timeout_seconds.",
            code=ErrorCode.EXECUTION_TIMEOUT,
        )
    return output


async def _status(call: _Call) -> _Answer:
    style = ("--short", "-s", "--branch", "-b", "--long", "--porcelain")
    flags = [flag for flag in call.words.flags if flag.partition("=")[0] not in style]
    paths = _paths(call, [*call.words.before, *call.words.after])
    fixed = ("--porcelain=v2", "--branch", "-z", "--ignore-submodules=dirty")
    output = await _run(call, "status", *fixed, *flags, "--", *paths)
    text, facts = git_output.status(output.data)
    if facts["entries"] and str(call.git.folder) != call.repository.top:
        text += f"\n[Paths are relative to {call.repository.top}.]"
    return text, facts, output


async def _log(call: _Call) -> _Answer:
    flags = list(call.words.flags)
    if not call.words.has("--max-count", "--since", "--after") and not any(flag.startswith("-n") for flag in flags):
        flags.append(f"--max-count={COMMITS}")
        text, facts, output = await _commits(call, "log", flags)
        if len(facts.get("commits", ())) == COMMITS:
            text += f"\n[The first {COMMITS} commits. Go on with --skip={COMMITS}, or give -n.]"
        return text, facts, output
    return await _commits(call, "log", flags)


async def _show(call: _Call) -> _Answer:
    return await _commits(call, "show", list(call.words.flags))


async def _commits(call: _Call, subcommand: str, flags: list[str]) -> _Answer:
    raw = call.words.has("--format", "--pretty", "--graph")
    oneline = "--oneline" in flags
    if not raw:
        flags = [flag for flag in flags if flag != "--oneline"] + [f"--format={git_output.LOG_FORMAT}"]
    revisions, paths = _revisions_and_paths(call)
    output = await _run(call, subcommand, *_READING_DIFFS, "--no-show-signature", *flags, *revisions, "--", *paths)
    if raw:
        return output.text, {}, output
    text, facts = git_output.commits(output.text, oneline=oneline)
    return text, {"commits": facts}, output


async def _diff(call: _Call) -> _Answer:
    revisions, paths = _revisions_and_paths(call)
    with _index_copy(call.repository.index) as index_file:
        arguments = [*_READING_DIFFS, *call.words.flags, *revisions, "--", *paths]
        output = await _run(call, "diff", *arguments, answers=(0, 1), index_file=index_file)
    text, facts = git_output.diff(output.text)
    return text or "No differences.", facts, output


@contextmanager
def _index_copy(index: str) -> Iterator[str]:
    """A copy of the index: `git diff` brings the one that it reads up to date, and locks it for that."""
    if not Path(index).is_file():
        yield ""
        return
    with scratch_folder("git") as folder:
        copied = folder / "index"
        shutil.copy(index, copied)
        yield str(copied)


async def _branch(call: _Call) -> _Answer:
    if "--show-current" in call.words.flags:
        output = await _run(call, "branch", "--show-current")
        return output.text or "HEAD is detached: no branch.", {}, output
    flags = [flag for flag in call.words.flags if flag not in ("-v", "--verbose", "-l", "--list")]
    patterns = [*call.words.before, *call.words.after]
    output = await _run(call, "branch", "--list", f"--format={git_output.BRANCH_FORMAT}", *flags, "--", *patterns)
    text, facts = git_output.branches(output.text)
    return text, {"branches": facts}, output


async def _remote(call: _Call) -> _Answer:
    action, *names = call.words.before or [""]
    if action == "show" and len(names) == 1:
        # -n: what is known here; without it the remote is asked
        arguments = ["show", "-n", *names]
    elif action == "get-url" and len(names) == 1:
        arguments = ["get-url", *(flag for flag in call.words.flags if flag in ("--push", "--all")), *names]
    elif not action and not call.words.after:
        arguments = ["-v"]
    else:
        raise ToolError(
            "git remote: without words it lists the remotes; `show NAME` and `get-url NAME` tell about one.",
            code=ErrorCode.INVALID_PARAMETERS,
        )
    output = await _run(call, "remote", *arguments)
    return git_output.without_secrets(output.text), {}, output


async def _describe(call: _Call) -> _Answer:
    output = await _run(call, "describe", *call.words.flags, *call.words.before, *call.words.after)
    return output.text, {}, output


async def _blame(call: _Call) -> _Answer:
    revisions, paths = _revisions_and_paths(call)
    if len(paths) != 1:
        raise ToolError("git blame needs exactly one file, after `--`.", code=ErrorCode.INVALID_PARAMETERS)
    output = await _run(call, "blame", "--no-textconv", *call.words.flags, "--porcelain", *revisions, "--", *paths)
    text, facts = git_output.blame(output.text)
    # without the lines' texts: those are in what Claude reads
    return text, {"lines": [{name: fact for name, fact in line.items() if name != "text"} for line in facts]}, output


async def _ls_files(call: _Call) -> _Answer:
    paths = _paths(call, [*call.words.before, *call.words.after])
    output = await _run(call, "ls-files", *call.words.flags, "-z", "--", *paths)
    names = [git_output.shown_name(name) for name in output.text.split("\0")[:-1]]
    return "\n".join(names), {"count": len(names)}, output


async def _config(call: _Call) -> _Answer:
    flags, keys = list(call.words.flags), [*call.words.before, *call.words.after]
    asked = call.words.has("--list", "-l", "--get", "--get-all", "--get-regexp")
    if not asked:
        # `config KEY` reads, `config KEY VALUE` writes
        flags.insert(0, "--get" if keys else "--list")
    if len(keys) > 1 or any("." not in key for key in keys if not call.words.has("--get-regexp")):
        raise ToolError("git config: give one key (section.name), or none for all.", code=ErrorCode.INVALID_PARAMETERS)
    output = await _run(call, "config", "-z", *flags, *keys, answers=(0, 1))
    return git_output.configuration(output.data) or "(not set)", {}, output


_ANSWERS = {
    "status": _status,
    "log": _log,
    "show": _show,
    "diff": _diff,
    "branch": _branch,
    "remote": _remote,
    "describe": _describe,
    "blame": _blame,
    "ls-files": _ls_files,
    "config": _config,
}


def _folder(cwd: Path, path: str) -> Path:
    folder = resolve_path(cwd, path)
    display_path = shown_path(cwd, folder)
    with file_errors(display_path):
        if not folder.exists():
            raise not_found(folder, display_path)
        if not folder.is_dir():
            raise ToolError(
                f"{display_path} is a file; path is a folder. Files go after `--`.", code=ErrorCode.FILE_PATH_INVALID
            )
        return folder.resolve()


def _revisions_and_paths(call: _Call) -> tuple[list[str], list[str]]:
    """Split what stands before `--`: revisions, then perhaps paths, where such a file and all after it exist."""
    before = list(call.words.before)
    if call.words.after:
        return before, _paths(call, call.words.after)
    first = len(before)
    while first and os.path.lexists(call.git.folder / before[first - 1]):
        first -= 1
    return before[:first], _paths(call, before[first:])


def _paths(call: _Call, paths: Sequence[str]) -> list[str]:
    """The pathspecs, all inside the work tree: git compares two files anywhere when one of them is outside."""
    top = Path(call.repository.top)
    inside = []
    for path in paths:
        magic = _MAGIC.match(path)
        plain = path[magic.end() :] if magic else path
        start = top if magic and ("/" in magic[0] or "top" in magic[0]) else call.git.folder
        meant = Path(os.path.normpath(start / plain))
        if not meant.is_relative_to(top):
            # by another name, through a symbolic link
            meant = real_path(meant.parent) / meant.name
            path = os.path.relpath(meant, call.git.folder)
        if not meant.is_relative_to(top):
            raise ToolError(
                f"git {call.subcommand}: {plain} is outside the repository at {top}. Give a path inside it; Read and Grep "
                "read other files.",
                code=ErrorCode.FILE_PATH_INVALID,
            )
        inside.append(path)
    return inside
