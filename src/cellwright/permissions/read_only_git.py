"""Git commands that only read, by subcommand and flag; whether the repository is one to trust is `git_repository.py`'s.

No flag before the subcommand but `--no-pager` (`-c`, `-C`, `--git-dir` make another repository or configuration count), and
none that writes (`--output`), runs a program (`--ext-diff`, `--textconv`, `--show-signature`) or opens one (`-O`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from cellwright.permissions.read_only_commands import Arguments, Flags, flags
from cellwright.permissions.shell_tokens import Word

_DIFF_LETTERS = "pubwsRazM"
_DIFF_VALUED = (
    "-U:number -S:text -G:text --unified:number --stat:text --color:text --color-words:text"
    " --word-diff:text --diff-filter:text"
    " --inter-hunk-context:number --abbrev:number --find-renames:text --diff-algorithm:text --ignore-submodules:text"
    " --relative:text --src-prefix:text --dst-prefix:text --anchored:text --word-diff-regex:text -C:text"
)
_DIFF_LONG = (
    "--patch --no-patch --raw --stat --numstat --shortstat --dirstat --summary --name-only"
    " --name-status --cached --staged"
    " --color --no-color --color-words --word-diff --check --full-index --binary --abbrev --no-abbrev --find-renames"
    " --no-renames --ignore-all-space --ignore-space-change --ignore-blank-lines"
    " --ignore-space-at-eol --function-context"
    " --text --exit-code --quiet --no-ext-diff --no-textconv --minimal --patience --histogram"
    " --merge-base --compact-summary"
    " --patch-with-stat --no-prefix --relative --ignore-cr-at-eol --pickaxe-regex --pickaxe-all --reverse"
)
_LOG_VALUED = (
    "-n:number -L:text --max-count:number --skip:number --since:text --until:text --after:text"
    " --before:text --author:text"
    " --committer:text --grep:text --format:text --pretty:text --date:text --decorate:text"
    " --branches:text --tags:text"
    " --remotes:text --glob:text --exclude:text --decorate-refs:text --encoding:text --min-parents:number"
    " --max-parents:number"
)
_LOG_LONG = (
    "--oneline --graph --all --decorate --no-decorate --follow --merges --no-merges"
    " --first-parent --reverse --branches --tags"
    " --remotes --abbrev-commit --no-abbrev-commit --topo-order --date-order"
    " --author-date-order --left-right --cherry-pick"
    " --cherry --cherry-mark --no-walk --regexp-ignore-case --invert-grep --all-match"
    " --walk-reflogs --boundary --source"
    " --full-history --simplify-by-decoration --parents --children --relative-date --no-notes"
    " --pretty --ancestry-path --cc"
)
_LOG = flags(_DIFF_LETTERS + "igEFPcm", f"{_DIFF_VALUED} {_LOG_VALUED}", f"{_DIFF_LONG} {_LOG_LONG}", numbers=True)

SUBCOMMANDS: Mapping[str, Flags] = {
    "status": flags(
        "sbuvz",
        "--porcelain:text --untracked-files:text --ignored:text --column:text --ahead-behind:text",
        "--short --branch --porcelain --long --untracked-files --ignored --show-stash"
        " --ahead-behind --no-ahead-behind"
        " --renames --no-renames --no-column --verbose",
    ),
    "log": _LOG,
    "show": _LOG,
    "shortlog": flags("nsec", _LOG_VALUED, "--numbered --summary --email --all --no-merges --merges"),
    "whatchanged": _LOG,
    "diff": flags(_DIFF_LETTERS, _DIFF_VALUED, _DIFF_LONG),
    "blame": flags(
        "lswetpfcnMCb", "-L:text --date:text --since:text", "--porcelain --line-porcelain --root --show-name"
    ),
    "rev-parse": flags(
        "q",
        "--short:number --abbrev-ref:text --default:text --branches:text --tags:text",
        "--abbrev-ref --short --show-toplevel --show-prefix --show-cdup --git-dir --git-common-dir"
        " --absolute-git-dir --verify"
        " --is-inside-work-tree --is-inside-git-dir --is-bare-repository --symbolic-full-name"
        " --symbolic --all --quiet"
        " --is-shallow-repository --branches --tags --revs-only --no-revs --show-object-format",
    ),
    "ls-files": flags(
        "cdmosituzkv",
        "-x:text --exclude:text --abbrev:number --eol:text",
        "--cached --deleted --modified --others --stage --unmerged --killed --exclude-standard"
        " --full-name --error-unmatch"
        " --directory --no-empty-directory --ignored --eol --deduplicate",
    ),
    "ls-tree": flags(
        "rtdlz", "--format:text --abbrev:number", "--name-only --name-status --long --full-name --full-tree"
    ),
    "rev-list": flags("", _LOG_VALUED, f"{_LOG_LONG} --count --objects", numbers=True),
    "describe": flags(
        "",
        "--abbrev:number --match:text --exclude:text --candidates:number --dirty:text",
        "--tags --all --always --long --dirty --contains --first-parent --exact-match",
    ),
    "merge-base": flags("a", "", "--all --is-ancestor --octopus --independent --fork-point"),
    "cat-file": flags("tspe"),
    "branch": flags(
        "arvi",
        "--sort:text --format:text --contains:text --no-contains:text --merged:text --no-merged:text --points-at:text"
        " --color:text --abbrev:number --column:text",
        "--all --remotes --list --verbose --show-current --no-color --merged --no-merged"
        " --contains --no-column --ignore-case",
    ),
    "tag": flags(
        "li",
        "-n:number --sort:text --format:text --contains:text --no-contains:text --merged:text --no-merged:text"
        " --points-at:text",
        "--list --merged --no-merged --contains --ignore-case",
    ),
    "remote": flags("v", "", "--verbose"),
    "config": flags(
        "lz",
        "--get:text --get-all:text --get-regexp:text --get-urlmatch:text --type:text --default:text",
        "--list --local --global --system --worktree --show-origin --show-scope --name-only --null --bool --int --path",
    ),
    "stash": flags("p", "--stat:text", "--stat --patch --name-only --name-status --oneline"),
    "reflog": _LOG,
    "symbolic-ref": flags("q", "", "--short --quiet"),
    "for-each-ref": flags(
        "",
        "--count:number --sort:text --format:text --points-at:text --merged:text --contains:text",
        "--merged --contains",
    ),
    "count-objects": flags("vH", "", "--verbose --human-readable"),
    "check-ignore": flags("qvn", "", "--quiet --verbose --non-matching --no-index"),
    "grep": flags(
        "vwiaIEFGPnlLcohHWqr",
        "-e:text -A:number -B:number -C:number --max-depth:number -m:number --max-count:number"
        " --color:text --context:number"
        " --after-context:number --before-context:number",
        "--cached --untracked --ignore-case --word-regexp --invert-match --line-number --name-only --count"
        " --files-with-matches --files-without-match --extended-regexp --fixed-strings"
        " --perl-regexp --only-matching --heading"
        " --break --show-function --function-context --and --or --not --all-match --no-color --recursive",
        numbers=True,
    ),
}
_LISTING = frozenset(
    {"-l", "--list", "-a", "-r", "-v", "--all", "--remotes", "--show-current", "--merged", "--no-merged"}
    | {"--contains", "--no-contains", "--points-at", "-n"}
)


def only_reads(words: Sequence[Word]) -> bool:
    """Whether the git command `words` only reads what is in the repository, as far as its arguments say."""
    rest = list(words[1:])
    while rest and rest[0].text == "--no-pager":
        del rest[0]
    if not rest or rest[0].text not in SUBCOMMANDS or any("%G" in word.text for word in rest):
        return False  # `%G?` has gpg verify a signature
    subcommand = rest[0].text
    arguments = SUBCOMMANDS[subcommand].read(_without_optional_values(rest[1:]))
    return arguments is not None and _stays_reading(subcommand, arguments)


def _without_optional_values(words: Sequence[Word]) -> list[Word]:
    # `-M90%`, `-u no`: their value is joined or not there
    return [word for word in words if not re.fullmatch(r"-[MC]\d{1,3}%?|-u(no|normal|all)|-n\d{1,3}", word.text)]


def _stays_reading(subcommand: str, arguments: Arguments) -> bool:
    operands = [word.text for word in arguments.operands]
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
