"""Uses of a name in a source text: found as words, and told apart by the syntax tree; comments and strings are none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from cellwright.codebase.parsing.grammars import parse
from cellwright.codebase.parsing.source_file import SourceText
from cellwright.text import lazy_pattern

if TYPE_CHECKING:
    from tree_sitter import Node

ReferenceKind = Literal["definition", "call", "import", "write", "read", "text"]
REFERENCE_KINDS: tuple[ReferenceKind, ...] = ("definition", "call", "import", "write", "read", "text")

_NO_CODE = lazy_pattern(r"comment|string|char_literal|heredoc|text_block|jsx_text|regex")
_PART = lazy_pattern(rb"[\w$\x80-\xff]")
_MEMBERS = {
    "attribute": "attribute",
    "member_expression": "property",
    "selector_expression": "field",
    "field_expression": "field",
    "field_access": "field",
    "scoped_identifier": "name",
    "qualified_identifier": "name",
    "generic_function": "function",
}
"""Nodes like `a.b`, and the field with the name that counts."""
_CALLS = {
    "call": "function",
    "call_expression": "function",
    "new_expression": "constructor",
    "macro_invocation": "macro",
    "method_invocation": "name",
    "object_creation_expression": "type",
    "decorator": "",
}
_IMPORTS = lazy_pattern(r"import|use_declaration|use_list|preproc_include|extern_crate")
_WRITTEN = {
    "assignment": "left",
    "augmented_assignment": "left",
    "assignment_expression": "left",
    "augmented_assignment_expression": "left",
    "compound_assignment_expr": "left",
    "assignment_statement": "left",
    "short_var_declaration": "left",
    "named_expression": "name",
    "for_statement": "left",
    "update_expression": "argument",
    "variable_declarator": "name",
    "init_declarator": "declarator",
    "let_declaration": "pattern",
}
_PATTERNS = frozenset(
    {"pattern_list", "tuple_pattern", "list_pattern", "expression_list", "array_pattern", "object_pattern"}
)
_DEFINES = lazy_pattern(
    r"(?:definition|declaration|_item|_spec|_specifier|_signature|declarator|class|interface|_definition|preproc_def|"
    r"preproc_function_def|type_alias)$"
)


class Reference(Struct, frozen=True):
    """One use of a name, at a line and byte column, both from 1."""

    line: int
    column: int
    kind: ReferenceKind


def references_in(source: SourceText, name: str) -> list[Reference]:
    """The uses of the identifier `name` in a text, in its order; of kind "text" where there is no grammar."""
    word = name.encode()
    spots = list(_spots(source.text, word))
    if not spots:
        return []
    if source.grammar is None:
        return [Reference(*_place(source.text, spot), "text") for spot in spots]
    root = parse(source.grammar, source.text).root_node
    return list(_classified(source.text, root, spots, len(word)))


def _spots(text: bytes, word: bytes) -> Iterator[int]:
    """The places where the word stands by itself. A pattern that looks behind each byte would take ten times as long."""
    at = text.find(word)
    while at >= 0:
        stop = at + len(word)
        if not _PART.match(text, stop) and not (at and _PART.match(text, at - 1)):
            yield at
        at = text.find(word, stop)


def _classified(text: bytes, root: Node, spots: list[int], length: int) -> Iterator[Reference]:
    for spot in spots:
        node = root.descendant_for_byte_range(spot, spot + length)
        if node is not None and not _NO_CODE.search(node.type):
            yield Reference(*_place(text, spot), _kind(node))


def _place(text: bytes, spot: int) -> tuple[int, int]:
    return text.count(b"\n", 0, spot) + 1, spot - text.rfind(b"\n", 0, spot)


def _kind(node: Node) -> ReferenceKind:
    if _within_import(node):
        return "import"
    parent = node.parent
    if parent is not None and _DEFINES.search(parent.type) and _is_field(parent, ("name", "declarator"), node):
        return "write" if parent.type in _WRITTEN else "definition"
    while parent is not None and parent.type in _MEMBERS and _is_field(parent, (_MEMBERS[parent.type],), node):
        node, parent = parent, parent.parent
    if parent is None:
        return "read"
    if parent.type in _CALLS and (not _CALLS[parent.type] or _is_field(parent, (_CALLS[parent.type],), node)):
        return "call"
    while parent is not None and parent.type in _PATTERNS:
        node, parent = parent, parent.parent
    if parent is not None and parent.type in _WRITTEN and _is_field(parent, (_WRITTEN[parent.type],), node):
        return "write"
    return "read"


def _is_field(parent: Node, names: tuple[str, ...], node: Node) -> bool:
    return any(parent.child_by_field_name(name) == node for name in names)


def _within_import(node: Node) -> bool:
    above: Node | None = node
    for _ in range(6):
        above = above.parent if above is not None else None
        if above is None:
            return False
        if _IMPORTS.search(above.type):
            return True
    return False
