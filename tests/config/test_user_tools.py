"""Tools of packages and of trusted folders."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from cellwright.agent.tool import ToolContext
from cellwright.config.user_tools import brought_tools

GREET = '''
from __future__ import annotations
from dataclasses import dataclass
from cellwright import tool

@dataclass
class Greeting:
    text: str

@tool(read_only=True)
def greet(name: str) -> str:
    """Greet somebody."""
    return Greeting(f"Hello {name}").text

def helper() -> None: ...
'''


def test_a_files_tools_are_those_at_its_top_level() -> None:
    brought = brought_tools([(Path("/project/.claude/tools/greet.py"), GREET.encode())], ["Read"])
    assert list(brought.tools) == ["greet"]
    assert brought.notices == []
    result = asyncio.run(brought.tools["greet"].call({"name": "Ada"}, ToolContext("toolu_1", lambda **_: None)))
    assert result == "Hello Ada"


def test_what_is_broken_is_named_with_its_line_and_the_rest_is_kept() -> None:
    files = [
        (Path("/p/syntax.py"), b"x = 1\ndef (:\n"),
        (Path("/p/raises.py"), b"\n\nraise ValueError('no')\n"),
        (Path("/p/exits.py"), b"import sys; sys.exit(3)\n"),
        (Path("/p/greet.py"), GREET.encode()),
        (Path("/p/again.py"), GREET.encode()),
    ]
    brought = brought_tools(files, [])
    assert list(brought.tools) == ["greet"]
    assert brought.notices == [
        "No tools from /p/syntax.py: line 2: invalid syntax",
        "No tools from /p/raises.py: line 3: ValueError: no",
        "No tools from /p/exits.py: line 1: SystemExit: 3",
        "/p/again.py brings a tool named greet, which there is already; it is not used.",
    ]
    assert "cellwright_project_tools.raises" not in sys.modules


def test_a_tool_cannot_take_the_place_of_another() -> None:
    brought = brought_tools([(Path("/p/greet.py"), GREET.encode())], ["greet"])
    assert brought.tools == {}
    assert "which there is already" in brought.notices[0]


def test_a_place_on_the_path_that_cannot_be_looked_into_brings_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend("/" + "x" * 300)  # as good as a folder of somebody else's, which root may enter
    assert brought_tools([], []).notices == []


def test_an_installed_package_brings_tools_by_its_entry_point(tmp_path: Path) -> None:
    """A real distribution on the path of another process."""
    (tmp_path / "shop_tools.py").write_text(
        textwrap.dedent("""
            from cellwright import tool

            @tool
            def price(item: str) -> str:
                "Look up a price."
                return "3"

            def several():
                return [price]

            nonsense = 7
        """)
    )
    about = tmp_path / "shop_tools-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: shop-tools\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[cellwright.tools]\none = shop_tools:several\ntwo = shop_tools:nonsense\nthree = shop_tools:missing\n"
    )
    code = (
        "from cellwright.config.user_tools import brought_tools\n"
        "brought = brought_tools([], [])\nprint(list(brought.tools))\nprint(*brought.notices, sep='\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    first, *notices = done.stdout.splitlines()
    assert first == "['price']"
    assert sorted(notices)[0].startswith("No tools")
    assert "7 is not a Tool" in sorted(notices)[1]
