"""Running git so that it only reads and runs nothing, whatever the repository's configuration says.

A repository is foreign data with a configuration that names programs: hooks, fsmonitor, filters, textconv, external
diffs, helpers, signature checkers, remotes to fetch missing objects from. `docs/decisions/git-reads-only.md` goes
through them.
"""
# Paths are strings here: what git says about paths is compared as it is.
# ruff: noqa: PTH118, PTH120

from __future__ import annotations

import functools
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from cellwright.agent.calls.approval import Confinement, also_writing
from cellwright.errors import ErrorCode, ToolError
from cellwright.text import lazy_pattern
from cellwright.tools.process.child_processes import Command
from cellwright.tools.process.runner import OutputHead, RunningProgram

OUTPUT_BYTES = 1_000_000
"""More of one command's output is not taken; git is stopped then."""

ERROR_BYTES = 8 * 1024

OLDEST = (2, 31)
"""Before that git does not take configuration from its environment, which is the only way to name any key."""

_PASSED_ON = ("HOME", "XDG_CONFIG_HOME", "USERPROFILE", "SYSTEMROOT", "TMPDIR", "USER", "LOGNAME")
_NOWHERE = os.devnull
_SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": _NOWHERE,
    "core.pager": "cat",
    "core.sshCommand": _NOWHERE,
    "core.askPass": "",
    "core.gitProxy": "",
    "core.alternateRefsCommand": "",
    "core.quotePath": "false",
    "credential.helper": "",
    "protocol.allow": "never",
    "gpg.program": _NOWHERE,
    "gpg.openpgp.program": _NOWHERE,
    "gpg.x509.program": _NOWHERE,
    "gpg.ssh.program": _NOWHERE,
    "gpg.ssh.defaultKeyCommand": "",
    "log.showSignature": "false",
    "format.pretty": "medium",
    "submodule.recurse": "false",
    "status.submoduleSummary": "false",
    "diff.autoRefreshIndex": "false",
    "diff.submodule": "short",
    "diff.ignoreSubmodules": "dirty",
    "diff.orderFile": _NOWHERE,
    "diff.noprefix": "false",
    "diff.mnemonicPrefix": "false",
    "blame.ignoreRevsFile": "",
    "safe.bareRepository": "explicit",
    "color.ui": "false",
    "column.ui": "never",
    "i18n.logOutputEncoding": "UTF-8",
    "gc.auto": "0",
    "maintenance.auto": "false",
}
"""The settings that go over every file of configuration."""

_PROGRAM_KEYS = lazy_pattern(r"(filter)\..+\.(clean|smudge|process)|(hook)\..+\.command", re.IGNORECASE | re.DOTALL)
"""Programs under names of the repository's own choice. Those of diff drivers are switched off by flags."""


class GitOutput(Struct, frozen=True):
    """The output of git. `whole` is false when it was stopped early."""

    data: bytes
    errors: str
    exit_code: int
    whole: bool
    timed_out: bool

    @property
    def text(self) -> str:
        """The output as text; what is not UTF-8 is replaced."""
        return self.data.decode("utf-8", "replace")


@functools.cache
def find_git(path: str) -> str:
    """The program, in an absolute folder of PATH. Raises ToolError."""
    folders = [part for part in path.split(os.pathsep) if Path(part).is_absolute()]
    found = shutil.which("git", path=os.pathsep.join(folders)) if folders else None
    if found is None:
        raise ToolError("git is not installed here, or not on PATH.", code=ErrorCode.EXECUTION_ERROR)
    return found


class Git(Struct, frozen=True):
    """git in one folder, its configuration neutralised. `seconds` bounds each command, `confinement` what it touches."""

    folder: Path
    environ: Mapping[str, str]
    seconds: float
    confinement: Confinement | None = None

    async def run(self, *arguments: str, index_file: str = "") -> GitOutput:
        """Run one command. Raises ToolError only when git cannot be started."""
        taken = bytearray()

        def take(chunk: bytes) -> bool:
            taken.extend(chunk[: OUTPUT_BYTES - len(taken)])
            return len(taken) < OUTPUT_BYTES

        environ = {**self.environ, "GIT_INDEX_FILE": index_file} if index_file else self.environ
        program = find_git(self.environ["PATH"])
        errors = OutputHead(ERROR_BYTES)
        command = Command(
            arguments=[program, "--no-pager", *arguments],
            cwd=self.folder,
            environ=environ,
            read_only=True,
            # git brings the copy of the index up to date, and locks it for that
            confinement=also_writing(self.confinement, Path(index_file).parent) if index_file else self.confinement,
        )
        try:
            git = RunningProgram(command, output=take, errors=errors.take)
        except (OSError, ValueError) as error:
            raise ToolError(f"git could not be started: {error}.", code=ErrorCode.EXECUTION_ERROR) from error
        in_time = await git.finish(self.seconds)
        whole = in_time and not git.had_enough
        return GitOutput(bytes(taken), errors.text().strip(), git.exit_code, whole, timed_out=not in_time)


def plain_git(folder: Path, environ: Mapping[str, str], seconds: float, confinement: Confinement | None = None) -> Git:
    """Git for `folder` with its configuration as it stands: only for showing that, which runs nothing."""
    return Git(folder, _environment(environ, {}), seconds, confinement)


async def neutral_git(
    folder: Path, environ: Mapping[str, str], seconds: float, confinement: Confinement | None = None
) -> Git:
    """Git for `folder` with every program that its configuration names switched off. Raises ToolError."""
    git = Git(folder, _environment(environ, _SETTINGS), seconds, confinement)
    _check_version(await git.run("version"))
    listed = await git.run("config", "--list", "--name-only", "-z")
    if listed.timed_out or not listed.whole:
        raise ToolError("The repository's configuration could not be read.", code=ErrorCode.EXECUTION_ERROR)
    if listed.exit_code:
        raise ToolError(f"git refused its configuration: {listed.errors}", code=ErrorCode.EXECUTION_ERROR)
    named = _switched_off(key.decode("utf-8", "surrogateescape") for key in listed.data.split(b"\0"))
    if len(named) > 500:
        raise ToolError(
            "The repository's configuration names too many programs; it is not read.", code=ErrorCode.EXECUTION_ERROR
        )
    return replace(git, environ=_environment(environ, {**_SETTINGS, **named}))


def _check_version(output: GitOutput) -> None:
    found = re.search(r"(\d+)\.(\d+)", output.text)
    if found is None or (int(found[1]), int(found[2])) < OLDEST:
        raise ToolError(
            f"{output.text.strip() or 'This git'} is too old: 2.31 or newer is needed.", code=ErrorCode.EXECUTION_ERROR
        )


def _switched_off(keys: Iterable[str]) -> dict[str, str]:
    settings: dict[str, str] = {}
    for key in keys:
        if not (found := _PROGRAM_KEYS.fullmatch(key)):
            continue
        # a command of nothing: a hook's would be run, a filter's is passed over
        settings[key] = "" if found[1] else "true"
        if found[1]:
            settings[f"{key.rpartition('.')[0]}.required"] = "false"
    return settings


def _environment(environ: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """All that git gets: nothing of the kernel's own GIT_ variables, and our settings over those of any file."""
    kept = {name: environ[name] for name in _PASSED_ON if name in environ}
    folders = [part for part in environ.get("PATH", os.defpath).split(os.pathsep) if Path(part).is_absolute()]
    own_variables = {
        "PATH": os.pathsep.join(folders),
        "LC_ALL": "C.UTF-8",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": _NOWHERE,
        "GIT_CONFIG_COUNT": str(len(settings)),
    }
    for number, (key, value) in enumerate(settings.items()):
        own_variables[f"GIT_CONFIG_KEY_{number}"] = key
        own_variables[f"GIT_CONFIG_VALUE_{number}"] = value
    return {**kept, **own_variables}


class Repository(Struct, frozen=True):
    """The paths of a repository's work tree and its data, both without symbolic links."""

    top: str
    data: str

    @property
    def index(self) -> str:
        """The file with what is staged."""
        return os.path.join(self.data, "index")


async def repository_of(git: Git) -> Repository:
    """The repository that the folder is in. Raises ToolError when there is none, or its work tree is not its own."""
    output = await git.run("rev-parse", "--show-toplevel", "--absolute-git-dir")
    if output.timed_out or output.exit_code:
        raise ToolError(_no_repository(git, output), code=ErrorCode.FILE_PATH_INVALID)
    top, data = (os.path.realpath(line) for line in output.text.splitlines()[:2])
    # core.worktree would make any folder the work tree, and its files readable
    if _data_folder(os.path.join(top, ".git")) != data:
        raise ToolError(
            f"The repository's configuration (core.worktree) names the work tree {top}, which does not belong to it; "
            "it is not read.",
            code=ErrorCode.FILE_PATH_INVALID,
        )
    return Repository(top, data)


def _data_folder(link: str) -> str:
    """The folder that a `.git` is or points to; "" when there is none."""
    path = Path(link)
    try:
        if path.is_dir():
            return os.path.realpath(link)
        target = path.read_text("utf-8", "surrogateescape").removeprefix("gitdir:").strip()
    except OSError:
        return ""
    return os.path.realpath(os.path.join(os.path.dirname(link), target))


def _no_repository(git: Git, output: GitOutput) -> str:
    if "dubious ownership" in output.errors:
        return (
            f"git refuses the repository at {git.folder}: it belongs to another user. The user can allow it with: "
            f"git config --global --add safe.directory {git.folder}"
        )
    if "bare repository" in output.errors:
        return f"{git.folder} is inside a bare repository, which this tool does not read (it has no work tree)."
    return f"{git.folder} is not in a git repository: {output.errors or 'git did not answer in time'}"
