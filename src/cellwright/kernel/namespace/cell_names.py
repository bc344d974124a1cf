"""The names of the namespace that a cell's source binds, changes and uses, by reading it; nothing is run."""

from __future__ import annotations

import ast
import functools
import linecache
import re
import symtable
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from cellwright.text import lazy_pattern

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_PYTHON_CELL_MAGICS = ("time", "timeit", "capture", "prun", "python", "python3")
_CELL_MAGIC = lazy_pattern(r"%%(?P<name>\w+)[^\n]*\n?")
_MAGIC_LINE = lazy_pattern(
    r"^(?P<indent>\s*)(?:(?P<name>[\w\s,]+)=\s*)?[%!][^\n]*$|^(?P<before>\s*)[^\n#'\"]*\?{1,2}\s*$"
)

_ESCAPE = lazy_pattern(r"\\(.)", re.DOTALL)
_KNOWN_ESCAPES = frozenset("\n\r\\'\"abfnrtvxNuU01234567")


class CellNames(Struct, frozen=True):
    """`bound` get a value, `changed` are stored into (`df["a"] = 1`, `x.y = 1`, `n += 1`), `used` read, `deleted` deleted.

    `used` holds what functions and classes of the cell read too, and names of builtins.
    """

    bound: frozenset[str] = frozenset()
    changed: frozenset[str] = frozenset()
    used: frozenset[str] = frozenset()
    deleted: frozenset[str] = frozenset()


@functools.lru_cache(maxsize=4_096)
def cell_names(source: str) -> CellNames:
    """The names in `source`; none for what is no Python (a cell in another language, a prompt, a syntax error)."""
    python = _parsed(source)
    if python is None:
        return CellNames()
    tree, text = python
    top = symtable.symtable(text, "<cell>", "exec")
    bound = {symbol.get_name() for symbol in top.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    symbols = (symbol for table in _tables(top) for symbol in table.get_symbols())
    used = {symbol.get_name() for symbol in symbols if symbol.is_global() and symbol.is_referenced()}
    nodes = tuple(ast.walk(tree))
    deleted = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del)}
    stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    changed = set(_changed(nodes))
    # since Python 3.12 the tables count what a comprehension calls its items among the names around it
    targets = [each.target for each in nodes if isinstance(each, ast.comprehension)]
    items = {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
    if items:
        items -= _outside_comprehensions(tree)
    return CellNames(
        frozenset(bound - items - (deleted - stored)),
        frozenset(changed),
        frozenset((used - items) | changed),
        frozenset(deleted),
    )


def _outside_comprehensions(tree: ast.AST) -> set[str]:
    """The names of all that stands outside of comprehensions; what the first `for` of one goes through does."""
    found: set[str] = set()
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            waiting.append(node.generators[0].iter)
            continue
        said = (getattr(node, field, None) for field in ("id", "name", "asname", "arg"))
        found.update(name for name in said if isinstance(name, str))
        waiting += ast.iter_child_nodes(node)
    return found


def _parsed(source: str) -> tuple[ast.Module, str] | None:
    for text in (source, _without_magics(source)):
        if text is None:
            continue
        text = _ESCAPE.sub(_valid_escape, text)
        try:
            return ast.parse(text), text
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return None


def _valid_escape(escape: re.Match[str]) -> str:
    """An escape that Python knows, or one of the same length that is none: of the others the parser warns.

    The user was warned when the cell ran. Silencing the parser would take the process's filters, in which the user's own
    `catch_warnings` may be at work on the main thread; and no name depends on what a string says.
    """
    return escape[0] if escape[1] in _KNOWN_ESCAPES else f".{escape[1]}"


def _without_magics(source: str) -> str | None:
    """`source` with a `pass` for each magic or shell command; None where the whole cell is in another language."""
    if magic := _CELL_MAGIC.match(source.lstrip("\n")):
        if magic["name"] not in _PYTHON_CELL_MAGICS:
            return None
        source = source.lstrip("\n")[magic.end() :]
    return "\n".join(_MAGIC_LINE.sub(_stand_in, line) for line in source.split("\n"))


def _stand_in(line: re.Match[str]) -> str:
    if line["name"]:
        return f"{line['indent']}{line['name'].strip()} = None"
    return f"{line['indent'] or line['before'] or ''}pass"


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _tables(child)


def _changed(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.AugAssign):
            yield from _root(node.target)
        elif isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            yield from _root(node)


def _root(node: ast.AST) -> Iterator[str]:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    if isinstance(node, ast.Name):
        yield node.id


def cell_of_file(shell: InteractiveShell, file: str) -> tuple[str, str] | None:
    """`("Cell", "In[3]")` for the file name of a cell's code; None for a real file."""
    compiler: Any = shell.compile
    if hasattr(compiler, "format_code_name"):
        found: tuple[str, str] | None = compiler.format_code_name(file)
        return found
    # IPython 7 knows which files are cells, but not which is which
    if file not in getattr(linecache, "_ipython_cache", ()):
        return None
    history: Any = shell.history_manager
    codes = list(zip(history.input_hist_raw, history.input_hist_parsed, strict=False))
    for number in range(len(codes) - 1, 0, -1):
        raw, parsed = codes[number]
        # the history has both without the line ends at their ends
        if any(compiler.get_code_name(each, f"{parsed}\n", number) == file for each in (raw, f"{raw}\n")):
            return "Cell", f"In[{number}]"
    return "Cell", "In[?]"
