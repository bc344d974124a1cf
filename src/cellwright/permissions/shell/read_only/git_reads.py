"""The uses of git that only read, by subcommand: the one table of that, for commands with a sandbox and without one.

`git_reads` is what a use does as far as its words tell; confined, that is enough. Without a sandbox each flag must be
known, too (`git.py`). The flags that the tool Git takes are some of these.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from cellwright.text import lazy_pattern

Arguments = Sequence[str | None]
"""The words behind a program; None for one that shows only when the command runs."""

GLOBAL_WITH_VALUE = frozenset({"-c", "-C", "--git-dir", "--work-tree", "--namespace", "--config-env", "--super-prefix"})
"""Flags in front of git's subcommand whose value is the next word."""


def _any(pattern: str | re.Pattern[str]) -> Callable[[Arguments], bool]:
    compiled = re.compile(pattern, re.DOTALL) if isinstance(pattern, str) else pattern
    return lambda arguments: any(word is not None and compiled.fullmatch(word) for word in arguments)


def _operands(arguments: Arguments) -> list[str | None]:
    return [word for word in arguments if word is None or not word.startswith("-") or word == "-"]


def _one_of(*verbs: str) -> Callable[[Arguments], bool]:
    """Return a test whether the first word is one of `verbs`; "" for no word. Behind a flag it may be an operand."""
    return lambda arguments: (arguments[0] if arguments else "") in verbs


def _none_of(*verbs: str) -> Callable[[Arguments], bool]:
    return lambda arguments: not any(word is None or word in verbs for word in arguments)


_BRANCH_LISTS = lazy_pattern(
    r"--(list|contains|no-contains|merged|no-merged|points-at|show-current)(=.*)?|-[raivl]*l[raivl]*"
)
_BRANCH_WRITES = lazy_pattern(
    r"-[dDmMcCfut].*"
    r"|--(delete|move|copy|force|set-upstream.*|unset-upstream|edit-description|track|no-track|create-reflog)(=.*)?"
)
_TAG_LISTS = lazy_pattern(
    r"-[il]*l[il]*|-n\d*|--(list|contains|no-contains|merged|no-merged|points-at|verify)(=.*)?|-v"
)
_TAG_WRITES = lazy_pattern(
    r"-[adfsu]|--(annotate|sign|delete|force|local-user|edit|create-reflog)(=.*)?|-[mF].*|--(message|file|cleanup)(=.*)?"
)
_VALUE_NEXT = frozenset({"--sort", "--format"})


def _lists(lists: re.Pattern[str], writes: re.Pattern[str]) -> Callable[[Arguments], bool]:
    """Return a test whether refs are listed: by a flag that says so, or because none is named."""
    listing, writing = _any(lists), _any(writes)

    def reads(arguments: Arguments) -> bool:
        if writing(arguments):
            return False
        named = [
            word
            for before, word in zip(["", *arguments], arguments, strict=False)
            if before not in _VALUE_NEXT and (word is None or not word.startswith("-"))
        ]
        return not named or listing(arguments)

    return reads


def _config_reads(arguments: Arguments) -> bool:
    if _any(r"--(add|unset|unset-all|replace-all|rename-section|remove-section|edit)|-e")(arguments):
        return False
    operands = _operands(arguments)
    if operands[:1] == ["get"] or operands[:1] == ["list"] or _any(r"--(get.*|list)|-l")(arguments):
        return True
    return len(operands) == 1 and "." in (operands[0] or "")


def _remote_reads(arguments: Arguments) -> bool:
    operands = _operands(arguments)
    return not operands or operands[0] == "get-url" or (operands[0] == "show" and "-n" in arguments)


def _always(_arguments: Arguments) -> bool:
    return True


_DRY = _any(r"-[A-Za-z]*n[A-Za-z]*|--dry-run")

READS: Mapping[str, Callable[[Arguments], bool]] = {
    **dict.fromkeys(
        (
            *("annotate", "blame", "cat-file", "check-attr", "check-ignore", "check-mailmap", "check-ref-format"),
            *("cherry", "count-objects", "describe", "diff", "diff-files", "diff-index", "diff-tree", "for-each-ref"),
            *(
                "get-tar-commit-id",
                "grep",
                "help",
                "log",
                "ls-files",
                "ls-tree",
                "merge-base",
                "merge-tree",
                "name-rev",
            ),
            *("range-diff", "rev-list", "rev-parse", "shortlog", "show", "show-branch", "show-index", "show-ref"),
            *("status", "var", "verify-commit", "verify-pack", "verify-tag", "version", "whatchanged"),
        ),
        _always,
    ),
    "branch": _lists(_BRANCH_LISTS, _BRANCH_WRITES),
    "tag": _lists(_TAG_LISTS, _TAG_WRITES),
    "config": _config_reads,
    "remote": _remote_reads,
    "stash": _one_of("list", "show"),
    "reflog": _none_of("expire", "delete", "drop", "write"),
    "submodule": _one_of("", "status", "summary"),
    "worktree": _one_of("list"),
    "notes": _one_of("", "list", "show"),
    "bundle": _one_of("verify", "list-heads"),
    "bisect": _one_of("log", "view", "visualize"),
    "lfs": _one_of("ls-files", "status", "env", "version"),
    "sparse-checkout": _one_of("list"),
    "symbolic-ref": lambda arguments: len(_operands(arguments)) == 1 and not _any("-d|--delete")(arguments),
    "archive": lambda arguments: not _any(r"-o.*|--output.*|--remote.*|--exec.*")(arguments),
    "format-patch": _any("--stdout"),
    "apply": lambda arguments: _any("--(stat|numstat|summary|check)")(arguments) and not _any("--apply")(arguments),
    "hash-object": lambda arguments: "-w" not in arguments,
    "rerere": _one_of("status", "diff", "remaining"),
    "fsck": lambda arguments: not _any("--lost-found")(arguments),
    "clean": _DRY,
    "add": _DRY,
    "rm": _DRY,
}
"""The subcommands with uses that only read, each with the test of its arguments."""

ONLY_CONFINED = frozenset(
    # they print what the user's own files hold, or run another program
    {"config", "var", "help", "lfs", "verify-commit", "verify-tag", "bisect", "archive", "submodule", "rerere"}
    # they work on the index, on files or on objects, or are seldom used: nobody has looked at all their flags
    | {"add", "rm", "clean", "apply", "merge-tree", "fsck", "sparse-checkout", "bundle", "format-patch", "hash-object"}
    | {"symbolic-ref", "notes", "range-diff", "show-branch", "show-index", "verify-pack", "get-tar-commit-id"}
    | {"check-mailmap", "check-ref-format", "check-attr"}
)
"""Subcommands of the table that ask without a sandbox."""


def git_reads(arguments: Arguments) -> bool:
    """Return whether `git` with `arguments` only reads, as far as its words tell."""
    left = list(arguments)
    while left and left[0] is not None and left[0].startswith("-"):
        flag = left.pop(0)
        if flag in GLOBAL_WITH_VALUE and left:
            left.pop(0)
        elif flag in ("--version", "--help", "-v", "-h"):
            return True
    if not left or left[0] is None:
        return False
    reads = READS.get(left[0])
    return reads is not None and reads(left[1:])
