"""Git that only reads: its uses by subcommand, and the repositories whose configuration runs nothing.

`git_reads` is what a use does as far as its words tell; confined, that is enough. Without a sandbox each flag must be
known, too (`only_reads`), and the repository must have git run nothing. This is the one table of that, for both. The flags
that the tool Git takes are some of these.

No flag before the subcommand is known but `--no-pager` (`-c`, `-C`, `--git-dir` make another repository or configuration
count), and none that writes (`--output`), runs a program (`--ext-diff`, `--textconv`, `--show-signature`) or opens one
(`-O`).

Repositories are looked at, never run. Even `git status` runs what `core.fsmonitor`, a filter, a `textconv` or a hook names,
and a folder that somebody unpacked brings its own `.git/config`. So the configuration must be of plain keys only, the
repository must be the one the session works in, lead nowhere else, and nothing may be nested in it that Git would enter.
"""

# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH100, PTH110, PTH112, PTH113, PTH114, PTH116, PTH118, PTH120, PTH123, PTH208
from __future__ import annotations

import os
import re
import stat
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial

from cellwright.permissions.confined.git_data import read_briefly
from cellwright.permissions.paths import inside
from cellwright.permissions.shell.flags import Arguments, Flags, flags
from cellwright.permissions.shell.reading import Word
from cellwright.text import lazy_pattern

Words = Sequence[str | None]
"""The words behind a program; None for one that shows only when the command runs."""

GLOBAL_WITH_VALUE = frozenset({"-c", "-C", "--git-dir", "--work-tree", "--namespace", "--config-env", "--super-prefix"})
"""Flags in front of git's subcommand whose value is the next word."""

MAX_SHORT = 4096
_HEADER, _ENTRY, _EXTENDED = 12, 62, 0x4000
_SECTION = lazy_pattern(r'\[\s*(?P<name>[\w.-]+)\s*(?:"(?P<sub>(?:[^"\\\n]|\\.)*)")?\s*\]')
_KEY = lazy_pattern(r"(?P<key>[A-Za-z][\w-]*)\s*(?:=\s*(?P<value>.*))?")
_PLAIN = {
    "core": "repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode symlinks autocrlf eol"
    " safecrlf abbrev quotepath longpaths untrackedcache protecthfs protectntfs compression bigfilethreshold",
    "remote": "url fetch pushurl prune tagopt pushdefault gh-resolved",
    "branch": "remote merge rebase description pushremote vscode-merge-base gh-merge-base autosetuprebase autosetupmerge"
    " sort",
    "user": "name email signingkey useconfigonly",
    "author": "name email",
    "committer": "name email",
    "pull": "rebase ff",
    "push": "default autosetupremote followtags",
    "fetch": "prune prunetags parallel",
    "merge": "ff conflictstyle",
    "rebase": "autosquash autostash updaterefs",
    "commit": "gpgsign verbose",
    "tag": "gpgsign sort",
    "init": "defaultbranch",
    "gc": "auto autodetach",
    "maintenance": "auto strategy",
    "index": "version threads",
    "feature": "manyfiles experimental",
    "advice": "",
    "color": "",
    "column": "",
    "status": "showuntrackedfiles short branch relativepaths",
    "log": "date decorate follow abbrevcommit",
    "lfs": "repositoryformatversion",
    "gui": "",
    "diff": "renames algorithm colormoved mnemonicprefix context",
    "extensions": "objectformat refstorage worktreeconfig",
}
"""Sections and keys that name no program and no other file; "" is all keys of a section."""


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


def repository_of(folder: str) -> str | None:
    """The top of the repository that Git would find from `folder`, as a real path; None where that is none or unclear."""
    try:
        folder = os.path.realpath(folder)
    except ValueError:  # no folder can have such a name
        return None
    while True:
        if os.path.lexists(os.path.join(folder, ".git")):
            return folder
        if os.path.exists(os.path.join(folder, "HEAD")) and os.path.isdir(os.path.join(folder, "objects")):
            return None  # Git takes it for a repository without a work tree
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def reading_runs_nothing(folder: str, own_folders: Sequence[str]) -> bool:
    """Return whether Git, reading in `folder`, is in a session repository (`own_folders`) that has it run nothing."""
    top = repository_of(folder)
    if top is None or top not in {repository_of(own) for own in own_folders}:
        return False
    control = _control_folders(top)
    if control is None or read_elsewhere(top, own_folders) is not None:
        return False
    git_dir, common = control
    configs = (os.path.join(common, "config"), os.path.join(git_dir, "config.worktree"))
    if not all(_is_plain(path) for path in configs):
        return False
    if os.path.exists(os.path.join(common, "hooks", "post-index-change")):
        return False
    # an index in two files is not looked through
    return not _is_split(git_dir) and not _holds_submodules(os.path.join(git_dir, "index"))


def _control_folders(top: str) -> tuple[str, str] | None:
    """The folder of the work tree's own state and the one it shares with other work trees."""
    git_dir = os.path.join(top, ".git")
    if os.path.islink(git_dir):
        return None
    if os.path.isfile(git_dir):
        pointer = _short_text(git_dir)
        if not pointer.startswith("gitdir: "):
            return None
        git_dir = os.path.abspath(os.path.join(top, pointer.removeprefix("gitdir: ").strip()))
    if not os.path.isdir(git_dir):
        return None
    common = _short_text(os.path.join(git_dir, "commondir")).strip()
    return git_dir, os.path.abspath(os.path.join(git_dir, common)) if common else git_dir


def read_elsewhere(top: str, own_folders: Sequence[str]) -> str | None:
    """A place outside `own_folders` that Git would read for what is in the repository at `top`; None where there is none.

    A `.git` file, `commondir`, `alternates` and links lead there. The repository that a folder of the session is in is not
    outside, nor is one that names this work tree as its own: who set that up may write there.
    """
    control = _control_folders(top)
    if control is None:
        return os.path.join(top, ".git")
    own = [os.path.realpath(folder) for folder in own_folders]
    if any(inside(folder, [os.path.realpath(top)]) for folder in own):
        own.append(os.path.realpath(top))  # a session that begins in a folder of its repository
    if not inside(os.path.realpath(control[1]), own) and _names_work_tree(control[0], control[1], top):
        return None
    seen: set[str] = set()
    left = [os.path.realpath(folder) for folder in control]
    while left:
        here = left.pop()
        if here in seen:
            continue
        seen.add(here)
        # folders in `.git` that are looked at; a repository with more counts as leading elsewhere
        if not inside(here, own) or len(seen) > 5_000:
            return here
        left += _leads_to(here)
    return None


def _leads_to(folder: str) -> list[str]:
    """The folders in `folder`, the places that links in it lead to, and other stores of objects that it names."""
    if not os.path.isdir(folder):
        return []
    found = []
    try:
        entries = list(os.scandir(folder))
    except OSError:  # not ours to look into, so Git cannot either
        return []
    for entry in entries:
        if entry.is_symlink():
            found.append(os.path.realpath(entry.path))
        elif entry.is_dir():
            found.append(entry.path)
        elif entry.name == "alternates":
            stores = _short_text(entry.path).splitlines() if entry.stat().st_size <= MAX_SHORT else ["/"]
            for store in filter(None, stores):
                # in quotes stands what is not read here
                path = "/" if store.startswith('"') else os.path.join(os.path.dirname(folder), store)
                found.append(os.path.realpath(path))
    return found


def _names_work_tree(git_dir: str, common: str, top: str) -> bool:
    """Return whether the repository `common` lists `top` as a work tree, whose own state is in `git_dir`."""
    if os.path.dirname(os.path.realpath(git_dir)) != os.path.join(os.path.realpath(common), "worktrees"):
        return False
    named = _short_text(os.path.join(git_dir, "gitdir")).strip()
    return os.path.realpath(named) == os.path.join(os.path.realpath(top), ".git")


def _short_text(path: str) -> str:
    return read_briefly(path, MAX_SHORT)


def _is_plain(path: str) -> bool:
    try:
        found = os.stat(path)
    except OSError:  # not there: nothing is configured
        return True
    # at a named pipe, reading waits forever
    return (
        stat.S_ISREG(found.st_mode)
        and found.st_size <= 200_000
        and _config_is_plain(path, found.st_mtime_ns, found.st_size, found.st_ino)
    )


@lru_cache(maxsize=64)
def _config_is_plain(path: str, _changed: int, _size: int, _inode: int) -> bool:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return False
    keys: frozenset[str] | None = None
    for line in lines:
        text = line.strip()
        if not text or text[0] in "#;":
            continue
        if text.endswith("\\"):
            return False  # goes on in the next line
        if section := _SECTION.match(text):
            name = section["name"].lower()
            if name not in _PLAIN:
                return False
            keys = frozenset(_PLAIN[name].split())
            text = text[section.end() :].strip()
            if not text or text[0] in "#;":
                continue
        key = _KEY.fullmatch(text)
        if keys is None or key is None or (keys and key["key"].lower() not in keys):
            return False
        if "::" in (key["value"] or ""):
            return False  # `ext::` runs a program
    return True


def tracked_files(top: str) -> tuple[str, ...] | None:
    """The names of the files that the index of the repository at `top` lists, from there; None where they are not known."""
    control = _control_folders(top)
    if control is None or _is_split(control[0]):
        return None
    entries = _index_entries(os.path.join(control[0], "index"))
    return None if entries is None else tuple(name for _, name in entries)


def _is_split(git_dir: str) -> bool:
    return any(name.startswith("sharedindex.") for name in os.listdir(git_dir))


def is_plain_setting(setting: str) -> bool:
    """Return whether `section.key=value`, as `git -c` takes it, names no program and no other file."""
    name, _, value = setting.partition("=")
    section, _, key = name.lower().partition(".")
    keys = _PLAIN.get(section)
    return keys is not None and (not keys or key.rpartition(".")[2] in keys.split()) and "::" not in value


def _holds_submodules(index: str) -> bool:
    entries = _index_entries(index)
    # the mode by which the index says that an entry is another repository
    return entries is None or any(mode == 0o160000 for mode, _ in entries)


def _index_entries(index: str) -> tuple[tuple[int, str], ...] | None:
    """Mode and name of each entry of an index file; None where they are not known."""
    try:
        found = os.stat(index)
    except OSError:  # nothing was ever added
        return ()
    if found.st_size > 64_000_000 or not stat.S_ISREG(found.st_mode):
        return None
    return _read_index(index, found.st_mtime_ns, found.st_size, found.st_ino)


@lru_cache(maxsize=8)
def _read_index(index: str, _changed: int, _size: int, _inode: int) -> tuple[tuple[int, str], ...] | None:
    try:
        with open(index, "rb") as file:
            data = file.read()
    except OSError:
        return None
    signature, version, count = struct.unpack_from(">4sII", data) if len(data) > _HEADER else (b"", 0, 0)
    if signature != b"DIRC" or version not in (2, 3):
        return None
    found = []
    at = _HEADER
    for _ in range(count):
        if at + _ENTRY > len(data):
            return None
        mode = int.from_bytes(data[at + 24 : at + 28], "big")
        flags = int.from_bytes(data[at + 60 : at + 62], "big")
        start = at + _ENTRY + (2 if flags & _EXTENDED else 0)
        end = data.find(b"\0", start)
        if end < 0:
            return None
        found.append((mode, os.fsdecode(data[start:end])))
        at += (end - at) // 8 * 8 + 8
    return tuple(found)
