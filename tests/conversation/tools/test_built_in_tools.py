"""Groups of tools, and that whoever only reads has every tool that only reads."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from cellwright.agent.calls.input_schema import check_input
from cellwright.agent.tool import Tool, ToolContext, is_chosen
from cellwright.config.agents import BUILT_IN, read_definition
from cellwright.conversation.tools.built_in_tools import later_tool, whole_tool
from cellwright.conversation.tools.toolset import builtin_tools
from cellwright.errors import CellwrightError, ToolError
from cellwright.features.agents.subagents import given_tools
from cellwright.permissions.policy import chosen_names
from cellwright.permissions.rules.rule import RULE_NAMES
from cellwright.tools.mcp.kernel_tools import KERNEL_TOOLS, SERVED_TOOLS
from cellwright.tools.search.ls import ls_tool
from declared_tools import declared

NO_LOOKS = frozenset({"fetch", "web_search", "todos", "notes", "question", "plan", "branch"})
"""Kinds of access that read nothing of the project or the kernel, or run code for it."""

READING = frozenset(name for name, tool in declared().items() if tool.read_only and tool.access.kind not in NO_LOOKS)

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


def test_a_group_is_what_its_tools_declare() -> None:
    assert {"Read", "NotebookRead", "Grep", "FindDefinitions", "SemanticSearch", "Git", "Variables"} < READING
    assert {name for name, tool in declared().items() if is_chosen(tool, "@read")} == READING
    assert set(chosen_names(["@read"])) == READING
    searching = set(chosen_names(["@search"]))
    assert {"Glob", "Grep", "LS", "FileTree", "FindReferences", "CodeMetrics"} < searching
    assert searching < READING
    assert chosen_names(["@web", "Bash"]) == ("WebFetch", "WebSearch", "Bash")
    assert {"Write", "ApplyPatch", "RenameSymbol"} < set(chosen_names(["@edit"]))
    assert {*declared()} < {*RULE_NAMES}


def test_every_agent_of_ours_has_every_tool_that_only_reads() -> None:
    lacking = {}
    for file in sorted(BUILT_IN.glob("*.md")):
        definition = read_definition(file, "built-in")
        given = given_tools([*declared().values()], definition, may_nest=True, background=False)
        if missing := READING - {tool.name for tool in given}:
            lacking[definition.name] = missing
        if definition.mode == "plan":
            assert not [tool.name for tool in given if tool.access.edits_files], definition.name
    assert lacking == {}


def test_other_agents_are_served_every_tool_that_only_reads() -> None:
    assert {*chosen_names(SERVED_TOOLS), *KERNEL_TOOLS} >= READING


def test_groups_are_taken_wherever_tools_are_chosen_by_name(tmp_path: Path) -> None:
    assert {tool.name for tool in builtin_tools("@read", cwd=tmp_path)} == READING - {"Variables"}
    assert {tool.name for tool in builtin_tools("@search", "Write", cwd=tmp_path)} >= {"Write", "CallChain"}
    assert builtin_tools("@kernel", cwd=tmp_path) == ()
    with pytest.raises(CellwrightError, match="Tool @serch was not found"):
        builtin_tools("@serch", cwd=tmp_path)
    file = tmp_path / "a.md"
    file.write_text('---\nname: a\ndescription: A.\ntools: "@serch"\n---\n', "utf-8")
    (problem,) = read_definition(file, "user").problems
    assert "@serch is not" in problem
    assert "@read, @edit, @files" in problem


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
