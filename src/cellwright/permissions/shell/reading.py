"""A bash command read: tree-sitter's grammar says where its words, operators and redirects are, `words.py` their values.

The grammar takes more for bash than bash does. So a command is `Unreadable`, and nothing allows it, where a word does not
end where the grammar says, or anything is left over between. That a reserved word stands where bash takes it for one is
seen by who follows the tokens (`analysis.py`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from cellwright.permissions.shell.syntax_trees import parse_until
from cellwright.permissions.shell.words import (
    OPERATOR,
    REDIRECT,
    RESERVED_WORDS,
    Substitution,
    Unreadable,
    Word,
    ends_word,
    unreadable_characters,
    word_at,
)
from cellwright.text import lazy_pattern

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Tree

MAX_TOKENS = 1_000
"""Words and operators, those in substitutions included."""
MAX_NODES = 8 * MAX_TOKENS
"""Of the grammar's tree: what has more is not walked through."""
MAX_NODE_DEPTH = 60
MAX_SUBSTITUTIONS = 10
"""Commands in each other's words."""
MAX_SECONDS = 0.01
"""Computing time that reading may take: sense takes less, in ten thousand characters of nonsense it is looked for long."""
_NOT_ASCII = lazy_pattern(r"[^\x00-\x7f]")
_COMMENT = lazy_pattern(r"(?<![^\s;&|()])#[^\n]*")
_DELIMITER = lazy_pattern(r"""(?P<quote>['"]?)(?P<word>\w+)(?P=quote)""", re.ASCII)
_EXPANDED = lazy_pattern(r"[$`\\]")


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
    until = time.thread_time() + MAX_SECONDS
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
        if depth > MAX_SUBSTITUTIONS:
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
        if depth > MAX_NODE_DEPTH or node.is_missing:
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
