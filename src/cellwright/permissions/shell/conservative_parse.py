"""A bash command taken apart roughly, for rules that restrict: what it might run, rather too much than too little.

Quotes are ignored, so that `bash -c "a; rm b"`, a comment with an apostrophe or a here-document hides nothing; the
price is that `echo "a; rm b"` counts as running `rm` too. Braces are expanded as bash does: `a{b,c}d` is `abd acd`,
`{1..3}` is `1 2 3`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct

from cellwright.permissions.shell.reading import RESERVED_WORDS
from cellwright.text import lazy_pattern

MAX_WORDS = 200
"""Words that one word is expanded to; the rest is left as it is."""


MAX_REDIRECTS = 100
"""Redirects behind which it is looked for another command."""

_CHOICE = lazy_pattern(r"\{[^{}]*(?:,|\.\.)[^{}]*\}")
_OPEN, _CLOSE = "\x01", "\x02"
"""Braces that stay: there is nothing to choose from between them."""
_BACK = str.maketrans(_OPEN + _CLOSE, "{}")
_INNERMOST = lazy_pattern(r"\{(?P<inside>[^{}]*)\}")
_SEQUENCE = lazy_pattern(r"(?P<first>-?\d{1,6}|[A-Za-z])\.\.(?P<last>-?\d{1,6}|[A-Za-z])(?:\.\.-?\d{1,6})?")


def expanded_braces(text: str) -> tuple[str, bool]:
    """`text`, without quotes, with each word in the place of what bash makes of it, and whether that is all it stands for.

    Steps of sequences are not left out.
    """
    pieces, whole = re.split(r"(\s+)", text), True
    made = 0
    for index, piece in enumerate(pieces):
        if "{" not in piece:
            continue
        # characters of a word; a longer one is no file's name
        # characters that all words together are expanded to
        words = _expanded(piece) if len(piece) <= 2_000 and made < 8_000 else [piece]
        # where no brace is left, each has been expanded
        whole = whole and len(words) < MAX_WORDS and (len(words) > 1 or not _CHOICE.search(words[0]))
        pieces[index] = " ".join(words)
        made += len(pieces[index])
    return "".join(pieces), whole


def _expanded(word: str) -> list[str]:
    # the innermost braces first: the order of the words is another than bash's, the words are the same
    words, done = [word], list[str]()
    while words and len(words) + len(done) < MAX_WORDS:
        first = words.pop()
        found = _INNERMOST.search(first)
        if found is None:
            done.append(first)
            continue
        words += [first[: found.start()] + each + first[found.end() :] for each in _alternatives(found["inside"])]
    return [word.translate(_BACK) for word in (*done, *words)]


def _alternatives(inside: str) -> list[str]:
    if "," in inside:
        return inside.split(",")
    sequence = _SEQUENCE.fullmatch(inside)
    if sequence is None or sequence["first"].isalpha() != sequence["last"].isalpha():
        return [f"{_OPEN}{inside}{_CLOSE}"]
    first, last = sequence["first"], sequence["last"]
    one, other = (ord(first), ord(last)) if first.isalpha() else (int(first), int(last))
    low, high = min(one, other), max(one, other)
    return [chr(each) if first.isalpha() else str(each) for each in range(low, min(high, low + MAX_WORDS) + 1)]


SHELLS = frozenset({"ash", "bash", "csh", "dash", "fish", "ksh", "sh", "zsh"})
WRAPPERS = SHELLS | {
    *(
        "builtin",
        "busybox",
        "chroot",
        "chrt",
        "command",
        "coproc",
        "doas",
        "env",
        "eval",
        "exec",
        "flock",
        "gosu",
        "ionice",
    ),
    *("nice", "nohup", "nsenter", "parallel", "proot", "runuser", "script", "setsid", "sg", "stdbuf", "strace", "su"),
    *("sudo", "systemd-run", "taskset", "time", "timeout", "unshare", "watch", "xargs"),
}
"""Programs that run the command in their arguments, here and now."""
RUNNERS = WRAPPERS | {
    *("conda", "docker", "fd", "find", "kubectl", "npx", "pipenv", "podman", "poetry", "ssh", "tmux", "uv", "uvx"),
}
"""Programs whose arguments may hold another command among other things."""

_CONTINUATION = lazy_pattern(r"\\\r?\n")
_QUOTES = lazy_pattern(r"\$(?=['\"])|['\"\\]")
_ANSI_QUOTED = lazy_pattern(r"\$'(?P<text>(?:[^'\\]|\\.)*)'", re.DOTALL)
_ESCAPE = lazy_pattern(
    r"\\(?:x(?P<hex>[0-9a-fA-F]{1,2})|u(?P<u>[0-9a-fA-F]{1,4})|U(?P<U>[0-9a-fA-F]{1,8})|(?P<oct>[0-7]{1,3}))"
)
_REDIRECT = lazy_pattern(
    r"(?:\b\d{1,5})?(?:&>>?|>>|>\||>&|<<<|<<-?|<>|<&|>(?!\()|<(?!\())[ \t]*(?P<target>[^\s;&|<>()]*)"
)
_SEPARATOR = lazy_pattern(r"\$?\(|&&|\|\||\|&|[;&|\n\r()`{}]")
_AFTER_REDIRECT = lazy_pattern(r"[<>]+[&|]?")
_ASSIGNMENT = lazy_pattern(r"[A-Za-z_]\w*(\[[^\]]*\])?\+?=")
_STRIPPED_WORDS = RESERVED_WORDS - WRAPPERS
_PATH_PIECES = lazy_pattern(r"[=:@,]")


class PossibleCommand(Struct, frozen=True):
    """One thing the command may run: its words without quotes. `anywhere`: the program may be any of them."""

    words: tuple[str, ...]
    anywhere: bool = False

    @property
    def program(self) -> str:
        """The name of the program without its folder, in lower case (macOS runs `RM` as `rm`)."""
        return self.words[0].rpartition("/")[2].lower()

    @property
    def runs_another(self) -> bool:
        return self.anywhere or self.program in RUNNERS

    @property
    def opaque(self) -> bool:
        """True when what it runs is only known once it runs."""
        if self.program in ("eval", "source", ".") or (self.program in SHELLS and len(self.words) == 1):
            return True
        if self.program in WRAPPERS:
            return any("$" in word for word in self.words)
        # a bracket alone is the program, or the word, that tests something
        test = self.words[0] in ("[", "[[")
        return not self.anywhere and not test and re.search(r"[$*?\[]", self.words[0]) is not None

    @property
    def spellings(self) -> tuple[str, ...]:
        """The part as text: as written, and with the bare name of its program."""
        return " ".join(self.words), " ".join((self.program, *self.words[1:]))


class ConservativeParse(Struct, frozen=True):
    """The commands that might run (`parts`), and the files redirected to or from. `text`: the whole, normalised."""

    text: str
    parts: tuple[PossibleCommand, ...]
    redirects: tuple[str, ...]
    whole: bool = True
    """False where it has more redirects, or braces stand for more words, than are looked at."""
    spellings: tuple[tuple[str, bool], ...] = ()
    """The parts as text, each with whether it may run another."""

    @property
    def words(self) -> tuple[str, ...]:
        """Everything in it that may be the name of a file, each once."""
        pieces = (piece for part in self.parts for word in part.words for piece in path_pieces(word))
        return tuple(dict.fromkeys((*pieces, *self.redirects)))


@lru_cache(maxsize=16)  # one command is looked at from several sides
def parse_conservatively(command: str) -> ConservativeParse:
    """Take `command` apart. Never fails: what is not understood stays in a part as it is."""
    written = _CONTINUATION.sub("", command)
    bare, whole = _QUOTES.sub("", written), True
    if "{" in bare or "$'" in written:
        # what bash makes of `{a,b}` and `$'\x61'` counts besides what is written
        decoded = _QUOTES.sub("", _ANSI_QUOTED.sub(_decoded, written))
        expanded, whole = expanded_braces(decoded)
        bare = f"{bare}\n{expanded}"
    redirects = tuple(dict.fromkeys(found["target"] for found in _REDIRECT.finditer(bare) if found["target"]))
    parts = dict.fromkeys(_parts(_REDIRECT.sub(" ", bare)))
    if redirects:
        # a quoted target may have had blanks: `>"a b" rm x`
        behind = list(dict.fromkeys(_AFTER_REDIRECT.split(bare)[1:]))
        whole = whole and len(behind) <= MAX_REDIRECTS
        for text in behind[:MAX_REDIRECTS]:
            parts.update(dict.fromkeys(PossibleCommand(part.words, anywhere=True) for part in _parts(text)))
    spellings = dict.fromkeys((text, part.runs_another) for part in parts for text in part.spellings)
    return ConservativeParse(normal_text(command), tuple(parts), redirects, whole, tuple(spellings))


def normal_text(command: str) -> str:
    """`command` without quotes and with single spaces, as rules that restrict are compared."""
    return " ".join(_QUOTES.sub("", _CONTINUATION.sub("", command)).split())


def _decoded(quoted: re.Match[str]) -> str:
    return _ESCAPE.sub(_character, quoted["text"])


def _character(escape: re.Match[str]) -> str:
    digits = escape["hex"] or escape["u"] or escape["U"]
    code = int(digits, 16) if digits else int(escape["oct"], 8) & 0xFF
    return chr(code) if code <= sys.maxunicode else escape[0]


def _parts(text: str) -> Iterator[PossibleCommand]:
    for piece in dict.fromkeys(_SEPARATOR.split(text)):
        words = piece.split()
        assigned = False
        while words and (words[0] in _STRIPPED_WORDS or _ASSIGNMENT.match(words[0])):
            assigned = assigned or "=" in words[0]
            del words[0]
        if words:
            # a quoted value may have had blanks: `A="b c" rm x`
            yield PossibleCommand(tuple(words), anywhere=assigned)
            if "," in words[0] and (expanded := words[0].replace(",", " ").split()):
                # braces: `{rm,-rf,x}`
                yield PossibleCommand((*expanded, *words[1:]), anywhere=assigned)


def path_pieces(word: str) -> Iterator[str]:
    """Everything in `word` that may be the name of a file: `of=x`, `host:x`, `@x`, `-fx`."""
    yield word
    for piece in _PATH_PIECES.split(word):
        if piece:
            yield piece
    if word.startswith("-") and len(word) > 2:
        yield word[2:]
