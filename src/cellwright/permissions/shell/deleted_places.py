"""The places that a program deletes, by its words: rather too many, for the deletions that every mode asks about.

`critical_deletes.py` says which of them are critical.
"""
# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH118

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise

from cellwright.permissions.shell.conservative_parse import SHELLS, PossibleCommand
from cellwright.text import lazy_pattern

DELETERS = frozenset({"rm", "rmdir", "srm", "rimraf", "del-cli", "trash", "trash-put", "gtrash"})
EMPTIERS = frozenset({"shred", "truncate", "wipe"})
"""Programs that take a file's content: of whole folders only by a wildcard."""
NAMED_ANYWHERE = lazy_pattern(
    r"(?<![\w.-])(?:rm|rmdir|srm|rimraf|del-cli|trash(?:-put)?|gtrash)(?![\w.-])", re.IGNORECASE
)
MAY_DELETE = lazy_pattern(
    r"(?<![\w.-])(?:rm|rmdir|srm|rimraf|del-cli|trash|trash-put|gtrash|shred|truncate|wipe|mv|dd|mkfs|wipefs|blkdiscard)"
    r"(?![\w-])|-delete\b|\bclean\b|--del|--remove|\bzip\b|/dev/|rmtree|remove_|rm_r|rmSync|rmdirSync|removeSync"
    r"|\.rm\(|RemoveAll|unlink|deltree|\bDeno\b",
    re.IGNORECASE,
)
_SUBCOMMANDS = frozenset(
    {"apt", "brew", "cargo", "conda", "docker", "git", "helm", "npm", "pip", "pnpm", "podman", "yarn"}
)
"""Programs whose own `rm` deletes something else."""
_PRINTERS = frozenset(
    {"ack", "ag", "apropos", "echo", "egrep", "fgrep", "grep", "help", "info", "man", "printf", "rg", "tldr", "type"}
    | {"whatis", "whereis", "which"}
)
"""Programs for which `rm -rf x` is text; unless a shell reads what they print."""
_INTERPRETER = lazy_pattern(
    r"i?python[\d.]*|pypy3?|perl[\d.]*|ruby[\d.]*|node(?:js)?|deno|bun|php\d?|lua[\d.]*|Rscript|julia"
)
_INLINE = lazy_pattern(r"-[A-Za-z]*[ceErR]\S*|--eval|--print|-p|-|eval")
_CODE_DELETE = lazy_pattern(
    r"(?:\b(?:rmtree|remove_tree|rm_rf?|remove_dir|remove_entry(?:_secure)?|remove_all|rmSync|rmdirSync|emptyDirSync"
    r"|removeSync|RemoveAll|deltree)\b|\b(?:fs|promises)\.rm\b|\bDeno\.remove(?:Sync)?\b"
    r"|(?<![\w.-])(?:rm(?=\()|unlink\b)(?=[^\n;]{0,300}\brecursive\b)|\bunlink(?=\s*\(?\s*(?:glob\b|<)))"
    r"(?P<called>\s*\(?\s*(?:[\w.:]+\(\s*)*[rbfu]?\\?([\"'])(?P<literal>[^\"'\\\n]*)\\?\2\s*(?:[),;\]}]|\Z|\n))?"
)
_CODE_LITERAL = lazy_pattern(r"""(["'])([^"'\\\n]{1,200})\1""")
_CODE_PLACE = lazy_pattern(
    r"getcwd|\bcwd\b|\bhome\b|argv|environ|expanduser|\binput\b|dirname|\bparents?\b|__file__|\bglob\b"
)
"""Words of code that stand for a folder, or for files, which the text does not show."""
_MATCHING = lazy_pattern(r"\s*\(?\s*<")
"""Perl's `<*>`: all files that match."""
_NAME = lazy_pattern(r"[A-Za-z_]\w*")
CODE_MARKS = lazy_pattern(r"[\[\](),'\"]")
XARGS_DELETES = lazy_pattern(
    r"\b(?:xargs|parallel)\b[^;&|\n]{0,300}[\s'\"/=](?:rm|rmdir|shred|trash|rimraf)(?=[\s'\"]|\Z)"
)
_DEVICE = lazy_pattern(r"/dev/(?:r?disk|sd|hd|vd|xvd|nvme|mmcblk|mapper/|md\d|dm-)\w*")
_TOP_OF_REPOSITORY = lazy_pattern(r":(?:/|\(\w*top\w*\)).*|:/")
NAMELESS = lazy_pattern(r"[./*?]+")
_FIND_FILTERS = frozenset({"-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename", "-regex", "-iregex"})
_FIND_OTHERWISE = frozenset({"-o", "-or", ",", "!", "-not"})
"""With these in an expression of find, a filter in it leaves out too little to count."""
_FIND_OPTION = lazy_pattern(r"-[HLPEXdsx]+|-O\d|-D")
_RECURSIVE = lazy_pattern(r"-[A-Za-z]*[rR][A-Za-z]*|--recursive|--no-preserve-root")


def may_delete(command: PossibleCommand) -> bool:
    return any(NAMED_ANYWHERE.search(word) or word in ("-delete", "clean") for word in command.words)


def runs_unseen(command: PossibleCommand, unseen_program: bool) -> bool:
    """Return whether `command` deletes, if the program that is filled in when it runs is `rm`."""
    filled_in = re.search(r"[$*?\[]", command.words[0]) or (unseen_program and command.words[0].startswith("-"))
    return filled_in is not None and filled_in is not False and any(map(_RECURSIVE.fullmatch, command.words))


def _program(word: str) -> str:
    """The name of the program that `word` may run: also as `SHELL=rm` and `alias.x=!rm`."""
    start = max(word.rfind("/"), word.rfind("="), word.rfind("!")) + 1
    return word[start:].lower()


def operands_of(command: PossibleCommand, unseen_program: bool, *, piped: bool) -> list[str]:
    """The operands of what deletes folders; `piped`: a shell may read what another program prints."""
    if runs_unseen(command, unseen_program):
        return [operand for operand in command.words if not operand.startswith("-") and operand != command.words[0]]
    for index, word in enumerate(command.words):
        if _program(word) not in DELETERS:
            continue
        rest = command.words[index + 1 :]
        if index == 0 or command.runs_another or _runs_unknown(command, word, rest, piped=piped):
            return [operand for operand in rest if not operand.startswith("-")]
    return []


def _runs_unknown(command: PossibleCommand, word: str, rest: Sequence[str], *, piped: bool) -> bool:
    """Return whether a program that is not known to run others may run the deletion in its arguments."""
    if command.program in _PRINTERS and not piped:
        return False
    if word.lower() not in ("rm", "rmdir") and _program(word) in DELETERS - {"rm", "rmdir"}:
        return True  # nothing else is called so: `pnpm dlx rimraf ..`
    if command.program in _SUBCOMMANDS and word.lower() in DELETERS:
        return False
    return any(map(_RECURSIVE.fullmatch, rest)) or command.program in ("gio", "kioclient", "kioclient5", "toybox")


MAX_PROGRAMS = 8
"""Places in one command's words at which a program is looked for."""


def _places(command: PossibleCommand, programs: frozenset[str]) -> list[int]:
    """The first places in the words of `command` at which one of `programs` is named."""
    found = (index for index, word in enumerate(command.words) if _program(word) in programs)
    return list(islice(found, MAX_PROGRAMS))


def _may_run(command: PossibleCommand, index: int) -> bool:
    """Return whether `command` may run the program at `index` of its words, as far as its own program is known."""
    return index == 0 or command.runs_another or command.program not in _PRINTERS | _SUBCOMMANDS


def reads_commands(command: PossibleCommand) -> bool:
    """Return whether `command` is a shell that reads what it runs."""
    if command.program not in SHELLS and not (command.runs_another and any(word in SHELLS for word in command.words)):
        return False
    shell = next(index for index, word in enumerate(command.words) if word.rpartition("/")[2].lower() in SHELLS)
    return not any(not word.startswith(("-", "+")) for word in command.words[shell + 1 :]) or "-s" in command.words


def emptied(command: PossibleCommand) -> Iterator[str]:
    """Yield the files that lose their content; which one a variable names cannot be a folder's all."""
    for index in _places(command, EMPTIERS):
        if _may_run(command, index):
            yield from (each for each in command.words[index + 1 :] if not each.startswith(("-", "$")))


_GIVE_UP = frozenset({"bsdtar", "git", "gtar", "rsync", "tar", "zip"})


def given_up(command: PossibleCommand) -> Iterator[str]:
    """Yield the folders whose content another program removes: `rsync --delete`, `tar --remove-files`, `zip -m`."""
    words = command.words
    for index in _places(command, _GIVE_UP):
        if not _may_run(command, index):
            continue
        rest = words[index + 1 :]
        named = [each for each in rest if not each.startswith("-")]
        match _program(words[index]):
            case "rsync" if any(each.startswith("--del") for each in rest):
                yield from named[-1:]
            case "rsync" if "--remove-source-files" in rest:
                yield from named[:-1]
            case "tar" | "bsdtar" | "gtar" if "--remove-files" in rest:
                folders = {after for before, after in pairwise(rest) if before in ("-C", "--directory")}
                yield from (each for each in named if each not in folders)
            case "zip" if any(re.fullmatch(r"-[A-Za-z]*m[A-Za-z]*|--move", each) for each in rest):
                yield from named[1:]
            case "git" if "clean" in rest and not _tries_only(rest):
                yield from (each for each in rest[rest.index("clean") + 1 :] if not each.startswith("-"))
            case _:
                pass


def moved_away(command: PossibleCommand) -> Iterator[str]:
    """Yield what `mv` takes away from its place."""
    for index in _places(command, frozenset({"mv"})):
        if not _may_run(command, index):
            continue
        rest = command.words[index + 1 :]
        into = [after for before, after in pairwise(rest) if before in ("-t", "--target-directory")]
        named = [each for each in rest if not each.startswith("-") and each not in into]
        glued = any(re.match(r"-t.|--target-directory=", each) for each in rest)
        yield from named if into or glued else named[:-1]


def through_links(operands: Iterable[str], parts: Iterable[PossibleCommand]) -> list[str]:
    """`operands` as they are meant through links that the command makes."""
    made = [[word for word in part.words[1:] if not word.startswith("-")] for part in parts if part.program == "ln"]
    links = {each[-1]: each[0] for each in made if len(each) == 2}
    through = []
    for operand in operands:
        link, slash, rest = operand.partition("/")
        if slash and link in links:
            through.append(os.path.join(links[link], rest))
    return through


def device_written(parts: Iterable[PossibleCommand], redirects: Iterable[str]) -> str:
    """The disk that is written over; "" for none."""
    for target in redirects:
        if _DEVICE.fullmatch(target):
            return target
    for part in parts:
        names = [part.words[0], *(part.words[1:] if part.runs_another else ())]
        programs = {_program(name) for name in names}
        over = any(each in programs for each in ("shred", "wipefs", "blkdiscard", "sgdisk", "tee", "cp", "cat"))
        for word in part.words:
            device = word.removeprefix("of=")
            if not _DEVICE.fullmatch(device):
                continue
            if (
                word.startswith("of=")
                or (over and "cat" not in programs)
                or any(p.startswith("mkfs") for p in programs)
            ):
                return device
    return ""


def runs_code(command: PossibleCommand) -> bool:
    """Return whether `command` runs code that its text holds: in an argument, or in what it reads."""
    for index, word in enumerate(command.words):
        if _INTERPRETER.fullmatch(word.rpartition("/")[2]) and (index == 0 or command.runs_another):
            rest = command.words[index + 1 :]
            return not rest or any(map(_INLINE.fullmatch, rest))
    return False


def deleted_by_code(code: str) -> list[str] | None:
    """The folders that `code` deletes as far as it names them; None if it may mean one that its text does not show."""
    named: list[str] = []
    for count, found in enumerate(_CODE_DELETE.finditer(code)):
        if count >= MAX_CALLS:
            return None
        if found["called"] is not None:
            named.append(found["literal"])
            continue
        about = _about(code, re.split(r"[\n;]", code[found.end() :], maxsplit=1)[0])
        if _MATCHING.match(code, found.end()):
            return None
        literals = [literal for _, literal in _CODE_LITERAL.findall(about)]
        if _CODE_PLACE.search(about):
            if not literals:
                return None
            # `Path.cwd().parent / "x"`: which folder it starts from is not known
            literals += [f"{start}/{literal}" for start in ("..", "~") for literal in literals]
        named += literals
    return named


def _about(code: str, arguments: str) -> str:
    """The text that says what `arguments` are: themselves, with what their names are set to; all of it for no call."""
    if not arguments.lstrip().startswith(("(", "$", "@")) and not _CODE_LITERAL.search(arguments):
        return code
    texts = [arguments]
    for name in dict.fromkeys(_NAME.findall(arguments)[:MAX_NAMES]):
        texts += re.findall(rf"(?<![\w.]){name}\s*(?:=(?!=)|\bin\b)\s*([^\n;]*)", code)
    return "\n".join(texts)


MAX_CALLS = 20
"""Deleting calls in code that are looked at; with more it counts as deleting what cannot be seen."""
MAX_NAMES = 8
"""Names in a call's arguments whose values are looked for."""


def found_and_deleted(command: PossibleCommand) -> Iterator[str]:
    """Yield where `find … -delete` starts, as `rm` would name it: filtered, it is only critical beyond the folder."""
    if "-delete" not in command.words:
        return
    # as far as it deletes: a filter behind it comes too late
    words = command.words[: command.words.index("-delete")]
    index = next((index for index, word in enumerate(words) if word.rpartition("/")[2].lower() == "find"), None)
    if index is None:
        return
    starts: list[str] = []
    for word in words[index + 1 :]:
        if _FIND_OPTION.fullmatch(word) and not starts:
            continue
        if word.startswith(("-", "!", "(", ")")):
            break
        starts.append(word)
    for start in starts or ["."]:
        # `find . -name x -delete` is how one cleans up
        if not (start.rstrip("/") == "." and _is_filtered(words)):
            yield start


def _is_filtered(words: Sequence[str]) -> bool:
    """Return whether the expression of find that `words` hold leaves out all but files of some name."""
    if not _FIND_OTHERWISE.isdisjoint(words):
        return False
    named = (pattern for test, pattern in pairwise(words) if test in _FIND_FILTERS)
    return "-empty" in words or any(re.search(r"\w", pattern) for pattern in named)


def cleans_all(command: PossibleCommand) -> bool:
    """Return whether `command` is `git clean -f` without a path: what nobody has committed is in no history."""
    words = list(command.words)
    index = next((index for index, word in enumerate(words) if word.rpartition("/")[2].lower() == "git"), None)
    if index is None or "clean" not in words[index:] or not _may_run(command, index):
        return False
    rest = words[words.index("clean", index) + 1 :]
    flags = [word for word in rest if word.startswith("-") and word != "--"]
    if _tries_only(flags):
        return False
    named = [word for word in rest if not word.startswith("-") and not NAMELESS.fullmatch(word)]
    return not named or any(map(_TOP_OF_REPOSITORY.fullmatch, named))


def _tries_only(flags: Iterable[str]) -> bool:
    return any(word in ("--dry-run", "--help") or re.fullmatch(r"-\w*n\w*", word) for word in flags)


_FINDERS = frozenset({"fd", "fdfind", "find", "parallel", "xargs"})


def deletes_unseen(command: PossibleCommand) -> bool:
    finder = next((index for index, word in enumerate(command.words) if _program(word) in _FINDERS), None)
    if finder is not None and _may_run(command, finder):
        return any(_program(word) in DELETERS | EMPTIERS for word in command.words[finder:])
    if command.program == "alias" and any(map(NAMED_ANYWHERE.search, command.words)):
        return True
    named = any(NAMED_ANYWHERE.search(word) for word in command.words[1:])
    return named and command.opaque and command.program not in _SUBCOMMANDS
