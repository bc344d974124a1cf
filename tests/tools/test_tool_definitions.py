from __future__ import annotations

import json
import re
from pathlib import Path

from tool_groups import search_tools

from cellwright.agent.calls.input_schema import check_input
from cellwright.agent.tool import Tool
from cellwright.tools.code.lint import lint_tool
from cellwright.tools.code.run_tests import run_tests_tool
from cellwright.tools.git import git_tool
from row_tables import for_each_row

NAMES = [
    *("Read", "Write", "Edit", "MultiEdit", "ApplyPatch", "EditSymbol"),
    *("Glob", "Grep", "LS", "FileTree", "NotebookEdit", "NotebookRead"),
]
TOOLS = [*search_tools(Path()), git_tool(Path()), run_tests_tool(Path()), lint_tool(Path())]


@for_each_row("name", NAMES)
def test_every_field_is_described_and_nothing_else_is_taken(tools, name):
    tool = tools.tools[name]
    schema = tool.input_schema
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert set(schema["required"]) <= set(schema["properties"])
    assert 40 < len(tool.description) < 1500
    for key, field in schema["properties"].items():
        assert re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", key)  # what the Messages API takes as a key
        assert field["description"].endswith(".")


def test_what_permission_needs_to_know(tools):
    accesses = {name: (tool.access.kind, tool.access.field, tool.read_only) for name, tool in tools.tools.items()}
    assert accesses == {
        "Read": ("read", "file_path", True),
        "Write": ("edit", "file_path", False),
        "Edit": ("edit", "file_path", False),
        "MultiEdit": ("edit", "file_path", False),
        "ApplyPatch": ("patch", "patch", False),
        "EditSymbol": ("edit", "file_path", False),
        "Glob": ("find", "path", True),
        "Grep": ("search", "path", True),
        "LS": ("list", "path", True),
        "FileTree": ("list", "path", True),
        "NotebookEdit": ("edit", "notebook_path", False),
        "NotebookRead": ("read", "notebook_path", True),
    }
    assert all(tool.preview is not None for tool in tools.tools.values() if not tool.read_only)


@for_each_row("name", NAMES)
def test_a_field_that_is_not_known_is_refused(tools, name):
    tool = tools.tools[name]
    given = tool.input_examples[0] if tool.input_examples else dict.fromkeys(tool.input_schema["required"], "x")
    assert "surprise" in tools.error(name, **given, surprise=1).message


def test_a_whole_number_may_be_written_with_a_point(tools):
    (tools.cwd / "a.txt").write_text("one\ntwo\nthree\n")
    assert tools.text("Read", file_path="a.txt", offset=2.0, limit=1.0).startswith("     2\ttwo\n")
    assert "limit must be" in tools.error("Read", file_path="a.txt", limit=1.5).message
    assert "got 1.5" in tools.error("Read", file_path="a.txt", limit=1.5).message


@for_each_row("tool", TOOLS, ids=lambda tool: tool.name)
def test_a_definition_is_complete(tool: Tool):
    schema = tool.input_schema
    assert schema["additionalProperties"] is False
    assert set(schema["required"]) <= set(schema["properties"])
    for key, field in schema["properties"].items():
        assert re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", key)  # what the Messages API takes as a key
        assert field["description"].endswith(".")
    assert tool.category in ("search", "git", "code")
    assert tool.title is not None
    assert tool.input_examples
    for example in tool.input_examples:
        check_input(tool, example)
        assert tool.title(example)
    assert tool.read_only or tool.preview is not None
    # it is sent with every request
    assert len(json.dumps(tool.to_param())) < 4_500


@for_each_row("tool", [tool for tool in TOOLS if tool.name != "LS"], ids=lambda tool: tool.name)
def test_the_limit_from_outside_leaves_the_tool_its_own_time(tool: Tool):
    most = tool.input_schema["properties"]["timeout_seconds"]["maximum"]
    assert most == (600 if tool.name == "RunTests" else 120)
    assert tool.limits.seconds is not None
    assert tool.limits.seconds > most
