"""The figures of `python -m benchmarks.structure` are those of the imports and files."""

import subprocess
import sys
from pathlib import PurePosixPath

from benchmarks.structure import ROOT, SOURCES, longest_chain, widest_folders, with_one_importer, without_circles

IMPORTS = {"top": {"a", "b"}, "a": {"b"}, "b": {"c"}, "c": {"a", "low"}, "low": set(), "aside": {"low"}}


def test_a_circle_is_one_link_of_the_longest_chain() -> None:
    circleless = without_circles(IMPORTS)
    assert circleless == {"top": {"a + b + c"}, "a + b + c": {"low"}, "low": set(), "aside": {"low"}}
    assert longest_chain(circleless) == ["top", "a + b + c", "low"]


def test_short_modules_with_one_importer_and_wide_folders() -> None:
    modules = {
        PurePosixPath("src", f"{name}.py"): lines for name, lines in {"b": 79, "c": 79, "top": 9, "a": 80}.items()
    }
    assert with_one_importer(modules, IMPORTS) == ["c"]
    files = [SOURCES / name for name in ("one.py", "__init__.py", "room/two.py", "room/three.py", "room/four/five.py")]
    assert widest_folders(files) == [(3, f"{SOURCES}/room"), (2, str(SOURCES)), (1, f"{SOURCES}/room/four")]


def test_it_prints_its_figures() -> None:
    command = [sys.executable, "-m", "benchmarks.structure"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert f"in {SOURCES}" in said
    assert "(cellwright to cellwright." in said
