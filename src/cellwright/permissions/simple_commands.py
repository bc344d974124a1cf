"""A bash command that is one simple command, or why it is not.

Only what is certainly one program with fixed words passes: no operator, expansion, redirect, comment or second line.
All else is `NotSimple`, and no allow rule covers it. Nothing here tries to understand more of the shell than that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cellwright.visible_text import unseen_characters

MAX_LENGTH = 10_000
"""Longer commands are not looked at closely enough to be allowed by a rule."""

_TOKEN = re.compile(
    r"""(?P<space>\ +)
    |'(?P<single>[^']*)'
    |"(?P<double>(?:[^"\\$`]|\\.)*)"
    |\\(?P<escaped>.)
    |(?P<glob>[*?\[\]])
    |(?P<plain>[^\ '"\\*?\[\]$`;&|<>(){}]+)
    |(?P<other>&&|\|\||\|&|>>|<<|<\(|>\(|\$\(|.)""",
    re.VERBOSE | re.DOTALL,
)
_WHY = {
    **dict.fromkeys(("&&", "||", ";"), "joins commands with `{}`"),
    **dict.fromkeys(("|", "|&"), "pipes one command into another"),
    "&": "runs a command in the background with `&`",
    **dict.fromkeys((">", ">>", "<", "<<"), "redirects with `{}`"),
    **dict.fromkeys(("$(", "`", "<(", ">("), "runs a command inside another (`{}`)"),
    "$": "has an expansion (`$`), which the shell fills in only when it runs",
    **dict.fromkeys(("{", "}"), "has a brace, which the shell may expand"),
    **dict.fromkeys(("(", ")"), "has a parenthesis"),
    **dict.fromkeys(("'", '"'), "has a quote that is not closed, or an expansion inside quotes"),
    "\\": "ends in a backslash",
}
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(\[.*\])?\+?=")
RESERVED_WORDS = frozenset(
    {
        *(
            "!",
            "[[",
            "]]",
            "{",
            "}",
            "case",
            "coproc",
            "do",
            "done",
            "elif",
            "else",
            "esac",
            "fi",
            "for",
            "function",
            "if",
        ),
        *("in", "select", "then", "time", "until", "while"),
    }
)


class NotSimple(Exception):
    """Why a command is not one simple command: a verb phrase whose subject is the command."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word as the program gets it. `globs` are the places in `text` of wildcards that the shell would expand."""

    text: str
    globs: frozenset[int] = frozenset()

    @property
    def may_become_flag(self) -> bool:
        """Whether file names can turn it into an option: `*` may expand to `-delete`, `src/*` may not."""
        return bool(self.globs) and (0 in self.globs or self.text.startswith("-"))


def read_simple(command: str) -> tuple[Word, ...]:
    """The words of `command`, which is one simple command. Raises NotSimple."""
    words = read_words(command)
    first = words[0]
    if first.text in RESERVED_WORDS:
        raise NotSimple(f"uses the shell's `{first.text}`")
    if _ASSIGNMENT.match(first.text):
        raise NotSimple("sets a variable for the program it runs")
    if first.globs or not first.text:
        raise NotSimple("has a program name that the shell works out only when it runs")
    return words


def read_words(command: str) -> tuple[Word, ...]:
    """Split `command` into words like bash, refusing everything that is more than words. Raises NotSimple."""
    command = command.strip(" \n")
    _refuse_unreadable(command)
    words: list[Word] = []
    text, globs, in_word = "", set[int](), False
    for token in _TOKEN.finditer(command):
        kind = str(token.lastgroup)
        if kind == "space":
            if in_word:
                words.append(Word(text, frozenset(globs)))
            text, globs, in_word = "", set[int](), False
            continue
        if kind == "glob":
            globs.add(len(text))
        text += _value(kind, token[kind], starts_word=not in_word)
        in_word = True
    return (*words, Word(text, frozenset(globs))) if in_word else tuple(words)


def _value(kind: str, found: str, *, starts_word: bool) -> str:
    if kind == "double":
        return re.sub(r'\\(["\\$`])', r"\1", found)
    if kind == "other":
        raise NotSimple(_WHY[found].format(found))
    if kind == "plain" and starts_word and found.startswith("#"):
        raise NotSimple("has a comment")
    return found


def _refuse_unreadable(command: str) -> None:
    if not command:
        raise NotSimple("is empty")
    if len(command) > MAX_LENGTH:
        raise NotSimple(f"is longer than {MAX_LENGTH:,} characters")
    if "\\\n" in command:
        raise NotSimple("continues a line with a backslash")
    if "\n" in command:
        raise NotSimple("has more than one line")
    if unseen := unseen_characters(command):
        raise NotSimple(f"has a character that cannot be seen ({unseen[0]})")
    if not (command.isascii() and command.isprintable()):
        odd = next(character for character in command if not (" " <= character <= "~"))
        raise NotSimple(f"has a character outside ASCII (U+{ord(odd):04X}), which may look like another")
