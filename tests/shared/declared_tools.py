"""Tools by name, as they declare themselves, for tests of the policy that run none of them."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from cellwright.agent.thread import CallerJobs
from cellwright.agent.tool import Tool
from cellwright.config.settings.settings import Settings, load_settings
from cellwright.conversation.tools.built_in_tools import ToolEnvironment, make_tools, whole_tool
from cellwright.kernel.cells.notebook_run import Runner, notebook_run_tool
from cellwright.kernel.cells.notebook_verify import Verifier, notebook_verify_tool
from cellwright.kernel.execute.branch_tool import branch_tool
from cellwright.kernel.execute.python_tool import python_tool
from cellwright.kernel.namespace.variables_tool import variables_tool
from cellwright.tools.notebook.open_notebook import NothingOpen


def tools_of(folder: Path, *, tasks: bool = True) -> tuple[Tool, ...]:
    """All built-in tools: with those for tasks, or with TodoWrite in their place."""
    environ = {**os.environ, "CLAUDE_CODE_ENABLE_TODO_TOOLS": "1", "CLAUDE_CODE_ENABLE_TASKS": str(int(tasks))}
    settings = load_settings(folder, environ)
    place = ToolEnvironment(cwd=folder, settings=settings, environ=environ, load_skill=_never, start_agent=_never)
    return tuple(map(whole_tool, make_tools(place)))


@functools.cache
def declared() -> Mapping[str, Tool]:
    """The built-in tools, with either kind of list, and the kernel's: those have a shell only when they run."""
    nothing: Any = None
    cwd, jobs = Path.cwd(), CallerJobs()
    place = ToolEnvironment(
        cwd=cwd,
        settings=Settings(project=cwd),
        environ={"CELLWRIGHT_SEARCH_API_KEY": "k"},
        load_skill=_never,
        start_agent=_never,
    )
    runner = Runner(nothing, jobs, NothingOpen(), nothing, cwd, in_kernel=True, own_cell=lambda: None)
    tools = (
        *make_tools(place),
        *make_tools(replace(place, environ={"CLAUDE_CODE_ENABLE_TASKS": "1"})),
        branch_tool(nothing, lambda: None),
        python_tool(nothing, jobs, in_kernel=True),
        variables_tool(nothing, jobs),
        notebook_run_tool(runner),
        notebook_verify_tool(Verifier(nothing, jobs, NothingOpen(), nothing, cwd, {})),
    )
    return {tool.name: whole_tool(tool) for tool in tools}


def tool_named(name: str, *, read_only: bool = False) -> Tool:
    """The tool `name`; one that nobody knows declares nothing but `read_only`."""
    if name == "Task":
        return replace(declared()["Agent"], name=name)
    if name in declared():
        return declared()[name]
    return Tool(name=name, description="None.", input_schema={}, call=_never, read_only=read_only)


async def _never(*_given: Any) -> Any:
    raise AssertionError("no test of the policy runs a tool")
