"""`%%claude` cells and `%claude` lines rewritten as awaited calls.

An awaited cell leaves the kernel's loop free: widget clicks and interrupts arrive while Claude works. A magic that is
an `async def` is never awaited by IPython, so the input is rewritten before IPython makes a plain call of it. If a
cell cannot be awaited (`%autoawait` off, another loop, a line inside a function) the plain call stays, and blocks.

A cell asks Claude by what IPython makes of its source: comments and strings do not count.
"""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from IPython.core.inputtransformer2 import (
    EscapedCommand,
    TokenTransformBase,
    assemble_continued_line,
    find_end_of_continued_line,
    leading_indent,
)

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_CELL = r"%%claude(?=\s|$)"
_LINE = r"%claude(?=\s|$)"

AWAITED_CELL = "await get_ipython().find_cell_magic('claude').__self__.awaited_cell({!r}, {!r})\n"
AWAITED_LINE = "await get_ipython().find_line_magic('claude').__self__.awaited_line({!r})"
PLAIN_LINE = "get_ipython().run_line_magic('claude', {!r})"


def can_await(shell: InteractiveShell) -> bool:
    """Return whether this shell runs a cell with a top-level await on asyncio."""
    return bool(shell.autoawait) and shell.loop_runner is shell.loop_runner_map["asyncio"][0]


class Rewriting:
    """The rewriting of one shell's input, from `install` to `remove`."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._cell = _cell_transform(shell)
        self._line = _line_transform(shell)

    def install(self) -> None:
        manager = self._shell.input_transformer_manager
        # before anything strips ">>>" and "In [1]:" from what is the prompt's own text
        place = next((i + 1 for i, done in enumerate(manager.cleanup_transforms) if done is leading_indent), 0)
        manager.cleanup_transforms.insert(place, self._cell)
        manager.token_transformers.append(self._line)

    def remove(self) -> None:
        manager = self._shell.input_transformer_manager
        manager.cleanup_transforms.remove(self._cell)
        manager.token_transformers.remove(self._line)


def _cell_transform(shell: InteractiveShell) -> Callable[[list[str]], list[str]]:
    def rewrite_claude_cell(lines: list[str]) -> list[str]:
        if not lines or not (start := re.match(_CELL, lines[0])) or not can_await(shell):
            return lines
        return [AWAITED_CELL.format(lines[0][start.end() :].strip(), "".join(lines[1:]))]

    # without it, a terminal takes the cell as complete after its first line
    rewrite_claude_cell.has_side_effects = True  # type: ignore[attr-defined]
    return rewrite_claude_cell


def _line_transform(shell: InteractiveShell) -> type[TokenTransformBase]:
    class ClaudeLine(EscapedCommand):
        """`%claude text`, also where the text ends in a question mark, which IPython takes for a call for help."""

        priority = 4  # HelpEnd has 5

        @classmethod
        def find(cls, tokens_by_line: list[list[Any]]) -> TokenTransformBase | None:
            for line in tokens_by_line:
                words = [token for token in line if token.type not in (tokenize.INDENT, tokenize.DEDENT)]
                if words and words[0].string == "%" and re.match(_LINE, words[0].line[words[0].start[1] :]):
                    return cls(words[0].start)
            return None

        def transform(self, lines: list[str]) -> list[str]:
            end = find_end_of_continued_line(lines, self.start_line)
            text = assemble_continued_line(lines, (self.start_line, self.start_col), end)
            awaited = self.start_col == 0 and can_await(shell)
            call = (AWAITED_LINE if awaited else PLAIN_LINE).format(text[len("%claude") :].strip())
            indent = lines[self.start_line][: self.start_col]
            return [*lines[: self.start_line], f"{indent}{call}\n", *lines[end + 1 :]]

    return ClaudeLine


MAGIC = "claude"
_RUN_CODE = frozenset({"time", "timeit", "capture", "prun", "debug", "memit", "mprun"})
"""Magics whose code is the user's, with magics in it."""

MAX_NESTED = 5


def asks_claude(shell: InteractiveShell, source: str, depth: int = 0) -> bool:
    """Return whether `source`, a cell, calls the magic `claude`. To be called on the thread that runs the cells."""
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
