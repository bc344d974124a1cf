"""Command pages in cells: models, modes, styles and hooks, and a file proposed without tools in the session's diff."""

import json

import pytest
from accessibility import check_accessible
from playwright.sync_api import expect

from cellwright.testing import say

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

HOOK = {"hooks": [{"type": "command", "command": "make check", "timeout": 60}]}
SERVER = """\
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "initialize":
        version = asked["params"]["protocolVersion"]
        result = {"protocolVersion": version, "serverInfo": {"name": "tides", "version": "1"}, "capabilities": {"tools": {}}}
    elif asked["method"] == "tools/list":
        schema = {"type": "object", "properties": {"gauge": {"type": "string"}}}
        tools = [{"name": name, "description": "Tides at a gauge.", "inputSchema": schema} for name in ("high", "low")]
        result = {"tools": tools}
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""
FILES = {
    ".mcp.json": json.dumps({"mcpServers": {"issues": {"type": "http", "url": "https://issues.example/mcp"}}}),
    "tides.py": SERVER,
    ".claude/settings.json": json.dumps({"hooks": {"Stop": [HOOK]}}),
    "prices.py": "pears = 3\nplums = 4\n",
}
ANSWER = "Plums are dearer now:\n\n```python:prices.py\npears = 3\nplums = 5\n```\n"


def test_a_file_is_proposed_without_tools_and_pages_are_read(notebook, model, page):
    book = notebook(
        "%load_ext cellwright",
        "%claude /model",
        "%claude /mode",
        "%claude /output-style",
        "%claude /hooks",
        "%%claude --no-tools\nPut the plums in @prices.py up to 5",
        "%claude /diff",
        "%claude /model sonnet",
        "%claude /context",
        "%claude /mcp",
        files=FILES,
    )
    for cell in range(5):
        book.run(cell)
        book.wait_done(cell)
    expect(book.output(1).locator("tr", has_text="current")).to_contain_text("claude-opus-5-5")
    expect(book.output(2).locator("tr", has_text="current")).to_contain_text("default")
    expect(book.output(3)).to_contain_text("Learning")
    expect(book.output(4)).to_contain_text("waits")
    model.add(say(ANSWER))
    book.run(5)
    card = book.asked_by_keys(5)
    expect(card).to_contain_text("Trust the folder")
    page.keyboard.press("4")
    expect(book.asked_by_keys(5)).to_contain_text("plums = 5")
    page.keyboard.press("1")
    book.wait_done(5)
    assert (book.lab.root / book.path).parent.joinpath("prices.py").read_text("utf-8") == "pears = 3\nplums = 5\n"
    folder = str((book.lab.root / book.path).parent)
    own = {"tides": {"command": "python3", "args": ["tides.py"]}}
    (book.lab.home / ".claude.json").write_text(json.dumps({"projects": {folder: {"mcpServers": own}}}))
    for cell in (6, 7, 8, 9):
        book.run(cell)
        book.wait_done(cell)
    expect(book.output(6)).to_contain_text("+plums = 5")
    expect(book.output(7)).to_contain_text("anew")
    expect(book.output(8).locator("tr", has_text="System prompt").first).to_contain_text("█")
    expect(book.output(8).locator("tr", has_text="Free")).not_to_contain_text("█")
    book.cell(8).scroll_into_view_if_needed()
    book.screenshot("context", book.output(8).locator("table").first)
    expect(book.output(9).locator("tr", has_text="tides")).to_contain_text("2 tools")
    expect(book.output(9).locator("tr", has_text="issues")).to_contain_text("waits")
    book.cell(9).scroll_into_view_if_needed()
    book.page.mouse.move(0, 0)  # the buttons of an output would be in the picture
    book.screenshot("mcp", book.output(9))
    for cell in (1, 6, 8, 9):
        check_accessible(book.output(cell))
