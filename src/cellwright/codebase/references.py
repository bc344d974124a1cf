"""Uses of a name in a source text: found as words, and told apart by the syntax tree; comments and strings are none.

In Python each use has what it belongs to: a scope that binds it, an object, a keyword argument. Scopes are those of the
language reference, section 4.2 (https://docs.python.org/3/reference/executionmodel.html): names that a function binds are
its own unless it declares them `global` or `nonlocal`, and functions do not see the names of a class.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from cellwright.codebase.grammars import PYTHON, parse, text_of
from cellwright.codebase.source_file import SourceText
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

MODULE = -1
"""The scope of names that the text itself binds."""
UNBOUND = -2
"""The scope of names that nothing in the text binds: built-in ones, or those of a star import."""

_COMPREHENSIONS = frozenset(
    {"list_comprehension", "set_comprehension", "dictionary_comprehension", "generator_expression"}
)
_SCOPES = _COMPREHENSIONS | {"function_definition", "lambda", "class_definition"}
_OUTSIDE = ("name", "superclasses", "return_type", "type_parameters")
"""Fields of a function or class that belong to the scope around it, as defaults and annotations of parameters do."""
_TARGETS = frozenset(
    {
        "pattern_list",
        "tuple_pattern",
        "list_pattern",
        "list_splat_pattern",
        "dictionary_splat_pattern",
        "as_pattern_target",
    }
    | {"parenthesized_expression", "tuple", "list"}
)
_PARAMETERS = frozenset({"parameters", "lambda_parameters"})
_CONSTRUCTED = lazy_pattern(r"(?:[\w.]+\.)?(\w+)\s*\(")
_ANNOTATED = lazy_pattern(r"""["']?(?:[\w.]+\.)?(\w+)["']?(?:\s*\|\s*None)?""")

Role = Literal["name", "member", "keyword", "imported", "module", "listed"]


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
    found = []
    for spot in spots:
        node = root.descendant_for_byte_range(spot, spot + len(word))
        if node is not None and not _NO_CODE.search(node.type):
            found.append(Reference(*_place(source.text, spot), _kind(node)))
    return found


def _spots(text: bytes, word: bytes) -> Iterator[int]:
    """The places where the word stands by itself. A pattern that looks behind each byte would take ten times as long."""
    at = text.find(word)
    while at >= 0:
        stop = at + len(word)
        if not _PART.match(text, stop) and not (at and _PART.match(text, at - 1)):
            yield at
        at = text.find(word, stop)


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


class NameUse(Struct, frozen=True):
    """A use of the name at a byte of the text.

    `role`: a plain `name`; a `member` of something; the name of a `keyword` argument; `imported` by `from module import`;
    part of the name of a `module`; `listed` in `__all__`. `scope` is where a plain name or an import is bound: the byte at
    which its function or class begins, MODULE or UNBOUND. `module` is the one it is imported from; `aliased`: under another
    name. Of a member, `owner` is the dotted text before it ("" for anything else), and `owner_type` the class that this is
    made of or annotated with, where that is plain to see. `within` names the classes around it, the innermost first;
    `defines`: it is the name of a function or class that is defined here.
    """

    start: int
    line: int
    role: Role
    scope: int = UNBOUND
    module: str = ""
    owner: str = ""
    owner_type: str = ""
    within: tuple[str, ...] = ()
    defines: bool = False
    aliased: bool = False


class BoundModule(Struct, frozen=True):
    """A module that a text imports under a name: `import module as name`, or `from module import item as name`."""

    name: str
    module: str
    item: str = ""


class PythonNames(Struct, frozen=True):
    """The uses of a name in a text; `modules` are all that it imports, `stars` the modules whose names it takes over."""

    uses: tuple[NameUse, ...]
    modules: tuple[BoundModule, ...] = ()
    stars: tuple[str, ...] = ()
    bases: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """The classes of the text, each with the last parts of its bases' names."""


def python_names(text: bytes, name: str) -> PythonNames:
    """The uses of `name` in a Python text, in its order; comments and strings but `__all__` are left out."""
    root = parse(PYTHON, text).root_node
    encoded = name.encode()
    word = re.compile(rb"(?<![\w\x80-\xff])" + re.escape(encoded) + rb"(?![\w\x80-\xff])")
    nodes = []
    listed = []
    for found in word.finditer(text):
        node = root.descendant_for_byte_range(found.start(), found.end())
        if node is not None and node.type == "identifier":
            nodes.append(node)
        elif node is not None and _is_listed(node, name, text):
            listed.append(NameUse(found.start(), _line(node), "listed", MODULE))
    bindings = _Bindings()
    for node in nodes:
        bindings.note(node)
    uses = [_use(node, bindings, text) for node in nodes]
    modules, stars = _imports(root, text)
    return PythonNames(
        tuple(sorted([*uses, *listed], key=lambda use: use.start)),
        tuple(modules),
        tuple(stars),
        tuple(_classes(root, text)),
    )


def _line(node: Node) -> int:
    return node.start_point.row + 1


def _is_listed(node: Node, name: str, source: bytes) -> bool:
    """Return whether a string is the name in an assignment to `__all__`."""
    if node.type != "string_content" or text_of(node, source) != name:
        return False
    above = node.parent
    while above is not None:
        if above.type in ("assignment", "augmented_assignment"):
            left = above.child_by_field_name("left")
            return left is not None and text_of(left, source) == "__all__"
        above = above.parent
    return False


def _use(node: Node, bindings: _Bindings, source: bytes) -> NameUse:
    parent = node.parent
    line, within = _line(node), tuple(_classes_around(node, source))
    assert parent is not None
    if parent.type == "attribute" and parent.child_by_field_name("attribute") == node:
        owner = parent.child_by_field_name("object")
        text, kind = ("", "") if owner is None else _owner(owner, source)
        return NameUse(node.start_byte, line, "member", owner=text, owner_type=kind, within=within)
    if parent.type == "keyword_argument" and parent.child_by_field_name("name") == node:
        return NameUse(node.start_byte, line, "keyword", within=within)
    statement = _import_around(node)
    if statement is not None and not _is_alias(node):
        if statement.type == "import_from_statement" and not _in_module_name(node, statement):
            aliased = parent.parent is not None and parent.parent.type == "aliased_import"
            module = text_of(statement.child_by_field_name("module_name") or statement, source)
            scope = bindings.scope_of(node)
            return NameUse(
                node.start_byte,
                line,
                "imported",
                scope,
                module,
                within=within,
                aliased=aliased,
            )
        return NameUse(node.start_byte, line, "module", within=within)
    defines = parent.type in ("function_definition", "class_definition") and parent.child_by_field_name("name") == node
    return NameUse(node.start_byte, line, "name", bindings.scope_of(node), within=within, defines=defines)


def _owner(owner: Node, source: bytes) -> tuple[str, str]:
    """The dotted text before a member, or ""; and its class where that is plain to see."""
    text = text_of(owner, source)
    if owner.type == "call":
        made = _CONSTRUCTED.match(text)
        return ("super()" if re.fullmatch(r"super\(.*\)", text) else ""), made[1] if made else ""
    if not re.fullmatch(r"\w+(\.\w+)*", text):
        return "", ""
    return text, "" if "." in text else _plain_type(owner, text, source)


def _plain_type(owner: Node, name: str, source: bytes) -> str:
    """The class of a variable whose every binding in its function, or else in the text, says the same one."""
    scope: Node | None = owner
    while scope is not None:
        if scope.type in ("function_definition", "module"):
            kinds = set(_types_bound(scope, name, source))
            if kinds:
                return kinds.pop() if len(kinds) == 1 else ""
        scope = scope.parent
    return ""


def _types_bound(scope: Node, name: str, source: bytes) -> Iterator[str]:
    waiting = list(scope.children)
    while waiting:
        node = waiting.pop()
        if node.type in ("function_definition", "class_definition", "lambda"):
            continue
        if (
            node.type == "identifier"
            and text_of(node, source) == name
            and _binds(node)
            and _import_around(node) is None
        ):
            parent = node.parent
            assert parent is not None
            if parent.type in ("typed_parameter", "typed_default_parameter") or (
                parent.type == "assignment" and parent.child_by_field_name("type") is not None
            ):
                annotated = _ANNOTATED.fullmatch(text_of(parent.child_by_field_name("type") or node, source))
                yield annotated[1] if annotated else ""
            elif parent.type == "assignment" and (right := parent.child_by_field_name("right")) is not None:
                made = _CONSTRUCTED.match(text_of(right, source)) if right.type == "call" else None
                yield made[1] if made else ""
            else:
                yield ""
        waiting += node.children


class _Bindings:
    """The scopes that bind the name, by the byte where they begin."""

    def __init__(self) -> None:
        self._bound: set[int] = set()
        self._global: set[int] = set()
        self._outer: set[int] = set()

    def note(self, node: Node) -> None:
        """Note what a use says of the scope that it is in."""
        parent = node.parent
        scope = next((each.start_byte for each in _scopes_around(node)), MODULE)
        if parent is not None and parent.type == "global_statement":
            self._global.add(scope)
            self._bound.add(MODULE)
        elif parent is not None and parent.type == "nonlocal_statement":
            self._outer.add(scope)
        elif _binds(node):
            self._bound.add(scope)

    def scope_of(self, node: Node) -> int:
        """The scope whose name a use means."""
        for number, scope in enumerate(_scopes_around(node)):
            if scope.start_byte in self._global:
                return MODULE
            hidden = scope.type == "class_definition" and number > 0
            if scope.start_byte in self._bound and scope.start_byte not in self._outer and not hidden:
                return scope.start_byte
        return MODULE if MODULE in self._bound else UNBOUND


def _scopes_around(node: Node) -> Iterator[Node]:
    """The functions, classes and comprehensions that a name is evaluated in, the innermost first."""
    child, above = node, node.parent
    parameter = False
    while above is not None:
        if above.type in _PARAMETERS:
            parameter = _is_parameter(node, child)
        outside = any(above.child_by_field_name(field) == child for field in _OUTSIDE)
        outside = outside or (child.type in _PARAMETERS and not parameter)
        if above.type in _SCOPES and not outside and not (above.type in _COMPREHENSIONS and _is_walrus(node)):
            yield above
        child, above = above, above.parent


def _is_parameter(node: Node, child: Node) -> bool:
    """Return whether `node`, in the `child` of a function's parameters, is the name of one."""
    if node == child or child.type in ("list_splat_pattern", "dictionary_splat_pattern", "tuple_pattern"):
        return True
    named = child.child_by_field_name("name")
    if named is not None:
        return node == named
    first = child.named_children[0] if child.named_children else None
    return first is not None and first.start_byte <= node.start_byte < first.end_byte


def _is_walrus(node: Node) -> bool:
    parent = node.parent
    return parent is not None and parent.type == "named_expression" and parent.child_by_field_name("name") == node


def _binds(node: Node) -> bool:
    """Return whether a plain name is bound where it stands."""
    child, parent = node, node.parent
    if parent is None or (parent.type == "attribute" and parent.child_by_field_name("object") != node):
        return False
    if (statement := _import_around(node)) is not None:
        return _is_alias(node) or (
            _is_first_of_module(node) if _in_module_name(node, statement) else not _has_alias(node)
        )
    if parent.type == "keyword_argument":
        return False
    # whether it is a name of one part in a pattern of `match`, which captures
    while parent is not None and (
        parent.type in _TARGETS
        or parent.type == "case_pattern"
        or (parent.type == "dotted_name" and parent.named_child_count == 1)
    ):
        child, parent = parent, parent.parent
    if parent is None:
        return False
    if child.type == "as_pattern_target" or child.type == "case_pattern" or parent.type == "delete_statement":
        return True
    if parent.type in _PARAMETERS:
        return True
    if parent.type in ("typed_parameter", "default_parameter", "typed_default_parameter"):
        return _is_parameter(child, parent)
    field = {
        "function_definition": "name",
        "class_definition": "name",
        "named_expression": "name",
        "assignment": "left",
        "augmented_assignment": "left",
        "for_statement": "left",
        "for_in_clause": "left",
        "as_pattern": "alias",
    }.get(parent.type)
    return field is not None and parent.child_by_field_name(field) == child


def _import_around(node: Node) -> Node | None:
    above = node.parent
    while above is not None and above.type in ("dotted_name", "aliased_import", "relative_import"):
        above = above.parent
    return above if above is not None and above.type in ("import_statement", "import_from_statement") else None


def _in_module_name(node: Node, statement: Node) -> bool:
    """Return whether a name in an import is part of a module's name."""
    module = statement.child_by_field_name("module_name")
    return module is None or module.start_byte <= node.start_byte < module.end_byte


def _is_alias(node: Node) -> bool:
    parent = node.parent
    return parent is not None and parent.type == "aliased_import" and parent.child_by_field_name("alias") == node


def _has_alias(node: Node) -> bool:
    above = node.parent
    return above is not None and above.parent is not None and above.parent.type == "aliased_import"


def _is_first_of_module(node: Node) -> bool:
    """Return whether `import a.b` binds this name: the first part, without an alias."""
    parent = node.parent
    if parent is None or _has_alias(node):
        return False
    above = parent.parent
    return above is not None and above.type == "import_statement" and parent.named_children[0] == node


def _classes_around(node: Node, source: bytes) -> Iterator[str]:
    above = node.parent
    while above is not None:
        named = above.child_by_field_name("name") if above.type == "class_definition" else None
        if named is not None and named != node:
            yield text_of(named, source)
        above = above.parent


def _classes(root: Node, source: bytes) -> Iterator[tuple[str, tuple[str, ...]]]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.type == "class_definition" and (named := node.child_by_field_name("name")) is not None:
            given = node.child_by_field_name("superclasses")
            bases = [] if given is None else [each for each in given.named_children if each.type != "keyword_argument"]
            texts = [re.sub(r"\[.*", "", text_of(each, source), flags=re.DOTALL) for each in bases]
            yield text_of(named, source), tuple(text.rpartition(".")[2] for text in texts)
        waiting += node.children


def _imports(root: Node, source: bytes) -> tuple[list[BoundModule], list[str]]:
    """The names that the imports of a text bind to modules, wherever they stand; and its star imports."""
    modules: list[BoundModule] = []
    stars: list[str] = []
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.type not in ("import_statement", "import_from_statement"):
            waiting += node.children
            continue
        whole = node.child_by_field_name("module_name")
        module = "" if whole is None else text_of(whole, source)
        if any(child.type == "wildcard_import" for child in node.children):
            stars.append(module)
        for child in node.children_by_field_name("name"):
            named = child.child_by_field_name("name") if child.type == "aliased_import" else child
            alias = child.child_by_field_name("alias")
            item = text_of(named or child, source)
            name = item if alias is None else text_of(alias, source)
            modules.append(BoundModule(name, module or item, item if module else ""))
    return modules, stars
