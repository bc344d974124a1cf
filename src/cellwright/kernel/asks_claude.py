"""Does a cell ask Claude? Told by what IPython makes of its source: comments and strings do not count."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

MAGIC = "claude"
_RUN_CODE = frozenset({"time", "timeit", "capture", "prun", "debug", "memit", "mprun"})
"""Magics whose code is the user's, with magics in it."""

MAX_NESTED = 5


def asks_claude(shell: InteractiveShell, source: str, depth: int = 0) -> bool:
    """Whether `source`, a cell, calls the magic `claude`. To be called on the thread that runs the cells."""
    try:
        tree = ast.parse(shell.transform_cell(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False  # it will not run either
    for name, code in _magics(tree):
        if name == MAGIC:
            return True
        if name in _RUN_CODE and code and depth < MAX_NESTED and asks_claude(shell, code, depth + 1):
            return True
    return False


def _magics(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """The magics that are called, each with its text: what stands in the line, or in the cell below it."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        texts = [argument.value if isinstance(argument, ast.Constant) else None for argument in node.args]
        known = [text for text in texts if isinstance(text, str)]
        if not known:
            continue
        if node.func.attr in ("find_line_magic", "find_cell_magic"):
            yield known[0], ""
        elif node.func.attr in ("run_line_magic", "run_cell_magic"):
            yield known[0], known[-1] if len(known) > 1 else ""
