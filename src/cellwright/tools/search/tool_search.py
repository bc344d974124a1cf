"""ToolSearch: the definitions of tools that are not told before the first word, loaded when Claude needs them.

Its result names them in `tool_reference` blocks, and the API puts their definitions there: behind all that was said, so
that what is cached stays so. It finds what the session's tools were declared with, and nothing else.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta
from msgspec.structs import replace

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.tool import TOOL_SEARCH, Tool, ToolAccess, ToolContext, ToolLimits, ToolResult, tool
from cellwright.text import lazy_pattern

DESCRIPTION = """\
Load tools that you know only by name, so that you can call them from your next message on. Load what you will need at \
once, before you do without it. There are:
{names}"""

LISTED = 60
"""Tools that are listed with what they do; more are found by search alone."""

_SELECT = "select:"
_CLAUSE = lazy_pattern(r"[^.:(\n]+")
_WORD = lazy_pattern(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


class ToolSearchInput(ToolInput):
    """The input of ToolSearch."""

    query: Annotated[str, Meta(min_length=1, description="`select:Name,Other` by name, or words to search for.")]
    max_results: Annotated[int, Meta(ge=1, le=50, description="Only for a search.")] = 5


def with_tool_search(tools: Sequence[Tool]) -> tuple[Tool, ...]:
    """The tools, those that are rarely used deferred, and ToolSearch; as they are where none is deferred."""
    marked = tuple(replace(each, defer_loading=True) if each.rarely_used else each for each in tools)
    deferred = [each for each in marked if each.defer_loading]
    return (*marked, tool_search_tool(deferred)) if deferred else marked


def tool_search_tool(deferred: Sequence[Tool]) -> Tool:
    """ToolSearch; `deferred` are the tools that its description lists."""
    names = []
    for each in deferred[:LISTED]:
        clause = _CLAUSE.match(each.description.strip())
        names.append(f"- {each.name}: {each.best_for or (clause[0].strip() if clause else '')}")
    if len(deferred) > LISTED:
        names.append(f"- and {len(deferred) - LISTED} more: search for them")

    @tool(
        name=TOOL_SEARCH,
        description=DESCRIPTION.format(names="\n".join(names)),
        access=ToolAccess("notes"),
        read_only=True,
        limits=ToolLimits(seconds=10),
        examples=[{"query": "select:MultiEdit,ApplyPatch"}, {"query": "search the web", "max_results": 3}],
        title=lambda input: f"Load tools: {input.query.removeprefix(_SELECT)}",
    )
    async def tool_search(input: ToolSearchInput, ctx: ToolContext) -> ToolResult:
        declared = {str(each["name"]): each for each in ctx.declared_tools() if each.get("defer_loading")}
        found, missing = _found(input, declared)
        if not found:
            known = ", ".join(declared) or "none"
            return ToolResult(f"No tool was found for {input.query!r}. Those that can be loaded: {known}.")
        return ToolResult(
            [{"type": "tool_reference", "tool_name": name} for name in found],
            display={"tools": found, "not_found": missing},
        )

    return tool_search


def _found(input: ToolSearchInput, declared: Mapping[str, Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    """The names that were asked for or match best, and those asked for that there are not."""
    if input.query.startswith(_SELECT):
        by_name = {name.casefold(): name for name in declared}
        asked = [name.strip() for name in input.query.removeprefix(_SELECT).split(",") if name.strip()]
        found = [by_name[name.casefold()] for name in asked if name.casefold() in by_name]
        return list(dict.fromkeys(found)), [name for name in asked if name.casefold() not in by_name]
    scores = _scores(_stems(input.query), declared)
    best = sorted((name for name in declared if scores[name]), key=lambda name: -scores[name])
    return best[: input.max_results], []


def _scores(query: set[str], declared: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """The fit of each tool: words in its name count most, then in its description, then in its fields' names.

    A word that many of them have ("file", "is") says little.
    """
    texts = {}
    for name, definition in declared.items():
        fields = " ".join(definition["input_schema"].get("properties", ()))
        texts[name] = _stems(name), _stems(str(definition.get("description", ""))), _stems(fields)
    tools_with = Counter(stem for each in texts.values() for stem in set().union(*each))
    weights = {stem: math.log1p(len(declared) / tools_with[stem]) for stem in query if tools_with[stem]}
    return {
        name: sum(
            weight * (8 * (stem in in_name) + 2 * (stem in in_description) + (stem in in_fields))
            for stem, weight in weights.items()
        )
        for name, (in_name, in_description, in_fields) in texts.items()
    }


def _stems(text: str) -> set[str]:
    """The beginnings of words in lower case: "defined" fits `FindDefinitions`; `WebFetch` and `web_fetch` are two words."""
    # the letters of a word that count
    return {word.casefold().removesuffix("s")[:5] for word in _WORD.findall(text)}
