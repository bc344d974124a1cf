"""The programming languages whose files can be parsed here: which grammar a file has, and its tree.

Each grammar is a wheel of its own (`tree-sitter-…`), loaded when a file of its language is edited.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Tree

CHUNK = 16 * 1024
"""The parser asks for so many bytes at a time. Between two chunks other threads run: it holds the interpreter's lock."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """A tree-sitter grammar: `function` of the module `module` gives it."""

    name: str
    module: str
    function: str = "language"


PYTHON = Grammar("Python", "tree_sitter_python")
JAVASCRIPT = Grammar("JavaScript", "tree_sitter_javascript")
TYPESCRIPT = Grammar("TypeScript", "tree_sitter_typescript", "language_typescript")
TSX = Grammar("TSX", "tree_sitter_typescript", "language_tsx")
GO = Grammar("Go", "tree_sitter_go")
JAVA = Grammar("Java", "tree_sitter_java")
RUST = Grammar("Rust", "tree_sitter_rust")
C = Grammar("C", "tree_sitter_c")
CPP = Grammar("C++", "tree_sitter_cpp")
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


def grammar_of(path: Path) -> Grammar | None:
    """The grammar for a file of this name; None if there is none."""
    return SUFFIXES.get(path.suffix.lower())


def parse(grammar: Grammar, source: bytes) -> Tree:
    """The syntax tree of `source` (UTF-8). Always one: what is wrong is an error node in it."""
    from tree_sitter import Parser  # native code, and not needed before the first edit of a source file

    def chunk(offset: int, _position: object) -> bytes:
        return source[offset : offset + CHUNK]

    tree: Tree = Parser(_language(grammar)).parse(chunk, encoding="utf8")
    return tree


@functools.cache
def _language(grammar: Grammar) -> Language:
    from tree_sitter import Language

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
