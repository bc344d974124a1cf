"""The options of a program, and its arguments taken apart by them: only what is known to be harmless is taken at all."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from cellwright.permissions.shell.reading import Word
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
