"""Where an option of a run and a tool's name stand in the code: `python -m benchmarks.spread` prints both tables.

Read from syntax trees, so words in comments, docstrings and sentences do not count. An option counts where its name is an
attribute, an argument, a field, a variable or a whole string; a tool where its name is a whole string.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src/cellwright"

APART = (
    "testing/",  # the local Messages API: it imports nothing of the rest
    "terminal/demo/sample_project/",  # a user's project
    "terminal/demo/script.py",  # what a model says: a recording, in Python
)
WRITTEN = ("python_api/ask_option_types.py",)
"""Files that `make written` writes."""


class Spread(Struct, frozen=True):
    """The files in which a name stands, and the record types that have a field of it."""

    files: tuple[str, ...]
    records: tuple[str, ...] = ()


def main() -> None:
    """Print both tables, the widest spread first."""
    for title, found in (("option", options_spread()), ("tool", tools_spread())):
        print(f"{title:<24}files  record types")
        for name, spread in sorted(found.items(), key=lambda each: (-len(each[1].files), each[0])):
            print(f"{name:<24}{len(spread.files):>5}  {len(spread.records):>5}  {', '.join(spread.records)}")
        print()


def options_spread() -> Mapping[str, Spread]:
    """The spread of each option of a run, by its name in Python."""
    from cellwright.python_api.ask_options import ASK_DEFAULTS

    return {name: _spread(name) for name in ASK_DEFAULTS}


def tools_spread() -> Mapping[str, Spread]:
    """The files that quote each built-in tool's name."""
    from cellwright.agent.calls.tool_names import written_tools

    trees = _trees()
    return {
        name: Spread(tuple(file for file, tree in trees.items() if name in _quoted(tree))) for name in written_tools()
    }


def _spread(name: str) -> Spread:
    trees = _trees()
    files = tuple(file for file, tree in trees.items() if name in _names(tree))
    return Spread(files, tuple(record for tree in trees.values() for record in _records(tree).get(name, ())))


@functools.cache
def _trees() -> Mapping[str, ast.Module]:
    paths = (path for path in sorted(SOURCES.rglob("*.py")))
    by_name = {path.relative_to(SOURCES).as_posix(): path for path in paths}
    return {
        name: ast.parse(path.read_text("utf-8"))
        for name, path in by_name.items()
        if not name.startswith(APART) and name not in WRITTEN
    }


@functools.cache
def _quoted(tree: ast.Module) -> frozenset[str]:
    return frozenset(
        node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


@functools.cache
def _names(tree: ast.Module) -> frozenset[str]:
    return frozenset(_all_names(tree)) | _quoted(tree)


def _all_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.keyword(arg=str(name)):
                yield name


@functools.cache
def _records(tree: ast.Module) -> Mapping[str, Sequence[str]]:
    """The classes of `tree` by the names of their fields."""
    found: dict[str, list[str]] = {}
    for node in ast.walk(tree):
        for each in node.body if isinstance(node, ast.ClassDef) else ():
            targets = [each.target] if isinstance(each, ast.AnnAssign) else getattr(each, "targets", ())
            for target in targets:
                if isinstance(target, ast.Name) and isinstance(node, ast.ClassDef):
                    found.setdefault(target.id, []).append(node.name)
    return found


if __name__ == "__main__":
    main()
