"""What the documentation says of the code is held against the code."""

from __future__ import annotations

import re
from pathlib import Path

from cellwright.agent.calls.input_schema import check_input
from declared_tools import tools_of

DOCS = Path(__file__).parents[2] / "docs"


def test_every_tool_has_examples_that_fit_its_schema_a_category_and_limits(tmp_path: Path) -> None:
    for tool in tools_of(tmp_path):
        assert tool.input_examples or not tool.input_schema["properties"], tool.name
        for example in tool.input_examples:
            check_input(tool, example)
        assert tool.category != "other", tool.name
        assert tool.limits.seconds is not None or tool.name in ("Bash", "Agent", "Skill"), "these keep their own time"
        assert tool.limits.result_chars <= 1_000_000


def test_every_tool_is_in_the_table_with_its_category(tmp_path: Path) -> None:
    rows = re.findall(r"^\| (`[^|]*) \| (\w+) \|", (DOCS / "tools.md").read_text("utf-8"), re.MULTILINE)
    documented = {name: category for names, category in rows for name in re.findall(r"`(\w+)`", names)}
    tools = tools_of(tmp_path)
    there = {tool.name: tool.category for tool in tools}
    assert {name: documented.get(name) for name in there} == there
    # made in the kernel; made when tasks are not; made where the API can load tools
    elsewhere = {
        "Python",
        "Branch",
        "Variables",
        "NotebookRun",
        "NotebookVerify",
        "TodoWrite",
        "TodoRead",
        "ToolSearch",
    }
    assert set(documented) - set(there) <= elsewhere


def test_the_index_of_decisions_lists_each_page_once_by_its_title() -> None:
    folder = DOCS / "decisions"
    listed = re.findall(r"^- \[(.*)\]\(([\w-]+\.md)\)$", (folder / "README.md").read_text("utf-8"), re.MULTILINE)
    pages = {page.name: page.read_text("utf-8").splitlines()[0].removeprefix("# ") for page in folder.glob("*.md")}
    del pages["README.md"]
    assert sorted(listed) == sorted((title, name) for name, title in pages.items())
