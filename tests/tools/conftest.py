"""The tools of a session in a folder, called as the loop calls them: input checked against the schema, then run."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.calls.input_schema import check_input
from cellwright.agent.tool import CannotBeDone, ToolContext, ToolResult
from cellwright.errors import ToolError
from cellwright.events import Preview
from cellwright.tools.files.file_state import FileState

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode leaves a test's own folder out

from tool_groups import file_tools, notebook_tools, search_tools

CONTEXT = ToolContext("toolu_test", lambda **_: None)


class Toolbox:
    """All file, search and notebook tools of one session."""

    def __init__(self, cwd: Path) -> None:
        self.cwd = cwd
        self.state = FileState()
        tools = [*file_tools(self.state, cwd), *search_tools(cwd), *notebook_tools(self.state, cwd)]
        self.tools = {tool.name: tool for tool in tools}

    def in_folder(self, folder: Path) -> Toolbox:
        """The same tools in another session; each row of a table has its own."""
        return Toolbox(folder)

    async def run(self, name: str, tool_input: Mapping[str, Any]) -> ToolResult:
        check_input(self.tools[name], tool_input)
        result = await self.tools[name].call(dict(tool_input), CONTEXT)
        return result if isinstance(result, ToolResult) else ToolResult(result)

    def result(self, name: str, **tool_input: Any) -> ToolResult:
        return asyncio.run(self.run(name, tool_input))

    def text(self, name: str, **tool_input: Any) -> str:
        content = self.result(name, **tool_input).content
        assert isinstance(content, str)
        return content

    def error(self, name: str, **tool_input: Any) -> ToolError:
        with pytest.raises(ToolError) as caught:
            self.result(name, **tool_input)
        return caught.value

    def preview(self, name: str, **tool_input: Any) -> Preview:
        make = self.tools[name].preview
        assert make is not None
        return asyncio.run(make(tool_input))  # type: ignore[arg-type]

    def cannot(self, name: str, **tool_input: Any) -> CannotBeDone:
        """Why nobody is asked whether the call may run."""
        with pytest.raises(CannotBeDone) as caught:
            self.preview(name, **tool_input)
        return caught.value

    def title(self, name: str, **tool_input: Any) -> str:
        make = self.tools[name].title
        assert make is not None
        return make(tool_input)


@pytest.fixture
def tools(tmp_path: Path) -> Toolbox:
    return Toolbox(tmp_path)
