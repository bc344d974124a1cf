"""The script of the demo's model: its tool calls are real, only the words are written down here."""

from __future__ import annotations

from collections.abc import Sequence

from cellwright.testing import Turn, say, think, turn, use

TEST_COMMAND = "python -m unittest -q"
TEST_RULE = f"Bash({TEST_COMMAND})"

FIX = {
    "old_string": "    for start in range(len(values) - window):\n",
    "new_string": "    for start in range(len(values) - window + 1):\n",
}

PLOT = """\
from tides import read_levels, rolling_mean

levels = read_levels("data/levels.csv")
smooth = rolling_mean(levels, 3)
print(f"{len(levels)} levels, {len(smooth)} windows of three")
print(f"highest: {max(smooth):.2f} m in window {smooth.index(max(smooth))}")
"""


def demo_script(project: str) -> Sequence[Turn]:
    """The conversation about the sample project in the folder `project`."""
    return [
        turn(
            think("The tests fail. First see how they fail, then read the code that they test."),
            say("I run the tests first, to see what fails.\n"),
            use("Bash", command=TEST_COMMAND, description="Run the test suite"),
            when="high tide",
        ),
        turn(
            say("Three tests fail, all of them where the *last* window matters. Let me read the code and its tests.\n"),
            use("Read", file_path=f"{project}/tides.py"),
            use("Read", file_path=f"{project}/tests/test_tides.py"),
            use("Grep", pattern="rolling_mean", path=project, output_mode="content"),
        ),
        turn(
            think("n values have n - window + 1 windows; the range stops one short."),
            say(
                "`rolling_mean` stops one window too early: `n` values have `n - window + 1` windows, and the loop makes "
                "`n - window`. The last one, where this harbour has its high tide, is never looked at.\n"
            ),
            use("Edit", file_path=f"{project}/tides.py", **FIX),
        ),
        turn(
            say("Now the tests again.\n"),
            use("Bash", command=TEST_COMMAND, description="Run the test suite again"),
        ),
        turn(
            say(
                "The tests pass now. **What was wrong:** `rolling_mean` (`tides.py:18`) left out the last window, so "
                "high tide at the end of the day was missed.\n\n"
                "```diff\n"
                "-    for start in range(len(values) - window):\n"
                "+    for start in range(len(values) - window + 1):\n"
                "```\n\n"
                "One line changed; all four tests are green.\n"
            )
        ),
        turn(
            say("I compute it in the notebook's own namespace, so that `levels` and `smooth` stay there for you.\n"),
            use("Python", code=PLOT),
            when="namespace",
        ),
        turn(
            say(
                "High tide is in the last window of the day, from 11:30 on. `levels` and `smooth` are in your namespace "
                "now; the next cell can use them.\n"
            )
        ),
    ]
