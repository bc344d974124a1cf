"""The pattern in `Bash(...)`: exact, or with `*` for anything; a trailing ` *` (or the older `:*`) ends at a word.

`GrantedCommand` matches simple commands word by word, `RestrictedCommand` the text of anything a command might run.

A wildcard does not mean flags by which a program runs another one, or writes where nobody looks: `Bash(git log *)` and
`Bash(tar *)` are said of logs and archives; `git log --output=x` and `tar --to-command=x` have to be in the rule word for
word, as `find -exec` has (`runs_or_writes`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from cellwright.permissions.rules.name_pattern import glob_match
from cellwright.permissions.shell.conservative_parse import SHELLS, WRAPPERS, ConservativeParse, normal_text
from cellwright.permissions.shell.git import GLOBAL_WITH_VALUE, is_plain_setting
from cellwright.permissions.shell.reading import ASSIGNMENT, RESERVED_WORDS, Unreadable, Word, read_words
from cellwright.text import lazy_pattern

_CHANGES_SHELL = frozenset(
    {
        *("alias", "declare", "enable", "export", "hash", "let", "local", "mapfile", "read", "readarray", "readonly"),
        *("set", "shopt", "trap", "typeset", "unset"),
    }
)
"""Builtins that change what the commands after them do."""
EXACT_ONLY = (WRAPPERS | {"source", "."} | _CHANGES_SHELL) - SHELLS - {"sudo", "doas"}
"""Programs that run another: a wildcard behind them allows more than it says. Behind a shell or sudo it says it all."""
_FIND_ACTIONS = ("-exec", "-ok", "-delete", "-fprint", "-fls")
# between the words of a simple command; no word holds it, control characters are refused
_GAP = "\0"


class GrantedCommand(Struct, frozen=True):
    """A `Bash(...)` pattern that allows. `pieces`: the text between its wildcards. `problem`: why it allows nothing."""

    pieces: tuple[str, ...]
    whole_words: bool = False
    problem: str = ""

    @classmethod
    def read(cls, specifier: str) -> GrantedCommand:
        """Compile `specifier`; never fails."""
        specifier = _without_colon(specifier)
        try:
            words = read_words(specifier)
        except Unreadable as why:
            return cls((), problem=f"rules allow single commands, and this pattern {why}")
        program = next((word for word in words if word.globs or not ASSIGNMENT.match(word.raw)), words[0])
        if any(program.text[place] == "*" for place in program.globs) and specifier.strip() != program.text:
            return cls((), problem="its program is a wildcard, which would allow any program")
        if program.text.startswith("*") or (program.globs and ASSIGNMENT.match(program.raw)):
            return cls((), problem="it starts with a wildcard, which would allow any program")
        pieces = _pieces(words)
        return cls(pieces, whole_words=len(pieces) > 1 and pieces[-1] == "" and pieces[-2].endswith(_GAP))

    @property
    def is_exact(self) -> bool:
        return len(self.pieces) == 1

    @property
    def takes_more(self) -> bool:
        """True when any further arguments fall under the pattern, too."""
        return len(self.pieces) > 1 and self.pieces[-1] == ""

    def covers(self, words: Sequence[Word], assignments: Sequence[Word] = ()) -> bool:
        """Return whether the simple command made of `words` falls under the pattern as a whole.

        Variables that it sets (`assignments`) must stand in the pattern, as must the program behind them.
        """
        if assignments and words:
            start = _GAP.join(word.text for word in (*assignments, words[0]))
            if not self.pieces or not self.pieces[0].startswith(start):
                return False
        return self._covers((*assignments, *words))

    def _covers(self, words: Sequence[Word]) -> bool:
        if self.problem or not words:
            return False
        program = words[0]
        # most rules are about another program: their text and the command's cannot begin alike
        first = self.pieces[0]
        if not (first.startswith(program.text) or program.text.startswith(first)):
            return False
        if any(word.dynamic or word.may_become_flag for word in words):
            return False
        if program.globs or not program.text or program.raw in RESERVED_WORDS - {"time"}:
            return False
        if not self.is_exact and _exact_only(words):
            return False
        text = _GAP.join(word.text for word in words)
        return glob_match(self.pieces, text + _GAP if self.whole_words else text)


class RestrictedCommand(Struct, frozen=True):
    """A `Bash(...)` pattern that denies or asks."""

    pieces: tuple[str, ...]

    @classmethod
    def read(cls, specifier: str) -> RestrictedCommand:
        """Compile `specifier`; never fails."""
        specifier = _without_colon(specifier)
        text = normal_text(specifier)
        return cls(tuple(text.split("*")))

    def touches(self, command: ConservativeParse) -> bool:
        """Return whether anything that `command` might run falls under the pattern."""
        if self._matches(command.text):
            return True
        return any(
            self._matches(text) or (runs_another and self._matches_within(text))
            for text, runs_another in command.spellings
        )

    def _matches(self, text: str) -> bool:
        whole_words = len(self.pieces) > 1 and self.pieces[-1] == "" and self.pieces[-2].endswith(" ")
        return glob_match(self.pieces, f"{text} " if whole_words else text)

    def _matches_within(self, text: str) -> bool:
        # from any word on: in `sudo -u x rm y` the command is `rm y`; in `env /bin/rm y` too
        first, *rest = self.pieces
        ending = rest or [""]
        first = first if rest else f"{first} "
        return any(RestrictedCommand(("", f"{before}{first}", *ending))._matches(text) for before in (" ", "/"))


def _without_colon(specifier: str) -> str:
    return f"{specifier.removesuffix(':*')} *" if specifier.endswith(":*") else specifier


def _pieces(words: Sequence[Word]) -> tuple[str, ...]:
    pieces = [""]
    for index, word in enumerate(words):
        if index:
            pieces[-1] += _GAP
        for place, character in enumerate(word.text):
            if character == "*" and place in word.globs:
                pieces.append("")
            else:
                pieces[-1] += character
    return tuple(pieces)


def _exact_only(words: Sequence[Word]) -> bool:
    start = next((index for index, word in enumerate(words) if not ASSIGNMENT.match(word.raw)), 0)
    program = words[start].text.rpartition("/")[2]
    arguments = [word.text for word in words[start + 1 :]]
    if program == "find":
        return any(argument.startswith(_FIND_ACTIONS) for argument in arguments)
    return program in EXACT_ONLY or runs_or_writes(program, arguments)


class _Running(Struct, frozen=True):
    """Long flags, which may be shortened, and what else is such a flag, as a pattern."""

    long: tuple[str, ...] = ()
    other: re.Pattern[str] = lazy_pattern(r"(?!)")
    whole: tuple[str, ...] = ()
    """Other flags of the program, which are no shortened ones."""

    def has(self, argument: str) -> bool:
        name = argument.partition("=")[0]
        shortened = (
            len(name) >= 4  # programs take `--outp` for `--output`
            and name not in self.whole
            and any(flag.startswith(name) for flag in self.long)
        )
        return shortened or self.other.fullmatch(argument) is not None


_SSH = lazy_pattern(
    r"(-o)?\s*(proxycommand|localcommand|permitlocalcommand|knownhostscommand|proxyusefdpass)\b.*", re.IGNORECASE
)


_TAR = _Running(
    (
        *("--to-command", "--use-compress-program", "--checkpoint-action", "--info-script", "--new-volume-script"),
        *("--rsh-command", "--rmt-command"),
    ),
    lazy_pattern(r"-[IF].*|-[A-Za-z]*I"),
)


_FLAGS: Mapping[str, _Running] = {
    "git": _Running(
        (
            *("--output", "--ext-diff", "--textconv", "--open-files-in-pager", "--upload-pack", "--receive-pack"),
            *("--exec", "--exec-path", "--config-env"),
        ),
        lazy_pattern(r"-O.*"),
        whole=("--text",),
    ),
    **dict.fromkeys(("tar", "gtar", "bsdtar"), _TAR),
    "rsync": _Running(("--rsh", "--rsync-path"), lazy_pattern(r"-[A-Za-z]*e.*")),
    **dict.fromkeys(("ssh", "scp", "sftp"), _Running((), _SSH)),
    "sort": _Running(("--compress-program",)),
    "split": _Running(("--filter",)),
    "rg": _Running(("--pre", "--hostname-bin")),
    "fd": _Running(("--exec", "--exec-batch"), lazy_pattern(r"-[xX].*")),
    "man": _Running(("--pager", "--html", "--browser"), lazy_pattern(r"-[PH].*")),
    **dict.fromkeys(("less", "more"), _Running((), lazy_pattern(r"\+.*"))),
    "zip": _Running(("--unzip-command",), lazy_pattern(r"-TT.*")),
}


def runs_or_writes(program: str, arguments: Sequence[str]) -> bool:
    """Return whether `program` gets a flag that has it run another program, or write beside its output."""
    known = _FLAGS.get(program)
    if known is None:
        return False
    if program == "git" and not all(map(is_plain_setting, _settings(arguments))):
        return True
    return any(map(known.has, arguments))


def _settings(arguments: Sequence[str]) -> Iterator[str]:
    """Yield what stands behind each `-c` in front of the subcommand, where it is a setting."""
    left = iter(arguments)
    for argument in left:
        if not argument.startswith("-"):
            return
        value = next(left, "") if argument in GLOBAL_WITH_VALUE else ""
        if argument == "-c":
            yield value
