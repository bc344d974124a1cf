"""The second reading of a command: tree-sitter's bash grammar, laid flat to compare it with our own.

Two readers that were written apart seldom err alike: unless both see the same words, operators and reserved words at
the same places, nothing allows the command.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from cellwright.permissions.shell.syntax_trees import parse_until
from cellwright.permissions.shell.tokens import RESERVED_WORDS, Token, Unreadable
from cellwright.text import lazy_pattern

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Tree

Piece = tuple[str, int, int]
"""Kind (`w`ord, `k`eyword, `o`perator, `r`edirect, `;`), start and end."""

MAX_DEPTH = 60
MAX_SECONDS = 0.01
"""Computing time that reading may take: sense takes less, in ten thousand characters of nonsense it is looked for long."""
_NOT_ASCII = lazy_pattern(r"[^\x00-\x7f]")


def _kinds(names: str) -> frozenset[str]:
    return frozenset(names.split())


_WORDS = _kinds(
    "word string raw_string ansi_c_string translated_string concatenation number simple_expansion expansion"
    " command_substitution process_substitution arithmetic_expansion brace_expansion variable_assignment variable_name"
    " test_operator extglob_pattern regex heredoc_start special_variable_name"
)
_STATEMENTS = _kinds(
    "program list pipeline command redirected_statement subshell compound_statement negated_command if_statement"
    " elif_clause else_clause while_statement for_statement do_group command_name variable_assignments file_redirect"
    " herestring_redirect heredoc_redirect declaration_command unset_command test_command unary_expression"
    " binary_expression parenthesized_expression"
)
_SUBSTITUTIONS = frozenset({"command_substitution", "process_substitution"})
_SAID_ELSEWHERE = frozenset({"comment", "heredoc_body", "heredoc_end"})
_TESTS = frozenset({"test_command", "unary_expression", "binary_expression", "parenthesized_expression"})
_REDIRECTS = frozenset({"file_redirect", "herestring_redirect", "heredoc_redirect"})


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


def check_readings(command: str, tokens: Sequence[Token]) -> None:
    """Raise Unreadable unless tree-sitter sees what `tokens` say."""
    tree = tree_of(command)
    if tree is None or tree.root_node.has_error:
        raise Unreadable("is not understood as bash")
    flat: list[Piece] = []
    _Flattening(command, flat).add(tree.root_node, 0)
    if _without_repeated_ends(flat) != _without_repeated_ends(_pieces(tokens)):
        raise Unreadable("can be read in more than one way")


class _Flattening:
    """The position in the command that laying it flat has come to."""

    def __init__(self, command: str, flat: list[Piece]) -> None:
        self.command = command
        self.flat = flat
        self.at = 0

    def add(self, node: Node, depth: int) -> None:
        kind = node.type
        if depth > MAX_DEPTH or node.is_missing:
            raise Unreadable("is nested too deeply")
        if kind in _WORDS and not (kind == "word" and not node.is_named):
            self._piece("w", node)
            self._inner(node, depth)
            self.at = node.end_byte
        elif kind in _STATEMENTS:
            self._children(node, depth)
        elif kind in _SAID_ELSEWHERE:
            self._gap(node.start_byte)
            if kind != "comment" and "\n" in self.command[node.start_byte : node.end_byte]:
                self.flat.append((";", 0, 0))
            self._inner(node, depth) if kind == "heredoc_body" else None
            self.at = max(self.at, node.end_byte)
        elif not node.is_named:
            self._anonymous(node)
        else:
            raise Unreadable(f"uses what is not followed here ({kind.replace('_', ' ')})")

    def _children(self, node: Node, depth: int) -> None:
        in_test = node.type in _TESTS
        if node.type == "file_redirect" and node.children[0].type == "file_descriptor":
            _, operator, *rest = node.children
            self._redirect(node.start_byte, operator)
            for child in rest:
                self.add(child, depth + 1)
            return
        for child in node.children:
            if in_test and not child.is_named:
                self._piece("w", child)
                self.at = child.end_byte
            else:
                self.add(child, depth + 1)

    def _redirect(self, start: int, operator: Node) -> None:
        self._gap(start)
        end = operator.end_byte
        if operator.type.endswith("&-"):
            # `2>&-` is one piece there, and an operator with its target here
            self.flat += [("r", start, end - 1), ("w", end - 1, end)]
        else:
            self.flat.append(("r", start, end))
        self.at = end

    def _anonymous(self, node: Node) -> None:
        kind, parent = node.type, node.parent.type if node.parent else ""
        if kind in (";", "\n"):
            self._gap(node.start_byte)
            self.flat.append((";", 0, 0))
        elif parent in _REDIRECTS:
            self._redirect(node.start_byte, node)
        elif parent in ("declaration_command", "unset_command"):
            self._piece("w", node)
        else:
            self._piece("k" if kind in RESERVED_WORDS else "o", node)
        self.at = node.end_byte

    def _inner(self, node: Node, depth: int) -> None:
        """Add what substitutions in a word run: after the word, as our own reading lists them."""
        for child in _substitutions(node):
            if child.children[0].type == "`":
                raise Unreadable("runs a command inside another (`` ` ``)")
            self.at = child.children[0].end_byte
            self.flat.append(("(", 0, 0))
            for statement in child.children[1:-1]:
                self.add(statement, depth + 1)
            self._gap(child.children[-1].start_byte)
            self.flat.append((")", 0, 0))

    def _piece(self, kind: str, node: Node) -> None:
        self._gap(node.start_byte)
        self.flat.append((kind, node.start_byte, node.end_byte))

    def _gap(self, start: int) -> None:
        between = self.command[self.at : start]
        if between.strip(" \n"):
            raise Unreadable("has something that is not followed here")
        if "\n" in between:
            self.flat.append((";", 0, 0))


def _substitutions(node: Node) -> Iterator[Node]:
    if node.type in _SUBSTITUTIONS:
        yield node
    else:
        for child in node.named_children:
            yield from _substitutions(child)


def _pieces(tokens: Sequence[Token]) -> Iterator[Piece]:
    for token in tokens:
        match token.kind:
            case "word":
                yield "w", token.start, token.end
            case "end":
                yield ";", 0, 0
            case "redirect" if token.word is not None:
                target = token.end - len(token.word.raw)
                yield "r", token.start, token.start + len(token.text)
                yield "w", target, token.end
            case _:
                yield token.kind[0], token.start, token.end
        for inner in token.inner:
            yield "(", 0, 0
            yield from _pieces(inner)
            yield ")", 0, 0


def _without_repeated_ends(pieces: Iterator[Piece] | Sequence[Piece]) -> list[Piece]:
    kept: list[Piece] = []
    for piece in pieces:
        if piece[0] != ";" or (kept and kept[-1][0] not in (";", "(")):
            if piece[0] == ")" and kept and kept[-1][0] == ";":
                kept.pop()
            kept.append(piece)
    if kept and kept[-1][0] == ";":
        kept.pop()
    return kept
