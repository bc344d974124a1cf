"""A bash command read: tree-sitter's grammar says where words, operators and redirects are, and each word gets its value.

The grammar takes more for bash than bash does. So a command is `Unreadable`, and nothing allows it, where a word does not
end where the grammar says, or anything is left over between. That a reserved word stands where bash takes it for one is
seen by who follows the tokens (`analysis.py`).

A word's value is what its program gets. Only what bash certainly reads the same way passes. `Unreadable` are also commands
with characters that are unseen or look like others, or with too many. A word that gets its value only when it runs (`$x`,
`$(…)`) is marked `dynamic`.
"""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from cellwright.permissions.shell.syntax_trees import parse_until
from cellwright.text import lazy_pattern, unseen_characters

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Tree


MAX_LENGTH = 10_000
"""Longer commands are not looked at closely enough to be allowed by a rule."""

MAX_TOKENS = 1_000
"""Words and operators, those in substitutions included."""
MAX_NODES = 8 * MAX_TOKENS
"""Of the grammar's tree: what has more is not walked through."""
_NOT_ASCII = lazy_pattern(r"[^\x00-\x7f]")
_COMMENT = lazy_pattern(r"(?<![^\s;&|()])#[^\n]*")
_DELIMITER = lazy_pattern(r"""(?P<quote>['"]?)(?P<word>\w+)(?P=quote)""", re.ASCII)
_EXPANDED = lazy_pattern(r"[$`\\]")


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


def _kinds(names: str) -> frozenset[str]:
    return frozenset(names.split())


_WORDS = _kinds(
    "word string raw_string ansi_c_string translated_string concatenation number simple_expansion expansion"
    " command_substitution process_substitution arithmetic_expansion brace_expansion variable_assignment variable_name"
    " test_operator extglob_pattern regex special_variable_name"
)
_STATEMENTS = _kinds(
    "program list pipeline command redirected_statement subshell compound_statement negated_command if_statement"
    " elif_clause else_clause while_statement for_statement do_group command_name variable_assignments file_redirect"
    " herestring_redirect heredoc_redirect declaration_command unset_command test_command unary_expression"
    " binary_expression parenthesized_expression"
)
_SUBSTITUTIONS = frozenset({"command_substitution", "process_substitution"})
_OF_WORDS = _kinds(
    "test_command unary_expression binary_expression parenthesized_expression declaration_command unset_command"
)
"""Statements whose own signs are words: `[`, `=`, `export`."""
_REDIRECTS = frozenset({"file_redirect", "herestring_redirect", "heredoc_redirect"})

Kind = Literal["word", "keyword", "operator", "redirect", "end"]


class Token(Struct, frozen=True):
    """A piece of a command. `inner`: what the substitutions in a word run. `end` is a `;` or the end of a line."""

    kind: Kind
    text: str
    word: Word | None = None
    inner: tuple[tuple[Token, ...], ...] = ()


@cache
def _language() -> Language:
    # the grammar takes 30 ms to load: only who judges a command pays
    import tree_sitter_bash
    from tree_sitter import Language

    return Language(tree_sitter_bash.language())


def parses(command: str) -> bool:
    """Return whether tree-sitter's grammar takes all of `command` for bash."""
    tree = tree_of(command)
    return tree is not None and not tree.root_node.has_error


def tree_of(command: str) -> Tree | None:
    """The grammar's tree of `command`, whose places count characters; None where no sense is found in a reasonable time."""
    # what is not ASCII stands in quotes, comments and texts; one byte for each keeps places the same
    return _tree(_NOT_ASCII.sub("x", command))


@lru_cache(maxsize=4)  # one command is looked at from several sides
def _tree(command: str) -> Tree | None:
    # computing time that reading may take: sense takes less, in ten thousand characters of nonsense it is looked for
    # long
    until = time.thread_time() + 0.01
    return parse_until(_language(), command.encode("ascii"), lambda: time.thread_time() > until)


def read_tokens(command: str) -> tuple[Token, ...]:
    """The tokens of `command`, in order. Raises Unreadable."""
    if why := unreadable_characters(command):
        raise Unreadable(why)
    tree = tree_of(command)
    if tree is None or tree.root_node.has_error:
        raise Unreadable("is not understood as bash")
    if tree.root_node.descendant_count > MAX_NODES:
        raise Unreadable("has too many parts")
    return _Reader(command).read([tree.root_node], len(command))


class _Reader:
    """The position in the command that reading it has come to, and what it has found."""

    def __init__(self, command: str, at: int = 0, depth: int = 0) -> None:
        self.command = command
        self.at = at
        self.depth = depth
        self.tokens: list[Token] = []
        self.inner_tokens = 0
        self.heredoc: re.Match[str] | None = None
        self.heredoc_at = 0
        self.opened: Token | None = None
        # commands in each other's words
        if depth > 10:
            raise Unreadable("is nested too deeply")

    def read(self, nodes: Sequence[Node], end: int) -> tuple[Token, ...]:
        """The tokens of `nodes`, behind which nothing but blanks stands up to `end`."""
        for node in nodes:
            self._add(node, 0)
        self._skip_to(end)
        if self.opened or self.heredoc:
            raise Unreadable("does not close what it opens")
        return tuple(self.tokens)

    def _add(self, node: Node, depth: int) -> None:
        if depth > 60 or node.is_missing:
            raise Unreadable("is nested too deeply")
        match node.type:
            case kind if kind in _WORDS and node.is_named:
                self._word(node)
            case kind if kind in _STATEMENTS:
                for child in node.children:
                    self._add(child, depth + 1)
            case "comment":
                self._comment(node)
            case "file_descriptor" | "heredoc_end":
                # an operator takes the one along, a text has taken the other
                self._skip_to(max(self.at, node.start_byte))
            case "heredoc_start":
                self._start_heredoc(node)
            case "heredoc_body":
                self._heredoc(node)
            case kind if node.is_named:
                raise Unreadable(f"uses what is not followed here ({kind.replace('_', ' ')})")
            case _:
                self._sign(node)

    def _comment(self, node: Node) -> None:
        self._skip_to(node.start_byte)
        if not _COMMENT.fullmatch(self.command, node.start_byte, node.end_byte):
            raise Unreadable("has a comment where a word should be")
        self.at = node.end_byte

    def _skip_to(self, start: int) -> None:
        """Go on to `start`: on the way are blanks and ends of lines, and no text of a here-document that is missing."""
        between = self.command[self.at : start]
        if start < self.at or between.strip(" \n"):
            raise Unreadable("has something that is not followed here")
        if "\n" in between:
            self._put(Token("end", "\n"))
        self.at = start

    def _put(self, token: Token) -> None:
        if self.opened is not None:
            if token.kind != "word" or token.word is None:
                raise Unreadable("redirects to nothing")
            token = replace(self.opened, word=token.word, inner=token.inner)
            self.opened = None
        self.tokens.append(token)
        self.inner_tokens += sum(map(len, token.inner))
        if len(self.tokens) + self.inner_tokens > MAX_TOKENS:
            raise Unreadable("has too many parts")

    def _word(self, node: Node) -> None:
        self._skip_to(node.start_byte)
        found: dict[int, Substitution] = {}
        inner = []
        for each in _substitutions(node):
            opening, *statements, closing = each.children
            if opening.type == "`":
                raise Unreadable("runs a command inside another (`` ` ``)")
            if opening.type == ">(":
                raise Unreadable("runs a command inside another (`>(`)")
            reader = _Reader(self.command, opening.end_byte, self.depth + 1)
            tokens = reader.read(statements, closing.start_byte)
            self.inner_tokens += reader.inner_tokens
            inner.append(tokens)
            # a blank in front may belong to the node
            found[opening.end_byte - 2] = Substitution(each.end_byte, _printed_text(tokens))
        word, end = word_at(self.command, node.start_byte, found)
        is_number = word.raw.isdecimal() and self.command[end : end + 1] in ("<", ">")
        if end != node.end_byte or is_number:
            raise Unreadable("can be read in more than one way")
        self._put(Token("word", word.raw, word, tuple(inner)))
        self.at = end

    def _sign(self, node: Node) -> None:
        kind, parent = node.type, node.parent.type if node.parent else ""
        if parent in _OF_WORDS:
            return self._word(node)
        if parent in _REDIRECTS and kind not in ("|", "|&", "&&", "||", ";", "&", "\n"):
            return self._redirect(node)
        self._skip_to(node.start_byte)
        text = self.command[node.start_byte : node.end_byte]
        if kind in RESERVED_WORDS:
            if not (self._begins_word(node.start_byte) and ends_word(self.command, node.end_byte)):
                raise Unreadable("can be read in more than one way")
            self._put(Token("keyword", text))
        elif (found := OPERATOR.match(self.command, node.start_byte)) is None or found[0] != text:
            raise Unreadable("can be read in more than one way")
        else:
            self._put(Token("end" if text in (";", "\n") else "operator", text))
        self.at = node.end_byte
        return None

    def _begins_word(self, at: int) -> bool:
        return at == 0 or self.command[at - 1] in " \n;&|()"

    def _redirect(self, node: Node) -> None:
        """Read the operator of a redirect, with the descriptor in front of it; the word behind it is its target."""
        before = node.prev_sibling
        number = before is not None and before.type == "file_descriptor"
        start = before.start_byte if before is not None and number else node.start_byte
        if not number:
            self._skip_to(start)
        closes = node.type.endswith("&-")  # `2>&-` is one piece there, and an operator with its target here
        end = node.end_byte - closes
        text = self.command[start:end]
        found = REDIRECT.match(self.command, start)
        if found is None or found[0] != text or self.at != start or (closes and not ends_word(self.command, end + 1)):
            raise Unreadable("can be read in more than one way")
        if found["operator"] == "<<-":
            raise Unreadable("strips tabs from its text (`<<-`)")
        if self.opened is not None:
            raise Unreadable("redirects to nothing")
        self.opened = Token("redirect", text)
        self.at = end
        if closes:
            self._put(Token("word", "-", Word("-", raw="-")))
            self.at = node.end_byte

    def _start_heredoc(self, node: Node) -> None:
        self._skip_to(node.start_byte)
        found = _DELIMITER.fullmatch(self.command, node.start_byte, node.end_byte)
        if found is None:
            raise Unreadable("has a text (`<<`) whose end is not a plain word")
        if self.heredoc is not None:
            raise Unreadable("has two texts (`<<`) in a line")
        self.heredoc = found
        self._put(Token("word", found[0], Word("", raw=found[0])))
        self.heredoc_at = len(self.tokens) - 1
        self.at = node.end_byte

    def _heredoc(self, node: Node) -> None:
        """Read the text of a here-document: all from the next line on up to the first that is its end."""
        start = self.command.find("\n", self.at) + 1  # the grammar leaves out empty lines
        self._skip_to(start)
        found = self.heredoc
        closing = None if found is None else re.compile(rf"^{found['word']}$", re.MULTILINE).search(self.command, start)
        if found is None or closing is None or closing.start() != node.end_byte:
            raise Unreadable("has a text (`<<`) that can be read in more than one way")
        body = self.command[start : node.end_byte]
        if not found["quote"] and _EXPANDED.search(body):
            raise Unreadable("has an expansion in a text (`<<`), which the shell fills in only when it runs")
        token = self.tokens[self.heredoc_at]
        self.tokens[self.heredoc_at] = replace(token, word=Word(body, raw=found[0]))
        self.heredoc = None
        self.at = closing.end()


def _substitutions(word: Node) -> Iterator[Node]:
    """Yield the outermost substitutions in `word`, in order. It may be nested a thousand times: nothing here recurses."""
    left = [word]
    while left:
        node = left.pop()
        if node.type in _SUBSTITUTIONS:
            yield node
        else:
            left.extend(reversed(node.named_children))


def _printed_text(tokens: tuple[Token, ...]) -> str | None:
    """Return what `cat <<'EOF' …` prints: the way in which a text of many lines is given to a program."""
    found = [token for token in tokens if token.kind != "end"]
    if len(found) != 2 or found[0].text != "cat" or found[1].kind != "redirect" or found[1].text != "<<":
        return None
    body = found[1].word
    return body.text.rstrip("\n") if body else None
