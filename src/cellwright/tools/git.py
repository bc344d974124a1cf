"""Git: what a repository holds and how it came about. It only reads, and runs nothing that the repository brings along.

The meaning of a flag to git is not judged here: what is not on the list is refused, whatever it does. The answers are
read into data for the views and text for Claude.
"""

from __future__ import annotations

import datetime
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, convert

from cellwright.agent.calls.approval import without_hosts
from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.calls.tool_results import ToolOutput
from cellwright.agent.tool import Tool, ToolAccess, ToolContext, ToolResult, tool
from cellwright.errors import ErrorCode, ToolError
from cellwright.permissions.patch_text import changed_lines
from cellwright.redaction.redaction import is_secret
from cellwright.text import counted, lazy_pattern, visible
from cellwright.this_process.files import scratch_folder
from cellwright.tools.inputs import HERE, MAX_WORDS, timed_limits, timeout_meta
from cellwright.tools.paths import file_errors, not_found, real_path, resolve_path, shown_path
from cellwright.tools.run_git import Git, GitOutput, Repository, neutral_git, plain_git, repository_of

Kind = Literal["flag", "value", "attached", "next"]
"""A flag alone; with a value; with a value that may only be attached (`--stat=80`); with a next word if there is one."""

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

LOG_FORMAT = "%x1e%H%x1f%P%x1f%an%x1f%ae%x1f%aI%x1f%D%x1f%s%x1f%b%x1f"
BRANCH_FORMAT = "%00".join(
    (
        "%(HEAD)",
        "%(refname)",
        "%(objectname:short)",
        "%(upstream:short)",
        "%(upstream:track)",
        "%(committerdate:iso-strict)",
        "%(subject)",
    )
)

_COMMIT = lazy_pattern(
    r"\x1e(?P<hash>[0-9a-f]{40,64})\x1f(?P<parents>[^\x1f]*)\x1f(?P<author>[^\x1f]*)\x1f(?P<email>[^\x1f]*)\x1f"
    r"(?P<date>[^\x1f]*)\x1f(?P<refs>[^\x1f]*)\x1f(?P<subject>[^\x1f]*)\x1f(?P<body>[^\x1f]*)\x1f"
)
_URL_USER = lazy_pattern(r"(\w[\w+.-]*://)[^/\s@]+@")
_EMPTY_DIFF = lazy_pattern(r"^diff --git .*\n(?=diff --git |\Z)", re.MULTILINE)

_STATES = {
    "M": "modified",
    "T": "type changed",
    "A": "added",
    "D": "deleted",
    "R": "renamed",
    "C": "copied",
    "U": "unmerged",
}


def _flags(words: str, kind: Kind = "flag") -> dict[str, Kind]:
    return dict.fromkeys(words.split(), kind)


_DIFF: dict[str, Kind] = {
    **_flags("-p -u --patch -s --no-patch --patch-with-stat --shortstat --numstat --summary --compact-summary"),
    **_flags("--name-only --name-status --raw --find-copies-harder --no-renames --pickaxe-all --pickaxe-regex"),
    **_flags("-w --ignore-all-space -b --ignore-space-change --ignore-space-at-eol --ignore-blank-lines"),
    **_flags("--minimal --patience --histogram -W --function-context --full-index -a --text -R --cc -c -m --check"),
    **_flags("--stat --dirstat --abbrev --find-renames -M --find-copies -C --word-diff --relative", "attached"),
    **_flags("-U --unified --inter-hunk-context --diff-algorithm --diff-filter --word-diff-regex -S -G", "value"),
    **_flags("--find-object", "value"),
}
_PRETTY: dict[str, Kind] = {
    **_flags("--oneline --abbrev-commit --no-abbrev-commit --relative-date --no-decorate --parents --source"),
    **_flags("--pretty --decorate", "attached"),
    **_flags("--format --date --decorate-refs --decorate-refs-exclude", "value"),
}
_COMMITS: dict[str, Kind] = {
    **_flags("--all --reflog -g --walk-reflogs --merges --no-merges --first-parent --not --left-right --left-only"),
    **_flags("--right-only --cherry --cherry-pick --cherry-mark --boundary --full-history --dense --sparse"),
    **_flags("--simplify-merges --simplify-by-decoration --date-order --author-date-order --topo-order --reverse"),
    **_flags("--graph --follow --all-match --invert-grep -i --regexp-ignore-case -E --extended-regexp -F"),
    **_flags("--fixed-strings -P --perl-regexp --no-walk --children"),
    **_flags("--branches --tags --remotes --ancestry-path", "attached"),
    **_flags("-n --max-count --skip --since --after --until --before --author --committer --grep -L --glob", "value"),
    **_flags("--exclude --min-parents --max-parents", "value"),
}

Subcommand = Literal["status", "log", "show", "diff", "branch", "remote", "describe", "blame", "ls-files", "config"]

FLAGS: Mapping[Subcommand, Mapping[str, Kind]] = {
    "status": {
        **_flags("-s --short -b --branch --long --show-stash --ahead-behind --no-ahead-behind --renames --no-renames"),
        **_flags("--porcelain -u --untracked-files --ignored --find-renames", "attached"),
    },
    "log": {**_DIFF, **_PRETTY, **_COMMITS},
    "show": {**_DIFF, **_PRETTY},
    "diff": {**_DIFF, **_flags("--cached --staged --merge-base --exit-code --quiet --base --ours --theirs")},
    "branch": {
        **_flags("-a --all -r --remotes -l --list -v --verbose --show-current -i --ignore-case"),
        **_flags("--contains --no-contains --merged --no-merged", "next"),
        **_flags("--points-at --sort", "value"),
        **_flags("--abbrev", "attached"),
    },
    "remote": _flags("-v --verbose --push --all -n"),
    "describe": {
        **_flags("--tags --all --long --always --exact-match --contains --first-parent"),
        **_flags("--abbrev --candidates --match --exclude", "value"),
    },
    "blame": {
        **_flags("-w -s -l -e --show-email --first-parent --root --reverse"),
        **_flags("-M -C", "attached"),
        **_flags("-L --since --date --abbrev", "value"),
    },
    "ls-files": {
        **_flags(
            "-c --cached -d --deleted -m --modified -o --others -i --ignored -s --stage -u --unmerged -k --killed"
        ),
        **_flags("--directory --no-empty-directory --eol -t --exclude-standard --error-unmatch --full-name"),
        **_flags("--deduplicate"),
        **_flags("-x --exclude --with-tree", "value"),
    },
    "config": {
        **_flags("-l --list --get --get-all --get-regexp --show-origin --show-scope --name-only --local --global"),
        **_flags("--system --worktree --includes --no-includes --bool --int --bool-or-int --path"),
        **_flags("--type --default", "value"),
    },
}

SORT_KEY = lazy_pattern(
    r"-?(?:refname|(?:committer|author|creator|tagger)date|v(?:ersion)?:refname|objectname|upstream)"
)
"""By what branches may be sorted; others of git's fields run programs (`signature`)."""

STYLES = frozenset({"oneline", "short", "medium", "full", "fuller", "reference", "raw"})
PLACEHOLDER = lazy_pattern(
    r"""%(?:[+\-\x20])?(?: [HhTtPpeDdSNnsfbBm%] | [ac][nNeElLdDrtiIs] | [ac]h | g[dDnNeEs] | x[0-9a-fA-F]{2}
    | [<>|]{1,2}\(\d+(?:,(?:trunc|ltrunc|mtrunc))?\) | C(?:red|green|blue|reset|\([a-z\ ]*\))
    | \(trailers(?::(?:key=[\w-]+|only|unfold|valueonly)(?:,(?:key=[\w-]+|only|unfold|valueonly))*)?\) )""",
    re.VERBOSE,
)
"""Allowed in `--format`; git's others run programs (`%G?` checks signatures, `%(describe)` starts another git)."""


class GitArguments(Struct, frozen=True):
    """Arguments taken apart: flags as git gets them (values attached), what stands before `--`, and what after."""

    flags: tuple[str, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]

    def has(self, *names: str) -> bool:
        """Return whether any of these flags is given, with a value or without."""
        return any(flag.partition("=")[0] in names for flag in self.flags)


def parse_arguments(subcommand: Subcommand, arguments: Sequence[str]) -> GitArguments:
    """Take the arguments apart. Raises ToolError for a flag that is not on the subcommand's list."""
    known = FLAGS[subcommand]
    flags: list[str] = []
    before: list[str] = []
    waiting = list(arguments)
    while waiting:
        word = waiting.pop(0)
        if "\0" in word or "\n" in word:
            raise _refused(subcommand, word, "holds a null byte or a line end")
        if word == "--":
            return GitArguments(tuple(flags), tuple(before), tuple(waiting))
        if not word.startswith("-") or word == "-":
            before.append(word)
        elif subcommand == "log" and re.fullmatch(r"-\d+", word):
            flags.append(f"--max-count={word[1:]}")
        else:
            flags += _flag(subcommand, known, word, waiting)
    return GitArguments(tuple(flags), tuple(before), ())


def _flag(subcommand: Subcommand, known: Mapping[str, Kind], word: str, waiting: list[str]) -> list[str]:
    name, separator, value = (
        word.partition("=") if word.startswith("--") else (word[:2], "=" * (len(word) > 2), word[2:])
    )
    kind = known.get(name)
    if kind is None:
        raise _refused(subcommand, word, "is not among the flags that this tool takes")
    if kind == "flag" and separator and not word.startswith("--"):
        # short flags in one word: each must be one that is taken alone
        return [name, *_flag(subcommand, known, f"-{value}", waiting)]
    if kind == "flag" and separator:
        raise _refused(subcommand, word, "takes no value")
    if kind in ("value", "next") and not separator:
        if kind == "value" and not waiting:
            raise _refused(subcommand, word, "needs a value")
        if kind == "value" or (waiting and not waiting[0].startswith("-")):
            separator, value = "=", waiting.pop(0)
    _check_value(subcommand, name, value)
    if not separator:
        return [name]
    return [f"{name}={value}" if name.startswith("--") else f"{name}{value}"]


def _check_value(subcommand: Subcommand, name: str, value: str) -> None:
    if "\0" in value:
        raise _refused(subcommand, name, "has a value with a null byte")
    if name == "--sort" and not SORT_KEY.fullmatch(value):
        raise _refused(subcommand, f"--sort={value}", "sorts by something that this tool does not take")
    if name in ("--format", "--pretty") and value and value not in STYLES:
        text = value.removeprefix("tformat:").removeprefix("format:")
        if "%" not in value or "%" in PLACEHOLDER.sub("", text):
            raise _refused(subcommand, f"{name}={value}", "holds a name or placeholder that this tool does not take")


def _refused(subcommand: Subcommand, word: str, why: str) -> ToolError:
    flags = " ".join(sorted(FLAGS[subcommand], key=lambda flag: flag.lstrip("-").lower()))
    return ToolError(
        f"git {subcommand}: `{word}` {why}; nothing was run. Flags: {flags}. Paths go after `--`.",
        code=ErrorCode.INVALID_PARAMETERS,
    )


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
    text, facts = _read_status(output.data)
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
        flags = [flag for flag in flags if flag != "--oneline"] + [f"--format={LOG_FORMAT}"]
    revisions, paths = _revisions_and_paths(call)
    output = await _run(call, subcommand, *_READING_DIFFS, "--no-show-signature", *flags, *revisions, "--", *paths)
    if raw:
        return output.text, {}, output
    text, facts = _read_commits(output.text, oneline=oneline)
    return text, {"commits": facts}, output


async def _diff(call: _Call) -> _Answer:
    revisions, paths = _revisions_and_paths(call)
    with _index_copy(call.repository.index) as index_file:
        arguments = [*_READING_DIFFS, *call.words.flags, *revisions, "--", *paths]
        output = await _run(call, "diff", *arguments, answers=(0, 1), index_file=index_file)
    text = _EMPTY_DIFF.sub("", output.text)  # files that were touched and not changed
    added, removed = changed_lines(text)
    files = [line.rpartition(" b/")[2] for line in text.splitlines() if line.startswith("diff --git ")]
    facts = {"files": files, "added": added, "removed": removed} if files else {}
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
    output = await _run(call, "branch", "--list", f"--format={BRANCH_FORMAT}", *flags, "--", *patterns)
    text, facts = _read_branches(output.text)
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
    return without_secrets(output.text), {}, output


async def _describe(call: _Call) -> _Answer:
    output = await _run(call, "describe", *call.words.flags, *call.words.before, *call.words.after)
    return output.text, {}, output


async def _blame(call: _Call) -> _Answer:
    revisions, paths = _revisions_and_paths(call)
    if len(paths) != 1:
        raise ToolError("git blame needs exactly one file, after `--`.", code=ErrorCode.INVALID_PARAMETERS)
    output = await _run(call, "blame", "--no-textconv", *call.words.flags, "--porcelain", *revisions, "--", *paths)
    text, facts = _read_blame(output.text)
    # without the lines' texts: those are in what Claude reads
    return text, {"lines": [{name: fact for name, fact in line.items() if name != "text"} for line in facts]}, output


async def _ls_files(call: _Call) -> _Answer:
    paths = _paths(call, [*call.words.before, *call.words.after])
    output = await _run(call, "ls-files", *call.words.flags, "-z", "--", *paths)
    names = [shown_name(name) for name in output.text.split("\0")[:-1]]
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
    return _read_configuration(output.data) or "(not set)", {}, output


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


def _read_commits(text: str, *, oneline: bool) -> tuple[str, list[dict[str, Any]]]:
    """Commits in `LOG_FORMAT` (patches and statistics may follow each) as text, and as data."""
    found = list(_COMMIT.finditer(text))
    parts = [text[: found[0].start()] if found else text]
    facts = []
    for number, match in enumerate(found):
        end = found[number + 1].start() if number + 1 < len(found) else len(text)
        rest = text[match.end() : end].strip("\n")
        parts.append(_commit_text(match, rest, oneline=oneline))
        facts.append(
            {
                "hash": match["hash"],
                "parents": match["parents"].split(),
                "author": match["author"],
                "email": match["email"],
                "date": match["date"],
                "refs": match["refs"].split(", ") if match["refs"] else [],
                "subject": match["subject"],
            }
        )
    return ("\n" if oneline else "\n\n").join(part for part in parts if part.strip()), facts


def _commit_text(match: re.Match[str], rest: str, *, oneline: bool) -> str:
    refs = f" ({match['refs']})" if match["refs"] else ""
    if oneline:
        line = f"{match['hash'][:10]}{refs} {match['subject']}"
        return f"{line}\n{rest}" if rest else line
    merge = (
        f"\nMerge: {' '.join(parent[:10] for parent in match['parents'].split())}" if " " in match["parents"] else ""
    )
    head = f"commit {match['hash']}{refs}{merge}\nAuthor: {match['author']} <{match['email']}>\nDate: {match['date']}\n"
    message = f"{match['subject']}\n\n{match['body'].strip()}".strip().replace("\n", "\n    ")
    return f"{head}\n    {message}" + (f"\n\n{rest}" if rest else "")


def _read_status(data: bytes) -> tuple[str, dict[str, Any]]:
    """`status --porcelain=v2 --branch -z` as text, and as data."""
    facts: dict[str, Any] = {"branch": {}, "entries": []}
    records = iter(data.decode("utf-8", "surrogateescape").split("\0"))
    for record in records:
        kind, _, rest = record.partition(" ")
        if kind == "#":
            name, _, value = rest.partition(" ")
            facts["branch"][name.removeprefix("branch.")] = value
        elif kind == "1":
            facts["entries"].append(_entry(*rest.split(" ", 7)))
        elif kind == "2":
            fields = rest.split(" ", 8)
            facts["entries"].append({**_entry(*fields[:7], fields[8]), "from": shown_name(next(records, ""))})
        elif kind == "u":
            fields = rest.split(" ", 9)
            facts["entries"].append({"path": shown_name(fields[-1]), "state": "unmerged", "code": fields[0]})
        elif kind in ("?", "!"):
            state = "untracked" if kind == "?" else "ignored"
            facts["entries"].append({"path": shown_name(rest), "state": state})
        elif kind == "#stash":
            facts["stash"] = rest
    return _status_text(facts), facts


def _entry(code: str, *fields: str) -> dict[str, Any]:
    staged, unstaged = code[0], code[1]
    entry: dict[str, Any] = {"path": shown_name(fields[-1]), "code": code}
    if staged != ".":
        entry["staged"] = _STATES.get(staged, staged)
    if unstaged != ".":
        entry["unstaged"] = _STATES.get(unstaged, unstaged)
    return entry


def shown_name(path: str) -> str:
    """A path on one line, whatever is in it."""
    if path.isprintable():
        return path
    return visible(path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")).replace("\n", "⏎")


def _status_text(facts: Mapping[str, Any]) -> str:
    branch = facts["branch"]
    head = branch.get("head", "")
    lines = [f"On branch {head}" if head != "(detached)" else f"HEAD detached at {branch.get('oid', '')[:10]}"]
    if branch.get("oid") == "(initial)":
        lines.append("No commits yet")
    if upstream := branch.get("upstream"):
        ahead, behind = (int(part) for part in branch.get("ab", "+0 -0").split())
        lines.append(f"Upstream {upstream}: {counted(ahead, 'commit')} ahead, {-behind} behind")
    entries: Sequence[Mapping[str, Any]] = facts["entries"]
    for title, key in (("Staged", "staged"), ("Not staged", "unstaged")):
        changed = []
        for entry in entries:
            if key in entry:
                before = f"{entry['from']} -> " if entry[key] in ("renamed", "copied") else ""
                changed.append(f"  {entry[key]}: {before}{entry['path']}")
        lines += _section(title, changed)
    for state in ("unmerged", "untracked", "ignored"):
        lines += _section(
            state.capitalize(), [f"  {entry['path']}" for entry in entries if entry.get("state") == state]
        )
    return "\n".join(lines if entries else [*lines, "Nothing changed, nothing untracked."])


def _section(title: str, lines: list[str]) -> list[str]:
    return [f"{title} ({len(lines)}):", *lines] if lines else []


def _read_branches(text: str) -> tuple[str, list[dict[str, Any]]]:
    """Branches in `BRANCH_FORMAT`, one a line, as text, and as data."""
    lines, facts = [], []
    for line in text.splitlines():
        fields = line.split("\0")
        if len(fields) != 7:
            lines.append(line)  # `(no branch, rebasing …)` and the like
            continue
        head, ref, commit, upstream, track, date, subject = fields
        name = ref.removeprefix("refs/heads/").removeprefix("refs/")
        facts.append({"name": name, "current": head == "*", "commit": commit, "upstream": upstream, "date": date})
        follows = f" [{upstream}{': ' + track.strip('[]') if track else ''}]" if upstream else ""
        lines.append(f"{head or ' '} {name} {commit}{follows} {date[:10]} {subject}")
    return "\n".join(lines), facts


def _read_blame(text: str) -> tuple[str, list[dict[str, Any]]]:
    """`blame --porcelain` as text, and as data."""
    known: dict[str, dict[str, str]] = {}
    commit, number = "", 0
    facts: list[dict[str, Any]] = []
    for line in text.splitlines():
        if line.startswith("\t"):
            about = known[commit]
            facts.append({"line": number, "commit": commit, **about, "text": line[1:]})
        elif found := re.match(r"([0-9a-f]{40,64}) \d+ (\d+)", line):
            commit, number = found[1], int(found[2])
            known.setdefault(commit, {})
        else:
            name, _, value = line.partition(" ")
            if name in ("author", "author-time", "summary"):
                known[commit][name] = value
    lines = [
        f"{fact['commit'][:10]} {_day(fact.get('author-time', ''))} {fact.get('author', '')[:24]:<24} "
        f"{fact['line']:>5}\t{fact['text']}"
        for fact in facts
    ]
    return "\n".join(lines), [{key: value for key, value in fact.items() if key != "text"} for fact in facts]


def _day(seconds: str) -> str:
    if not seconds.isdigit():
        return " " * 10
    return datetime.datetime.fromtimestamp(int(seconds), datetime.UTC).date().isoformat()


def without_secrets(text: str) -> str:
    """`text` without the names and passwords in addresses."""
    return _URL_USER.sub(r"\1***@", text)


def _read_configuration(data: bytes) -> str:
    """`config -z` as lines `key=value`, without secrets."""
    lines = []
    for record in data.decode("utf-8", "replace").split("\0"):
        key, found, value = record.partition("\n")
        if not found:
            lines.append(without_secrets(key))
        elif is_secret(key.rpartition(".")[2], value):
            lines.append(f"{without_secrets(key)}=(withheld: a secret)")
        else:
            lines.append(f"{without_secrets(key)}={without_secrets(value)}")
    return "\n".join(lines).strip()
