"""What a module of ours, or a test, comes to: its lines, functions, imports, constants, classes and the words it quotes."""

from __future__ import annotations

import ast
import gc
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

Function = ast.FunctionDef | ast.AsyncFunctionDef

SENTENCE_WORDS = 4
"""A text of so many words is a sentence: a change of its wording is a change of the test."""

_WORD = re.compile(r"[A-Za-z]{2,}")
_KINDS_OF_RUN = frozenset(("provider", "turn", "lead"))
"""What is None in a run that is no live one, or no conversation's own."""


@dataclass
class Called:
    """A function: its place in the module, its lines, its parameters but `self`, the lines of its body."""

    name: str
    first: int
    last: int
    parameters: int
    body: int

    @property
    def lines(self) -> int:
        return self.last - self.first + 1


@dataclass
class Counts:
    """One module, counted."""

    lines: int = 0
    code: int = 0
    import_lines: int = 0
    inner_imports: int = 0
    constants: int = 0
    tests_for_none: int = 0
    functions: list[Called] = field(default_factory=list)
    once: list[Called] = field(default_factory=list)
    """The private functions that are named in one place."""
    fields: dict[str, set[str]] = field(default_factory=dict)
    """The fields and attributes of each class."""
    quoted: set[str] = field(default_factory=set)
    """The texts of one word in it."""


def counted(paths: Sequence[Path]) -> dict[Path, Counts]:
    """Count these modules. The collector is off meanwhile: trees are many small objects, and none of them is garbage."""
    gc.disable()
    try:
        return {path: count(path.read_text("utf-8")) for path in paths}
    finally:
        gc.enable()


def count(source: str) -> Counts:
    """Count one module.

    >>> counts = count("import os\\n\\nLIMIT = 3\\n\\ndef _one():\\n    return os\\n\\ndef two():\\n    return _one()\\n")
    >>> counts.code, counts.import_lines, counts.constants, [each.name for each in counts.once]
    (6, 1, 1, ['_one'])
    """
    tree = ast.parse(source)
    found = Counts(lines=source.count("\n") + (not source.endswith("\n")))
    names: Counter[str] = Counter()
    texts = source.split("\n")
    found.code = sum(bool(text := line.strip()) and text[0] != "#" for line in texts)
    found.constants = sum(_is_number(value) for value in _values(tree.body))
    within: list[tuple[ast.AST, bool, str]] = [(tree, False, "")]
    while within:
        node, inside, owner = within.pop()
        match node:
            case ast.Name():
                names[node.id] += 1
            case ast.Attribute():
                names[node.attr] += 1
                is_own = isinstance(node.value, ast.Name) and node.value.id == "self"
                if owner and is_own and isinstance(node.ctx, ast.Store):
                    found.fields[owner].add(node.attr)
            case ast.Expr(value=ast.Constant(value=str())):
                found.code -= sum(bool(line.strip()) for line in texts[node.lineno - 1 : node.end_lineno])
                continue
            case ast.Import() | ast.ImportFrom():
                found.import_lines += (node.end_lineno or node.lineno) - node.lineno + 1
                found.inner_imports += inside
            case ast.ClassDef():
                owner = node.name
                found.fields.setdefault(owner, set()).update(_declared(node))
            case _:
                _note(node, found)
        inside = inside or isinstance(node, Function)
        within += [(child, inside, owner) for child in _children(node)]
    found.once = [each for each in found.functions if _is_private(each.name) and names[each.name] == 1]
    return found


def _note(node: ast.AST, found: Counts) -> None:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            found.functions.append(_called(node))
        case ast.Constant(value=str()) if node.value.isidentifier():
            found.quoted.add(node.value)
        case ast.Compare(ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(value=None)]):
            found.tests_for_none += _last_name(node.left) in _KINDS_OF_RUN
        case _:
            pass


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes right below, but what says how a name is used and which operator stands there."""
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, list):
            yield from (each for each in value if isinstance(each, ast.AST) and each._fields)
        elif isinstance(value, ast.AST) and value._fields:
            yield value


@dataclass
class Asserts:
    """The asserts of tests, those of them that hold a sentence, and the lines of the tests."""

    all: int = 0
    sentences: int = 0
    lines: int = 0


def asserts_in(paths: Sequence[Path]) -> Asserts:
    """Count the asserts of these modules."""
    gc.disable()
    found = Asserts()
    for path in paths:
        add_asserts(path.read_text("utf-8"), found)
    return found


def add_asserts(source: str, found: Asserts) -> None:
    """Count the asserts of one module.

    >>> add_asserts("assert told == 'one two three four'\\nif n:\\n    assert n == 4\\n", found := Asserts())
    >>> found
    Asserts(all=2, sentences=1, lines=3)
    """
    found.lines += source.count("\n")
    within: list[ast.AST] = [ast.parse(source)]
    while within:
        node = within.pop()
        if isinstance(node, ast.Assert):
            found.all += 1
            found.sentences += any(_holds_sentence(part) for part in ast.walk(node.test))
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            below = getattr(node, name, ())
            within += below if isinstance(below, list) else ()


def _called(node: Function) -> Called:
    body = node.body
    if len(body) > 1 and ast.get_docstring(node, clean=False) is not None:
        body = body[1:]
    arguments = node.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    parameters = len([each for each in named if each.arg not in ("self", "cls")])
    last = node.end_lineno or node.lineno
    return Called(node.name, node.lineno, last, parameters, last - body[0].lineno + 1)


def _declared(node: ast.ClassDef) -> Iterator[str]:
    """The annotated fields of a class."""
    return (
        each.target.id for each in node.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    )


def _values(body: Iterable[ast.stmt]) -> Iterator[ast.expr]:
    """The values that a module gives to its own names."""
    for each in body:
        if isinstance(each, ast.Assign | ast.AnnAssign) and each.value is not None:
            yield each.value


def _is_number(value: ast.expr) -> bool:
    """Whether it is a number, or reckoned from numbers alone."""
    match value:
        case ast.Constant():
            return isinstance(value.value, int | float) and not isinstance(value.value, bool)
        case ast.UnaryOp():
            return _is_number(value.operand)
        case ast.BinOp():
            return _is_number(value.left) and _is_number(value.right)
        case _:
            return False


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _holds_sentence(node: ast.AST) -> bool:
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return is_text and len(_WORD.findall(node.value)) >= SENTENCE_WORDS and " " in node.value  # type: ignore[attr-defined]


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")
