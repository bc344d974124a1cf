from __future__ import annotations

import json
import re
from pathlib import Path

from tool_groups import search_tools

from cellwright.agent.calls.check_input import check_input
from cellwright.agent.tool import Tool
from cellwright.tools.code.lint import lint_tool
from cellwright.tools.code.run_tests import run_tests_tool
from cellwright.tools.git.git import git_tool
from row_tables import for_each_row

TOOLS = [*search_tools(Path()), git_tool(Path()), run_tests_tool(Path()), lint_tool(Path())]


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
