"""Grammars of tree-sitter, by the names of files, and the syntax trees that they make of texts.

Each grammar is a wheel of its own (`tree-sitter-…`), loaded with the first text of its language. Those of Python and
Bash are always there, the others come with the extra `code`.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import itertools
import threading
from collections.abc import Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING

from msgspec import Struct
from tree_sitter import Language, Parser

from cellwright.permissions.shell.syntax_trees import parse_until

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Parser, Tree


PIECE_BYTES = 32 * 1024
"""So much is parsed in some 5 ms, in which other threads may wait: a larger text grows by it, and what was parsed stays."""


class Grammar(Struct, frozen=True):
    """A tree-sitter grammar: `function` of the module `module` gives it.

    `guesses`: it does not know all that compilers take, such as what macros make of a text.
    """

    name: str
    module: str
    function: str = "language"
    guesses: bool = False


PYTHON = Grammar("Python", "tree_sitter_python")
JAVASCRIPT = Grammar("JavaScript", "tree_sitter_javascript")
TYPESCRIPT = Grammar("TypeScript", "tree_sitter_typescript", "language_typescript")
TSX = Grammar("TSX", "tree_sitter_typescript", "language_tsx")
GO = Grammar("Go", "tree_sitter_go")
JAVA = Grammar("Java", "tree_sitter_java")
RUST = Grammar("Rust", "tree_sitter_rust")
C = Grammar("C", "tree_sitter_c", guesses=True)
CPP = Grammar("C++", "tree_sitter_cpp", guesses=True)
BASH = Grammar("Bash", "tree_sitter_bash")

SUFFIXES = {
    **dict.fromkeys((".py", ".pyi"), PYTHON),
    **dict.fromkeys((".js", ".mjs", ".cjs", ".jsx"), JAVASCRIPT),
    **dict.fromkeys((".ts", ".mts", ".cts"), TYPESCRIPT),
    ".tsx": TSX,
    ".go": GO,
    ".java": JAVA,
    ".rs": RUST,
    ".c": C,
    # a header may be either; what is C is C++ to its grammar, but for a few names
    **dict.fromkeys((".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx"), CPP),
    **dict.fromkeys((".sh", ".bash"), BASH),
}


def grammar_of(path: PurePath) -> Grammar | None:
    """The grammar for a file of this name; None if there is none."""
    return SUFFIXES.get(path.suffix.lower())


def is_installed(grammar: Grammar) -> bool:
    """Return whether texts can be parsed by it here."""
    return importlib.util.find_spec(grammar.module) is not None


def parse(grammar: Grammar, source: bytes) -> Tree:
    """The syntax tree of `source` (UTF-8). Always one: what is wrong is an error node in it."""
    language = language_of(grammar)
    if len(source) <= PIECE_BYTES or threading.active_count() == 1:
        return Parser(language).parse(source)
    # the parser holds the interpreter's lock
    grown = _grown(Parser(language), source)
    # what ended a piece may have been taken for an error, and not be looked at again
    whole = parse_until(language, source, lambda: False) if grown.root_node.has_error else None
    return whole or grown


def _grown(parser: Parser, source: bytes) -> Tree:
    """The tree of a text that grows piece by piece."""
    ends = list(_piece_ends(source))
    tree: Tree = parser.parse(source[: ends[0]])
    row = source.count(b"\n", 0, ends[0])
    for at, end in itertools.pairwise(ends):
        here, row = (row, _column(source, at)), row + source.count(b"\n", at, end)
        tree.edit(at, at, end, here, here, (row, _column(source, end)))
        tree = parser.parse(source[:end], tree)
    return tree


def _piece_ends(source: bytes) -> Iterator[int]:
    """The places where the text is cut, at ends of lines where there are some; the last one is its own end."""
    at = 0
    while at < len(source):
        at = min(at + PIECE_BYTES, len(source))
        if at < len(source):
            at = source.rfind(b"\n", at - PIECE_BYTES, at) + 1 or at
        yield at


def _column(source: bytes, at: int) -> int:
    return at - source.rfind(b"\n", 0, at) - 1


def text_of(node: Node, source: bytes) -> str:
    """The text of a node of the tree that `source` was parsed to. `Node.text` would read it anew."""
    return source[node.start_byte : node.end_byte].decode("utf-8", "replace")


@functools.cache
def language_of(grammar: Grammar) -> Language:
    return Language(getattr(importlib.import_module(grammar.module), grammar.function)())


def error_nodes(tree: Tree) -> Iterator[Node]:
    """The places where the source does not fit the grammar, in its order."""
    waiting = [tree.root_node]
    while waiting:
        node = waiting.pop()
        if node.is_error or node.is_missing:
            yield node
        elif node.has_error:
            waiting += reversed(node.children)
