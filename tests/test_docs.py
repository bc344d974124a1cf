"""What the documentation says of the code is held against the code."""

from __future__ import annotations

import os
import re
from pathlib import Path

from cellwright.config.settings import load_settings
from cellwright.toolbox import Workplace, builtin_tools

DOCS = Path(__file__).parents[1] / "docs"


def test_every_tool_is_in_the_table_with_its_category(tmp_path: Path) -> None:
    rows = re.findall(r"^\| (`[^|]*) \| (\w+) \|", (DOCS / "tools.md").read_text("utf-8"), re.MULTILINE)
    documented = {name: category for names, category in rows for name in re.findall(r"`(\w+)`", names)}
    environ = {**os.environ, "CLAUDE_CODE_ENABLE_TODO_TOOLS": "1", "CLAUDE_CODE_ENABLE_TASKS": "1"}
    tools = builtin_tools(Workplace(cwd=tmp_path, settings=load_settings(tmp_path, environ), environ=environ))
    there = {tool.name: tool.category for tool in tools}
    assert {name: documented.get(name) for name in there} == there
    elsewhere = {"Python", "TodoWrite"}  # made in the kernel; made when tasks are not
    assert set(documented) - set(there) <= elsewhere
