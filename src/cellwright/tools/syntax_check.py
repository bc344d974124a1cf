"""Is a file's text still a program? An edit that breaks what parsed is refused before it is written.

Languages with a grammar are parsed by tree-sitter. Python is also compiled, since the grammar does not see wrong
indentation. That happens in a child process: the compiler holds the interpreter's lock, prints warnings and may crash on
deep nesting, all of which would be the user's kernel's. JSON and TOML are read.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from cellwright.agent.tool import ToolError
from cellwright.errors import ErrorCode
from cellwright.tools.languages import PYTHON, Grammar, error_nodes, grammar_of, parse

CHECKED_BYTES = 2**20
"""A larger file is not checked."""

TOML_CHARS = 200_000
"""Python's TOML reader is slow."""

COMPILED_CHARS = 300_000
"""More Python than this is not compiled, only parsed: that would take seconds."""

COMPILE_SECONDS = 10
ERRORS_COUNTED = 1_000

ALLOW = "allow_syntax_errors"
ALLOW_FIELD = {
    "type": "boolean",
    "default": False,
    "description": "Write it although a file that parsed would no longer parse.",
}

# the text comes through stdin, and never runs
_COMPILE = """\
import sys
try:
    compile(sys.stdin.buffer.read().decode("utf-8", "surrogatepass"), "file", "exec", dont_inherit=True)
except SyntaxError as error:
    print(isinstance(error, IndentationError), error.lineno or 1, ascii(error.msg), sep="\\t")
except (ValueError, OverflowError, RecursionError, MemoryError):
    pass
"""


@dataclass(frozen=True, slots=True)
class SyntaxProblem:
    """What is wrong with a text, first in line `line`. `doubtful`: only a newer or older compiler may be needed."""

    line: int
    message: str
    errors: int = 1
    doubtful: bool = False


def check_syntax(path: Path, before: str | None, after: str, shown: str, *, allowed: bool) -> str:
    """A note on the syntax of a file that is about to hold `after`; empty if there is nothing to say.

    Raises ToolError if `before` (None: no file) parsed and `after` does not, unless `allowed`.
    """
    problem = syntax_problem(path, after)
    if problem is None:
        return ""
    there = syntax_problem(path, before) if before is not None else None
    failed = there is not None and not there.doubtful
    if there is not None and there.errors >= problem.errors and (failed or problem.doubtful):
        return ""
    where = f"line {problem.line}: {problem.message}"
    if before is None or failed or problem.doubtful:
        return f"\n[It does not parse, {where}]"
    if allowed:
        return f"\n[It no longer parses, {where}]"
    line = after.split("\n")[problem.line - 1 : problem.line]
    raise ToolError(
        f"{shown} would no longer parse; nothing was written. After the change, {where}"
        + (f"\n{problem.line:6d}\t{line[0][:300]}" if line else "")
        + f"\nMend the new text, or set {ALLOW} if the file is to be broken for a while.",
        code=ErrorCode.INVALID_PARAMETERS,
        details={"line": problem.line, "message": problem.message},
    )


def syntax_problem(path: Path, text: str) -> SyntaxProblem | None:
    """What is wrong with `text` as a file of this name; None if nothing, or if that cannot be told."""
    check = _check_for(path)
    if check is None or len(text) > CHECKED_BYTES:
        return None
    return check(text)


def _check_for(path: Path) -> Callable[[str], SyntaxProblem | None] | None:
    suffix = path.suffix.lower()
    if suffix == ".json":
        return _json_problem
    if suffix == ".toml":
        return _toml_problem
    grammar = grammar_of(path)
    if grammar is None:
        return None
    return _python_problem if grammar is PYTHON else lambda text: _grammar_problem(grammar, text)


def _json_problem(text: str) -> SyntaxProblem | None:
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return SyntaxProblem(error.lineno, f"{error.msg}.")
    except (RecursionError, ValueError):  # nested too deep, or a number too long for Python: not for JSON
        return None
    return None


def _toml_problem(text: str) -> SyntaxProblem | None:
    if len(text) > TOML_CHARS:
        return None
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message, _, place = str(error).rpartition(" (at ")
        line = place.removeprefix("line ").partition(",")[0]
        return SyntaxProblem(int(line) if line.isdecimal() else text.count("\n") + 1, f"{message or error}.")
    except (RecursionError, ValueError):
        return None
    return None


def _grammar_problem(grammar: Grammar, text: str) -> SyntaxProblem | None:
    errors = list(islice(error_nodes(parse(grammar, text.encode("utf-8", "surrogatepass"))), ERRORS_COUNTED))
    if not errors:
        return None
    first = errors[0]
    missing = f"{first.type!r} is missing" if first.is_missing else "syntax error"
    return SyntaxProblem(first.start_point.row + 1, f"{missing} ({grammar.name}).", len(errors))


def _python_problem(text: str) -> SyntaxProblem | None:
    found = _compiled(text)
    if found == "":
        return None
    by_grammar = _grammar_problem(PYTHON, text)
    if found is None:
        return by_grammar
    indentation, line, message = found.split("\t")
    # the grammar knows the syntax of all versions; this interpreter's is only one of them
    doubtful = indentation == "False" and by_grammar is None
    errors = 1 if by_grammar is None else by_grammar.errors
    return SyntaxProblem(int(line), f"{message.strip()[1:-1]}.", errors, doubtful)


def _compiled(text: str) -> str | None:
    """What the compiler says: empty if it takes the text; None if it cannot be asked."""
    if len(text) > COMPILED_CHARS:
        return None
    try:
        run = subprocess.run(
            [sys.executable, "-I", "-S", "-W", "ignore", "-c", _COMPILE],
            input=text.encode("utf-8", "surrogatepass"),
            capture_output=True,
            timeout=COMPILE_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return run.stdout.decode("ascii", "replace").strip()
