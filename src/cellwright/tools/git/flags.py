"""The arguments Git takes from Claude: for each subcommand the flags that read, and nothing else.

The meaning of a flag to git is not judged here: what is not on the list is refused, whatever it does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from cellwright.errors import ErrorCode, ToolError
from cellwright.text import lazy_pattern

Kind = Literal["flag", "value", "attached", "next"]
"""A flag alone; with a value; with a value that may only be attached (`--stat=80`); with a next word if there is one."""


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
