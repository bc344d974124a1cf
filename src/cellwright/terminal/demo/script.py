"""The script of the demo's model: its tool calls are real, only the words are written down here.

It answers by what was asked and by what its calls came to, so that cells can be run in any order and again. What it has
no words for it says so.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from cellwright.model.credentials import SCRIPTED
from cellwright.sessions.catalog.metadata import texts_of, users_words
from cellwright.testing import Part, Turn, say, think, turn, use
from cellwright.testing.rules.models import SCRIPTED_MODEL
from cellwright.text import lazy_pattern

TEST_COMMAND = "python -m unittest -q"
TEST_RULE = f"Bash({TEST_COMMAND})"

PAUSE_SECONDS = 0.01
"""Between two pieces of an answer, so that it can be read as it comes."""

UNKNOWN = """\
**This is the demo's scripted model**, not Claude: it has answers for a few prompts about this project. Try one of these:

- *The tests of this project fail. Find the reason, fix it, and run the tests again.*
- *Plot the levels and mark high tide.*
- *What is in `smooth`, and where is its highest value?*
- *Add a line on high tide to the README.* (then `/undo`)
- *Plan how to find low tide as well.*

With a key, Claude answers whatever you ask: `%claude login` in a cell, or *Enter a key* in the panel."""

_FIX = {
    "old_string": "    for start in range(len(values) - window):\n",
    "new_string": "    for start in range(len(values) - window + 1):\n",
}
_COMPUTE = """\
# Read the levels and smooth them
import importlib

import tides

importlib.reload(tides)  # it may have changed since it was imported
levels = tides.read_levels("data/levels.csv")
smooth = tides.rolling_mean(levels, 3)
index, level = tides.high_tide(levels)
print(f"{len(levels)} levels, {len(smooth)} windows of three; highest: {level:.2f} m in window {index}")
"""
_MATPLOTLIB = """
import matplotlib.pyplot as plt

plt.figure(figsize=(7, 3))
plt.plot(levels, ".", label="measured")
plt.plot(range(1, len(smooth) + 1), smooth, label="smoothed")
plt.plot(index + 1, level, "o", ms=9, label="high tide")
plt.ylabel("level in m")
plt.legend()
plt.show()
"""
_SVG = """
# no matplotlib in this environment: a few lines of SVG do
from IPython.display import SVG, display

def line(values):
    return " ".join(f"{20 + 18 * at:.0f},{190 - 45 * value:.1f}" for at, value in enumerate(values))

display(SVG(f'''<svg xmlns="http://www.w3.org/2000/svg" width="680" height="210" style="background: white">
<polyline points="{line(levels)}" fill="none" stroke="#9db8d2" stroke-width="2"/>
<polyline points="{line([levels[0], *smooth])}" fill="none" stroke="#1565c0" stroke-width="3"/>
<circle cx="{20 + 18 * (index + 1)}" cy="{190 - 45 * level:.1f}" r="7" fill="#d84315"/>
</svg>'''))
"""
_README = {
    "old_string": "# tides\n",
    "new_string": "# tides\n\nHigh tide is the highest mean of three neighbouring levels: `high_tide` in `tides.py`.\n",
}
_PLAN = """\
# Find low tide as well

1. In `tides.py`, add `low_tide(values, window=3)` below `high_tide`: the same smoothing, and `min` in the place of `max`.
2. Run the tests again: nothing of what is there changes.

No new dependency, and no change of the data."""
_LOW_TIDE = {
    "old_string": "    index = max(range(len(smooth)), key=smooth.__getitem__)\n    return index, smooth[index]\n",
    "new_string": "    index = max(range(len(smooth)), key=smooth.__getitem__)\n    return index, smooth[index]\n\n\n"
    "def low_tide(values, window=3):\n"
    '    """Index and level of the lowest smoothed value; the index is that of the window\'s first value."""\n'
    "    smooth = rolling_mean(values, window)\n"
    "    index = min(range(len(smooth)), key=smooth.__getitem__)\n"
    "    return index, smooth[index]\n",
}


class Asked(Struct, frozen=True):
    """A prompt with what came of the calls that were made for it so far, step by step; `tools` are those there are.

    `is_cell_action`: the words are the title of an action on a cell.
    """

    words: str
    results: tuple[str, ...]
    failed: bool
    tools: frozenset[str]
    project: str
    is_cell_action: bool = False

    @property
    def step(self) -> int:
        """The number of answers that were given to the prompt before."""
        return len(self.results)

    def file(self, name: str) -> str:
        """The path of a file of the project."""
        return f"{self.project}/{name}"


def scripted_environ(url: str, api_key: str) -> dict[str, str]:
    """The environment that leads to the script at `url`, and says everywhere that it is one."""
    return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": api_key, "ANTHROPIC_MODEL": SCRIPTED_MODEL, SCRIPTED: "1"}


def demo_script(project: str) -> Callable[[dict[str, Any]], Turn | Part]:
    """The model for the sample project in the folder `project`."""

    def answer(body: dict[str, Any]) -> Turn | Part:
        asked = _asked(body, project)
        scene = next((scene for pattern, scene in _SCENES if pattern.search(asked.words)), None)
        about_cells = asked.is_cell_action or "@cell:" in asked.words
        return say(UNKNOWN) if scene is None or about_cells else scene(asked)

    return answer


def _asked(body: Mapping[str, Any], project: str) -> Asked:
    messages: Sequence[Mapping[str, Any]] = body["messages"]
    tools = frozenset(str(tool.get("name")) for tool in body.get("tools", ()))
    results: list[tuple[str, bool]] = []
    for message in reversed(messages):
        if message["role"] != "user":
            continue
        blocks = message["content"] if isinstance(message["content"], list) else []
        of_calls = [block for block in blocks if block.get("type") == "tool_result"]
        if not of_calls:
            words = " ".join(users_words(message))
            texts = tuple(text for text, _ in reversed(results))
            of_cell = any(
                "@cell:" in text for text in texts_of(message["content"]) if text.startswith("<instructions>")
            )
            return Asked(words, texts, bool(results) and results[0][1], tools, project, of_cell)
        text = "\n".join(json.dumps(block.get("content")) for block in of_calls)
        results.append((text, any(block.get("is_error") for block in of_calls)))
    return Asked("", (), False, tools, project)


def _fix(asked: Asked) -> Turn | Part:
    run = use("Bash", command=TEST_COMMAND, description="Run the test suite")
    if "Bash" not in asked.tools:
        return say(UNKNOWN)
    if asked.step == 0:
        return turn(
            think("The tests fail. First see how they fail, then read the code that they test."),
            say("I run the tests first, to see what fails.\n"),
            run,
        )
    if asked.step == 1:
        if "FAILED" not in asked.results[0]:
            return say(_NOT_FAILING if "OK" in asked.results[0] else _NOT_RUN)
        return turn(
            say("Three tests fail, all of them where the *last* window matters. Let me read the code and its tests.\n"),
            use("Read", file_path=asked.file("tides.py")),
            use("Read", file_path=asked.file("tests/test_tides.py")),
            use("Grep", pattern="rolling_mean", path=asked.project, output_mode="content"),
        )
    if asked.step == 2:
        return turn(
            think("n values have n - window + 1 windows; the range stops one short."),
            say(
                "`rolling_mean` stops one window too early: `n` values have `n - window + 1` windows, and the loop makes "
                "`n - window`. The last one, where this harbour has its high tide, is never looked at.\n"
            ),
            use("Edit", file_path=asked.file("tides.py"), **_FIX),
        )
    if asked.failed:
        return say(_REFUSED)
    if asked.step == 3:
        return turn(say("Now the tests again.\n"), run)
    return say(
        "The tests pass now. **What was wrong:** `rolling_mean` (`tides.py:18`) left out the last window, so "
        "high tide at the end of the day was missed. One line changed; all four tests are green.\n"
    )


_NOT_FAILING = """\
The tests pass: nothing is left to fix. (Run the cell with `/undo` first, or start from a fresh copy, to see the fix again.)
"""
_NOT_RUN = "The tests did not run, so there is nothing to say of them. Allow the command, and ask again.\n"
_REFUSED = "That was not done, so I stop here: nothing else is changed.\n"


def _plot(asked: Asked) -> Turn | Part:
    if "Python" not in asked.tools:
        return say(UNKNOWN)
    if asked.step == 0:
        code = _COMPUTE + (_MATPLOTLIB if importlib.util.find_spec("matplotlib") else _SVG)
        return turn(
            say("I compute it in the notebook's own namespace, so that `levels` and `smooth` stay there for you.\n"),
            use("Python", code=code),
        )
    if asked.failed or "highest" not in asked.results[0]:
        return say(_REFUSED)
    if "window 33" in asked.results[0]:
        return say(
            "High tide is in the last window of the day, from 11:30 on: 3.68 m. `levels` and `smooth` are in your "
            "namespace now; the next cell can use them.\n"
        )
    return say(
        "There is the plot. The highest smoothed level is not in the last window, though the levels still rise there: "
        "`rolling_mean` leaves that window out. Have the tests fixed first (the first prompt of this tour).\n"
    )


def _variable(asked: Asked) -> Turn | Part:
    if "Variables" not in asked.tools:
        return say(UNKNOWN)
    if asked.step == 0:
        return turn(say("I look at the variable itself.\n"), use("Variables", names=["smooth"]))
    if asked.failed or "list" not in asked.results[0]:
        return say("There is no `smooth` in your namespace yet. Run the cell that plots the levels first.\n")
    return say(
        "`smooth` is a list of floats: the mean of each three neighbouring levels, in metres, so it is two shorter than "
        "`levels`. Its highest value stands where `smooth.index(max(smooth))` says; each window begins ten minutes after "
        "the one before it.\n"
    )


def _readme(asked: Asked) -> Turn | Part:
    if asked.step == 0:
        return turn(say("I read the README first.\n"), use("Read", file_path=asked.file("README.md")))
    if asked.step == 1:
        if "High tide is the highest mean" in asked.results[0]:
            return say("The README says it already.\n")
        return use("Edit", file_path=asked.file("README.md"), **_README)
    if asked.failed:
        return say(_REFUSED)
    return say("Done: the README says what high tide is. `/undo` takes it back, and leaves everything else as it is.\n")


def _plan(asked: Asked) -> Turn | Part:
    if asked.step == 0:
        return turn(say("I look at the code before I plan.\n"), use("Read", file_path=asked.file("tides.py")))
    if asked.step == 1:
        return use("ExitPlanMode", plan=_PLAN) if "ExitPlanMode" in asked.tools else say(_PLAN)
    if asked.step == 2 and not asked.failed:
        return use("Edit", file_path=asked.file("tides.py"), **_LOW_TIDE)
    if asked.failed:
        return say(_PLAN + "\n\nIt stays a plan: nothing was changed.\n")
    if asked.step == 3:
        return turn(say("Now the tests.\n"), use("Bash", command=TEST_COMMAND, description="Run the test suite"))
    return say("`low_tide` is there, as planned. What the tests say stands above.\n")


_SCENES: Sequence[tuple[re.Pattern[str], Callable[[Asked], Turn | Part]]] = [
    (lazy_pattern(r"\bplan\b", re.IGNORECASE), _plan),
    (lazy_pattern(r"\b(plot|chart|graph|draw)\b", re.IGNORECASE), _plot),
    (lazy_pattern(r"\breadme\b", re.IGNORECASE), _readme),
    (lazy_pattern(r"\b(smooth|variables?)\b", re.IGNORECASE), _variable),
    (lazy_pattern(r"\b(tests?|fix)\b", re.IGNORECASE), _fix),
]
"""The subject of a prompt, by a pattern; the first that fits counts."""
