"""The table: what is counted of the tree, the goals, and what of them is held because it was reached."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import grimp

from benchmarks.structure.counts import Asserts, Counts, asserts_in, counted
from benchmarks.structure.layout import (
    PACKAGE,
    ROOT,
    SAMPLE,
    SHORT,
    SOURCES,
    entries,
    longest_chain,
    tracked_files,
    widest_folders,
    with_one_importer,
    without_circles,
)

TESTS = PurePosixPath("tests")
TOOLS = SOURCES / "agent" / "calls" / "built_in_tools.json"
OPTIONS = (
    *("effort", "fallback_models", "max_parallel_tools", "tool_timeout", "on_denied", "add_dirs"),
    *("append_system_prompt",),
)
"""The options whose way through the house is counted, by the widest of them: their names mean nothing else."""

PUBLISHED = ("claude_agent_sdk", "testing")
"""Rooms that write down what others have published, with its names: a package's classes, the rules of the Messages API."""

_IN_TWO_WORDS = re.compile("[a-z][A-Z]")

SHORT_BODY = 5
RECORDS = {"Agent's": ("AgentSetup", "Agent"), "AgentRun's": ("AgentRun",), "ToolCalls's": ("ToolCalls",)}
"""Classes whose fields and attributes are counted; of several names the first that there is."""

FRONT_END = PurePosixPath("labextension/src")
IN_BROWSER = TESTS / "e2e"
"""Scenes in JupyterLab: they play the front end, whose modules and rooms may give them their names besides."""
OF_NO_ROOM = tuple(TESTS / name for name in ("docs", "house", "legs"))
"""Tests of the documents, of the tree and of installed packages: there is no module whose name they could have."""

HOSTS = ("conversation", "kernel", "server", "terminal", "python_api")
FEATURES = (
    *(f"config.{name}" for name in ("agents", "mcp", "memory", "output_styles", "plugins", "skills")),
    *("commands.extensions", "checkpoints", "features"),
)
"""The places of what users bring or switch on."""

ALL_FEATURES = ("features.conversation", "features.process_conversation", "features.standard")
"""The `Conversation` with all features, on which hosts build: it names features, and is none."""

HELD: frozenset[str] = frozenset(
    {
        "lines of Conversation.__init__",
        "parameters of Conversation.__init__",
        "tests for None that mean a kind of run, in conversation/",
        "modules",
        "circles of modules at run time",
        "circles of modules, types counted",
        "Agent's fields and attributes",
        "AgentRun's fields and attributes",
        "ToolCalls's fields and attributes",
        "record types of our own that carry it",
        "files of our own in which it stands",
        "files that quote one tool's name",
        "tools whose name more than 3 files quote",
        "test files named after no module or room",
        "imports of features by those who host them",
        "asserts that hold a sentence",
        "rooms without tests of their name",
    }
)
"""The rows whose goal was reached: `--check` fails if one of them is lost, and names those that could stand here."""

NO_WORSE: Mapping[str, int] = {
    "record types that carry one option": 7,
    "files in which it stands": 18,
    "… of these with a body under 5 lines": 386,
    "imports inside functions": 406,
    "numeric constants at module level": 694,
}
"""How far rows have come whose goal is not reached: `--check` fails if one of them goes back."""


@dataclass(frozen=True)
class Row:
    """A figure and its goal, the most that it may be; None: it has none, `shown` is read by people."""

    name: str
    found: float | None
    goal: float | None = None
    shown: str = ""

    @property
    def reached(self) -> bool:
        return self.goal is not None and self.found is not None and self.found <= self.goal

    def line(self) -> str:
        found = self.shown or _figure(self.found)
        goal = "" if self.goal is None else f"≤ {_figure(self.goal)}"
        return f"{self.name:<66} {found:>26}  {goal:>10}  {'reached' if self.reached else ''}".rstrip()


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}" if isinstance(value, float) else f"{value:,}"


def main() -> int:
    """Print the table; with `--check` say only which goals that were reached are lost."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.structure", description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if a goal that was reached is lost")
    check = parser.parse_args().check
    files = [path for path in tracked_files() if not path.is_relative_to(SAMPLE)]
    sources = [path for path in files if path.is_relative_to(SOURCES) and path.suffix == ".py"]
    tests = [path for path in files if path.is_relative_to(TESTS) and path.suffix == ".py"]
    front_end = [path for path in files if path.is_relative_to(FRONT_END) and path.suffix == ".ts"]
    with ProcessPoolExecutor(1) as pool:
        asserted = pool.submit(asserts_in, [ROOT / path for path in tests])
        modules = counted([ROOT / path for path in sources])
        rows = [
            *code_rows(list(modules.values())),
            *record_rows(modules),
            *import_rows(files, sources, modules),
            *test_rows(sources, front_end, tests, asserted.result()),
        ]
    if unknown := HELD.union(NO_WORSE) - {row.name for row in rows}:
        raise SystemExit(f"No row of the table has this name: {', '.join(sorted(unknown))}")
    if not check:
        print(*(row.line() for row in rows), sep="\n")
    worse = [row for row in rows if row.name in NO_WORSE and (row.found or 0) > NO_WORSE[row.name]]
    lost = [row for row in rows if row.name in HELD and not row.reached] + worse
    for row in lost:
        print(f"What was reached is lost: {row.line()}", file=sys.stderr)
    if won := [row.name for row in rows if row.reached and row.name not in HELD]:
        print(
            f"Reached, and not held yet (HELD in benchmarks/structure/__main__.py): {'; '.join(won)}", file=sys.stderr
        )
    return 1 if check and lost else 0


def code_rows(modules: Sequence[Counts]) -> list[Row]:
    """Size, functions, imports and constants."""
    code = sum(each.code for each in modules)
    functions = [function for each in modules for function in each.functions]
    once = [function for each in modules for function in each.once]
    longest = max(functions, key=lambda each: each.lines)
    widest = max(functions, key=lambda each: each.parameters)
    constants = sum(each.constants for each in modules)
    holding = sum(bool(each.constants) for each in modules)
    return [
        Row("modules", len(modules), 600),
        Row("lines", sum(each.lines for each in modules), 112_000),
        Row("lines of code, without blank ones, comments and docstrings", code),
        Row("functions per 1,000 lines of code", round(1000 * len(functions) / code), 80),
        Row("private functions with one caller, of all functions", len(once) / len(functions), 0.15),
        Row(f"… of these with a body under {SHORT_BODY} lines", sum(each.body < SHORT_BODY for each in once), 200),
        Row("lines of code that are imports", sum(each.import_lines for each in modules) / code, 0.08),
        Row("imports inside functions", sum(each.inner_imports for each in modules), 200),
Row("numeric constants at module level", constants, 600, f"{constants:,} in {holding} modules"),
        Row("lines of the longest function", longest.lines, 60, f"{longest.lines} ({longest.name})"),
        Row("parameters of the widest function", widest.parameters, None, f"{widest.parameters} ({widest.name})"),
    ]  # fmt: skip


def record_rows(modules: Mapping[Path, Counts]) -> list[Row]:
    """What one option, a run's records and a tool's name touch."""
    fields = {name: found for each in modules.values() for name, found in each.fields.items()}
    texts = {path: path.read_text("utf-8") for path in modules}
    published = tuple(ROOT / SOURCES / room for room in PUBLISHED)
    own = {path for path in modules if not any(map(path.is_relative_to, published))}
    carriers = {
        name: [path for path, each in modules.items() for found in each.fields.values() if name in found]
        for name in OPTIONS
    }
    holding = {name: [path for path, text in texts.items() if name in text] for name in OPTIONS}
    quoting = Counter(name for each in modules.values() for name in each.quoted)
    known = json.loads((ROOT / TOOLS).read_text("utf-8"))
    # "Read" and "Python" are words besides
    tools = sorted(filter(_IN_TWO_WORDS.search, known), key=lambda name: -quoting[name])
    conversation = ROOT / SOURCES / "conversation"
    for_none = sum(each.tests_for_none for path, each in modules.items() if path.is_relative_to(conversation))
    limits = {"Agent's": 14, "AgentRun's": 15, "ToolCalls's": 12}
    sized = [
        Row(f"{owner} fields and attributes", len(found), limits[owner])
        for owner, names in RECORDS.items()
        if (found := next((fields[name] for name in names if name in fields), None)) is not None
    ]
    constructors = [
        function
        for path, each in modules.items()
        for function in each.functions
        if path == ROOT / SOURCES / "features/conversation.py" and function.name == "__init__"
    ]
    begun = max(constructors, key=lambda each: each.lines)
    return [
        _widest("record types that carry one option", carriers, modules.keys(), 4),
        _widest("record types of our own that carry it", carriers, own, 4),
        _widest("files in which it stands", holding, modules.keys(), 12),
        _widest("files of our own in which it stands", holding, own, 12),
        Row("lines of Conversation.__init__", begun.lines, 60),
        Row("parameters of Conversation.__init__", begun.parameters, 6),
        *sized,
        Row("tests for None that mean a kind of run, in conversation/", for_none, 0),
        Row("files that quote one tool's name", quoting[tools[0]], 3, f"{quoting[tools[0]]} ({tools[0]})"),
        Row("tools whose name more than 3 files quote", sum(quoting[name] > 3 for name in tools), 0),
    ]  # fmt: skip


def _widest(name: str, found: Mapping[str, Sequence[Path]], among: Collection[Path], goal: int) -> Row:
    """The row of the option for which most is found among these modules."""
    counts = {option: sum(path in among for path in paths) for option, paths in found.items()}
    widest = max(counts, key=lambda option: counts[option])
    return Row(name, counts[widest], goal, f"{counts[widest]} ({widest})")


def import_rows(
    files: Sequence[PurePosixPath], sources: Sequence[PurePosixPath], modules: Mapping[Path, Counts]
) -> list[Row]:
    """Folders, chains and circles, and what hosts import of features."""
    circles: dict[bool, list[str]] = {}
    for typed in (True, False):
        graph = grimp.build_graph(PACKAGE, exclude_type_checking_imports=not typed, cache_dir=None)
        imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
        circleless = without_circles(imports)
        circles[typed] = sorted(circleless.keys() - imports.keys())
        if typed:
            hosted = sum(is_feature(each) for module, found in imports.items() if is_host(module) for each in found)
    chain = longest_chain(circleless)
    lines = {path: modules[ROOT / path].lines for path in sources}
    alone = with_one_importer(lines, imports)
    widest = widest_folders(path for path in files if path.is_relative_to(SOURCES))
    in_circles = sum(each.count(" + ") + 1 for each in circles[True])
    return [
        Row("imports of features by those who host them", hosted, 16),
        Row("circles of modules, types counted", len(circles[True]), 1, f"{len(circles[True])} of {in_circles} modules"),
        Row("circles of modules at run time", len(circles[False]), 1),
        Row("modules in the longest chain of imports", len(chain)),
        Row(f"modules with one importer and under {SHORT} lines", len(alone), None),
        Row("entries of the widest folders", None, None, ", ".join(str(width) for width, _ in widest[:3])),
        Row("entries at the top, hidden ones aside", len(entries(files, PurePosixPath()))),
    ]  # fmt: skip


def is_host(module: str) -> bool:
    """Whether it is a module of a room that features take part in, and no feature itself.

    >>> is_host("cellwright.kernel.extension"), is_host("cellwright.features.goal")
    (True, False)
    """
    return _below(module, HOSTS) and not is_feature(module)


def is_feature(module: str) -> bool:
    """Whether it is a module of a feature."""
    return _below(module, FEATURES) and not _below(module, ALL_FEATURES)


def _below(module: str, rooms: Iterable[str]) -> bool:
    return any(f"{module}.".startswith(f"{PACKAGE}.{room}.") for room in rooms)


def test_rows(
    sources: Sequence[PurePosixPath],
    front_end: Sequence[PurePosixPath],
    tests: Sequence[PurePosixPath],
    found: Asserts,
) -> list[Row]:
    """Whether the tests lie as the code does, and what their asserts look at."""
    rooms = {path.parent.relative_to(SOURCES) for path in sources} - {PurePosixPath()}
    tested = {parent.relative_to(TESTS) for path in tests for parent in path.parents if parent.is_relative_to(TESTS)}
    tested |= {path.parent.relative_to(TESTS) / path.stem.removeprefix("test_") for path in tests}
    helpers = {path.stem for path in tests if not path.name.startswith("test_")}  # a few have tests of their own
    names = _names(sources) | helpers
    names_in_browser = names | _names(front_end)
    named = [path for path in tests if path.name.startswith("test_") and not any(map(path.is_relative_to, OF_NO_ROOM))]
    without = [
        path
        for path in named
        if path.stem.removeprefix("test_") not in (names_in_browser if path.is_relative_to(IN_BROWSER) else names)
    ]
    sentences = found.sentences / found.all
    return [
        Row("rooms without tests of their name", len(rooms - tested), 0, f"{len(rooms - tested)} of {len(rooms)}"),
        Row("test files named after no module or room", len(without), 60, f"{len(without)} of {len(named)}"),
        Row("lines of tests", found.lines, 88_000),
        Row("asserts that hold a sentence", sentences, 0.05, f"{sentences:.1%}: {found.sentences:,} of {found.all:,}"),
    ]  # fmt: skip


def _names(modules: Iterable[PurePosixPath]) -> set[str]:
    return {name for path in modules for name in (path.stem, path.parent.name)}


if __name__ == "__main__":
    sys.exit(main())
