"""The uses of git that only read, by subcommand: the one table of that, for commands with a sandbox and without one.

`git_reads` is what a use does as far as its words tell; confined, that is enough. Without a sandbox each flag must be
known, too (`only_reads`), and the repository must have git run nothing (`repositories.py`). The flags that the tool Git
takes are some of these.

No flag before the subcommand is known but `--no-pager` (`-c`, `-C`, `--git-dir` make another repository or configuration
count), and none that writes (`--output`), runs a program (`--ext-diff`, `--textconv`, `--show-signature`) or opens one
(`-O`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from cellwright.permissions.shell.flags import Arguments, Flags, flags
from cellwright.permissions.shell.words import Word
from cellwright.text import lazy_pattern

Words = Sequence[str | None]
"""The words behind a program; None for one that shows only when the command runs."""

GLOBAL_WITH_VALUE = frozenset({"-c", "-C", "--git-dir", "--work-tree", "--namespace", "--config-env", "--super-prefix"})
"""Flags in front of git's subcommand whose value is the next word."""


def _any(pattern: str | re.Pattern[str]) -> Callable[[Words], bool]:
    compiled = re.compile(pattern, re.DOTALL) if isinstance(pattern, str) else pattern
    return lambda arguments: any(word is not None and compiled.fullmatch(word) for word in arguments)


def _operands(arguments: Words) -> list[str | None]:
    return [word for word in arguments if word is None or not word.startswith("-") or word == "-"]


def _one_of(*verbs: str) -> Callable[[Words], bool]:
    """Return a test whether the first word is one of `verbs`; "" for no word. Behind a flag it may be an operand."""
    return lambda arguments: (arguments[0] if arguments else "") in verbs


def _none_of(*verbs: str) -> Callable[[Words], bool]:
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


def _lists(lists: re.Pattern[str], writes: re.Pattern[str]) -> Callable[[Words], bool]:
    """Return a test whether refs are listed: by a flag that says so, or because none is named."""
    listing, writing = _any(lists), _any(writes)

    def reads(arguments: Words) -> bool:
        if writing(arguments):
            return False
        named = [
            word
            for before, word in zip(["", *arguments], arguments, strict=False)
            if before not in _VALUE_NEXT and (word is None or not word.startswith("-"))
        ]
        return not named or listing(arguments)

    return reads


def _config_reads(arguments: Words) -> bool:
    if _any(r"--(add|unset|unset-all|replace-all|rename-section|remove-section|edit)|-e")(arguments):
        return False
    operands = _operands(arguments)
    if operands[:1] == ["get"] or operands[:1] == ["list"] or _any(r"--(get.*|list)|-l")(arguments):
        return True
    return len(operands) == 1 and "." in (operands[0] or "")


def _remote_reads(arguments: Words) -> bool:
    operands = _operands(arguments)
    return not operands or operands[0] == "get-url" or (operands[0] == "show" and "-n" in arguments)


def _always(_arguments: Words) -> bool:
    return True


_DRY = _any(r"-[A-Za-z]*n[A-Za-z]*|--dry-run")

READS: Mapping[str, Callable[[Words], bool]] = {
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
"""The subcommands with uses that only read, each with the test of its arguments.

Without a sandbox those ask that print the user's own files or run programs, and those whose flags nobody has looked at:
whatever `SUBCOMMANDS` has no flags of.
"""


def git_reads(arguments: Words) -> bool:
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


_DIFF_LETTERS = "pubwsRazW"
_DIFF_VALUED = (
    "-U:=number -M:=text -C:=text -S:word -G:word --unified:=number --stat:=text --color:=text --word-diff:=text"
    " --diff-filter:word --abbrev:=number --dirstat:=text --find-renames:=text --find-copies:=text --relative:=text"
    " --inter-hunk-context:=number --diff-algorithm:word --word-diff-regex:=text --find-object:word"
)
_DIFF_LONG = (
    "--patch --no-patch --patch-with-stat --raw --numstat --shortstat --summary --name-only --name-status --cached"
    " --staged --no-color"
    " --find-copies-harder --pickaxe-all --pickaxe-regex --ignore-space-change --ignore-space-at-eol"
    " --ignore-blank-lines --minimal --patience --histogram --function-context --full-index --text --cc"
    " --check --no-renames --ignore-all-space --no-ext-diff --no-textconv --compact-summary"
)
_COMMITS_VALUED = (
    "--max-count:number --skip:number --since:word --until:word --after:word --before:word --author:word --grep:word"
    " --format:=text -n:number --pretty:=text"
)
_LOG_VALUED = (
    f"{_COMMITS_VALUED} --date:word -L:word --decorate:=text --decorate-refs:word --decorate-refs-exclude:word"
    " --committer:word --glob:word --exclude:word --min-parents:=number --max-parents:=number --branches:=text"
    " --tags:=text --remotes:=text --ancestry-path:=text"
)
_LOG_LONG = (
    "--oneline --graph --all --no-decorate --follow --merges --no-merges --first-parent --reverse --abbrev-commit"
    " --topo-order --date-order --author-date-order --no-abbrev-commit --relative-date --parents --source --reflog"
    " --walk-reflogs --not --left-right --left-only --right-only --cherry --cherry-pick --cherry-mark --boundary"
    " --full-history --dense --sparse --simplify-merges --simplify-by-decoration --all-match --invert-grep"
    " --regexp-ignore-case --extended-regexp --fixed-strings --perl-regexp --no-walk --children"
)
_flags = partial(flags, one_program=True)
_LOG = _flags(_DIFF_LETTERS + "igEFPcm", f"{_DIFF_VALUED} {_LOG_VALUED}", f"{_DIFF_LONG} {_LOG_LONG}", numbers=True)

_LIST = (
    "--sort:word --format:word --contains:?word --no-contains:?word --merged:?word --no-merged:?word --points-at:word"
    " --abbrev:=number"
)
_DIFFERS = _flags(
    _DIFF_LETTERS + "crmt", _DIFF_VALUED, f"{_DIFF_LONG} --root --merge-base --exit-code --quiet --base --ours --theirs"
)
_BLAME = _flags(
    "lswetpfcnb",
    "-L:word -M:=number -C:=number --since:word --date:word --abbrev:=number",
    "--show-email --first-parent --root --reverse",
)

SUBCOMMANDS: Mapping[str, Flags] = {
    "status": _flags(
        "sbvz",
        "-u:=text --porcelain:=text --untracked-files:=text --ignored:=text --find-renames:=text",
        "--short --branch --long --show-stash --ahead-behind --no-ahead-behind --renames --no-renames",
    ),
    **dict.fromkeys(("log", "show", "whatchanged", "reflog"), _LOG),
    "rev-list": _flags("", _COMMITS_VALUED, f"{_LOG_LONG} --count --objects", numbers=True),
    "stash": _flags(
        "p",
        "--stat:=text --format:=text --pretty:=text -U:=number",
        "--patch --oneline --name-only --name-status --numstat --shortstat",
    ),
    **dict.fromkeys(("diff", "diff-tree", "diff-index", "diff-files"), _DIFFERS),
    **dict.fromkeys(("blame", "annotate"), _BLAME),
    "rev-parse": _flags(
        "q", "--short:=number --abbrev-ref:=text", "--show-toplevel --git-dir --verify --is-inside-work-tree"
    ),
    "ls-files": _flags(
        "cdmosztiuk",
        "-x:word --exclude:word --with-tree:word",
        "--cached --deleted --modified --others --ignored --stage --unmerged --killed --directory --no-empty-directory"
        " --eol --exclude-standard --error-unmatch --full-name --deduplicate",
    ),
    "ls-tree": _flags(
        "rdtlz", "--abbrev:=number", "--name-only --name-status --object-only --full-name --full-tree --long"
    ),
    "cat-file": _flags("tspe"),
    "branch": _flags("arvil", _LIST, "--all --remotes --list --verbose --show-current --ignore-case"),
    "tag": _flags("li", f"-n:=number {_LIST}", "--list --ignore-case"),
    "for-each-ref": _flags("", f"--count:word {_LIST}", "--ignore-case"),
    "show-ref": _flags(
        "dsq", "--abbrev:=number --hash:=number", "--head --heads --tags --verify --quiet --dereference"
    ),
    "remote": _flags("vn", "", "--verbose --push --all"),
    "describe": _flags(
        "",
        "--abbrev:=number --candidates:word --match:word --exclude:word",
        "--tags --all --long --always --exact-match --contains --first-parent",
    ),
    "name-rev": _flags("", "--refs:word --exclude:word", "--tags --always --name-only --all"),
    "merge-base": _flags("a", "", "--all --octopus --independent --is-ancestor --fork-point"),
    "cherry": _flags("v", "--abbrev:=number", "--verbose"),
    "count-objects": _flags("vH", "", "--verbose --human-readable"),
    "check-ignore": _flags("vnq", "", "--verbose --non-matching --no-index --quiet"),
    "shortlog": _flags("snec", "--group:word", "--summary --numbered --email --committer --all --no-merges"),
    "worktree": _flags("vz", "", "--verbose --porcelain"),
    "version": _flags("", "", "--build-options"),
    "grep": _flags(
        "vwiaIEFGPnlLcohHWqr",
        "-e:word -A:number -B:number -C:number -m:number --color:=text",
        "--cached --untracked --ignore-case --word-regexp --line-number --name-only --count --files-with-matches",
        numbers=True,
    ),
}
"""The flags of each subcommand that may read without a sandbox; `READS` says which of its uses do."""
_VERIFIES = lazy_pattern(r"%G|signature")
"""In a format or an order: has gpg verify a signature."""


def only_reads(words: Sequence[Word]) -> bool:
    """Return whether the git command `words` only reads what is in the repository, as far as its arguments say."""
    rest = list(words[1:])
    while rest and rest[0].text == "--no-pager":
        del rest[0]
    if not rest or rest[0].text not in SUBCOMMANDS or any(_VERIFIES.search(word.text) for word in rest):
        return False
    if any(word.dynamic for word in rest) or not git_reads([word.text for word in rest]):
        return False
    arguments = SUBCOMMANDS[rest[0].text].read(rest[1:])
    return arguments is not None and _stays_reading(rest[0].text, arguments)


def _stays_reading(subcommand: str, arguments: Arguments) -> bool:
    operands = [word.text for word in arguments.operands]
    if any(word.globs and _leaves(word.text) for word in arguments.operands):
        return False  # it complains of the first name that `~/*` becomes
    match subcommand:
        case "reflog" | "stash" | "worktree":
            return not any(word.globs for word in arguments.operands)  # a name that is a verb: `git reflog e*`
        case "remote":
            if any(word.globs for word in arguments.operands):
                return False
            return not operands or (len(operands) == 2 and operands[0] == "get-url")
        case "diff" | "grep" | "diff-tree" | "diff-index" | "diff-files" | "check-ignore":
            # given two files, or outside a repository, it reads any file of the machine
            return not any(_leaves(operand) for operand in operands)
        case _:
            return True


def _leaves(operand: str) -> bool:
    return operand.startswith(("/", "~")) or ".." in operand.split("/")
