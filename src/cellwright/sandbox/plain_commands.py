"""Commands that have no use for processes: they are confined without any view of them, and so by the faster mechanism.

This is about speed and about what works, and nothing rests on it: a command that is taken for plain cannot look at
processes, whatever its text hides. So the text is read roughly, and what is not understood is not plain.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from cellwright.sandbox.kernel_files import PLAIN
from cellwright.text import lazy_pattern

_SHELLS = frozenset({"bash", "sh", "dash"})
_PLAIN = frozenset(
    (
        *(
            ":",
            "[",
            "[[",
            "test",
            "true",
            "false",
            "echo",
            "printf",
            "cd",
            "pwd",
            "read",
            "set",
            "export",
            "local",
            "unset",
        ),
        *(
            "shift",
            "exit",
            "return",
            "break",
            "continue",
            "trap",
            "wait",
            "type",
            "which",
            "whoami",
            "id",
            "uname",
            "date",
        ),
        *("ls", "cat", "head", "tail", "tac", "wc", "sort", "uniq", "cut", "tr", "sed", "awk", "gawk", "mawk", "grep"),
        *("egrep", "fgrep", "zgrep", "rg", "find", "fd", "stat", "file", "du", "tree", "diff", "cmp", "comm", "join"),
        *("paste", "column", "nl", "rev", "fold", "fmt", "expand", "unexpand", "od", "xxd", "hexdump", "strings", "jq"),
        *(
            "basename",
            "dirname",
            "realpath",
            "readlink",
            "md5sum",
            "sha1sum",
            "sha256sum",
            "sha512sum",
            "b2sum",
            "cksum",
        ),
        *("base64", "seq", "sleep", "nproc", "tar", "gzip", "gunzip", "zcat", "bzip2", "bzcat", "xz", "xzcat", "zstd"),
        *("zip", "unzip", "zipinfo", "git", "touch", "mkdir", "mktemp", "rm", "cp", "mv", "ln", "tee", "dd", "expr"),
        *("numfmt", "shuf", "split", "tsort", "getconf", "locale", "iconv", "nm", "objdump", "readelf", "size"),
    )
)
_INTRODUCING = frozenset({"if", "then", "else", "elif", "while", "until", "do", "!", "{", "time"})
_ALONE = frozenset({"fi", "done", "}"})

_QUOTED = lazy_pattern(r"""\\.|'[^']*'|"(?:[^"\\$`]|\\.|\$(?!\())*\"""")
_BETWEEN_COMMANDS = lazy_pattern(r"[;&|()\n`]")
_REDIRECT = lazy_pattern(r"&?\d*[<>]+(?:&(?:\d+|-)|\s*[^\s<>()&;|]+)")
_RUNS_OTHERS = lazy_pattern(
    rf"/proc(?!/(?:{'|'.join(PLAIN)})(?![\w-]))|\bsystem\b|\s-(?:exec|execdir|ok|okdir)\b|\s-x\b|--exec|getline|--to-command"
)


_EVALUATES = lazy_pattern(r"""\beval (?P<word>(?:'[^']*'|"'"|[\w@%+=:,./-])+) \d+>&-\Z""")


def may_look_at_processes(arguments: Sequence[str]) -> bool:
    """Return whether a program, or a script in its arguments, may have a use for what `/proc` shows of processes."""
    program = PurePath(arguments[0]).name
    if program not in _SHELLS:
        return program not in _PLAIN or bool(_RUNS_OTHERS.search(" ".join(arguments)))
    if "-c" not in arguments[:-1]:
        return True
    script = _evaluated(arguments[list(arguments).index("-c") + 1])
    return bool(_RUNS_OTHERS.search(script)) or not all(name in _PLAIN for name in _programs(script))


def _evaluated(script: str) -> str:
    """`script` with what it evaluates at its end in place of the quoted word: the tool Bash starts each command so."""
    found = _EVALUATES.search(script)
    return script if found is None else script[: found.start()] + "".join(shlex.split(found["word"]))


def _programs(script: str) -> Iterator[str]:
    """The first words of what may be commands; what stands in quotes is no command, unless it runs one."""
    for text in _BETWEEN_COMMANDS.split(_REDIRECT.sub(" ", _QUOTED.sub("x", script))):
        words = text.replace('"', " ").split()
        while words and (words[0] in _INTRODUCING or (words[0].partition("=")[0].isidentifier() and "=" in words[0])):
            words.pop(0)
        if words and words[0] not in ("for", "in", "$", "<", ">") and not (words[0] in _ALONE and len(words) == 1):
            yield words[0]
