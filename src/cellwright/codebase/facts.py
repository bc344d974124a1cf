"""The facts of a source text that the index keeps: what it defines, calls and imports, and how tangled its functions are.

Captures: `callee` is the name of what is called, `import` a whole import, `constant` the name of a variable of a module
or class, `branch` what nests, `arm` what only adds a way (`elif`, `case`), `bool` a chain of `and` and `or`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from tree_sitter import Query, QueryCursor

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
    language_of,
    parse,
    text_of,
)
from cellwright.codebase.symbol_outline import RULES, definition_names
from cellwright.text import lazy_pattern

if TYPE_CHECKING:
    from tree_sitter import Node, Query


_PYTHON = """
(call function: [(identifier) @callee (attribute attribute: (identifier) @callee)])
[(import_statement) (import_from_statement) (future_import_statement)] @import
(module (expression_statement (assignment left: (identifier) @constant)))
(class_definition body: (block (expression_statement (assignment left: (identifier) @constant))))
[(if_statement) (for_statement) (while_statement) (except_clause) (conditional_expression) (match_statement)] @branch
[(elif_clause) (case_clause) (for_in_clause) (if_clause)] @arm
(boolean_operator) @bool
"""
_SCRIPT = """
(call_expression function: [(identifier) @callee (member_expression property: (property_identifier) @callee)])
(new_expression constructor: [(identifier) @callee (member_expression property: (property_identifier) @callee)])
[(import_statement) (export_statement source: (string))] @import
(call_expression function: [(identifier) (import)] @_require arguments: (arguments . (string))
  (#match? @_require "^(require|import)$")) @import
(program (lexical_declaration (variable_declarator name: (identifier) @constant)))
(program (variable_declaration (variable_declarator name: (identifier) @constant)))
(program (export_statement declaration: (lexical_declaration (variable_declarator name: (identifier) @constant))))
[(if_statement) (for_statement) (for_in_statement) (while_statement) (do_statement) (catch_clause) (ternary_expression)
 (switch_statement)] @branch
(switch_case) @arm
(binary_expression operator: ["&&" "||" "??"]) @bool
"""
_GO = """
(call_expression function: [(identifier) @callee (selector_expression field: (field_identifier) @callee)])
(import_spec) @import
(source_file (const_declaration (const_spec name: (identifier) @constant)))
(source_file (var_declaration (var_spec name: (identifier) @constant)))
[(if_statement) (for_statement) (expression_switch_statement) (type_switch_statement) (select_statement)] @branch
[(expression_case) (type_case) (communication_case)] @arm
(binary_expression operator: ["&&" "||"]) @bool
"""
_JAVA = """
(method_invocation name: (identifier) @callee)
(object_creation_expression type: (type_identifier) @callee)
(import_declaration) @import
(field_declaration declarator: (variable_declarator name: (identifier) @constant))
[(if_statement) (for_statement) (enhanced_for_statement) (while_statement) (do_statement) (catch_clause)
 (ternary_expression) (switch_expression)] @branch
(switch_label) @arm
(binary_expression operator: ["&&" "||"]) @bool
"""
_RUST = """
(call_expression function: [
  (identifier) @callee
  (field_expression field: (field_identifier) @callee)
  (scoped_identifier name: (identifier) @callee)
  (generic_function function: [(identifier) @callee (scoped_identifier name: (identifier) @callee)])])
(macro_invocation macro: (identifier) @callee)
[(use_declaration) (extern_crate_declaration)] @import
[(const_item name: (identifier) @constant) (static_item name: (identifier) @constant)]
[(if_expression) (for_expression) (while_expression) (loop_expression) (match_expression)] @branch
(match_arm) @arm
(binary_expression operator: ["&&" "||"]) @bool
"""
_C = """
(call_expression function: [(identifier) @callee (field_expression field: (field_identifier) @callee)])
(preproc_include) @import
[(preproc_def name: (identifier) @constant) (preproc_function_def name: (identifier) @constant)]
[(if_statement) (for_statement) (while_statement) (do_statement) (conditional_expression) (switch_statement)] @branch
(case_statement) @arm
(binary_expression operator: ["&&" "||"]) @bool
"""
_CPP = (
    _C
    + """
(call_expression function: (qualified_identifier name: (identifier) @callee))
[(catch_clause) (for_range_loop)] @branch
"""
)

_QUERIES = {
    PYTHON: _PYTHON,
    JAVASCRIPT: _SCRIPT,
    TYPESCRIPT: _SCRIPT,
    TSX: _SCRIPT,
    GO: _GO,
    JAVA: _JAVA,
    RUST: _RUST,
    C: _C,
    CPP: _CPP,
}

SIGNATURE_CHARS = 240
DOC_CHARS = 400
SLAB_BYTES = 16 * 1024
FUNCTIONS = frozenset({"function", "method", "constructor"})


@functools.cache
def facts_query(grammar: Grammar) -> Query:
    """The query that finds all of it in one go; `def` are the nodes that may define something."""
    rules, language = RULES[grammar], language_of(grammar)
    # the rules of a language may name nodes of its dialects
    kinds = [kind for kind in sorted({*rules.kinds, *rules.containers}) if language.id_for_node_kind(kind, True)]
    return Query(language, f"[{' '.join(f'({kind})' for kind in kinds)}] @def\n{_QUERIES[grammar]}")


class Symbol(Struct, frozen=True):
    """A definition: lines from 1, the last one included; `parent` is the index of the one it is in, -1 for none.

    `cyclomatic` counts the ways through a function, `cognitive` weighs them by how deep they are nested, `nesting` is the
    depth; all are 0 for what is no function.
    """

    name: str
    qualified: str
    kind: str
    line: int
    end_line: int
    parent: int = -1
    signature: str = ""
    doc: str = ""
    declared: bool = False
    cyclomatic: int = 0
    cognitive: int = 0
    nesting: int = 0


class Call(Struct, frozen=True):
    """A call of something by its name, within the symbol of index `caller` (-1: outside of all)."""

    name: str
    line: int
    caller: int = -1


class Import(Struct, frozen=True):
    """A module as the import spells it, and the names taken from it ("*" for all)."""

    module: str
    line: int
    names: tuple[str, ...] = ()


class FileFacts(Struct, frozen=True):
    """The facts of one file."""

    symbols: tuple[Symbol, ...] = ()
    calls: tuple[Call, ...] = ()
    imports: tuple[Import, ...] = ()

    def calls_within(self, first: int, last: int) -> list[Call]:
        """The calls in the lines from `first` to `last`."""
        return [call for call in self.calls if first <= call.line <= last]


class _Measured:
    """A symbol in the making: how many branches it has, and how they are nested."""

    def __init__(self, symbol: Symbol) -> None:
        self.symbol = symbol
        self.cyclomatic = self.cognitive = self.nesting = 0

    def done(self) -> Symbol:
        if self.symbol.kind not in FUNCTIONS:
            return self.symbol
        return replace(self.symbol, cyclomatic=self.cyclomatic + 1, cognitive=self.cognitive, nesting=self.nesting)


class _Open(Struct, frozen=True):
    """A node that the walk is in: a definition or what nests code."""

    end: int
    names: tuple[str, ...]
    symbol: int
    depth: int
    is_bool: bool = False


def facts_of(grammar: Grammar, source: bytes) -> FileFacts:
    """The facts of `source` (UTF-8), whose grammar must be installed."""
    root = parse(grammar, source).root_node
    walk = _Walk(grammar, source)
    for start, end in _slabs(root):
        for at, stop, capture, node in _captures(grammar, root, start, end):
            walk.take(capture, node, at, stop)
    return walk.facts()


def _captures(grammar: Grammar, root: Node, start: int, end: int) -> list[tuple[int, int, str, Node]]:
    """The captures of nodes that begin from `start` up to `end`, as begin, end, capture and node; the outer ones first."""
    # a query holds the interpreter's lock until it is through, and its nodes take memory: a piece at a time
    cursor = QueryCursor(facts_query(grammar))
    cursor.set_byte_range(start, end)
    found: dict[tuple[int, int, str], Node] = {}
    for capture, nodes in cursor.captures(root).items():
        if not capture.startswith("_"):
            for node in nodes:
                if start <= (begin := node.start_byte) < end:
                    found[begin, -node.end_byte, capture] = node
    return [(begin, -stop, capture, found[begin, stop, capture]) for begin, stop, capture in sorted(found)]


def _slabs(root: Node) -> Iterator[tuple[int, int]]:
    start = root.start_byte
    for cut in _cuts(root):
        if cut - start > SLAB_BYTES:
            yield start, cut
            start = cut
    yield start, root.end_byte + 1


def _cuts(node: Node) -> Iterator[int]:
    """The places where a piece may end: the beginnings of nodes, of large ones also those of what is in them."""
    for child in node.children:
        yield child.start_byte
        if child.end_byte - child.start_byte > SLAB_BYTES:
            yield from _cuts(child)


class _Walk:
    """The nodes of a file in its order, each within those that began before it and have not ended."""

    def __init__(self, grammar: Grammar, source: bytes) -> None:
        self.grammar = grammar
        self.rules = RULES[grammar]
        self.source = source
        self.symbols: list[_Measured] = []
        self.calls: list[Call] = []
        self.imports: list[Import] = []
        self._open: list[_Open] = []
        self._lines_of_symbols: set[tuple[str, int, bool]] = set()

    def take(self, capture: str, node: Node, start: int, end: int) -> None:
        """Take the next node."""
        while self._open and self._open[-1].end <= start:
            self._open.pop()
        within = self._open[-1] if self._open else _Open(len(self.source), (), -1, 0)
        if capture == "callee":
            self.calls.append(Call(text_of(node, self.source), node.start_point.row + 1, within.symbol))
        elif capture == "import":
            self.imports += imports_in(self.grammar, text_of(node, self.source), node.start_point.row + 1)
        elif capture == "def":
            self._define(node, end, within)
        elif capture == "constant":
            self._constant(node, within)
        else:
            self._branch(capture, end, within)

    def facts(self) -> FileFacts:
        """All that was found."""
        return FileFacts(tuple(each.done() for each in self.symbols), tuple(self.calls), tuple(self.imports))

    def _define(self, node: Node, end: int, within: _Open) -> None:
        own = definition_names(node, self.rules, self.source)
        if not own or not own[-1]:
            return
        names = (*within.names, *own)
        if node.type not in self.rules.kinds:
            self._open.append(_Open(end, names, within.symbol, 0))
            return
        kind = self.rules.kinds[node.type]
        if kind == "function" and len(names) > 1 and node.type != "variable_declarator":
            kind = "method"
        line = node.start_point.row + 1
        declared = node.type in self.rules.declared
        if (names[-1], line, declared) in self._lines_of_symbols:
            return  # C: `typedef struct A {…} A;` is one
        self._lines_of_symbols.add((names[-1], line, declared))
        symbol = Symbol(
            names[-1],
            ".".join(names),
            kind,
            line,
            node.end_point.row + 1,
            within.symbol,
            signature_of(node, self.source),
            _docstring(node, self.source) if self.grammar is PYTHON else _comment_above(self.source, node.start_byte),
            declared,
        )
        self.symbols.append(_Measured(symbol))
        self._open.append(_Open(end, names, len(self.symbols) - 1, 0))

    def _constant(self, node: Node, within: _Open) -> None:
        name, line = text_of(node, self.source), node.start_point.row + 1
        if (name, line, False) in self._lines_of_symbols:
            return
        self._lines_of_symbols.add((name, line, False))
        start = self.source.rfind(b"\n", 0, node.start_byte) + 1
        stop = self.source.find(b"\n", node.start_byte)
        text = _plain(self.source[start : stop if stop >= 0 else len(self.source)])
        kind = "macro" if text.startswith("#") else "variable"
        statement = node.parent
        end = statement.end_point.row + 1 if statement is not None else line
        qualified = ".".join((*within.names, name))
        self.symbols.append(_Measured(Symbol(name, qualified, kind, line, end, within.symbol, text[:SIGNATURE_CHARS])))

    def _branch(self, capture: str, end: int, within: _Open) -> None:
        if capture == "bool" and within.is_bool:
            self._count(within.symbol, 1, 0)
            self._open.append(_Open(end, within.names, within.symbol, within.depth, is_bool=True))
            return
        nests = capture == "branch"
        self._count(within.symbol, 1, 1 + (within.depth if nests else 0))
        depth = within.depth + nests
        if within.symbol >= 0:
            measured = self.symbols[within.symbol]
            measured.nesting = max(measured.nesting, depth)
        if capture != "arm":
            self._open.append(_Open(end, within.names, within.symbol, depth, is_bool=capture == "bool"))

    def _count(self, symbol: int, ways: int, weight: int) -> None:
        if symbol >= 0:
            self.symbols[symbol].cyclomatic += ways
            self.symbols[symbol].cognitive += weight


def _plain(text: bytes) -> str:
    return " ".join(text.decode("utf-8", "replace").split())


def signature_of(node: Node, source: bytes) -> str:
    """The head of a definition on one line: all before its body."""
    body = node.child_by_field_name("body")
    if body is None and (value := node.child_by_field_name("value")) is not None:
        body = value.child_by_field_name("body")
    stop = body.start_byte if body is not None else node.end_byte
    head = source[node.start_byte : min(stop, node.start_byte + 4 * SIGNATURE_CHARS)]
    if body is None and b"\n" in head and b"(" not in head.partition(b"\n")[0]:
        head = head.partition(b"\n")[0]
    text = _plain(head).rstrip("{ ").removesuffix(":")
    return text if len(text) <= SIGNATURE_CHARS else text[: SIGNATURE_CHARS - 1] + "…"


def _docstring(node: Node, source: bytes) -> str:
    body = node.child_by_field_name("body")
    first = body.named_children[0] if body is not None and body.named_child_count else None
    if first is None or first.type != "expression_statement" or not first.named_child_count:
        return ""
    string = first.named_children[0]
    if string.type != "string":
        return ""
    return _shortened(text_of(string, source).lstrip("rRbBuU").strip("\"' \n"))


_COMMENT_LINE = lazy_pattern(
    rb"\s*(?:///?!?|/\*\*?|\*/?|#(?!\[|\s*(?:define|include|if|endif|else)))\s?(.*?)(?:\*/)?\s*$"
)
_ATTRIBUTE_LINE = lazy_pattern(rb"\s*(?:@\w|#\[|template\b|export\b)")


def _comment_above(source: bytes, start: int) -> str:
    """The comment on the lines right above a definition, without its marks."""
    found: list[bytes] = []
    stop = source.rfind(b"\n", 0, start)
    while stop > 0 and len(found) < 40:
        begin = source.rfind(b"\n", 0, stop) + 1
        line = source[begin:stop]
        comment = _COMMENT_LINE.match(line)
        if comment is not None:
            found.append(comment[1])
        elif not _ATTRIBUTE_LINE.match(line):
            break
        stop = begin - 1
    return _shortened(b"\n".join(reversed(found)).decode("utf-8", "replace"))


def _shortened(text: str) -> str:
    """The first paragraph, on one line."""
    paragraph = " ".join(text.strip().partition("\n\n")[0].split())
    return paragraph if len(paragraph) <= DOC_CHARS else paragraph[: DOC_CHARS - 1] + "…"


_QUOTED = lazy_pattern(r"""["'`]([^"'`]+)["'`]""")
_NAME = lazy_pattern(r"[\w$]+")


def _python_imports(text: str) -> list[tuple[str, tuple[str, ...]]]:
    text = " ".join(re.sub(r"#[^\n]*", "", text).replace("\\\n", " ").split())
    if found := re.match(r"from\s*(\.*\s*[\w.]*)\s*import\s*\(?(.*?)\)?$", text):
        names = tuple(part.split()[0] for part in found[2].split(",") if part.strip())
        return [(found[1].replace(" ", ""), names)]
    modules = (part.split()[0] for part in text.removeprefix("import").split(",") if part.strip())
    return [(module, ()) for module in modules]


def _script_imports(text: str) -> list[tuple[str, tuple[str, ...]]]:
    found = _QUOTED.findall(text)
    if not found:
        return []
    clause = re.search(r"\{(.*?)\}", text, re.DOTALL)
    names = tuple(part.split()[0] for part in clause[1].split(",") if part.strip()) if clause else ()
    default = re.match(r"import\s+(?:type\s+)?([\w$]+)\s*(?:,|from)", text)
    return [(found[-1], (*((default[1],) if default else ()), *names))]


def _rust_imports(text: str) -> list[tuple[str, tuple[str, ...]]]:
    path = re.sub(r"^(?:pub(?:\([^)]*\))?\s+)?(?:use|extern\s+crate)\s+", "", text.strip()).rstrip("; ")
    module, brace, rest = path.partition("{")
    if brace:
        return [(module.rstrip(": "), tuple(dict.fromkeys(_NAME.findall(rest))))]
    head, _, last = path.partition(" as ")[0].rpartition("::")
    return [(head or last, (last,) if head else ())]


_IMPORTS: Mapping[Grammar, Callable[[str], list[tuple[str, tuple[str, ...]]]]] = {
    PYTHON: _python_imports,
    GO: lambda text: [(module, ()) for module in _QUOTED.findall(text)],
    JAVA: lambda text: [(re.sub(r"^import\s+(?:static\s+)?|[;\s]+$", "", text), ())],
    RUST: _rust_imports,
    **dict.fromkeys((C, CPP), lambda text: [(found, ()) for found in re.findall(r"[<\"]([^>\"]+)[>\"]", text)]),
}


def imports_in(grammar: Grammar, text: str, line: int) -> list[Import]:
    """The modules that an import statement names."""
    return [Import(module, line, names) for module, names in _IMPORTS.get(grammar, _script_imports)(text) if module]
