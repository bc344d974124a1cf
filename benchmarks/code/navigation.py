"""Ten questions about a checkout of Flask, two ways, in calls and tokens.

With the tools that know code, and with Grep and Read alone. Both ways are scripted as somebody would go who knows the
tools and reads no more than is needed: each list ends with what answers the question. Counted are calls, and the tokens
of their inputs and results at four characters each. What a model would think, and how often it would go astray, is not in
it.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from benchmarks.code.index import CONTEXT
from benchmarks.code.tables import Table
from cellwright.agent.tool import Tool, ToolResult
from cellwright.codebase.store import index_path
from cellwright.config.settings.settings import load_settings
from cellwright.conversation.tools.built_in_tools import ToolEnvironment, make_tools
from cellwright.events import CHARS_PER_TOKEN

Call = tuple[str, dict[str, Any]]


class Question(Struct, frozen=True):
    """A question, and the calls that answer it either way."""

    words: str
    knowing: Sequence[Call]
    reading: Sequence[Call]


def grep(pattern: str, **more: Any) -> Call:
    return "Grep", {"pattern": pattern, "output_mode": "content", "-n": True, **more}


def read(path: str, offset: int, limit: int) -> Call:
    return "Read", {"file_path": path, "offset": offset, "limit": limit}


def questions(lines: Mapping[str, int]) -> list[Question]:
    """The questions; `lines` says where definitions of the checkout begin, which Grep has told before a Read."""
    app, scaffold, ctx = "src/flask/app.py", "src/flask/sansio/scaffold.py", "src/flask/ctx.py"
    sansio, testing = "src/flask/sansio/app.py", "src/flask/testing.py"
    return [
        Question(
            "Where is Flask.full_dispatch_request defined, and what is its signature?",
            [("FindDefinitions", {"name": "Flask.full_dispatch_request"})],
            [grep(r"def full_dispatch_request", glob="*.py", **{"-A": 3})],
        ),
        Question(
            "Who calls finalize_request?",
            [("FindReferences", {"name": "finalize_request", "kind": "call"})],
            [grep(r"finalize_request", glob="*.py", **{"-B": 12})],
        ),
        Question(
            "Show Flask.dispatch_request whole.",
            [("CodeContext", {"symbol": "Flask.dispatch_request"})],
            [grep(r"def dispatch_request", glob="*.py"), read(app, lines["dispatch_request"], 40)],
        ),
        Question(
            "Where are functions kept that run before each request?",
            [("SemanticSearch", {"query": "register function to run before each request", "limit": 5})],
            [grep(r"before.{0,20}request", glob="src/**/*.py"), read(scaffold, lines["before_request"], 30)],
        ),
        Question(
            "What does scaffold.py define?",
            [("CodeOutline", {"path": scaffold})],
            [("Read", {"file_path": scaffold})],
        ),
        Question(
            "Which ways lead to handle_exception, two calls deep?",
            [("CallChain", {"symbol": "Flask.handle_exception", "direction": "callers", "depth": 2})],
            [
                grep(r"handle_exception\(", glob="*.py"),
                read(app, lines["wsgi_app"], 60),
                grep(r"\bwsgi_app\(", glob="*.py"),
            ],
        ),
        Question(
            "What imports ctx.py?",
            [("ImportChain", {"path": ctx, "direction": "importers", "depth": 1})],
            [grep(r"(from|import) .*\bctx\b", glob="*.py"), grep(r"from \.+ctx|from \.+ import ctx", glob="*.py")],
        ),
        Question(
            "What does make_response raise, call and return?",
            [("AnalyzeFunction", {"symbol": "Flask.make_response"})],
            [grep(r"def make_response", glob="*.py"), read(app, lines["make_response"], 140)],
        ),
        Question(
            "Which functions are the most tangled?",
            [("CodeMetrics", {"path": "src"})],
            [
                ("Read", {"file_path": app}),
                ("Read", {"file_path": "src/flask/cli.py"}),
                ("Read", {"file_path": sansio}),
            ],
        ),
        Question(
            "Is there other code like EnvironBuilder.json_dumps?",
            [("SimilarCode", {"symbol": "EnvironBuilder.json_dumps"})],
            [grep(r"def .*dumps", glob="*.py", **{"-A": 12}), read(testing, lines["json_dumps"], 12)],
        ),
    ]


def definition_lines(root: Path) -> dict[str, int]:
    """The line of each function's first definition, as Grep would have told it."""
    found: dict[str, int] = {}
    for path in ("src/flask/app.py", "src/flask/sansio/scaffold.py", "src/flask/testing.py"):
        for number, line in enumerate((root / path).read_text("utf-8").splitlines(), start=1):
            name = line.strip().removeprefix("def ").partition("(")[0]
            if line.strip().startswith("def ") and name not in found:
                found[name] = number
    return found


async def cost(tools: Mapping[str, Tool], calls: Sequence[Call]) -> tuple[int, int]:
    """The calls, and the tokens of what is sent and comes back."""
    chars = 0
    for name, given in calls:
        result = await tools[name].call(given, CONTEXT)
        content = result.content if isinstance(result, ToolResult) else result
        chars += len(json.dumps(given)) + len(str(content))
    return len(calls), round(chars / CHARS_PER_TOKEN)


def navigation(root: Path) -> Table:
    """The table for a checkout of Flask, whose index is there."""
    environ = {**os.environ, "HOME": str(index_path(root).parent)}
    made = make_tools(ToolEnvironment(cwd=root, settings=load_settings(root, environ), environ=environ))
    tools = {tool.name: tool for tool in made}
    rows: list[tuple[str, ...]] = []
    sums = [0, 0, 0, 0]
    for question in questions(definition_lines(root)):
        counted = (
            *asyncio.run(cost(tools, question.knowing)),
            *asyncio.run(cost(tools, question.reading)),
        )
        sums = [total + each for total, each in zip(sums, counted, strict=True)]
        rows.append((question.words, *(f"{each:,}" for each in counted)))
    rows.append(("**all**", *(f"**{each:,}**" for each in sums)))
    return Table(
        "navigation", ("question", "calls", "tokens", "calls with Grep and Read", "tokens with Grep and Read"), rows
    )
