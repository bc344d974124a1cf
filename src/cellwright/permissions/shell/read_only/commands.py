"""Commands that run without asking because they can only read and print, each with the flags for which that is known.

A flag that is not listed makes the command one that asks. No program that reaches the network, runs another program
or writes a file is here; of those that can, only the flags that do not. `docs/decisions/read-only-shell.md` says why.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field

from cellwright.permissions.shell.command_paths import HERE, Access, Use, accesses
from cellwright.permissions.shell.tokens import EXIT_STATUS, Word

_NUMBER = re.compile(r"[+-]?\d{1,12}(?:\.\d{1,6})?[bkKMGcwm]?")
_SHORT_NUMBER = re.compile(r"-\d{1,9}")


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
    `--output=x` for a value. With "~" it is a value to some programs of the name and an operand to others, so it is
    judged as an operand. `letters` may be bundled behind one dash. `numbers`: `-5` is a flag. `any_glob`: even a file
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
            if not (self.numbers and _SHORT_NUMBER.fullmatch(word.text)) and not self._take(
                word, left, given, files, operands
            ):
                return None
        return Arguments(frozenset(given), tuple(files), tuple(operands), mixed)

    def readings(self, words: Sequence[Word]) -> list[Arguments] | None:
        """Every way in which a program may take `words`; None where there is one that is not known to be harmless."""
        taken = self.read(words)
        if taken is None or not taken.mixed or self.one_program:
            return None if taken is None else [taken]
        strict = self.read(words, flags_first=True)
        return None if strict is None else [taken, strict]

    def _take(self, word: Word, left: deque[Word], given: set[str], files: list[Word], operands: list[Word]) -> bool:
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
                if kind[0] == "~":
                    operands += [Word(rest, raw=rest)] if rest else [left.popleft()] if left else []
                    return not operands[-1:] or _is_plain(operands[-1])
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


def _is_plain(word: Word) -> bool:
    return not (word.dynamic or word.globs or word.text.startswith("-"))


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


def _compressed(arguments: Arguments) -> list[Access] | None:
    # of another name zcat looks for one with an ending: `zcat a` reads `a.gz`
    named = all(word.text.endswith(".gz") for word in arguments.operands)
    return list(accesses("Read", arguments.operands)) if named else None


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
    "-e:text -f:file -m:number -A:number -B:number -C:number --regexp:text --file:file --max-count:number"
    " --after-context:number --before-context:number --context:number --include:text --exclude:text --exclude-dir:text"
    " --color:=text --colour:=text --binary-files:text --label:text",
    "--extended-regexp --fixed-strings --basic-regexp --perl-regexp --ignore-case --no-ignore-case --word-regexp"
    " --line-regexp --invert-match --count --files-without-match --files-with-matches --quiet --silent --no-messages"
    " --only-matching --byte-offset --with-filename --no-filename --line-number --initial-tab --null --null-data"
    " --recursive --text --line-buffered",
    numbers=True,
    any_glob=True,
)
_RG = flags(
    "aciFHIlnNopPqsSuUvVwx0.",
    "-A:number -B:number -C:number -e:text -f:file -g:text -m:number -t:text -T:text -j:number -M:number -r:text -E:text"
    " --after-context:number --before-context:number --context:number --regexp:text --file:file --glob:text --iglob:text"
    " --max-count:number --type:text --type-not:text --max-depth:number -d:number --max-columns:number --sort:text"
    " --sortr:text --color:text --colors:text --replace:text --encoding:text --threads:number --max-filesize:number"
    " --context-separator:text --field-match-separator:text --engine:text",
    "--text --count --count-matches --ignore-case --fixed-strings --with-filename --no-filename --files-with-matches"
    " --files-without-match --line-number --no-line-number --only-matching --pcre2 --quiet --case-sensitive --smart-case"
    " --unrestricted --multiline --multiline-dotall --invert-match --word-regexp --line-regexp --hidden --no-ignore"
    " --no-ignore-vcs --no-heading --heading --column --trim --vimgrep --json --stats --files --null --no-messages"
    " --no-config --crlf --passthru --pretty --type-list --version --max-columns-preview --no-ignore-parent",
    one_program=True,
)
_LS = flags(
    "aAlhtrS1FdispRngocuCxmGXUfkNQvBbZ",
    "-I:~text -w:~number --ignore:text --hide:text --color:=text --time-style:text --sort:text --format:text --time:text"
    " --block-size:text --indicator-style:text --width:number --quoting-style:text",
    "--all --almost-all --human-readable --reverse --recursive --size --inode --directory --group-directories-first"
    " --full-time --no-group --classify --file-type --numeric-uid-gid --si --author --escape --literal --zero",
    any_glob=True,
)
_CHECKSUM = flags("btz", "", "--binary --text --tag --zero", any_glob=True)
_HEAD = flags(
    "qvz",
    "-n:number -c:number --lines:number --bytes:number",
    "--quiet --silent --verbose",
    numbers=True,
    any_glob=True,
)

READERS: Mapping[str, tuple[Flags, Finder]] = {
    "ls": (_LS, _files("LS", or_here=True)),
    "cat": (
        flags(
            "nbsAeEtTvu",
            "",
            "--number --number-nonblank --squeeze-blank --show-all --show-ends --show-tabs --show-nonprinting",
            any_glob=True,
        ),
        _files("Read"),
    ),
    "head": (_HEAD, _files("Read")),
    "tail": (
        flags(
            "qvzr",
            "-n:number -c:number --lines:number --bytes:number",
            "--quiet --verbose",
            numbers=True,
            any_glob=True,
        ),
        _files("Read"),
    ),
    "wc": (flags("lwcmL", "", "--lines --words --bytes --chars --max-line-length", any_glob=True), _files("Read")),
    "grep": (_GREP, _pattern_and_files(recursive=("-r", "--recursive"))),
    "egrep": (_GREP, _pattern_and_files(recursive=("-r", "--recursive"))),
    "fgrep": (_GREP, _pattern_and_files(recursive=("-r", "--recursive"))),
    "rg": (_RG, _pattern_and_files(always_deep=True)),
    **dict.fromkeys(
        ("md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "b2sum", "cksum"),
        (_CHECKSUM, _files("Read")),
    ),
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
    "whereis": (flags(), _text),
    "true": (flags(), _text),
    "false": (flags(), _text),
    ":": (flags(), _text),
    "sleep": (flags(), _text),
    "which": (flags("as", "", "--all"), _text),
    "type": (flags("afptP"), _text),
    "basename": (flags("az", "-s:text --suffix:text", "--multiple --zero"), _text),
    "dirname": (flags("z", "", "--zero"), _text),
    "seq": (flags("w", "-s:text -f:text --separator:text --format:text", "--equal-width", numbers=True), _text),
    "realpath": (
        flags("emsqzLP", "--relative-to:file --relative-base:file", "--canonicalize-existing --no-symlinks --strip"),
        _files("LS"),
    ),
    "readlink": (flags("femnqsvz", "", "--canonicalize --canonicalize-existing --no-newline"), _files("LS")),
    "stat": (
        flags(
            "LqxnrsF",
            "-c:~text -f:~text -t:~text --format:text --printf:text",
            "--dereference --file-system --terse",
            any_glob=True,
        ),
        _files("LS"),
    ),
    "du": (
        flags(
            "shackmbxSl0H",
            "-d:number --max-depth:number --exclude:text --block-size:text -t:number --threshold:number",
            "--summarize --human-readable --all --total --apparent-size --bytes --one-file-system --si",
            any_glob=True,
        ),
        _files("LS", or_here=True),
    ),
    "df": (
        flags("hHkmiPlag", "-t:~text -x:~text -T:~text", "--human-readable --portability --print-type --total"),
        _files("LS"),
    ),
    "file": (
        flags("bihkLNnr0", "-F:text -P:text", "--brief --mime --mime-type --mime-encoding", one_program=True),
        _files("Read"),
    ),
    "sort": (
        flags(
            "nrufbdghiMVscCzR",
            "-k:text -t:text --key:text --field-separator:text --sort:text",
            "--numeric-sort --reverse --unique --ignore-case --ignore-leading-blanks --dictionary-order"
            " --general-numeric-sort --human-numeric-sort --month-sort --version-sort --stable --check --zero-terminated",
        ),
        _files("Read"),
    ),
    "uniq": (
        flags(
            "cdDuiz",
            "-f:number -s:number -w:number --skip-fields:number --skip-chars:number --check-chars:number",
            "--count --repeated --unique --ignore-case",
        ),
        _files("Read", at_most=1),  # the second is what it writes to
    ),
    "cut": (
        flags(
            "snz",
            "-d:text -f:text -c:text -b:text --delimiter:text --fields:text --characters:text --bytes:text"
            " --output-delimiter:text",
            "--complement --only-delimited",
        ),
        _files("Read"),
    ),
    "tr": (flags("dscCtu", "", "--delete --squeeze-repeats --complement --truncate-set1"), _text),
    "nl": (
        flags("p", "-b:text -h:text -f:text -d:text -i:number -l:number -n:text -s:text -v:number -w:number"),
        _files("Read"),
    ),
    "tac": (flags("br", "-s:text --separator:text", "--before --regex"), _files("Read")),
    "rev": (flags(), _files("Read")),
    "paste": (flags("sz", "-d:text --delimiters:text", "--serial --zero-terminated"), _files("Read")),
    "join": (
        flags("iz", "-1:number -2:number -j:number -t:text -a:number -v:number -e:text -o:text", "--header"),
        _files("Read"),
    ),
    "fold": (flags("bs", "-w:number --width:number", "--bytes --spaces", numbers=True), _files("Read")),
    "shuf": (flags("ez", "-n:number -i:text --head-count:number --input-range:text"), _files("Read")),
    "od": (flags("abcdfiloshxv", "-A:text -t:text -N:number -j:number -w:=number"), _files("Read")),
    "hexdump": (flags("bcCdovx", "-n:number -s:number"), _files("Read")),
    "base64": (flags("d", "-w:number --wrap:number", "--decode"), _files("Read", at_most=1)),
    **dict.fromkeys(("zcat", "gzcat"), (flags(), _compressed)),
    **dict.fromkeys(("xzcat", "bzcat"), (flags(), _files("Read"))),
    "column": (
        flags("tx", "-s:text -c:number -o:~text -N:~text -H:~text --separator:text --output-separator:text", "--table"),
        _files("Read"),
    ),
    "comm": (flags("123iz", "", "--check-order --nocheck-order --total"), _files("Read")),
    "cmp": (
        flags("bsl", "-n:number -i:text --bytes:number", "--print-bytes --quiet --silent --verbose"),
        _files("Read"),
    ),
    "diff": (
        flags(
            "urNqsbBwiyaEZtTdpe",
            "-U:number -C:number -I:text -W:number -x:text --unified:=number --context:=number --exclude:text --color:=text"
            " --ignore-matching-lines:text --width:number --label:text -L:text",
            "--recursive --new-file --brief --report-identical-files --ignore-space-change"
            " --ignore-blank-lines --ignore-all-space --ignore-case --side-by-side --text --minimal"
            " --suppress-common-lines --no-dereference --strip-trailing-cr --left-column",
            numbers=True,
        ),
        _files("Grep"),  # of two folders it compares what is in both
    ),
    "tree": (
        flags(
            "adfDhspugiCnFrtvQNAS",
            "-L:number -I:text -P:text --filelimit:number --sort:text --charset:text",
            "--dirsfirst --noreport --gitignore --prune --du --si --inodes --device --matchdirs --ignore-case",
            one_program=True,
        ),
        _files("LS", or_here=True),
    ),
}
"""Each program with its flags and with what finds the files it reads; others are in `programs.py`."""


def is_exit_status(word: Word) -> bool:
    """Return whether all that is dynamic in `word` is `$?`: digits."""
    return word.dynamic == EXIT_STATUS
