"""Groups of tools, and that whoever only reads has every tool that only reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from cellwright.agent.tool import is_chosen
from cellwright.config.agents import BUILT_IN, read_definition
from cellwright.conversation.tools.toolset import builtin_tools
from cellwright.errors import CellwrightError
from cellwright.features.agents.subagents import given_tools
from cellwright.permissions.policy import chosen_names
from cellwright.permissions.rules.rule import RULE_NAMES
from cellwright.tools.mcp.kernel_tools import KERNEL_TOOLS, SERVED_TOOLS
from declared_tools import declared

NO_LOOKS = frozenset({"fetch", "web_search", "todos", "notes", "question", "plan", "branch"})
"""Kinds of access that read nothing of the project or the kernel, or run code for it."""

READING = frozenset(name for name, tool in declared().items() if tool.read_only and tool.access.kind not in NO_LOOKS)


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
