"""Git commands that only read, by subcommand and flag; whether the repository is one to trust is `git_repository.py`'s.

No flag before the subcommand but `--no-pager` (`-c`, `-C`, `--git-dir` make another repository or configuration count), and
none that writes (`--output`), runs a program (`--ext-diff`, `--textconv`, `--show-signature`) or opens one (`-O`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from cellwright.permissions.shell.read_only.commands import Arguments, Flags, flags
from cellwright.permissions.shell.tokens import Word

_DIFF_LETTERS = "pubwsRaz"
_DIFF_VALUED = (
    "-U:=number -M:=text -C:=text -S:word -G:word --unified:=number --stat:=text --color:=text --color-words:=text"
    " --word-diff:=text --diff-filter:word"
    " --inter-hunk-context:number --abbrev:=number --find-renames:=text --diff-algorithm:word --ignore-submodules:=text"
    " --relative:=text --src-prefix:word --dst-prefix:word --anchored:word --word-diff-regex:word"
)
_DIFF_LONG = (
    "--patch --no-patch --raw --numstat --shortstat --dirstat --summary --name-only"
    " --name-status --cached --staged"
    " --no-color --check --full-index --binary --no-abbrev"
    " --no-renames --ignore-all-space --ignore-space-change --ignore-blank-lines"
    " --ignore-space-at-eol --function-context"
    " --text --exit-code --quiet --no-ext-diff --no-textconv --minimal --patience --histogram"
    " --merge-base --compact-summary"
    " --patch-with-stat --no-prefix --ignore-cr-at-eol --pickaxe-regex --pickaxe-all --reverse"
)
_COMMITS_VALUED = (
    "--max-count:number --skip:number --since:word --until:word --after:word --before:word --author:word --grep:word"
    " --format:=text --date:word --encoding:word"
)
_REVISIONS_VALUED = (
    f"{_COMMITS_VALUED} -n:number --committer:word --pretty:=text --branches:=text --tags:=text --remotes:=text"
    " --glob:word --exclude:word --min-parents:=number --max-parents:=number"
)
_LOG_VALUED = f"{_REVISIONS_VALUED} -L:word --decorate:=text --decorate-refs:word"
_LOG_LONG = (
    "--oneline --graph --all --no-decorate --follow --merges --no-merges"
    " --first-parent --reverse"
    " --abbrev-commit --no-abbrev-commit --topo-order --date-order"
    " --author-date-order --left-right --cherry-pick"
    " --cherry --cherry-mark --no-walk --regexp-ignore-case --invert-grep --all-match"
    " --walk-reflogs --boundary --source"
    " --full-history --simplify-by-decoration --parents --children --relative-date --no-notes"
    " --ancestry-path --cc"
)
_LOG = flags(_DIFF_LETTERS + "igEFPcm", f"{_DIFF_VALUED} {_LOG_VALUED}", f"{_DIFF_LONG} {_LOG_LONG}", numbers=True)

SUBCOMMANDS: Mapping[str, Flags] = {
    "status": flags(
        "sbvz",
        "-u:=text --porcelain:=text --untracked-files:=text --ignored:=text --column:=text",
        "--short --branch --long --show-stash --ahead-behind --no-ahead-behind --renames --no-renames --no-column"
        " --verbose",
    ),
    "log": _LOG,
    "show": _LOG,
    "shortlog": flags("nsec", _COMMITS_VALUED, "--numbered --summary --email --committer --all --no-merges --merges"),
    "whatchanged": _LOG,
    "diff": flags(_DIFF_LETTERS, _DIFF_VALUED, _DIFF_LONG),
    "blame": flags(
        "lswetpfcnb",
        "-L:word -M:=number -C:=number --date:word --since:word",
        "--porcelain --line-porcelain --root --show-name",
    ),
    "rev-parse": flags(
        "q",
        "--short:=number --abbrev-ref:=text --default:word --branches:=text --tags:=text",
        "--show-toplevel --show-prefix --show-cdup --git-dir --git-common-dir"
        " --absolute-git-dir --verify"
        " --is-inside-work-tree --is-inside-git-dir --is-bare-repository --symbolic-full-name"
        " --symbolic --all --quiet"
        " --is-shallow-repository --revs-only --no-revs --show-object-format",
    ),
    "ls-files": flags(
        "cdmosituzkv",
        "-x:word --exclude:word --abbrev:=number",
        "--cached --deleted --modified --others --stage --unmerged --killed --exclude-standard"
        " --full-name --error-unmatch"
        " --directory --no-empty-directory --ignored --eol --deduplicate",
    ),
    "ls-tree": flags(
        "rtdlz", "--format:word --abbrev:=number", "--name-only --name-status --long --full-name --full-tree"
    ),
    "rev-list": flags("", _REVISIONS_VALUED, f"{_LOG_LONG} --count --objects", numbers=True),
    "describe": flags(
        "",
        "--abbrev:=number --match:word --exclude:word --candidates:number --dirty:=text",
        "--tags --all --always --long --contains --first-parent --exact-match",
    ),
    "merge-base": flags("a", "", "--all --is-ancestor --octopus --independent --fork-point"),
    "cat-file": flags("tspe"),
    "branch": flags(
        "arvi",
        "--sort:word --format:word --contains:?word --no-contains:?word --merged:?word --no-merged:?word --points-at:word"
        " --color:=text --abbrev:=number --column:=text",
        "--all --remotes --list --verbose --show-current --no-color --no-column --ignore-case",
    ),
    "tag": flags(
        "li",
        "-n:=number --sort:word --format:word --contains:?word --no-contains:?word --merged:?word --no-merged:?word"
        " --points-at:word",
        "--list --ignore-case",
    ),
    "remote": flags("v", "", "--verbose"),
    "config": flags(
        "lz",
        "--type:word --default:word",
        "--get --get-all --get-regexp --get-urlmatch --list --local --global --system --worktree --show-origin"
        " --show-scope --name-only --null --bool --int --path",
    ),
    "stash": flags("p", "--stat:=text", "--patch --name-only --name-status --oneline"),
    "reflog": _LOG,
    "symbolic-ref": flags("q", "", "--short --quiet"),
    "for-each-ref": flags(
        "",
        "--count:number --sort:word --format:word --points-at:word --merged:?word --contains:?word",
    ),
    "count-objects": flags("vH", "", "--verbose --human-readable"),
    "check-ignore": flags("qvn", "", "--quiet --verbose --non-matching --no-index"),
    "grep": flags(
        "vwiaIEFGPnlLcohHWqr",
        "-e:word -A:number -B:number -C:number --max-depth:number -m:number --max-count:number"
        " --color:=text --context:number"
        " --after-context:number --before-context:number",
        "--cached --untracked --ignore-case --word-regexp --invert-match --line-number --name-only --count"
        " --files-with-matches --files-without-match --extended-regexp --fixed-strings"
        " --perl-regexp --only-matching --heading"
        " --break --show-function --function-context --and --or --not --all-match --no-color --recursive",
        numbers=True,
    ),
}
_BY_OPERANDS = frozenset({"config", "reflog", "remote", "stash", "symbolic-ref"})
"""Subcommands of which it depends on their operands whether they only read."""
_VERIFIES = re.compile(r"%G|%\(signature|%\(\*signature")
"""In a format: has gpg verify a signature."""
_LISTING = frozenset(
    {"-l", "--list", "-a", "-r", "-v", "--all", "--remotes", "--show-current", "--merged", "--no-merged"}
    | {"--contains", "--no-contains", "--points-at", "-n"}
)


def only_reads(words: Sequence[Word]) -> bool:
    """Whether the git command `words` only reads what is in the repository, as far as its arguments say."""
    rest = list(words[1:])
    while rest and rest[0].text == "--no-pager":
        del rest[0]
    if not rest or rest[0].text not in SUBCOMMANDS or any(_VERIFIES.search(word.text) for word in rest):
        return False
    subcommand = rest[0].text
    if subcommand == "stash" and rest[1:2] and rest[1].text not in ("list", "show"):
        return False  # `git stash -p -- list` puts the file `list` away
    arguments = SUBCOMMANDS[subcommand].read(rest[1:])
    return arguments is not None and _stays_reading(subcommand, arguments)


def _stays_reading(subcommand: str, arguments: Arguments) -> bool:
    operands = [word.text for word in arguments.operands]
    if subcommand in _BY_OPERANDS and any(word.globs for word in arguments.operands):
        return False  # `git symbolic-ref x/*` writes as soon as there are two
    match subcommand:
        case "branch" | "tag":
            return not operands or not arguments.flags.isdisjoint(
                _LISTING - {"-v", "-r", "-a"} if operands else _LISTING
            )
        case "remote":
            return not operands or (len(operands) == 2 and operands[0] == "get-url")
        case "config":
            reading = {"--get", "--get-all", "--get-regexp", "--get-urlmatch", "--list", "-l"}
            one_key = len(operands) == 1 and "." in operands[0]
            return one_key or not arguments.flags.isdisjoint(reading) or operands[:1] in (["get"], ["list"])
        case "stash":
            return operands[:1] in (["list"], ["show"])
        case "reflog":
            return not operands or operands[0] not in ("expire", "delete", "drop", "write")
        case "symbolic-ref":
            return len(operands) == 1
        case "diff" | "grep":
            # given two files, or outside a repository, it reads any file of the machine
            return not any(_leaves(operand) for operand in operands)
        case _:
            return True


def _leaves(operand: str) -> bool:
    return operand.startswith(("/", "~")) or ".." in operand.split("/")
