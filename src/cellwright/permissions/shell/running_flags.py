"""Flags by which a program runs another one, or writes where nobody looks: a wildcard in a rule does not mean them.

`Bash(git log *)` and `Bash(tar *)` are said of logs and archives; `git log --output=x` and `tar --to-command=x` have
to be in the rule word for word, as `find -exec` has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from cellwright.permissions.shell.read_only.git import GLOBAL_WITH_VALUE
from cellwright.permissions.shell.read_only.repositories import is_plain_setting
from cellwright.text import lazy_pattern

MIN_ABBREVIATION = 4
"""Characters: programs take `--outp` for `--output`."""


class _Running(Struct, frozen=True):
    """Long flags, which may be shortened, and what else is such a flag, as a pattern."""

    long: tuple[str, ...] = ()
    other: re.Pattern[str] = lazy_pattern(r"(?!)")
    whole: tuple[str, ...] = ()
    """Other flags of the program, which are no shortened ones."""

    def has(self, argument: str) -> bool:
        name = argument.partition("=")[0]
        shortened = (
            len(name) >= MIN_ABBREVIATION
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
