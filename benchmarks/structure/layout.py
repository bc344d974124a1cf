"""Files, folders and imports: how wide, how short, how long the chains are, and which modules import each other in a circle.

The longest chain of imports goes from the outermost module to the bottom; modules in a circle count as one.
"""

from __future__ import annotations

import graphlib
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
PACKAGE = "cellwright"
SOURCES = PurePosixPath("src", PACKAGE)
SAMPLE = SOURCES / "terminal/demo/sample_project"
"""The project of the demo, which is a user's, not ours."""

SHORT = 80
"""A module of fewer lines that one other imports could be a part of that."""


def tracked_files() -> list[PurePosixPath]:
    """All files of the repository that git knows, as paths from its top."""
    found = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [PurePosixPath(name) for name in found.split("\0") if name and (ROOT / name).exists()]


def entries(files: Iterable[PurePosixPath], folder: PurePosixPath) -> set[str]:
    """The names of the files and folders that lie in `folder`, but hidden ones."""
    below = (path.relative_to(folder).parts[0] for path in files if path.is_relative_to(folder))
    return {name for name in below if not name.startswith(".")}


def widest_folders(files: Iterable[PurePosixPath]) -> list[tuple[int, str]]:
    """The folders and how many files and folders are in each, `__init__.py` aside; the widest first."""
    within: dict[PurePosixPath, set[str]] = {}
    for path in files:
        for entry in (path, *path.parents):
            if entry.is_relative_to(SOURCES) and entry != SOURCES and entry.name != "__init__.py":
                within.setdefault(entry.parent, set()).add(entry.name)
    return sorted(((len(names), str(folder)) for folder, names in within.items()), reverse=True)


def with_one_importer(modules: Mapping[PurePosixPath, int], imports: Mapping[str, set[str]]) -> list[str]:
    """The short modules that exactly one other imports; a package's `__init__` is none of them."""
    importers: dict[str, set[str]] = {}
    for importer, imported in imports.items():
        for module in imported:
            importers.setdefault(module, set()).add(importer)
    parts = [path.with_suffix("").parts[1:] for path, long in modules.items() if long < SHORT]
    short = {".".join(names) for names in parts if names[-1] != "__init__"}
    return sorted(module for module in short if len(importers.get(module, ())) == 1)


def without_circles(imports: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """The same imports, the modules of each circle made one, whose name is theirs with " + " between."""
    found = {module: set(imported) for module, imported in imports.items()}
    while True:
        try:
            graphlib.TopologicalSorter(found).prepare()
        except graphlib.CycleError as error:
            circle = set(error.args[1])
            one = " + ".join(sorted(circle))
            inner = set().union(*(found.pop(module) for module in circle)) - circle
            found = {module: {one if each in circle else each for each in below} for module, below in found.items()}
            found[one] = inner
        else:
            return found


def longest_chain(imports: Mapping[str, set[str]]) -> list[str]:
    """The longest chain of modules, each of which imports the next; there must be no circle among them."""
    chains: dict[str, list[str]] = {}
    for module in graphlib.TopologicalSorter(imports).static_order():
        below = max((chains[each] for each in sorted(imports[module])), key=len, default=[])
        chains[module] = [module, *below]
    return max(chains.values(), key=len)
