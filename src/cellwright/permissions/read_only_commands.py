"""The few commands that run without asking because all they can do is print: each with the flags that are known to.

Files must be named by absolute path: the shell's working directory moves, the policy's does not. Git is left out on
purpose: a repository's own configuration and hooks make even `git status` run programs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from cellwright.permissions.simple_commands import Word

_COUNT = r"\+?\d{1,12}[bkKMG]?"
FLAGS = {
    "pwd": re.compile(r"-[LP]"),
    "echo": re.compile(r"-[neE]+"),
    "ls": re.compile(
        r"-[aAlhtrS1FdispRngocuCxmGX]+|--(all|almost-all|human-readable|reverse|recursive|size|inode|directory"
        r"|group-directories-first|full-time|no-group|color=(never|auto|always)|time-style=(iso|long-iso|full-iso))"
    ),
    "cat": re.compile(r"-[nbsAeEtTvu]+|--(number|number-nonblank|squeeze-blank|show-all|show-ends|show-tabs)"),
    "head": re.compile(rf"-[qv]+|-[nc]?{_COUNT}|--(lines|bytes)={_COUNT}|--(quiet|verbose)"),
    "tail": re.compile(rf"-[qv]+|-[nc]?{_COUNT}|--(lines|bytes)={_COUNT}|--(quiet|verbose)"),
    "wc": re.compile(r"-[lwcmL]+|--(lines|words|bytes|chars|max-line-length)"),
}
_TAKES_COUNT = {"head": ("-n", "-c"), "tail": ("-n", "-c")}
_NEEDS_FILE = frozenset({"cat", "head", "tail", "wc"})


def files_printed(words: Sequence[Word]) -> list[str] | None:
    """The absolute paths that a read-only command reads; None when it is not known to be one.

    `ls` without a path gives an empty list: it lists the shell's working directory, which is always an allowed one.
    """
    program, *rest = [word.text for word in words]
    flags = FLAGS.get(program)
    if flags is None or any(word.globs for word in words):
        return None
    if program == "echo":
        return []
    files: list[str] = []
    arguments = iter(rest)
    for argument in arguments:
        if argument in _TAKES_COUNT.get(program, ()):
            if not re.fullmatch(_COUNT, next(arguments, "")):
                return None
        elif not flags.fullmatch(argument):
            files.append(argument)
    if program in _NEEDS_FILE and not files:
        return None
    return files if program != "pwd" and all(file.startswith("/") for file in files) else ([] if not files else None)
