"""Built-in tools that are made with their first call: until then what they are is read from a file.

Thirty tools are eighty modules, and a session's first request needs nothing of them but what Claude is told. Definitions
that no setting changes are in `written_definitions.json`; `tests/house/test_written_definitions.py` writes it, and says
where one is no longer what its tool says.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from cellwright.agent.calls.tool_input import written_schema
from cellwright.agent.tool import Category, Tool, ToolAccess, ToolLimits
from cellwright.errors import ErrorCode, ToolError
from cellwright.events import QuestionKind

WRITTEN_DEFINITIONS = Path(__file__).with_name("written_definitions.json")

FUNCTIONS = ("facts", "prepare", "preview", "title")
"""The functions that some tools have."""


class WrittenDefinition(Struct, frozen=True, omit_defaults=True):
    """A tool as it describes itself. `input` is the class that its schema is written under, `functions` those it has."""

    description: str
    input: str
    access: ToolAccess
    read_only: bool
    limits: ToolLimits
    category: Category
    best_for: str
    input_examples: Sequence[Mapping[str, Any]]
    asks: QuestionKind
    asks_together: bool
    functions: Sequence[str]
    everyday: bool = False
    rarely_used: bool = False
    has_effects: bool | None = None
    other_names: Sequence[str] = ()


class LaterTool(Tool, frozen=True, kw_only=True):
    """A tool as its written definition says it; `made` gives the tool itself, which its calls come to."""

    made: Callable[[], Tool]

    def canonical(self, values: Mapping[str, Any]) -> dict[str, Any]:
        # the first thing that is done with a call
        try:
            made = self.made()
        except (OSError, ImportError) as error:
            message = f"{self.name} cannot be loaded: {error}. Nothing was run."
            raise ToolError(message, code=ErrorCode.EXECUTION_ERROR) from error
        return made.canonical(values)


def later_tool(name: str, make: Callable[[], Tool]) -> Tool:
    """The tool `name`, made by `make` with its first call; at once where its definition is not written."""
    definition = _definitions().get(name)
    if definition is None:
        return make()
    made = _once(make)

    def function_of(function: str) -> Any:
        return lambda *given: getattr(made(), function)(*given)

    return LaterTool(
        name=name,
        description=definition.description,
        input_schema=written_schema(definition.input),
        access=definition.access,
        read_only=definition.read_only,
        limits=definition.limits,
        category=definition.category,
        best_for=definition.best_for,
        input_examples=definition.input_examples,
        asks=definition.asks,
        asks_together=definition.asks_together,
        everyday=definition.everyday,
        rarely_used=definition.rarely_used,
        has_effects=definition.has_effects,
        other_names=tuple(definition.other_names),
        call=function_of("call"),
        **{function: function_of(function) for function in definition.functions},
        made=made,
    )


def whole_tool(tool: Tool) -> Tool:
    """The tool itself, made now if it was to be made later."""
    return replace(tool.made(), defer_loading=tool.defer_loading) if isinstance(tool, LaterTool) else tool


@functools.cache
def _definitions() -> Mapping[str, WrittenDefinition]:
    return msgspec.json.decode(WRITTEN_DEFINITIONS.read_bytes(), type=dict[str, WrittenDefinition])


def _once(make: Callable[[], Tool]) -> Callable[[], Tool]:
    """`make`, called once, from whatever threads: some tools remember what they have prepared."""
    lock = threading.Lock()
    found: list[Tool] = []

    def made() -> Tool:
        with lock:
            if not found:
                found.append(make())
            return found[0]

    return made
