"""The words of a command, each with the value that its program gets.

Only what bash certainly reads the same way passes; all else is `Unreadable`, and nothing allows it. That includes
commands with characters that are unseen or look like others, or with too many. A word that gets its value only when
it runs (`$x`, `$(…)`) is marked `dynamic`. Where a word begins and what is between words is found in `reading.py`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from cellwright.text import lazy_pattern, unseen_characters

MAX_LENGTH = 10_000
"""Longer commands are not looked at closely enough to be allowed by a rule."""


def unreadable_characters(command: str) -> str:
    """Explain in a verb phrase why the characters of `command` cannot be read with certainty; "" where they can."""
    if len(command) > MAX_LENGTH:
        return f"is longer than {MAX_LENGTH:,} characters"
    if "\\\n" in command:
        return "continues a line with a backslash"
    if command.isascii() and command.isprintable():
        return ""
    if unseen := unseen_characters(command):
        return f"has a character that cannot be seen ({unseen[0]})"
    if not command.isascii() and (odd := _lookalike(command)):
        return f"has a character (U+{ord(odd):04X}) that may look like another"
    return ""


def _lookalike(text: str) -> str:
    """The first character that some system takes for another, or that hides among letters of another script."""
    if not unicodedata.is_normalized("NFC", text):
        return next(character for character in text if not character.isascii())
    for word in re.finditer(r"\w+", text):
        run = word[0]
        if run.isascii():
            continue
        latin = any(character.isascii() and character.isalpha() for character in run)
        for character in run:
            foreign = latin and not character.isascii() and "LATIN" not in unicodedata.name(character, "")
            if foreign or not unicodedata.is_normalized("NFKC", character):
                return character
    return ""


FOLLOWED_KEYWORDS = frozenset(
    {"!", "{", "}", "do", "done", "elif", "else", "fi", "for", "if", "in", "then", "until", "while"}
)
"""The reserved words that are followed."""
RESERVED_WORDS = FOLLOWED_KEYWORDS | {"[[", "]]", "case", "coproc", "esac", "function", "select", "time"}
ASSIGNMENT = lazy_pattern(r"[A-Za-z_]\w*(\[.*\])?\+?=", re.ASCII)
PIPE_FILE = "/dev/fd/63"
"""The file that `<(…)` is to the program that gets it."""
EXIT_STATUS = "exit status"
"""The reason why a word with `$?` is dynamic: digits, whatever happens."""
SUBSTITUTION = "runs a command inside another (`$(`)"
"""The reason why a word with `"$(…)"` is dynamic; the command is read like any other."""
UNQUOTED_SUBSTITUTION = "has what a command prints (`$(`) expanded once more, since it is not in quotes"
"""The reason why a word with `$(…)` outside quotes is dynamic: a `*` in what is printed lists any folder."""
QUOTED_IN_BRACKETS = "has a quote or a backslash behind a `[`, so that it is not certain which names it stands for"
"""The reason why `a[\'b]` is dynamic: bash and who reads after it differ about what such brackets match."""

REDIRECT = lazy_pattern(r"\d{0,5}(?P<operator>&>>|&>|>>|>\||>&|<<<|<<-?|<>|<&|>(?!\()|<(?!\())")
OPERATOR = lazy_pattern(r"&&|\|\||\|&|;;&?|;&|[|&;()\n]")
_PIECE = lazy_pattern(
    r"""'(?P<single>[^']*)'
    |"(?P<double>(?:[^"\\$`]|\\.)*)"
    |\\(?P<escaped>[ -~])
    |(?P<glob>[*?\[\]])
    |(?P<brace>[{}]|,|\.\.)
    |(?P<plain>(?:(?!\.\.)[^\s'"\\*?\[\]$`;&|<>(){},\x80-\U0010ffff])+)""",
    re.VERBOSE | re.DOTALL,
)
_QUOTED_TEXT = lazy_pattern(r'(?:[^"\\$`]|\\.)+', re.DOTALL)
_ESCAPED = lazy_pattern(r'\\(["\\$`])')
_VARIABLE = lazy_pattern(r"\$(?:(?P<status>[?#])|\{\w+\}|\w+|[$!@*-])", re.ASCII)
_LONE_DOLLAR = lazy_pattern(r'\$(?=["\s/.,|)\\]|\Z)')
_WHY = {
    "`": "runs a command inside another (`` ` ``)",
    "$((": "calculates (`$((`)",
    "$[": "calculates (`$[`)",
    "${": "has an expansion (`${`) that is more than a variable",
    "$'": "has a quote (`$'`) that hides what it says",
    '$"': 'has a quote (`$"`) that is translated',
    ">(": "runs a command inside another (`>(`)",
    "(": "has a parenthesis",
    ")": "has a parenthesis",
    **dict.fromkeys((";;", ";&", ";;&"), "uses the shell's `case`"),
    **dict.fromkeys(("'", '"'), "has a quote that is not closed"),
    "\\": "ends in a backslash",
}


class Unreadable(Exception):
    """A command that cannot be read with certainty: the message is a verb phrase whose subject is the command."""


class Word(Struct, frozen=True):
    """One word as the program gets it. `globs` are the places in `text` of wildcards that the shell would expand.

    `dynamic`: why its value shows only when it runs ("" when `text` is the value). `raw`: as it was written.
    """

    text: str
    globs: frozenset[int] = frozenset()
    dynamic: str = ""
    raw: str = ""

    @property
    def may_become_flag(self) -> bool:
        """True when file names can turn it into an option: `*` may expand to `-delete`, `src/*` may not."""
        return bool(self.globs) and (0 in self.globs or self.text.startswith("-"))


class Substitution(Struct, frozen=True):
    """A command in a word, `$(…)` or `<(…)`: where its text ends, and the text that it is known to print."""

    end: int
    printed: str | None = None


NO_SUBSTITUTIONS: Mapping[int, Substitution] = MappingProxyType({})


def read_words(text: str) -> tuple[Word, ...]:
    """The words of `text`, which holds nothing else: what a rule's pattern is made of. Raises Unreadable."""
    text = text.strip(" \n")
    if not text:
        raise Unreadable("is empty")
    if why := unreadable_characters(text):
        raise Unreadable(why)
    words: list[Word] = []
    at = 0
    while (at := _after_blanks(text, at)) < len(text):
        if text[at] == "#":
            if words:
                break
            raise Unreadable("has a comment and nothing else")
        if (found := REDIRECT.match(text, at)) or (found := OPERATOR.match(text, at)):
            signs = f"joins commands, redirects or has a parenthesis (`{found[0]}`)"
            raise Unreadable("has more than one line" if found[0] == "\n" else signs)
        word, at = word_at(text, at)
        if word.dynamic:
            raise Unreadable(word.dynamic)
        words.append(word)
    return tuple(words)


def word_at(text: str, at: int, inner: Mapping[int, Substitution] = NO_SUBSTITUTIONS) -> tuple[Word, int]:
    """The word that begins at `at`, and where it ends; `inner` are the commands in it, by where they begin."""
    return _WordReader(text, at, inner).read()


class _WordReader:
    """The position in `text` that reading a word has come to."""

    def __init__(self, text: str, at: int, inner: Mapping[int, Substitution]) -> None:
        self.text = text
        self.at = at
        self.inner = inner

    def read(self) -> tuple[Word, int]:
        start = self.at
        if self.text.startswith("#", start):
            raise Unreadable("has a comment where a word should be")
        if self.text.startswith("<(", start):
            return self._pipe_file(), self.at
        text, globs, dynamic, braces = "", set[int](), "", ""
        bracket = False
        while not ends_word(self.text, self.at):
            if bracket and self.text[self.at] in "'\"\\$":
                dynamic = _stronger(dynamic, QUOTED_IN_BRACKETS)
            found = _PIECE.match(self.text, self.at)
            if found is None:
                value, why = self._special()
                dynamic = _stronger(dynamic, why)
                text += value
                continue
            self.at = found.end()
            if found["glob"]:
                globs.add(len(text))
                bracket = bracket or found["glob"] == "["
            braces += found["brace"] or ""
            double = found["double"]
            text += found[str(found.lastgroup)] if double is None else _ESCAPED.sub(r"\1", double)
        raw = self.text[start : self.at]
        if raw.startswith("{") and self.text[self.at : self.at + 1] in ("<", ">"):
            raise Unreadable("redirects to a variable")
        if "{" in braces and ("," in braces or ".." in braces):
            dynamic = "has braces, which the shell expands"
        # alone it is the program `[`, or what ends it
        places = frozenset() if text in ("[", "]") else frozenset(globs)
        return Word(text, places, dynamic, raw), self.at

    def _pipe_file(self) -> Word:
        start = self.at
        if start not in self.inner:
            raise Unreadable(UNQUOTED_SUBSTITUTION)
        self.at = self.inner[start].end
        if not ends_word(self.text, self.at):
            raise Unreadable("has a parenthesis in a word")
        return Word(PIPE_FILE, raw=self.text[start : self.at])

    def _special(self) -> tuple[str, str]:
        """A piece that is no fixed text: its text as far as it is known, and why it is dynamic ("" when it is not)."""
        if self.text[self.at] != '"':
            return self._dollar(quoted=False)
        self.at += 1
        text, dynamic = "", ""
        while not self.text.startswith('"', self.at):
            if found := _QUOTED_TEXT.match(self.text, self.at):
                text += _ESCAPED.sub(r"\1", found[0])
                self.at = found.end()
            elif self.at >= len(self.text):
                raise Unreadable(_WHY['"'])
            else:
                value, why = self._dollar(quoted=True)
                text += value
                dynamic = _stronger(dynamic, why)
        self.at += 1
        return text, dynamic

    def _dollar(self, *, quoted: bool) -> tuple[str, str]:
        start, text = self.at, self.text
        if text.startswith("$(", start) and not text.startswith("$((", start):
            if start not in self.inner:
                raise Unreadable(SUBSTITUTION)
            self.at, printed = self.inner[start].end, self.inner[start].printed
            if quoted and printed is not None:
                return printed, ""
            return "", SUBSTITUTION if quoted else UNQUOTED_SUBSTITUTION
        if found := _VARIABLE.match(text, start):
            self.at = found.end()
            if found["status"]:
                return found[0], EXIT_STATUS
            return found[0], f"has an expansion (`{found[0]}`), which the shell fills in only when it runs"
        if quoted and (found := _LONE_DOLLAR.match(text, start)):
            self.at += 1
            return "$", ""
        if not text[start].isascii():
            raise Unreadable(f"has a character outside ASCII (U+{ord(text[start]):04X}) that is not quoted")
        why = next((why for opening, why in _WHY.items() if text.startswith(opening, start)), None)
        raise Unreadable(why or f"has `{text[start : start + 2]}` in a word")


def _stronger(one: str, other: str) -> str:
    """Of two reasons why a word is dynamic, the one that says less about what it may become."""
    weak = ("", EXIT_STATUS, SUBSTITUTION)
    rank = {reason: index for index, reason in enumerate(weak)}
    return other if rank.get(other, len(weak)) > rank.get(one, len(weak)) else one


def _after_blanks(text: str, at: int) -> int:
    while text.startswith(" ", at):
        at += 1
    return at


def ends_word(text: str, at: int) -> bool:
    """Return whether a word in `text` that has come to `at` ends there."""
    if at >= len(text):
        return True
    if text[at] == "\t":
        raise Unreadable("has a tab between words")
    return text[at] in " \n;&|<>()"
