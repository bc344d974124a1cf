"""Functions, methods, classes and types of a source file: what they are called, and what of the text belongs to each.

Decorators, attributes, `export`, `template<…>` and the comment right above belong to a definition.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from cellwright.codebase.grammars import (
    CPP,
    GO,
    JAVA,
    JAVASCRIPT,
    PYTHON,
    RUST,
    TSX,
    TYPESCRIPT,
    C,
    Grammar,
    parse,
    text_of,
)
from cellwright.text import lazy_pattern

if TYPE_CHECKING:
    from tree_sitter import Node


COMMENTS = frozenset({"comment", "line_comment", "block_comment"})
_ABOVE = COMMENTS | {"decorator", "attribute_item"}
_CODING = lazy_pattern(rb"#!|#.*coding[:=]")


class Definition(Struct, frozen=True):
    """A definition in a source text; offsets are bytes.

    `names` are those of what it is in, then its own. `start` to `stop` is all that belongs to it, the comment above it
    ends where `below_comment` is. `line` is that of its name, from 1. `declared`: it has no body (a prototype, an overload).
    """

    names: tuple[str, ...]
    kind: str
    start: int
    below_comment: int
    stop: int
    line: int
    declared: bool = False

    @property
    def name(self) -> str:
        """`Class.method`"""
        return ".".join(self.names)


class OutlineRules(Struct, frozen=True):
    """A language's definitions in its syntax tree: types of nodes, and what they are called for people."""

    kinds: dict[str, str]
    declared: frozenset[str] = frozenset()
    containers: frozenset[str] = frozenset()
    """Nodes that give what is in them a name without being a definition."""
    wrappers: frozenset[str] = frozenset()
    """Nodes around a definition that belong to it, if they hold no other."""


_SCRIPT = {
    "function_declaration": "function",
    "generator_function_declaration": "function",
    "class_declaration": "class",
    "method_definition": "method",
    "variable_declarator": "function",
    "field_definition": "method",
    "pair": "method",
    "assignment_expression": "function",
}
_TYPED_SCRIPT = {
    **_SCRIPT,
    "public_field_definition": "method",
    "abstract_class_declaration": "class",
    "interface_declaration": "interface",
    "enum_declaration": "enum",
    "type_alias_declaration": "type",
    "internal_module": "namespace",
    "module": "namespace",
    "function_signature": "function",
    "method_signature": "method",
    "abstract_method_signature": "method",
}
_SCRIPT_WRAPPERS = frozenset(
    {"export_statement", "lexical_declaration", "variable_declaration", "expression_statement"}
)
_C_KINDS = {
    "function_definition": "function",
    "struct_specifier": "struct",
    "union_specifier": "union",
    "enum_specifier": "enum",
    "type_definition": "type",
    "declaration": "function",
    "field_declaration": "function",
}
_C_DECLARED = frozenset({"declaration", "field_declaration"})
_TYPED = OutlineRules(
    _TYPED_SCRIPT,
    declared=frozenset({"function_signature", "method_signature", "abstract_method_signature"}),
    wrappers=_SCRIPT_WRAPPERS | {"ambient_declaration"},
)
RULES = {
    PYTHON: OutlineRules(
        {"function_definition": "function", "class_definition": "class"}, wrappers=frozenset({"decorated_definition"})
    ),
    JAVASCRIPT: OutlineRules(_SCRIPT, wrappers=_SCRIPT_WRAPPERS),
    TYPESCRIPT: _TYPED,
    TSX: _TYPED,
    GO: OutlineRules(
        {
            "function_declaration": "function",
            "method_declaration": "method",
            "type_spec": "type",
            "type_alias": "type",
        },
        wrappers=frozenset({"type_declaration"}),
    ),
    JAVA: OutlineRules(
        {
            "class_declaration": "class",
            "interface_declaration": "interface",
            "enum_declaration": "enum",
            "record_declaration": "record",
            "annotation_type_declaration": "annotation",
            "method_declaration": "method",
            "constructor_declaration": "constructor",
            "compact_constructor_declaration": "constructor",
        }
    ),
    RUST: OutlineRules(
        {
            "function_item": "function",
            "function_signature_item": "function",
            "struct_item": "struct",
            "enum_item": "enum",
            "union_item": "union",
            "trait_item": "trait",
            "mod_item": "module",
            "macro_definition": "macro",
            "type_item": "type",
        },
        declared=frozenset({"function_signature_item"}),
        containers=frozenset({"impl_item"}),
    ),
    C: OutlineRules(_C_KINDS, declared=_C_DECLARED),
    CPP: OutlineRules(
        {**_C_KINDS, "class_specifier": "class", "namespace_definition": "namespace", "concept_definition": "concept"},
        declared=_C_DECLARED,
        wrappers=frozenset({"template_declaration", "type_definition", "field_declaration", "linkage_specification"}),
    ),
}
LANGUAGES = tuple(grammar.name for grammar in RULES)

_FUNCTION_VALUES = frozenset({"arrow_function", "function_expression", "generator_function", "class"})
_ONLY_WITH_FUNCTION = frozenset({"variable_declarator", "field_definition", "public_field_definition", "pair"})
_ONLY_WITH_BODY = frozenset({"class_specifier", "struct_specifier", "union_specifier", "enum_specifier"})


def definitions(grammar: Grammar, source: bytes, name: str = "") -> list[Definition]:
    """The definitions in `source`, in its order. With `name`: those whose own name it is."""
    rules = RULES[grammar]
    root = parse(grammar, source).root_node
    # only what holds the name somewhere is looked into
    spots = [found.start() for found in re.finditer(re.escape(name.encode()), source)] if name else []
    found = []
    for node, names in _walk(root, rules, source, spots if name else None):
        if not name or names[-1] == name:
            found.append(_definition(node, names, grammar, source, root))
    # in C++ `typedef struct A {…} A;` is one definition under one name
    return list({(each.start, each.stop, each.names): each for each in found}.values())


def _walk(
    root: Node, rules: OutlineRules, source: bytes, spots: list[int] | None
) -> Iterator[tuple[Node, tuple[str, ...]]]:
    waiting: list[tuple[Node, tuple[str, ...]]] = [(root, ())]
    while waiting:
        node, names = waiting.pop()
        own = definition_names(node, rules, source)
        if own:
            names = (*names, *own)
            if node.type in rules.kinds:
                yield node, names
        children = [child for child in node.named_children if spots is None or _holds_any(child, spots)]
        waiting += [(child, names) for child in reversed(children)]


def _holds_any(node: Node, spots: list[int]) -> bool:
    at = bisect_left(spots, node.start_byte)
    return at < len(spots) and spots[at] < node.end_byte


def definition_names(node: Node, rules: OutlineRules, source: bytes) -> tuple[str, ...]:
    """Return what a definition adds to the names of what is in it; nothing if the node is none."""
    kind = node.type
    if kind not in rules.kinds and kind not in rules.containers:
        return ()
    if kind in _ONLY_WITH_FUNCTION:
        value = node.child_by_field_name("value")
        if value is None or value.type not in _FUNCTION_VALUES:
            return ()
    if kind in _ONLY_WITH_BODY and node.child_by_field_name("body") is None:
        return ()
    return _SPECIAL.get(kind, _plain_names)(node, source)


def _plain_names(node: Node, source: bytes) -> tuple[str, ...]:
    for field in ("name", "key", "property"):
        if (child := node.child_by_field_name(field)) is not None:
            return tuple(part.strip("\"' ") for part in text_of(child, source).split("::"))
    return ()


def _declarator_names(node: Node, source: bytes) -> tuple[str, ...]:
    """C's names are inside of what is declared: `int *(*f(void))[3]`."""
    inner = node.child_by_field_name("declarator")
    is_function = False
    while inner is not None and inner.type not in ("identifier", "field_identifier", "type_identifier"):
        is_function = is_function or inner.type == "function_declarator"
        if inner.type in ("qualified_identifier", "destructor_name", "operator_name", "operator_cast"):
            break
        inner = inner.child_by_field_name("declarator") or next(
            (child for child in inner.named_children if child.type.endswith(("declarator", "identifier"))), None
        )
    if inner is None or (not is_function and node.type != "type_definition"):
        return ()
    parts = (part.strip() for part in text_of(inner, source).split("::"))
    return tuple(part if "operator" in part else re.sub(r"<.*>", "", part) for part in parts if part)


def _assigned_names(node: Node, source: bytes) -> tuple[str, ...]:
    """JavaScript: `exports.run = function () {}`, `Box.prototype.get = () => {}`."""
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if left is None or right is None or left.type != "member_expression" or right.type not in _FUNCTION_VALUES:
        return ()
    return tuple(
        part for part in text_of(left, source).split(".") if part not in ("module", "exports", "prototype", "this")
    )


def _receiver_names(node: Node, source: bytes) -> tuple[str, ...]:
    """Go: `func (s *Stack[T]) Push()` is `Stack.Push`."""
    receiver, name = node.child_by_field_name("receiver"), node.child_by_field_name("name")
    found = re.search(r"(\w+)\s*(?:\[[^\]]*\])?\s*\)\s*$", text_of(receiver, source)) if receiver is not None else None
    return (*((found[1],) if found else ()), text_of(name, source)) if name is not None else ()


def _impl_names(node: Node, source: bytes) -> tuple[str, ...]:
    """Rust: what is in `impl Trait for Type<T>` is named after the type."""
    implemented = node.child_by_field_name("type")
    if implemented is None:
        return ()
    return (re.sub(r"<.*", "", text_of(implemented, source), flags=re.DOTALL).rpartition("::")[2].strip("& "),)


_SPECIAL: dict[str, Callable[[Node, bytes], tuple[str, ...]]] = {
    "function_definition": lambda node, source: _declarator_names(node, source) or _plain_names(node, source),
    "declaration": _declarator_names,
    "field_declaration": _declarator_names,
    "type_definition": _declarator_names,
    "method_declaration": lambda node, source: _receiver_names(node, source) or _plain_names(node, source),
    "impl_item": _impl_names,
    "assignment_expression": _assigned_names,
}


def _definition(node: Node, names: tuple[str, ...], grammar: Grammar, source: bytes, root: Node) -> Definition:
    rules, outer = RULES[grammar], node
    while (parent := outer.parent) is not None and parent.type in rules.wrappers and _holds_only(parent, outer):
        outer = parent
    stop = _with_end(outer, source)
    if grammar is PYTHON:
        # a comment after the last statement is in the body by its indentation alone, and not in the tree
        comment = re.compile(rb"\r?\n(?P<indent>[ \t]+)#[^\r\n]*")
        while (found := comment.match(source, stop)) and len(found["indent"]) > outer.start_point.column:
            stop = found.end()
    start = _with_above(outer.start_byte, source, root, _ABOVE - COMMENTS)
    whole = _with_above(start, source, root, _ABOVE)
    kind = rules.kinds[node.type]
    return Definition(
        names,
        "method" if kind == "function" and len(names) > 1 and node.type != "variable_declarator" else kind,
        whole,
        start,
        stop,
        node.start_point.row + 1,
        node.type in rules.declared,
    )


def _holds_only(wrapper: Node, inner: Node) -> bool:
    """Return whether nothing in `wrapper` would be lost with `inner` that is something of its own."""
    others = [child for child in wrapper.named_children if child != inner and child.type not in COMMENTS]
    if wrapper.type in ("field_declaration", "expression_statement"):
        return not others
    return not any(child.type in (inner.type, "declaration_list") for child in others)


def _with_end(node: Node, source: bytes) -> int:
    """Find where a definition ends, with its `;` or `,` and a comment on its last line."""
    stop = node.end_byte
    if found := re.compile(rb"[ \t]*[;,]").match(source, stop):
        follows = node.next_sibling
        stop = found.end() if follows is not None and follows.type in (";", ",") else stop
    if found := re.compile(rb"[ \t]+(?:#|//)[^\r\n]*").match(source, stop):
        stop = found.end()
    return stop


def _with_above(start: int, source: bytes, root: Node, kinds: frozenset[str]) -> int:
    """Find where a definition begins, with what stands on the lines right above it, of these kinds of nodes."""
    while True:
        line = source.rfind(b"\n", 0, start) + 1
        if source[line:start].strip() or not line:
            return start
        above = source[:line].rstrip(b" \t\r\n")
        if source.count(b"\n", len(above), line) != 1:
            return start
        node: Node | None = root.descendant_for_byte_range(len(above) - 1, len(above))
        while node is not None and node.type not in kinds:
            node = node.parent
        if node is None or source[source.rfind(b"\n", 0, node.start_byte) + 1 : node.start_byte].strip():
            return start
        if node.start_point.row < 2 and _CODING.match(source, node.start_byte):
            return start
        start = node.start_byte
