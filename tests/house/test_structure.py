"""The figures of `python -m benchmarks.structure` are those of the imports and files."""

from pathlib import PurePosixPath

from benchmarks.structure.__main__ import Row, is_host
from benchmarks.structure.counts import Asserts, add_asserts, count
from benchmarks.structure.layout import SOURCES, longest_chain, widest_folders, with_one_importer, without_circles

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


MODULE = '''
import os

LIMIT, NAME = 3, "three"
SECONDS = 60 * 60

class Room:
    """What a docstring has is no code."""

    width: int

    def __init__(self, provider):
        self.door = provider is None

def _once():
    import sys

    return sys

def two(a, *, b=1):
    return _once(), os
'''


def test_a_module_is_counted() -> None:
    counts = count(MODULE)
    assert (counts.lines, counts.code, counts.import_lines, counts.inner_imports) == (21, 12, 2, 1)
    assert (counts.constants, counts.tests_for_none) == (1, 1)
    assert {each.name: (each.lines, each.parameters, each.body) for each in counts.functions} == {
        "__init__": (2, 1, 1),
        "_once": (4, 0, 3),
        "two": (2, 2, 1),
    }
    assert [each.name for each in counts.once] == ["_once"]
    assert counts.fields == {"Room": {"width", "door"}}


def test_a_sentence_in_an_assert_is_counted() -> None:
    found = Asserts()
    add_asserts("assert told == 'one two three four'\nif n:\n    assert n == 'four', 'why it is so, in words'\n", found)
    assert found == Asserts(all=2, sentences=1, lines=3)


def test_a_goal_is_reached_at_its_figure() -> None:
    assert [Row("a", found, 3).reached for found in (3, 4)] == [True, False]
    assert [Row("a", found).reached for found in (None, 4)] == [False, False]
    assert Row("a share", 0.25, 0.3).line().split() == ["a", "share", "25.0%", "≤", "30.0%", "reached"]


def test_a_feature_hosts_nothing() -> None:
    hosts = ("kernel.extension", "conversation.core")
    others = ("features.goal", "features.conversation", "kernels", "model.stream")
    assert [is_host(f"cellwright.{name}") for name in (*hosts, *others)] == [True] * 2 + [False] * 4
