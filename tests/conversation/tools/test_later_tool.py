"""Tools that are made with their first call."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from cellwright.agent.calls.input_schema import check_input
from cellwright.agent.tool import Tool, ToolContext
from cellwright.conversation.tools.later_tool import later_tool, whole_tool
from cellwright.errors import ToolError
from cellwright.tools.search.ls import ls_tool

NOTHING_IS_MADE = """
import sys
from pathlib import Path
from cellwright.config.settings.settings import Settings
from cellwright.conversation.tools.built_in_tools import ToolEnvironment, make_tools
here = Path.cwd()
tools = make_tools(ToolEnvironment(cwd=here, settings=Settings(project=here)))
sent = [tool.to_param() for tool in tools]
print(*(name for name in ("search.ls", "files.edit", "git.git") if f"cellwright.tools.{name}" in sys.modules))
"""


class Maker:
    """Makes LS, once it can."""

    def __init__(self, folder: Path, *problems: Exception) -> None:
        self.folder = folder
        self.problems = list(problems)
        self.times = 0

    def __call__(self) -> Tool:
        self.times += 1
        if self.problems:
            raise self.problems.pop(0)
        return ls_tool(self.folder)


def listed(tool: Tool) -> str:
    given = check_input(tool, {"path": "."})
    result = asyncio.run(tool.call(given, ToolContext("toolu_1", lambda **_: None)))
    return str(result)


def test_a_request_needs_no_module_of_a_tool_that_was_not_called() -> None:
    done = subprocess.run([sys.executable, "-c", NOTHING_IS_MADE], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_it_is_made_once_and_does_what_it_does(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    make = Maker(tmp_path)
    tool = later_tool("LS", make)
    assert make.times == 0
    assert tool.title is not None
    assert [tool.title({"path": "."}), "a.txt" in listed(tool), "a.txt" in listed(replace(tool))] == [
        "List .",
        True,
        True,
    ]
    assert make.times == 1


def test_what_cannot_be_loaded_is_told_and_loaded_when_it_can_be(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    tool = later_tool("LS", Maker(tmp_path, OSError(24, "Too many open files"), ImportError("No module named 'x'")))
    for why in ("Too many open files", "No module named 'x'"):
        with pytest.raises(ToolError, match=rf"LS cannot be loaded: .*{why}.* Nothing was run\."):
            listed(tool)
    assert "a.txt" in listed(tool)


def test_a_tool_without_a_written_definition_is_made_at_once(tmp_path: Path) -> None:
    make = Maker(tmp_path)
    assert later_tool("Listing", make).name == "LS"
    assert make.times == 1


def test_the_whole_tool_stays_deferred(tmp_path: Path) -> None:
    deferred = replace(later_tool("LS", Maker(tmp_path)), defer_loading=True)
    assert whole_tool(deferred).defer_loading
    assert whole_tool(deferred).input_type is not None
