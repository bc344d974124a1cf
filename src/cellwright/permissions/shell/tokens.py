"""A bash command read carefully into words and operators: every word with the value its program gets.

Only what bash certainly reads the same way passes; all else is `Unreadable`, and nothing allows it. That includes
commands with characters that are unseen or look like others, or with too many. A word that gets its value only when
it runs (`$x`, `$(…)`) is marked `dynamic`; the commands in a substitution are read like any others.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

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


MAX_TOKENS = 1_000
"""Words and operators, those in substitutions included."""
MAX_DEPTH = 10

_READ_KEYWORDS = frozenset(
    {"!", "{", "}", "do", "done", "elif", "else", "fi", "for", "if", "in", "then", "until", "while"}
)
RESERVED_WORDS = _READ_KEYWORDS | {"[[", "]]", "case", "coproc", "esac", "function", "select", "time"}
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

_REDIRECT = lazy_pattern(r"\d{0,5}(?P<operator>&>>|&>|>>|>\||>&|<<<|<<-?|<>|<&|>(?!\()|<(?!\())")
_OPERATOR = lazy_pattern(r"&&|\|\||\|&|;;&?|;&|[|&;()\n]")
_SKIPPED = lazy_pattern(r" +|(?<![^\s;&|()])#[^\n]*")
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
_DELIMITER = lazy_pattern(r"""(?P<quote>['"]?)(?P<word>\w+)(?P=quote)(?=[\s;&|<>()])""", re.ASCII)
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


Kind = Literal["word", "keyword", "operator", "redirect", "end"]


class Token(Struct, frozen=True):
    """A piece of a command. `inner`: what the substitutions in a word run. `end` is a `;` or the end of a line."""

    kind: Kind
    text: str
    start: int
    end: int
    word: Word | None = None
    inner: tuple[tuple[Token, ...], ...] = ()


def read_tokens(command: str) -> tuple[Token, ...]:
    """The tokens of `command`, in order. Raises Unreadable."""
    if why := unreadable_characters(command):
        raise Unreadable(why)
    return _Reader(command).read()


def read_words(text: str) -> tuple[Word, ...]:
    """The words of `text`, which holds nothing else: what a rule's pattern is made of. Raises Unreadable."""
    text = text.strip(" \n")
    if not text:
        raise Unreadable("is empty")
    words = []
    for token in read_tokens(text):
        if token.word is None:
            if token.kind != "keyword":
                raise Unreadable(_more_than_words(token.text))
            words.append(Word(token.text, raw=token.text))
        elif token.kind == "redirect":
            raise Unreadable(f"redirects with `{token.text}`")
        elif token.word.dynamic:
            raise Unreadable(token.word.dynamic)
        else:
            words.append(token.word)
    if not words:
        raise Unreadable("has a comment and nothing else")
    return tuple(words)


def _more_than_words(operator: str) -> str:
    match operator:
        case "&&" | "||" | ";":
            return f"joins commands with `{operator}`"
        case "|" | "|&":
            return "pipes one command into another"
        case "&":
            return "runs a command in the background with `&`"
        case "\n":
            return "has more than one line"
        case _:
            return f"has a parenthesis or redirects (`{operator}`)"


class _Reader:
    """The position that reading has come to in the text, and what it has found."""

    def __init__(self, text: str, at: int = 0, depth: int = 0) -> None:
        self.text = text
        self.at = at
        self.depth = depth
        self.tokens: list[Token] = []
        self.inner_tokens = 0
        self.heredocs: list[int] = []
        self.parentheses = 0
        self.in_command = False  # a word has been read, so reserved words are words
        self.for_header = 0
        if depth > MAX_DEPTH:
            raise Unreadable("is nested too deeply")

    def read(self, *, inner: bool = False) -> tuple[Token, ...]:
        """All tokens to the end of the text; in a substitution (`inner`) to the parenthesis that closes it."""
        while True:
            while skipped := _SKIPPED.match(self.text, self.at):
                self.at = skipped.end()
            if self.at >= len(self.text):
                if inner or self.heredocs or self.parentheses:
                    raise Unreadable("does not close what it opens")
                return tuple(self.tokens)
            if inner and self.text[self.at] == ")" and not self.parentheses:
                self.at += 1
                return tuple(self.tokens)
            if len(self.tokens) + self.inner_tokens > MAX_TOKENS:
                raise Unreadable("has too many parts")
            if found := _REDIRECT.match(self.text, self.at):
                self._redirect(found)
            elif found := _OPERATOR.match(self.text, self.at):
                self._operator(found[0])
            else:
                self._word()

    def _operator(self, operator: str) -> None:
        start, self.at = self.at, self.at + len(operator)
        if operator in _WHY and operator not in "()":
            raise Unreadable(_WHY[operator])
        if operator == "(" and (self.in_command or self.for_header or self.text.startswith("(", self.at)):
            raise Unreadable("has a parenthesis in a word, defines a function or calculates")
        self.parentheses += {"(": 1, ")": -1}.get(operator, 0)
        if self.parentheses < 0:
            raise Unreadable("closes a parenthesis that it did not open")
        self.in_command = operator == ")"
        self.for_header = 0
        self.tokens.append(Token("end" if operator in ";\n" else "operator", operator, start, self.at))
        if operator == "\n" and self.heredocs:
            self._heredoc_bodies()

    def _redirect(self, found: re.Match[str]) -> None:
        start, operator = self.at, found["operator"]
        self.at = found.end()
        self.in_command = True
        if operator == "<<-":
            raise Unreadable("strips tabs from its text (`<<-`)")
        if operator == "<<":
            self.at = _after_blanks(self.text, self.at)
            delimiter = _DELIMITER.match(self.text, self.at)
            if delimiter is None:
                raise Unreadable("has a text (`<<`) whose end is not a plain word")
            self.heredocs.append(len(self.tokens))
            word = Word(delimiter["word"], dynamic="" if delimiter["quote"] else "unquoted", raw=delimiter[0])
            self.tokens.append(Token("redirect", found[0], start, delimiter.end(), word))
            self.at = delimiter.end()
            return
        self.at = _after_blanks(self.text, self.at)
        if self.at >= len(self.text) or _OPERATOR.match(self.text, self.at) or _REDIRECT.match(self.text, self.at):
            raise Unreadable("redirects to nothing")
        word, inner = self._read_word()
        self.tokens.append(Token("redirect", found[0], start, self.at, word, inner))

    def _heredoc_bodies(self) -> None:
        for index in self.heredocs:
            token = self.tokens[index]
            assert token.word is not None
            closing = re.compile(rf"^{re.escape(token.word.text)}$", re.MULTILINE).search(self.text, self.at)
            if closing is None:
                raise Unreadable(f"has a text that its `{token.word.text}` does not end")
            body, self.at = self.text[self.at : closing.start()], closing.end()
            if token.word.dynamic and re.search(r"[$`\\]", body):
                raise Unreadable("has an expansion in a text (`<<`), which the shell fills in only when it runs")
            self.tokens[index] = replace(token, word=Word(body, raw=token.word.raw))
        self.heredocs.clear()

    def _word(self) -> None:
        start = self.at
        word, inner = self._read_word()
        raw = word.raw
        if not self.in_command and raw in _READ_KEYWORDS and (raw != "in" or self.for_header == 2):
            self.tokens.append(Token("keyword", raw, start, self.at))
            # `for x in a b`: the name and the values are words, `in` between them is not
            self.for_header = 1 if raw == "for" else 0
            self.in_command = raw in ("in", "}", "fi", "done")
            return
        if not self.in_command and raw in RESERVED_WORDS and raw != "time":
            raise Unreadable(f"uses the shell's `{raw}`")
        self.tokens.append(Token("word", raw, start, self.at, word, inner))
        if self.for_header == 1:
            self.for_header = 2
        else:
            self.in_command = True

    def _read_word(self) -> tuple[Word, tuple[tuple[Token, ...], ...]]:
        start = self.at
        if self.text.startswith("#", start):
            raise Unreadable("has a comment where a word should be")
        if self.text.startswith("<(", start):
            return self._pipe_file()
        text, globs, dynamic, braces = "", set[int](), "", ""
        bracket = False
        inner: list[tuple[Token, ...]] = []
        while not _ends_word(self.text, self.at):
            if bracket and self.text[self.at] in "'\"\\$":
                dynamic = _stronger(dynamic, QUOTED_IN_BRACKETS)
            found = _PIECE.match(self.text, self.at)
            if found is None:
                value, why = self._special(inner)
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
        return Word(text, places, dynamic, raw), tuple(inner)

    def _pipe_file(self) -> tuple[Word, tuple[tuple[Token, ...], ...]]:
        start = self.at
        self.at += 2
        inner = self._inner()
        if not _ends_word(self.text, self.at):
            raise Unreadable("has a parenthesis in a word")
        return Word(PIPE_FILE, raw=self.text[start : self.at]), (inner,)

    def _special(self, inner: list[tuple[Token, ...]]) -> tuple[str, str]:
        """A piece that is no fixed text: its text as far as it is known, and why it is dynamic ("" when it is not)."""
        if self.text[self.at] != '"':
            return self._dollar(inner, quoted=False)
        self.at += 1
        text, dynamic = "", ""
        while not self.text.startswith('"', self.at):
            if found := _QUOTED_TEXT.match(self.text, self.at):
                text += _ESCAPED.sub(r"\1", found[0])
                self.at = found.end()
            elif self.at >= len(self.text):
                raise Unreadable(_WHY['"'])
            else:
                value, why = self._dollar(inner, quoted=True)
                text += value
                dynamic = _stronger(dynamic, why)
        self.at += 1
        return text, dynamic

    def _dollar(self, inner: list[tuple[Token, ...]], *, quoted: bool) -> tuple[str, str]:
        start, text = self.at, self.text
        if text.startswith("$(", start) and not text.startswith("$((", start):
            self.at += 2
            tokens = self._inner()
            inner.append(tokens)
            fixed = _printed_text(tokens) if quoted else None
            return ("", SUBSTITUTION if quoted else UNQUOTED_SUBSTITUTION) if fixed is None else (fixed, "")
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

    def _inner(self) -> tuple[Token, ...]:
        reader = _Reader(self.text, self.at, self.depth + 1)
        tokens = reader.read(inner=True)
        self.at = reader.at
        self.inner_tokens += len(tokens) + reader.inner_tokens + 1
        if self.inner_tokens > MAX_TOKENS:
            raise Unreadable("has too many parts")
        return tokens


def _stronger(one: str, other: str) -> str:
    """Of two reasons why a word is dynamic, the one that says less about what it may become."""
    weak = ("", EXIT_STATUS, SUBSTITUTION)
    rank = {reason: index for index, reason in enumerate(weak)}
    return other if rank.get(other, len(weak)) > rank.get(one, len(weak)) else one


def _after_blanks(text: str, at: int) -> int:
    while text.startswith(" ", at):
        at += 1
    return at


def _ends_word(text: str, at: int) -> bool:
    if at >= len(text):
        return True
    if text[at] == "\t":
        raise Unreadable("has a tab between words")
    return text[at] in " \n;&|<>()"


def _printed_text(tokens: tuple[Token, ...]) -> str | None:
    """Return what `cat <<'EOF' …` prints: the way in which a text of many lines is given to a program."""
    found = [token for token in tokens if token.kind != "end"]
    if len(found) != 2 or found[0].text != "cat" or found[1].kind != "redirect" or found[1].text != "<<":
        return None
    body = found[1].word
    return body.text.rstrip("\n") if body and not body.dynamic else None
