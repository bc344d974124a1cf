"""`%%claude` cells and `%claude` lines: read as they are written, and awaited where their cell can be.

An awaited cell leaves the kernel's loop free: widget clicks and interrupts arrive while Claude works. A magic that is
an `async def` is never awaited by IPython, so the call is made an awaited one in the cell's syntax tree, at the last
moment: when IPython runs the cell in a coroutine that is awaited. The text stays a plain call. So it runs, and blocks,
wherever a magic runs: in `run_cell`, `%run`, `%rerun`, macros, other magics, `exec`, functions and threads.

A cell asks Claude by what IPython makes of its source: comments and strings do not count.
"""

from __future__ import annotations

import ast
import asyncio
import functools
import re
import sys
import threading
import tokenize
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from IPython.core.inputtransformer2 import (
    EscapedCommand,
    MagicAssign,
    TokenTransformBase,
    TransformerManager,
    assemble_continued_line,
    find_end_of_continued_line,
    leading_indent,
)

from cellwright.errors import CellwrightError
from cellwright.kernel.magic.options import parse_line

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

MAGIC = "claude"
_CELL = r"%%claude(?=\s|$)"
_LINE = r"%claude(?=\s|$)"
_ASSIGNED = rf"=\s*{_LINE}"
_BEFORE_CELL = r"\s*(?:#|$)"
"""A line that may stand before `%%claude`: front ends put titles and options of a cell there."""

PLAIN_CELL = "get_ipython().run_cell_magic('claude', {!r}, {!r})\n"
PLAIN_LINE = "get_ipython().run_line_magic('claude', {!r})"
TEXT_BELOW = "get_ipython().find_line_magic('claude').__self__.refuse_text_below({!r})\n"
_AWAITED = {
    "run_cell_magic": "await get_ipython().find_cell_magic('claude').__self__.awaited_cell()",
    "run_line_magic": "await get_ipython().find_line_magic('claude').__self__.awaited_line()",
}


def can_await(shell: InteractiveShell) -> bool:
    """Return whether this shell runs a cell with a top-level await on asyncio."""
    return bool(shell.autoawait) and shell.loop_runner is shell.loop_runner_map["asyncio"][0]


class Rewriting:
    """The rewriting of one shell's input, from `install` to `remove`."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._tree = AwaitedCalls(shell)

    def install(self) -> None:
        shell, manager = self._shell, self._shell.input_transformer_manager
        # before anything strips ">>>" and "In [1]:" from what is the prompt's own text
        place = next((i + 1 for i, done in enumerate(manager.cleanup_transforms) if done is leading_indent), 0)
        manager.cleanup_transforms.insert(place, rewrite_claude_cell)
        manager.token_transformers += [ClaudeLine, ClaudeAssigned]
        shell.ast_transformers.append(self._tree)
        shell.should_run_async = _asking_for_claude_too(shell)  # type: ignore[method-assign]

    def remove(self) -> None:
        shell, manager = self._shell, self._shell.input_transformer_manager
        manager.cleanup_transforms.remove(rewrite_claude_cell)
        for line in (ClaudeLine, ClaudeAssigned):
            manager.token_transformers.remove(line)
        if self._tree in shell.ast_transformers:  # IPython takes out what raised
            shell.ast_transformers.remove(self._tree)
        del shell.should_run_async


def _asking_for_claude_too(shell: InteractiveShell) -> Callable[..., bool]:
    original = shell.should_run_async

    @functools.wraps(original)
    def should_run_async(raw_cell: str, **more: Any) -> bool:
        if original(raw_cell, **more):
            return True
        transformed = more.get("transformed_cell")
        if not transformed or more.get("preprocessing_exc_tuple") is not None or "_magic('claude'" not in transformed:
            return False
        if not can_await(shell) or not _caller_awaits(sys._getframe(1).f_code.co_name):
            return False
        try:
            return any(True for _ in _calls_that_can_be_awaited(ast.parse(transformed).body))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False

    return should_run_async


def _caller_awaits(caller: str) -> bool:
    """Return whether the function named `caller`, which wants to know how to run a cell, can await it.

    The kernel awaits cells on its running loop. `_run_cell` starts a loop, which it can only where none is running;
    threads have none.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return threading.current_thread() is threading.main_thread()
    return caller != "_run_cell"


def _calls_that_can_be_awaited(statements: Iterable[ast.stmt]) -> Iterator[tuple[ast.Expr, ast.Call]]:
    """The statements that are a call of our magic, up to one that may switch `await` off for those behind it."""
    for statement in statements:
        if not isinstance(statement, ast.Expr) or not isinstance(call := statement.value, ast.Call):
            continue
        function, arguments = call.func, call.args
        if not isinstance(function, ast.Attribute) or function.attr not in _AWAITED or call.keywords or not arguments:
            continue
        name = arguments[0].value if isinstance(arguments[0], ast.Constant) else None
        if name == "autoawait":
            return
        if name == MAGIC:
            yield statement, call


class AwaitedCalls(ast.NodeTransformer):
    """Make calls of the magic awaited ones, at the top level of a cell that IPython runs in an awaited coroutine."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.Module) and can_await(self._shell) and _cell_is_awaited():
            for statement, call in _calls_that_can_be_awaited(node.body):
                _await(statement, call)
        return node


def _cell_is_awaited() -> bool:
    # IPython hands a transformer the tree alone; `%time` and the like transform what they compile for a plain call
    transform_ast = sys._getframe(2)
    cell = transform_ast.f_back
    if cell is None or cell.f_code.co_name != "run_cell_async" or cell.f_back is None:
        return False
    return cell.f_back.f_code.co_name != "_pseudo_sync_runner"


def _await(statement: ast.Expr, call: ast.Call) -> None:
    assert isinstance(call.func, ast.Attribute)
    awaited = ast.parse(_AWAITED[call.func.attr], mode="eval").body
    assert isinstance(awaited, ast.Await)
    assert isinstance(awaited.value, ast.Call)
    awaited.value.args = call.args[1:]
    for node in ast.walk(awaited):
        ast.copy_location(node, call)
    statement.value = awaited


def rewrite_claude_cell(lines: list[str]) -> list[str]:
    """Make of a `%%claude` cell the call of the magic; comments may stand before it."""
    first = next((i for i, line in enumerate(lines) if not re.match(_BEFORE_CELL, line)), None)
    if first is None:
        return lines
    if start := re.match(_CELL, lines[first]):
        text = PLAIN_CELL.format(lines[first][start.end() :].strip(), "".join(lines[first + 1 :]))
        return [*lines[:first], text]
    if (start := re.match(_LINE, lines[first])) and (below := "".join(lines[first + 1 :])).strip():
        line = lines[first][start.end() :]
        if line.rstrip().endswith("\\"):
            return lines
        if (alone := _has_no_prompt(line)) or not _is_code(below):
            return [TEXT_BELOW.format(alone)]
    return lines


# without it, a terminal takes the cell as complete after its first line
rewrite_claude_cell.has_side_effects = True  # type: ignore[attr-defined]


def _is_code(text: str) -> bool:
    """Return whether text is what IPython runs, rather than more of a prompt."""
    try:
        ast.parse(TransformerManager().transform_cell(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _has_no_prompt(line: str) -> bool:
    """Return whether the rest of a line is options alone, or nothing."""
    from cellwright.kernel.magic.cell_prompt import MagicOptions  # loading the extension needs none

    try:
        return not parse_line(line, MagicOptions())[1]
    except CellwrightError:
        return False  # the magic says what is wrong


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
        call = PLAIN_LINE.format(text[len("%claude") :].strip())
        indent = lines[self.start_line][: self.start_col]
        return [*lines[: self.start_line], f"{indent}{call}\n", *lines[end + 1 :]]


class ClaudeAssigned(MagicAssign):
    """`x = %claude text`, also where the text ends in a question mark."""

    priority = ClaudeLine.priority

    def __init__(self, start: tuple[int, int]) -> None:
        super().__init__((start[0], 0))  # by its own column it would come after a call for help
        self._column = start[1]

    @classmethod
    def find(cls, tokens_by_line: list[list[Any]]) -> TokenTransformBase | None:
        lines = [line for line in tokens_by_line if line and re.search(_ASSIGNED, line[0].line)]
        found: TokenTransformBase | None = super().find(lines)
        return found

    def transform(self, lines: list[str]) -> list[str]:
        self.start_col = self._column
        transformed: list[str] = super().transform(lines)
        return transformed


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
        if node.func.attr in ("run_line_magic", "run_cell_magic"):
            yield known[0], known[-1] if len(known) > 1 else ""
