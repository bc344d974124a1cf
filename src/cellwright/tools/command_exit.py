"""What a command's exit code says, and whether it is a failure."""

from __future__ import annotations

import shlex
import signal

_ANSWERS = {
    **dict.fromkeys(("grep", "egrep", "fgrep", "rg", "git grep"), "no lines matched"),
    **dict.fromkeys(("diff", "cmp", "git diff"), "they differ"),
    **dict.fromkeys(("test", "["), "the condition is false"),
    "find": "some folders could not be searched",
}
"""Programs whose exit code 1 is an answer."""

_MEANINGS = {126: "not executable", 127: "command not found"}
_JOINS = frozenset({";", "|", "|&", "&&", "||", "&"})


def exit_code(returncode: int) -> int:
    """The code as a shell shows it: 128 + N for a shell that signal N ended."""
    return 128 - returncode if returncode < 0 else returncode


def answer(command: str, code: int) -> str:
    """What exit code 1 of `command` answers; "" where it is a failure, or may be."""
    words = _last_command(command) if code == 1 else []
    return _ANSWERS.get(" ".join(words[:2])) or _ANSWERS.get("".join(words[:1]), "")


def meaning(code: int) -> str:
    """What is known about an exit code besides its number, or ""."""
    if code in _MEANINGS:
        return _MEANINGS[code]
    try:
        return f"ended by {signal.Signals(code - 128).name}" if code > 128 else ""
    except ValueError:
        return ""


def _last_command(command: str) -> list[str]:
    """The words of the simple command whose exit code is certainly that of the whole; none where it may be another's."""
    if "\n" in command.strip():
        return []
    lexer = shlex.shlex(command, posix=True, punctuation_chars=";|&")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:  # a quote that is not closed
        return []
    last = max((place for place, word in enumerate(words) if word in _JOINS), default=-1)
    # after `a &&` it may be the code of `a`
    return words[last + 1 :] if last < 0 or words[last] in (";", "|", "|&") else []
