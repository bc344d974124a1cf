"""A scene in a browser that fails is played once more, and named; nothing else is."""

from pathlib import Path

import pytest
import unsteady
from unsteady import NAMES

pytest_plugins = ["pytester"]

SCENES = """
import pathlib
import pytest

def times(name):
    with open(name, "a") as file:
        file.write("x")
    return len(pathlib.Path(name).read_text())

@pytest.mark.browser
def test_steady():
    assert times("steady") == 1

@pytest.mark.browser
@pytest.mark.parametrize("way", ["a/b"])
def test_shaky(way):
    print("what the screen showed")
    assert times("shaky") == 2, "too early"

@pytest.mark.browser
def test_broken():
    assert times("broken") > 2

def test_of_no_browser():
    assert times("plain") == 2

@pytest.fixture
def late():
    if times("late") == 1:
        raise TimeoutError("no server yet")

@pytest.mark.browser
def test_set_up_late(late):
    pass
"""


@pytest.fixture
def scenes(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(Path(unsteady.__file__).parent))
    pytester.makeini("[pytest]\ntestpaths = .\nmarkers =\n    browser\n    slow\n")
    pytester.makeconftest(
        "from pathlib import Path\n"
        "from unsteady import PlayedAgain\n"
        "def pytest_configure(config):\n"
        "    config.pluginmanager.register(PlayedAgain(config, Path(__file__).parent))\n"
    )
    pytester.makepyfile(test_scenes=SCENES)
    return pytester


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "2")], ids=["one process", "two workers"])
def test_what_failed_and_then_passed_is_named_and_what_it_saw_is_kept(scenes, workers):
    (scenes.path / NAMES).write_text("of an earlier run\n")
    run = scenes.runpytest(*workers) if not workers else scenes.runpytest_subprocess(*workers)
    run.assert_outcomes(passed=3, failed=2)
    for name, plays in {"steady": 1, "shaky": 2, "broken": 2, "plain": 1, "late": 2}.items():
        assert (scenes.path / name).read_text() == "x" * plays
    named = dict(line.split("  ") for line in (scenes.path / NAMES).read_text().splitlines())
    assert sorted(named) == ["test_scenes.py::test_set_up_late", "test_scenes.py::test_shaky[a/b]"]
    *_, first, second, _ = run.outlines
    assert {first, second} == {"  ".join(item) for item in named.items()}
    kept = (scenes.path / named["test_scenes.py::test_shaky[a/b]"]).read_text()
    assert "too early" in kept
    assert "what the screen showed" in kept
    assert "no server yet" in (scenes.path / named["test_scenes.py::test_set_up_late"]).read_text()
    run.stdout.fnmatch_lines(["*The first time*", "*failed-scenes/test_broken-*"])


@pytest.mark.parametrize(
    ("chosen", "is_kept"),
    [
        (("-m", "browser and not slow"), False),
        (("-m", "not browser"), True),
        (("-m", "slow and browser"), True),
        (("-k", "steady"), True),
        (("test_scenes.py",), True),
    ],
    ids=["all of browsers", "all others", "slow ones", "by name", "by file"],
)
def test_the_names_of_an_earlier_run_go_when_all_scenes_are_played(scenes, chosen, is_kept):
    (scenes.path / NAMES).write_text("of an earlier run\n")
    scenes.runpytest(*chosen)
    assert ("of an earlier run\n" in (scenes.path / NAMES).read_text()) == is_kept
