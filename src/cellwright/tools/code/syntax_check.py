"""The check that a file's text is still a program: an edit that breaks what parsed is refused before it is written.

Languages with a grammar are parsed by tree-sitter (`codebase/grammars.py`); what has none is not checked. Python
is also compiled, since the grammar does not see wrong indentation. That happens in a child process: the compiler holds
the interpreter's lock, prints warnings and may crash on deep nesting, all of which would be the user's kernel's. JSON
and TOML are read.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from cellwright.codebase.grammars import PYTHON, Grammar, error_nodes, grammar_of, is_installed, parse
from cellwright.errors import ErrorCode, ToolError


def _guesses(path: Path, grammar: Grammar) -> bool:
    """Return whether the file may be right where the grammar says that it is not."""
    return grammar.guesses or path.name.lower().endswith((".d.ts", ".d.mts", ".d.cts"))


CHECKED_BYTES = 2**20
"""A larger file is not checked."""

COMPILED_CHARS = 300_000
"""More Python than this is not compiled, only parsed: that would take seconds."""

# the texts come through stdin, and never run; a line of the answer is about each
_COMPILE = """\
import json, sys
for text in json.load(sys.stdin):
    try:
        compile(text, "file", "exec", dont_inherit=True)
        print()
    except SyntaxError as error:
        print(isinstance(error, IndentationError), error.lineno or 1, ascii(error.msg), sep="\\t")
    except (ValueError, OverflowError, RecursionError, MemoryError):
        print()
    sys.stdout.flush()
"""


class SyntaxProblem(Struct, frozen=True):
    """A problem of a text, first in line `line`.

    `doubtful`: there may be none, for a newer or older compiler, or for one that knows more than a grammar that guesses.
    """

    line: int
    message: str
    errors: int = 1
    doubtful: bool = False


class EditedFile(Struct, frozen=True):
    """A file before (None: there was none) and after an edit; `display_path` is what it is called."""

    path: Path
    before: str | None
    after: str
    display_path: str


def check_syntax(path: Path, before: str | None, after: str, display_path: str, *, allowed: bool) -> str:
    """`check_all` for one file."""
    return check_all([EditedFile(path, before, after, display_path)], allowed=allowed)[0]


def check_all(files: Sequence[EditedFile], *, allowed: bool) -> list[str]:
    """A note on the syntax of each file that is about to hold `after`; empty if there is nothing to say.

    Raises ToolError if `before` parsed and `after` does not, in any of them, unless `allowed`.
    """
    compiled = _compiled([file.after for file in files if grammar_of(file.path) is PYTHON])
    return [_checked(file, _problem(file.path, file.after, compiled), allowed=allowed) for file in files]


def _checked(file: EditedFile, problem: SyntaxProblem | None, *, allowed: bool) -> str:
    if problem is None:
        return ""
    there = syntax_problem(file.path, file.before) if file.before is not None else None
    failed = there is not None and not there.doubtful
    if there is not None and there.errors >= problem.errors and (failed or problem.doubtful):
        return ""
    where = f"line {problem.line}: {problem.message}"
    if (grammar := grammar_of(file.path)) is not None and _guesses(file.path, grammar):
        return f"\n[It may not parse, {where}]"
    if file.before is None or failed or problem.doubtful:
        return f"\n[It does not parse, {where}]"
    if allowed:
        return f"\n[It no longer parses, {where}]"
    line = file.after.split("\n")[problem.line - 1 : problem.line]
    raise ToolError(
        f"{file.display_path} would no longer parse; nothing was written. After the change, {where}"
        + (f"\n{problem.line:6d}\t{line[0][:300]}" if line else "")
        + "\nFix the new text, or set allow_syntax_errors if the file is meant to be broken for a while.",
        code=ErrorCode.INVALID_PARAMETERS,
        details={"line": problem.line, "message": problem.message},
    )


def syntax_problem(path: Path, text: str) -> SyntaxProblem | None:
    """Find what is wrong with `text` as a file of this name; None if nothing, or if that cannot be told."""
    return _problem(path, text, _compiled([text] if grammar_of(path) is PYTHON else []))


def _problem(path: Path, text: str, compiled: Mapping[str, str]) -> SyntaxProblem | None:
    """The same, with what the compiler says of Python texts."""
    if len(text) > CHECKED_BYTES:
        return None
    suffix, grammar = path.suffix.lower(), grammar_of(path)
    if suffix == ".json":
        return _json_problem(text)
    if suffix == ".toml":
        return _toml_problem(text)
    if grammar is PYTHON:
        return _python_problem(text, compiled.get(text))
    problem = None if grammar is None or not is_installed(grammar) else _grammar_problem(grammar, text)
    if problem is None or grammar is None or not _guesses(path, grammar):
        return problem
    return replace(problem, doubtful=True)


def _json_problem(text: str) -> SyntaxProblem | None:
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return SyntaxProblem(error.lineno, f"{error.msg}.")
    except (RecursionError, ValueError):  # nested too deep, or a number too long for Python: not for JSON
        return None
    return None


def _toml_problem(text: str) -> SyntaxProblem | None:
    # Python's TOML reader is slow
    if len(text) > 200_000:
        return None
    import tomllib  # few edits are of such files

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
    errors = list(islice(error_nodes(parse(grammar, text.encode("utf-8", "surrogatepass"))), 1_000))
    if not errors:
        return None
    first = errors[0]
    missing = f"{first.type!r} is missing" if first.is_missing else "syntax error"
    return SyntaxProblem(first.start_point.row + 1, f"{missing} ({grammar.name}).", len(errors))


def _python_problem(text: str, found: str | None) -> SyntaxProblem | None:
    """`found` is what the compiler says: empty if it takes the text, None if it was not asked."""
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


def _compiled(texts: Sequence[str]) -> dict[str, str]:
    """Ask the compiler about Python texts; those that it was not asked for are left out."""
    asked = [text for text in dict.fromkeys(texts) if len(text) <= COMPILED_CHARS]
    if not asked:
        return {}
    command = [sys.executable, "-I", "-S", "-W", "ignore", "-c", _COMPILE]
    seconds = 10 + sum(map(len, asked)) / COMPILED_CHARS
    try:
        run = subprocess.run(
            command, input=json.dumps(asked).encode(), capture_output=True, timeout=seconds, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    # if one text was too much for the compiler, there are fewer answers than questions
    return dict(zip(asked, run.stdout.decode("ascii", "replace").splitlines(), strict=False))
