"""What a call costs in memory, in a process of its own: less than 100 MB, whatever is searched."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of resident memory from /proc"),
]

MAX_MB = 100

SCRIPT = """
import asyncio, json, pathlib, sys
from cellwright.agent.tool import ToolContext
from cellwright.tools.search.file_tree import file_tree_tool
from cellwright.tools.search.glob import glob_tool
from cellwright.tools.search.grep import grep_tool
from cellwright.tools.search.ls import ls_tool

def peak():
    text = pathlib.Path("/proc/self/status").read_text()
    return int(text.split("VmHWM:")[1].split()[0]) / 1024

folder, name, tool_input = pathlib.Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
(folder / "warm").mkdir()
tools = {tool.name: tool for tool in (make(folder) for make in (glob_tool, grep_tool, ls_tool, file_tree_tool))}
# what is imported and started once is no cost of a call
asyncio.run(tools["Grep"].call({"pattern": "x", "path": "warm"}, ToolContext("", print)))
before = peak()
result = asyncio.run(tools[name].call(tool_input, ToolContext("", print)))
print(json.dumps([peak() - before, len(result.content)]))
"""


def cost(folder: Path, name: str, tool_input: dict[str, Any]) -> float:
    """What the call added to the peak of this process's memory, in MB."""
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder), name, json.dumps(tool_input)],
        capture_output=True,
        text=True,
        check=True,
    )
    added, chars = json.loads(run.stdout.splitlines()[-1])
    assert chars < 100_000
    return float(added)


@pytest.fixture(scope="module")
def many_lines(tmp_path_factory):
    """Millions of matching lines, short and long."""
    folder = tmp_path_factory.mktemp("lines")
    (folder / "short.txt").write_text("x\n" * 2_000_000)
    (folder / "long.txt").write_text(("x" * 5_000 + "\n") * 10_000)
    return folder


@pytest.mark.parametrize(
    "tool_input",
    [
        {"pattern": "x", "output_mode": "content", "head_limit": 0},
        {"pattern": "x", "output_mode": "content", "head_limit": 0, "offset": 2_000_000},
        {"pattern": "x", "output_mode": "content", "-o": True, "head_limit": 100_000},
        {"pattern": "x", "output_mode": "content", "-C": 500, "head_limit": 0},
        {"pattern": "x", "output_mode": "count"},
        {"pattern": "(?s).*", "output_mode": "content", "multiline": True, "path": "short.txt", "head_limit": 0},
    ],
)
def test_a_huge_number_of_matches(many_lines, tmp_path, tool_input):
    folder = tmp_path / "place"
    folder.mkdir()
    for file in many_lines.iterdir():
        (folder / file.name).hardlink_to(file)
    assert cost(folder, "Grep", tool_input) < MAX_MB


def test_a_huge_number_of_files(tmp_path):
    for number in range(150):
        folder = tmp_path / f"folder with a long name {number:03}"
        folder.mkdir()
        for file in range(100):
            (folder / f"file with a name of some length {file:04}.txt").touch()
    for name, tool_input in (
        ("Glob", {"pattern": "**/*"}),
        ("Grep", {"pattern": "^$|x", "output_mode": "count"}),
        ("FileTree", {"depth": 20}),
        ("LS", {"path": "folder with a long name 001"}),
    ):
        assert cost(tmp_path, name, tool_input) < MAX_MB
        (tmp_path / "warm").rmdir()


def test_one_line_of_many_megabytes(tmp_path):
    (tmp_path / "line.txt").write_text("needle " + "x" * 200_000_000)
    assert cost(tmp_path, "Grep", {"pattern": "needle", "output_mode": "content"}) < MAX_MB


def test_rg_itself_is_bounded(tmp_path):
    """It would keep a whole line, a whole file for patterns over lines, and all of a file's matches."""
    (tmp_path / "line.txt").write_text("needle " + "x" * 200_000_000 + "\n" + "y\n" * 10)
    (tmp_path / "matches.txt").write_text(("z" * 5_000 + "\n") * 8_000)
    script = (
        "import resource, sys; exec(sys.argv.pop(1)); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)"
    )
    for tool_input in (
        {"pattern": "needle", "output_mode": "content"},
        {"pattern": "needle", "multiline": True},
        {"pattern": "z", "output_mode": "content", "-o": True},
    ):
        command = [sys.executable, "-c", script, SCRIPT, str(tmp_path), "Grep", json.dumps(tool_input)]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        (tmp_path / "warm").rmdir()
        assert float(run.stdout.splitlines()[-1]) < 300
