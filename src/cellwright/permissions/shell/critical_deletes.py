"""Deletions that no mode lets through unasked: `rm`, `find -delete`, `git clean`, `rsync --delete` on vital places.

Critical are the root of the file system and what lies directly in it, the home folder, the working folders and all
above them, the whole content of a working folder, and whatever a variable names, since an empty one leaves `/`.

The places that a program deletes are found by its words: rather too many. What is deleted is looked at as the shell fills
it in: wildcards expanded, variables replaced by what the command sets them to and by nothing, names meant from each folder
that it goes to, by `cd` or by a flag of a program in front (`env -C`, `sudo -D`, `git -C`). Code in an argument
(`python -c`, `perl -e`) is looked at for the calls that delete whole folders. Scripts and Makefiles are not read.
"""

# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH111, PTH112, PTH118, PTH120
from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise

from cellwright.permissions.paths import folded, folder_spellings, normalised
from cellwright.permissions.shell.analysis import SimpleCommand, unwrapped
from cellwright.permissions.shell.command_paths import Starts, places_named, starts_at
from cellwright.permissions.shell.conservative_parse import SHELLS, PossibleCommand, parse_conservatively
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

_CODE_GOES = lazy_pattern(r"(?:\bchdir\s*\(?\s*|^\s*%cd\s+|\bcwd\s*=\s*)[\"']?([^\"'\n),]+)", re.MULTILINE)
_OTHER_ROOT = lazy_pattern(r"/proc/[^/]+/(?:cwd|root)(?:/|\Z)")
_FOLDER_FLAG = lazy_pattern(r"--?[\w-]+")
_GLUED_FOLDER = lazy_pattern(r"--?[\w-]*=(?P<long>.+)|-[A-Za-z](?P<short>[^=]+)")
_ALL_INSIDE = lazy_pattern(r"/(?=[*.?]*[*?])[*.?]+\Z")
_UNSEEN_FOLDER = lazy_pattern(
    r"(?:\s-[CDw]|\s--(?:chdir|cwd|dir|directory|wd|workdir|working-directory))[ =]?[\"']?[$`]"
)
_BRACKETS = lazy_pattern(r"\[[^\]/]*\]")
_VARIABLE = lazy_pattern(r"\$(?:\{(?P<braced>\w+)\}|(?P<bare>\w+))", re.ASCII)
_BRACED = lazy_pattern(r"\$\{(?P<name>\w+)\}", re.ASCII)
_BRACED_WITHIN = lazy_pattern(r"(?<=[^\s;&|=])\$\{\w+\}", re.ASCII)
_EXPANSION = lazy_pattern(r"\$(?:\{[^}]*\}|\w+|[@*#?!$-])", re.ASCII)
_ASSIGNED = lazy_pattern(
    r"""(?<![\w$])(?P<name>[A-Za-z_]\w*)=(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^\s;&|()<>"']*))""",
    re.ASCII,
)
_AT_PROGRAM = r"(?:^|[(`{!]|\b(?:then|do|else|sudo|doas|time|exec|command|nohup|env)\s)\s*"
_DELETER = lazy_pattern(
    _AT_PROGRAM
    + r"(?:npx\s+)?(?:\S{0,200}/)?(?:rm(?:dir)?|srm|rimraf|del-cli|trash(?:-put)?"
    + r"|find(?=.{0,300}-delete)|rsync(?=.{0,300}--del))\s"
)
_PRINTS_FOLDER = lazy_pattern(r"\$\(\s*pwd(?:\s+-[LP])?\s*\)|`\s*pwd(?:\s+-[LP])?\s*`")
_PROGRAM_FILLED_IN = lazy_pattern(_AT_PROGRAM + r"""["']?(?:\$[({]|`)""")
_BETWEEN_COMMANDS = lazy_pattern(r"[;|&\n]")
_PLAIN_NAME = lazy_pattern(r"(?!\.\.?\Z)[\w.,:=@%+-]+", re.ASCII)
_GOES = lazy_pattern(r"\b(?:cd|pushd)\b")
_LOOP = lazy_pattern(r"\b(?:for|while|until)\b")
MAX_STARTS = 32
"""Folders from which what is deleted is looked at."""
MAX_LOOKED_AT = 300
"""Names, in all these folders, that are looked at on disk."""
MAX_VALUES = 4
"""Values that a variable is filled in with."""
_EVERYTHING = "everything that is not committed"
_UNSEEN = "something that cannot be seen before it runs"


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


def _places(command: PossibleCommand, programs: frozenset[str]) -> list[int]:
    """The first places in the words of `command` at which one of `programs` is named."""
    found = (index for index, word in enumerate(command.words) if _program(word) in programs)
    # places in one command's words at which a program is looked for
    return list(islice(found, 8))


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
        # deleting calls in code that are looked at; with more it counts as deleting what cannot be seen
        if count >= 20:
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
    # names in a call's arguments whose values are looked for
    for name in dict.fromkeys(_NAME.findall(arguments)[:8]):
        texts += re.findall(rf"(?<![\w.]){name}\s*(?:=(?!=)|\bin\b)\s*([^\n;]*)", code)
    return "\n".join(texts)


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


def critical_delete(command: str, commands: Sequence[SimpleCommand], folders: Sequence[str], cwd: str) -> str | None:
    """Find what `command` would delete that is critical (as the object of a sentence), or None.

    `commands`: what it is known to run. `folders` are the working folders, absolute and normalised, in all spellings.
    """
    filled_in = _with_variables(command, cwd)
    if filled_in is None:
        return _UNSEEN if NAMED_ANYWHERE.search(command) else None
    parsed = [parse_conservatively(text) for text in filled_in]
    parts = [part for each in parsed for part in each.parts]
    if code := any(map(runs_code, parts)):
        parts += parse_conservatively(CODE_MARKS.sub(" ", command)).parts
    unseen_program = any(map(_PROGRAM_FILLED_IN.search, _BETWEEN_COMMANDS.split(command)))
    if not MAY_DELETE.search(command) and not any(
        may_delete(part) or runs_unseen(part, unseen_program) for part in parts
    ):
        return None
    if device := device_written(parts, [target for each in parsed for target in each.redirects]):
        return f"`{device}`"
    if any(map(cleans_all, parts)):
        return _EVERYTHING
    vital = _vital((*folders, cwd, *_home()))
    starts = _starts(command, parts, cwd, vital)
    in_code = deleted_by_code(command) if code else []
    if starts is None or in_code is None or XARGS_DELETES.search(command) or any(map(deletes_unseen, parts)):
        return _UNSEEN
    piped = any(map(reads_commands, parts))
    operands = dict.fromkeys(in_code)
    for part in parts:
        found = operands_of(part, unseen_program, piped=piped)
        operands.update(dict.fromkeys((*found, *found_and_deleted(part), *emptied(part), *given_up(part))))
    operands.update(dict.fromkeys(through_links(operands, parts)))
    moved = dict.fromkeys(name for part in parts for name in moved_away(part))
    if critical := _first_critical(operands, vital, starts) or _first_moved(moved, vital, starts):
        return critical
    return _UNSEEN if _prints_operands(command) or any(map(_names_dynamically, commands)) else None


def critical_delete_by_code(code: str, folders: Sequence[str], starts: Iterable[str]) -> str | None:
    """Find what the calls in `code` would delete that is critical, from any of `starts`; or None."""
    named = deleted_by_code(code)
    if named is None:
        return _UNSEEN
    if not named:
        return None
    vital = _vital((*folders, *_home()))
    return _first_critical(dict.fromkeys(map(os.path.expanduser, named)), vital, starts_at(starts))


def folders_of_code(code: str, folder: str) -> tuple[str, ...]:
    """`folder`, and those that code which starts there goes to, as far as it names them."""
    found = {folder: None}
    for target in _CODE_GOES.findall(code)[:MAX_VALUES]:
        found.update(dict.fromkeys([normalised(os.path.join(start, os.path.expanduser(target))) for start in found]))
    return tuple(found)


def _with_variables(command: str, cwd: str) -> list[str] | None:
    """`command`, and with the variables that it sets filled in; None where that is too long to be looked at."""
    values: dict[str, list[str]] = {}
    command = _PRINTS_FOLDER.sub("$PWD", command)
    for name, value in (("PWD", cwd), ("HOME", os.path.expanduser("~"))):
        if f"${name}" in command or f"${{{name}}}" in command:
            values[name] = [value]
    for found in _ASSIGNED.finditer(command):
        known = values.setdefault(found["name"], [])
        known.append(found["double"] or found["single"] or found["bare"] or "")
    texts = dict.fromkeys((command, _BRACED.sub(r"$\g<name>", _BRACED_WITHIN.sub("", command))))
    for index in range(min(MAX_VALUES, max(map(len, values.values()), default=0))):

        def filled(found: re.Match[str], index: int = index) -> str:
            known = values.get(found["braced"] or found["bare"])
            return known[min(index, len(known) - 1)] if known else found[0]

        longest = max(len(each) for known in values.values() for each in known)
        # characters of a command with its variables filled in
        if command.count("$") * longest > 30_000:
            return None
        texts[_VARIABLE.sub(filled, command)] = None
    return list(texts)


def _starts(command: str, parts: Sequence[PossibleCommand], cwd: str, vital: frozenset[str]) -> Starts | None:
    """Every folder that the command may go to, as far as it names it; None where those are too many."""
    targets = dict.fromkeys(target for part in parts for target in _goes_to(part))
    targets.update(dict.fromkeys(_CODE_GOES.findall(command)))
    # `cd ..; cd ..` is there once, and in a loop it is done again and again
    rounds = MAX_STARTS if _LOOP.search(command) else len(_GOES.findall(command)) + len(_CODE_GOES.findall(command))
    found = {cwd: None}
    unseen = _UNSEEN_FOLDER.search(command) is not None or any(map(_is_unseen_folder, targets))
    if unseen or any(part.program == "popd" for part in parts):
        # it may be the one from which the last part of a vital place's name is enough
        found.update(dict.fromkeys(os.path.dirname(place) for place in vital if place.count("/") > 1))
    names = dict.fromkeys(islice((name for part in parts for name in _named_by_flag(part)), MAX_LOOKED_AT))
    # different words behind flags that are looked at on disk, as the folder that a program goes to
    if len(names) >= 150:
        return None
    flagged = [name for name in names if _is_folder(name, cwd)]
    for _ in range(rounds + bool(flagged)):
        known = len(found)
        for target in map(os.path.expanduser, (*targets, *flagged)):
            found.update(dict.fromkeys([normalised(os.path.join(start, target)) for start in found]))
            if len(found) > MAX_STARTS:
                return None
        if len(found) == known:
            break
    return starts_at(found)


def _goes_to(part: PossibleCommand) -> Iterator[str]:
    """Yield the folders that `part` names to `cd`, also within what another program runs."""
    for index, word in enumerate(part.words):
        if word.rpartition("/")[2] in ("cd", "pushd") and (index == 0 or part.runs_another):
            named = [each for each in part.words[index + 1 :] if not _FOLDER_FLAG.fullmatch(each)]
            yield from named[:1] if index else named[-1:]
            if not named:
                yield "~"


def _is_unseen_folder(target: str) -> bool:
    return target == "-" or re.search(r"[$`]", target) is not None


def _named_by_flag(part: PossibleCommand) -> Iterator[str]:
    """Yield what a flag in `part` may name a folder by: `-C x`, `--chdir=x`, `-Cx`. Which flags those are is not asked."""
    for before, word in pairwise(part.words):
        # `cwd='..'` of code has lost its quotes
        if _FOLDER_FLAG.fullmatch(before) or before.endswith("="):
            yield word
        if glued := _GLUED_FOLDER.fullmatch(word):
            yield glued["long"] or glued["short"]


def _is_folder(name: str, cwd: str) -> bool:
    try:
        return os.path.isdir(os.path.join(cwd, os.path.expanduser(name)))
    except ValueError:  # no file can have such a name
        return False


def _home() -> tuple[str, ...]:
    return folder_spellings([os.path.expanduser("~")], "/")


def _vital(folders: Sequence[str]) -> frozenset[str]:
    """`folders` and all above them."""
    found = set[str]()
    for folder in map(folded, folders):
        while folder not in found:
            found.add(folder)
            folder = os.path.dirname(folder)
    return frozenset(found)


def _names_dynamically(command: SimpleCommand) -> bool:
    """Return whether `rm` is given what another command prints: `rm -rf $(cat list)`."""
    words = unwrapped(command.words).words
    if not words or words[0].text.rpartition("/")[2] not in DELETERS:
        return False
    return any(word.dynamic and ("$(" in word.raw or "`" in word.raw) for word in words[1:])


def _prints_operands(command: str) -> bool:
    """Return whether `rm` is given what another command prints, however it is written."""
    for text in _BETWEEN_COMMANDS.split(command):
        found = _DELETER.search(text)
        if found and re.search(r"\$\(|`", text[found.end() :]):
            return True
    return False


def _first_critical(operands: Iterable[str], vital: frozenset[str], starts: Starts) -> str | None:
    """The first of `operands` that may be a vital place, or that there are too many of them."""
    looked_at = 0
    for operand in operands:
        nameless = NAMELESS.fullmatch(_BRACKETS.sub("?", operand))
        if nameless or operand.startswith("$") or _OTHER_ROOT.match(operand):
            return f"`{operand}`"
        for name in dict.fromkeys((operand, _EXPANSION.sub("", operand))):
            whole = _ALL_INSIDE.sub("", name) or "/"
            if not _PLAIN_NAME.fullmatch(whole):
                looked_at += len(starts)
            if looked_at > MAX_LOOKED_AT:
                return _UNSEEN
            found = places_named(whole, starts)
            if found is None or any(_is_vital(place, vital) for place in found):
                return f"`{operand}`"
    return None


def _first_moved(sources: Iterable[str], vital: frozenset[str], starts: Starts) -> str | None:
    """The first of `sources` that is a vital place itself: what is moved away is gone where it was."""
    for source in sources:
        found = places_named(source.rstrip("/") or "/", starts) or ()
        if _OTHER_ROOT.match(source) or any(_is_vital(place, vital) for place in found):
            return f"`{source}`"
    return None


def _is_vital(place: str, vital: frozenset[str]) -> bool:
    place = folded(place)
    return place.count("/") <= 1 or place in vital
