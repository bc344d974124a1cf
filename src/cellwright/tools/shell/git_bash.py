"""Git Bash, by which commands run on Windows: finding it, and learning the folder that a command ended in."""

from __future__ import annotations

import ntpath
import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from cellwright.errors import ToolError
from cellwright.this_process.files import new_file

VARIABLE = "CLAUDE_CODE_GIT_BASH_PATH"
_INSTALLED = (("PROGRAMFILES", ("Git",)), ("PROGRAMFILES(X86)", ("Git",)), ("LOCALAPPDATA", ("Programs", "Git")))


def find_git_bash(environ: Mapping[str, str], is_file: Callable[[str], bool] = os.path.isfile) -> str:
    """Return the path of Git's `bash.exe`. Raises ToolError, which says what to do.

    `PATH` is asked for git alone: the `bash.exe` that Windows has there starts WSL, where paths mean other files. The
    working directory is not looked in.
    """
    if named := environ.get(VARIABLE):
        if _is_whole(named) and is_file(named):
            return named
        message = f"{VARIABLE} is {named}, and there is no such file. Set it to Git's bash.exe, and restart the kernel."
        raise ToolError(message)
    for git in _places(environ):
        bash = ntpath.join(git, "bin", "bash.exe")
        if is_file(bash):
            return bash
    message = (
        "The Bash tool needs Git Bash on Windows, and it was not found beside a git in PATH nor where Git is installed. "
        f"Install Git for Windows, or set {VARIABLE} to its bash.exe, and restart the kernel. Use Python instead."
    )
    raise ToolError(message)


def _places(environ: Mapping[str, str]) -> Iterator[str]:
    """The folders that Git may be installed in; `git.exe` is in its folder `cmd`, `bin` or `mingw64\\bin`."""
    for folder in environ.get("PATH", "").split(";"):
        place = folder.strip('"').rstrip("\\/")
        if not _is_whole(place):
            continue
        above, name = ntpath.split(place)
        if name.casefold() in ("cmd", "bin"):
            yield above
            if ntpath.basename(above).casefold() in ("mingw64", "usr"):
                yield ntpath.dirname(above)
    for variable, names in _INSTALLED:
        if _is_whole(top := environ.get(variable, "")):
            yield ntpath.join(top, *names)


def _is_whole(path: str) -> bool:
    """Return whether a path names its drive, too: without it, it is one of the drive that we are on."""
    return bool(ntpath.splitdrive(path)[0]) and ntpath.isabs(path)


class FolderFile:
    """A file by which a shell reports the folder it is in, as `FolderPipe` does it: Windows hands on no descriptors."""

    inherited = ()

    def __init__(self) -> None:
        descriptor, self._file = new_file("folder")
        os.close(descriptor)

    def script(self, command: str) -> str:
        """The script that runs `command` and reports the folder it ended in, as Windows calls it."""
        return f"trap 'pwd -W 2>/dev/null >{_inside_quotes(self._file)}' EXIT; eval {shlex.quote(command)}"

    def close_writer(self) -> None:
        """Nothing is open here."""

    def reported(self) -> str:
        """Return the shell's report; "" if there is none."""
        try:
            return self._file.read_text("utf-8").removesuffix("\n").removesuffix("\r")
        except (OSError, ValueError):
            return ""

    def close(self) -> None:
        """Remove the file."""
        self._file.unlink(missing_ok=True)


def _inside_quotes(path: Path) -> str:
    """`path` as a word in a single-quoted script: quoted once for the trap, and once more for what is around it."""
    return shlex.quote(path.as_posix()).replace("'", "'\\''")
