"""The written definitions of built-in tools are what the tools say; run as a program, this writes them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cellwright.agent.calls.tool_input import full_name
from cellwright.agent.calls.tool_names import WRITTEN_ACCESS, WrittenAccess
from cellwright.agent.tool import Tool
from cellwright.config.settings.settings import Settings
from cellwright.conversation.tools.built_in_tools import (
    FUNCTIONS,
    LATER,
    WRITTEN_DEFINITIONS,
    LaterTool,
    ToolEnvironment,
    ToolMakers,
    WrittenDefinition,
    later_tool,
    make_tools,
    whole_tool,
)
from cellwright.permissions.policy import NamedTool, named_tool
from declared_tools import declared

FACTS = (
    *("description", "access", "read_only", "limits", "category", "best_for", "asks", "asks_together"),
    *("everyday", "rarely_used", "has_effects", "other_names"),
)

KERNEL_TOOLS = ("NotebookRun", "NotebookVerify", "Branch")

NOTHING: Any = object()


def places(folder: Path) -> Sequence[ToolEnvironment]:
    """A plain place, and one where all is different that tools are made of."""
    plain = ToolEnvironment(cwd=Path.cwd(), settings=Settings(project=Path.cwd()), environ={})
    settings = Settings(
        project=folder,
        additional_directories=(folder,),
        bash_output_max_chars=1_234,
        command_timeout=7,
        web_fetch_timeout=3,
        max_file_size=99_000,
        cache_ttl=5,
    )
    environ = {**os.environ, "CLAUDE_CODE_FILE_READ_MAX_OUTPUT_TOKENS": "777", "CLAUDE_CODE_GLOB_TIMEOUT_SECONDS": "3"}
    other = ToolEnvironment(
        cwd=folder, settings=settings, environ=environ, side_request=NOTHING, load_skill=NOTHING, start_agent=NOTHING
    )
    return plain, other


@pytest.mark.parametrize("which", [0, 1])
def test_written_definitions_are_what_the_tools_say(which: int, tmp_path: Path) -> None:
    later = [tool for tool in make_tools(places(tmp_path)[which]) if isinstance(tool, LaterTool)]
    assert len(later) >= 20
    for tool in later:
        same_definition(tool, whole_tool(tool))


def same_definition(tool: Tool, made: Tool) -> None:
    run = "run: make written"
    for fact in (*FACTS, "input_schema", "answered_schema"):
        assert getattr(tool, fact) == getattr(made, fact), f"{tool.name}: {fact}; {run}"
    assert [*tool.input_examples] == [*made.input_examples], f"{tool.name}; {run}"
    assert tool.to_param() == made.to_param(), f"{tool.name}; {run}"
    for function in (*FUNCTIONS, "check"):
        assert (getattr(tool, function) is None) == (getattr(made, function) is None), f"{tool.name}: {function}"


def test_what_is_written_is_what_is_made_later() -> None:
    assert set(msgspec.json.decode(WRITTEN_DEFINITIONS.read_bytes())) == {*LATER, *KERNEL_TOOLS}


@pytest.mark.parametrize("name", KERNEL_TOOLS)
def test_written_definitions_of_the_kernels_tools_are_what_they_say(name: str) -> None:
    made = declared()[name]
    same_definition(later_tool(name, lambda: made), made)


def test_every_built_in_tool_is_known_by_its_name() -> None:
    written = {name: named_tool(name) for name in msgspec.json.decode(WRITTEN_ACCESS.read_bytes())}
    declare = {name: NamedTool(name, tool.access, tool.read_only, tool.category) for name, tool in declared().items()}
    assert written == declare, "run: make written"


def accesses() -> Mapping[str, WrittenAccess]:
    """The declarations of all built-in tools that a decision rests on, by name."""
    return {
        name: WrittenAccess(tool.access, tool.read_only, tool.category) for name, tool in sorted(declared().items())
    }


def definitions() -> Mapping[str, WrittenDefinition]:
    """The definitions of the tools that are made later, by name."""
    makers = ToolMakers(places(Path.cwd())[0])
    tools = {name: maker.tool(makers) for name, maker in LATER.items()} | {
        name: declared()[name] for name in KERNEL_TOOLS
    }
    return {name: definition(tool) for name, tool in tools.items()}


def definition(tool: Tool) -> WrittenDefinition:
    """What is written of a tool. Raises ValueError for one that cannot be made later."""
    if tool.input_type is None or tool.answered_schema is not None or tool.check is not None:
        raise ValueError(f"{tool.name} has what no definition holds: it is made at once")
    functions = [function for function in FUNCTIONS if getattr(tool, function) is not None]
    facts = {fact: getattr(tool, fact) for fact in (*FACTS, "input_examples")}
    return WrittenDefinition(input=full_name(tool.input_type), functions=functions, **facts)


if __name__ == "__main__":
    for file, written in ((WRITTEN_DEFINITIONS, definitions()), (WRITTEN_ACCESS, accesses())):
        # a line each, so that a change shows which
        lines = (f"{json.dumps(name)}: {msgspec.json.encode(each).decode()}" for name, each in written.items())
        file.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
