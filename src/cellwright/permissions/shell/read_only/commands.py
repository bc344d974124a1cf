"""Commands that run without asking because they can only read and print, each with the flags for which that is known.

A flag that is not listed makes the command one that asks. No program that reaches the network, runs another program
or writes a file is here; of those that can, only the flags that do not. `docs/decisions/read-only-shell.md` says why.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field

from cellwright.permissions.shell.command_paths import HERE, Access, Use, accesses
from cellwright.permissions.shell.words import EXIT_STATUS, Word
from cellwright.text import lazy_pattern

_NUMBER = lazy_pattern(r"[+-]?\d{1,12}(?:\.\d{1,6})?[bkKMGcwm]?")
_SHORT_NUMBER = lazy_pattern(r"-\d{1,9}")


class Arguments(Struct, frozen=True):
    """A command's arguments as its program takes them: the flags that were given, files behind flags, operands."""

    flags: frozenset[str]
    files: tuple[Word, ...]
    operands: tuple[Word, ...]
    mixed: bool = False
    """A flag stands behind an operand: some programs of the name take it for an operand, too."""


class Flags(Struct, frozen=True):
    """The flags a program may get. `valued` maps those with a value to its kind: "number", "text", "file", "word".

    A "word" is a text that is no flag where it stands by itself. With "=" before the kind the value is joined to the flag
    or left out, and the next word is none; with "?" it is the next word, where there is one: who errs here takes
    `--output=x` for a value. `letters` may be bundled behind one dash. `numbers`: `-5` is a flag. `any_glob`: even a file
    name that is taken for a flag does no harm, since the program has none that does.

    `one_program`: there is one of the name. Of others (GNU's, BSD's, busybox's) it is not certain whether the word behind
    a long flag is its value, so such a value must be joined (`--lines=5`).
    """

    letters: str = ""
    valued: Mapping[str, str] = field(default_factory=dict)
    long: frozenset[str] = frozenset()
    numbers: bool = False
    any_glob: bool = False
    one_program: bool = False

    def read(self, words: Sequence[Word], *, flags_first: bool = False) -> Arguments | None:
        """Take the arguments `words` apart; None where one of them is not known to be harmless.

        `flags_first`: all from the first operand on is an operand, as BSD's programs and POSIX have it.
        """
        given: set[str] = set()
        files: list[Word] = []
        operands: list[Word] = []
        mixed = False
        left = deque(words)
        while left:
            word = left.popleft()
            if word.dynamic or (word.may_become_flag and not self.any_glob):
                return None
            if word.text == "--" and not (flags_first and operands):
                if any(rest.dynamic for rest in left):
                    return None
                operands += left
                break
            if word.text == "-" or not word.text.startswith("-") or 0 in word.globs or (flags_first and operands):
                operands.append(_in_folder(word))
                continue
            mixed = mixed or bool(operands)
            if not (self.numbers and _SHORT_NUMBER.fullmatch(word.text)) and not self._take(word, left, given, files):
                return None
        return Arguments(frozenset(given), tuple(files), tuple(operands), mixed)

    def readings(self, words: Sequence[Word]) -> list[Arguments] | None:
        """Every way in which a program may take `words`; None where there is one that is not known to be harmless."""
        taken = self.read(words)
        if taken is None or not taken.mixed or self.one_program:
            return None if taken is None else [taken]
        strict = self.read(words, flags_first=True)
        return None if strict is None else [taken, strict]

    def _take(self, word: Word, left: deque[Word], given: set[str], files: list[Word]) -> bool:
        if word.globs and not word.text.startswith("--"):
            return False
        if word.text.startswith("--"):
            name, joined, value = word.text.partition("=")
            given.add(name)
            kind = self.valued.get(name)
            if kind is None:
                return name in self.long and not joined
            if not (joined or self.one_program or kind[0] == "="):
                return False
            return self._value(kind, Word(value, raw=value) if joined else None, left, files)
        for index, letter in enumerate(word.text[1:], start=1):
            given.add(f"-{letter}")
            if kind := self.valued.get(f"-{letter}"):
                rest = word.text[index + 1 :]
                return self._value(kind, Word(rest, raw=rest) if rest else None, left, files)
            if letter not in self.letters:
                return False
        return True

    def _value(self, kind: str, value: Word | None, left: deque[Word], files: list[Word]) -> bool:
        presence, kind = ("", kind) if kind[0] not in "=?" else (kind[0], kind[1:])
        if value is None:
            if presence == "=" or (presence == "?" and not left):
                return True
            if not left or left[0].globs or (kind == "word" and left[0].text.startswith("-")):
                return False
            value = left.popleft()
        elif value.text.startswith("~"):
            return False  # no folder of bash's here, perhaps one of the program's
        if value.dynamic:
            return False
        if kind == "file":
            files.append(value)
        return kind != "number" or _NUMBER.fullmatch(value.text) is not None


def flags(
    letters: str = "",
    valued: str = "",
    long: str = "",
    *,
    numbers: bool = False,
    any_glob: bool = False,
    one_program: bool = False,
) -> Flags:
    """`Flags` in short: `valued` is "-n:number --color:=text", `long` "--all --reverse"."""
    kinds = dict(part.rsplit(":", 1) for part in valued.split())
    return Flags(letters, kinds, frozenset(long.split()), numbers, any_glob, one_program)


def _in_folder(word: Word) -> Word:
    """`word`, an operand, so that it is no flag to anybody."""
    if not word.text.startswith("-") or word.text == "-":
        return word
    return Word(f"./{word.text}", frozenset(place + 2 for place in word.globs), word.dynamic, f"./{word.raw}")


Finder = Callable[[Arguments], list[Access] | None]


def _files(use: Use, *, recursive: Sequence[str] = (), at_most: int | None = None, or_here: bool = False) -> Finder:
    """The operands are files, used as `use` says; with a flag of `recursive`, so is all below them."""

    def find(arguments: Arguments) -> list[Access] | None:
        operands = [word for word in arguments.operands if word.text != "-"]
        if at_most is not None and (len(arguments.operands) > at_most or any(word.globs for word in operands)):
            return None
        deep = not arguments.flags.isdisjoint(recursive)
        if (or_here or deep) and not arguments.operands:
            operands = [HERE]
        return [*accesses("Grep" if deep else use, operands), *accesses("Read", arguments.files)]

    return find


def _text(arguments: Arguments) -> list[Access] | None:
    return None if any(word.globs for word in arguments.operands) else list(accesses("Read", arguments.files))


def _pattern_and_files(*, recursive: Sequence[str] = (), always_deep: bool = False) -> Finder:
    def find(arguments: Arguments) -> list[Access] | None:
        operands = arguments.operands
        if arguments.flags.isdisjoint(("-e", "-f", "--regexp", "--file", "--files")):
            if not operands or operands[0].globs:
                return None
            operands = operands[1:]
        deep = always_deep or not arguments.flags.isdisjoint(recursive)
        searched = [word for word in operands if word.text != "-"] or ([HERE] if deep else [])
        return [*accesses("Grep" if deep else "Read", searched), *accesses("Read", arguments.files)]

    return find


_GREP = flags(
    "EFGPiywxvcLlqsobHhnTZzraIU",
    "-e:text -f:file -m:number -A:number -B:number -C:number --regexp:text --max-count:number --context:number"
    " --include:text --exclude:text --exclude-dir:text --color:=text",
    "--extended-regexp --fixed-strings --perl-regexp --ignore-case --word-regexp --invert-match --count --quiet"
    " --files-without-match --files-with-matches --only-matching --no-filename --line-number --recursive",
    numbers=True,
    any_glob=True,
)
_RG = flags(
    "acFHhIilnNopPqsSuUvVwx0.",
    "-A:number -B:number -C:number -e:text -g:text -m:number -t:text -T:text -M:number -r:text --glob:text --type:text"
    " --max-count:number --max-depth:number --context:number --sort:text --color:text",
    "--count --ignore-case --fixed-strings --files --files-with-matches --line-number --only-matching --multiline"
    " --word-regexp --hidden --no-ignore --no-heading --heading --json --stats --version",
    one_program=True,
)
_LS = flags(
    "aAlhtrS1FdispRngocuCxmGXUfkNQvBbZ",
    "--color:=text --time-style:text --sort:text",
    "--all --almost-all --human-readable --reverse --recursive --size --group-directories-first --full-time",
    any_glob=True,
)
_LENGTHS = "-n:number -c:number --lines:number --bytes:number"
_HEAD = flags("qvz", _LENGTHS, "--quiet", numbers=True, any_glob=True)
_TAIL = flags("qvzr", _LENGTHS, "--quiet", numbers=True, any_glob=True)

READERS: Mapping[str, tuple[Flags, Finder]] = {
    "ls": (_LS, _files("LS", or_here=True)),
    "cat": (flags("nbsAeEtTvu", "", "--number", any_glob=True), _files("Read")),
    "head": (_HEAD, _files("Read")),
    "tail": (_TAIL, _files("Read")),
    "wc": (flags("lwcmL", "", "--lines --words --bytes --chars", any_glob=True), _files("Read")),
    "grep": (_GREP, _pattern_and_files(recursive=("-r", "--recursive"))),
    "rg": (_RG, _pattern_and_files(always_deep=True)),
    "uname": (flags("asnrvmpio", "", "--all"), _files("LS", at_most=0)),
    "whoami": (flags(), _files("LS", at_most=0)),
    "id": (flags("ugGnr"), _files("LS", at_most=0)),
    "nproc": (flags("", "", "--all"), _files("LS", at_most=0)),
    "pwd": (flags("LP"), _files("LS", at_most=0)),
    **dict.fromkeys(
        ("arch", "groups", "hostname", "locale", "lsblk", "lscpu", "tty", "uptime"),
        (flags(), _files("LS", at_most=0)),  # `hostname x` sets the name
    ),
    "free": (flags("bkmghtlwv", "", "--human --si --total --wide"), _files("LS", at_most=0)),
    "nvidia-smi": (
        flags(
            "Lqx",
            "-i:number -d:word --query-gpu:=text --query-compute-apps:=text --format:=text",
            "--list-gpus",
            one_program=True,
        ),
        _files("LS", at_most=0),
    ),
    "true": (flags(), _text),
    "false": (flags(), _text),
    ":": (flags(), _text),
    "sleep": (flags(), _text),
    "which": (flags("as", "", "--all"), _text),
    "type": (flags("afptP"), _text),
    "basename": (flags("az", "-s:text --suffix:text", "--multiple --zero"), _text),
    "dirname": (flags("z", "", "--zero"), _text),
    "du": (
        flags(
            "shackmbxSl0H",
            "-d:number --max-depth:number --exclude:text",
            "--summarize --human-readable --all --total --apparent-size --bytes",
            any_glob=True,
        ),
        _files("LS", or_here=True),
    ),
    "sort": (
        flags("nrufbdghiMVscCzR", "-k:text -t:text --key:text", "--numeric-sort --reverse --unique"),
        _files("Read"),
    ),
    "uniq": (
        flags("cdDuiz", "-f:number -s:number -w:number", "--count --repeated --unique --ignore-case"),
        _files("Read", at_most=1),  # the second is what it writes to
    ),
    "cut": (
        flags("snz", "-d:text -f:text -c:text -b:text --delimiter:text --fields:text", "--complement"),
        _files("Read"),
    ),
    "tr": (flags("dscCtu", "", "--delete --squeeze-repeats --complement --truncate-set1"), _text),
    "diff": (
        flags(
            "urNqsbBwiyaEZtTdpe",
            "-U:number -x:text --unified:=number --color:=text",
            "--recursive --brief",
            numbers=True,
        ),
        _files("Grep"),  # of two folders it compares what is in both
    ),
}
"""Each program with its flags and with what finds the files it reads; others are in `argument_languages.py`."""


def is_exit_status(word: Word) -> bool:
    """Return whether all that is dynamic in `word` is `$?`: digits."""
    return word.dynamic == EXIT_STATUS
