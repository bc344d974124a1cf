"""Libraries that are imported late are imported whole, whichever threads need them at once.

`python tests/python_api/test_late_imports.py 100` imports every late library a hundred times in fresh processes.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src" / "cellwright"

ENTANGLED = ("IPython", "jupyter_client", "keyring", "markdown_it", "mcp", "mcp_types", "nbclient", "trafilatura")
"""Libraries whose parts import each other so that two threads have met in them."""

INDENTED_IMPORT = re.compile(r"^[ \t]+(from|import)\b|[:;]\s*(from|import)\b", re.MULTILINE)


def late_imports(*, behind_the_door: bool) -> dict[str, list[str]]:
    """The imports of libraries within functions, by library; as they stand, or without the door they stand behind."""
    found: dict[str, dict[str, None]] = {}
    for path in SOURCES.rglob("*.py"):
        text = path.read_text("utf-8")
        if not INDENTED_IMPORT.search(text):
            continue  # to parse a thousand modules takes seconds
        for statement, door in _within_functions(ast.parse(text), inside=False, door=False):
            source = ast.unparse(statement)
            for name in _names(statement):
                if name not in sys.stdlib_module_names and name != "cellwright":
                    found.setdefault(name, {})[_behind(source) if door and behind_the_door else source] = None
    return {name: list(statements) for name, statements in found.items()}


def _behind(source: str) -> str:
    return f"from cellwright.this_process.late_imports import importing\nwith importing:\n    {source}"


def _names(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.Import):
        return [alias.name.partition(".")[0] for alias in statement.names]
    assert isinstance(statement, ast.ImportFrom)
    return [(statement.module or "cellwright").partition(".")[0] if statement.level == 0 else "cellwright"]


def _within_functions(node: ast.AST, *, inside: bool, door: bool) -> Iterator[tuple[ast.stmt, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            if inside:
                yield child, door
            continue
        is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        is_door = isinstance(child, ast.With) and any(ast.unparse(item) == "importing" for item in child.items)
        yield from _within_functions(child, inside=inside or is_function, door=door or is_door)


def failures_of_two_threads(statements: Sequence[str], seconds_between_switches: float) -> list[str]:
    """What goes wrong where one thread runs `statements` from the first to the last and another from the last."""
    sys.setswitchinterval(seconds_between_switches)
    failures: list[str] = []
    both = threading.Barrier(2)

    def run(ordered: Sequence[str]) -> None:
        both.wait()
        for statement in ordered:
            try:
                exec(statement, {})
            except BaseException as error:  # noqa: BLE001  whatever it is, it is what is looked for
                failures.append(f"{statement.splitlines()[-1].strip()}: {type(error).__name__}: {error}")

    threads = [threading.Thread(target=run, args=(ordered,)) for ordered in (statements, statements[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


def in_fresh_processes(libraries: Sequence[str], rounds: int) -> dict[str, dict[str, int]]:
    """The failures of each library that is installed, and how often each came, in forks of a process that has none."""
    statements = late_imports(behind_the_door=True)
    found: dict[str, Counter[str]] = {}
    for library in filter(importlib.util.find_spec, libraries):
        for number in range(rounds):
            reader, writer = os.pipe()
            if (child := os.fork()) == 0:
                failed = failures_of_two_threads(statements[library], (5e-3, 1e-4, 1e-5, 1e-6)[number % 4])
                os.write(writer, json.dumps(failed).encode()[:60_000])
                os._exit(0)
            os.close(writer)
            with os.fdopen(reader, "rb") as told:
                found.setdefault(library, Counter()).update(json.loads(told.read() or b'["it crashed"]'))
            os.waitpid(child, 0)
    return {library: dict(failed) for library, failed in found.items() if failed}


def test_what_two_threads_could_meet_in_comes_by_one_door() -> None:
    late = late_imports(behind_the_door=True)
    past_it = {name: [each for each in late[name] if "with importing" not in each] for name in ENTANGLED}
    assert {name: statements for name, statements in past_it.items() if statements} == {}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fresh processes are forked")
def test_two_threads_import_the_same_library_at_once() -> None:
    # in a process of its own: this one has imported most of them
    command = [sys.executable, __file__, "2", "keyring", "markdown_it", "mcp_types"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "{}"), done.stderr


if __name__ == "__main__":
    print(json.dumps(in_fresh_processes(sys.argv[2:] or sorted(late_imports(behind_the_door=True)), int(sys.argv[1]))))
