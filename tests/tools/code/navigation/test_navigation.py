"""The tools that find code: the same answers from the index and without it, fresh, within the rules, with lines to go to."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from indexed_project import build_index

from cellwright.agent.calls.input_schema import check_input
from cellwright.agent.tool import Tool, ToolContext, ToolResult
from cellwright.codebase.store import index_path, lock_path
from cellwright.config.settings.settings import load_settings
from cellwright.conversation.tools.built_in_tools import ToolEnvironment, make_tools
from cellwright.errors import ToolError
from cellwright.permissions.policy import PermissionPolicy
from cellwright.sessions.transcripts.transcript_lock import acquire
from cellwright.tools.code.navigation.project_code import ProjectCode
from eventual import SECONDS

CONTEXT = ToolContext("toolu_test", lambda **_: None)


def tools_in(root: Path) -> Mapping[str, Tool]:
    environ = {**os.environ, "HOME": str(root)}
    settings = load_settings(root, environ)
    return {tool.name: tool for tool in make_tools(ToolEnvironment(cwd=root, settings=settings, environ=environ))}


def call(root: Path, tool_name: str, context: ToolContext = CONTEXT, /, **given: Any) -> ToolResult:
    tool = tools_in(root)[tool_name]
    check_input(tool, given)
    result = asyncio.run(tool.call(given, context))  # type: ignore[arg-type]
    assert isinstance(result, ToolResult)
    return result


def lines(root: Path, tool_name: str, context: ToolContext = CONTEXT, /, **given: Any) -> list[str]:
    return str(call(root, tool_name, context, **given).content).split("\n")


@contextmanager
def nothing_indexed(root: Path) -> Iterator[None]:
    """Have somebody else hold the lock of the index, so that it stays as it is."""
    database = index_path(root)
    database.parent.mkdir(parents=True, exist_ok=True)
    lease = acquire(lock_path(database), SECONDS)
    assert lease is not None
    try:
        yield
    finally:
        lease.release()


ANSWERS = [
    ("FindDefinitions", {"name": "Server.stop"}, ["app/server.py:22-24: method Server.stop | def stop(self)"]),
    ("FindDefinitions", {"name": "cle*"}, ["analysis.ipynb#cell2:2: function clean | def clean(frame)"]),
    ("FindDefinitions", {"name": "draw", "path": "web"}, ["web/draw.ts:1: function draw | draw = (count: number) =>"]),
    (
        "FindReferences",
        {"name": "load_rows"},
        [
            "analysis.ipynb#cell2:3: call | return load_rows(frame)",
            "app/server.py:3: import | from app.store import Store, load_rows",
            "app/server.py:20: call | return load_rows(self.store)",
            "app/store.py:9: definition | def load_rows(store):",
            "README.md:5: text | Call `load_rows`.",
            "tool.rb:1: text | def load_rows(x)",
        ],
    ),
    (
        "FindReferences",
        {"name": "running", "kind": "write", "limit": 2},
        ["app/server.py:12: write | self.running = False"],
    ),
    (
        "CallChain",
        {"symbol": "load_rows", "path": "app"},
        ["  app/server.py:20: Server.start", "  analysis.ipynb#cell2:3: clean"],
    ),
    (
        "CallChain",
        {"symbol": "clean", "direction": "callees"},
        ["  analysis.ipynb#cell2:3: load_rows (app/store.py:9)"],
    ),
    ("ImportChain", {"path": "app/store.py", "direction": "importers"}, ["  app/server.py:3: app.store"]),
    ("ImportChain", {"path": "web/view.ts"}, ["  web/draw.ts (web/view.ts:1)"]),
    (
        "ImportChain",
        {"path": "app/store.py", "direction": "cycles"},
        ["app/store.py:2: imports app/server.py", "app/server.py:3: imports app/store.py"],
    ),
    ("CodeOutline", {"path": "README.md"}, ["  :1-6 # Pages", "  :4-6 ## Set-up"]),
    (
        "CodeOutline",
        {"path": "app", "depth": 1},
        ["app/server.py (24 lines)", "  :8-24 class Server  # Answers requests."],
    ),
    (
        "CodeContext",
        {"path": "app/store.py", "first_line": 5, "last_line": 6},
        ["     5\tclass Store:", "     6\t    pass"],
    ),
    ("CodeContext", {"symbol": "Server.stop"}, ["app/server.py:22-24", '    24\t        return "load_rows"']),
    (
        "AnalyzeFunction",
        {"symbol": "Server.start"},
        [
            "6 lines, cyclomatic complexity 3, cognitive 2, nesting 1",
            "Raises: ValueError",
            "Writes: running",
            "Reads: store",
        ],
    ),
    ("CodeMetrics", {"path": "app"}, ["app/store.py:9: load_rows | cognitive 3, cyclomatic 3, nesting 2, lines 7"]),
]


def wrong_answers(root: Path) -> list[tuple[str, Mapping[str, Any], list[str]]]:
    """The rows of the table that a tool does not answer as they say, with what it says."""

    async def ask() -> list[tuple[str, Mapping[str, Any], list[str]]]:
        tools = tools_in(root)
        wrong = []
        for name, given, expected in ANSWERS:
            check_input(tools[name], given)
            result = await tools[name].call(dict(given), CONTEXT)
            assert isinstance(result, ToolResult)
            said = str(result.content).split("\n")
            if not set(expected) <= set(said):
                wrong.append((name, given, said))
        return wrong

    return asyncio.run(ask())


def test_each_tool_answers_from_the_index(root: Path) -> None:
    build_index(root)
    assert wrong_answers(root) == []


def test_each_tool_answers_without_the_index_and_says_so(root: Path) -> None:
    with nothing_indexed(root):
        assert wrong_answers(root) == []
        assert "[The index is" in lines(root, "FindDefinitions", name="Server")[-1]
        found = call(root, "SemanticSearch", query="load the rows")
        assert "app/store.py:9" in str(found.content)
        assert "[The index is" in str(found.content)
        assert found.structured.index == "building"


def test_the_first_question_begins_the_index_and_the_next_finds_what_is_new(root: Path) -> None:
    async def ask() -> list[str]:
        tool = tools_in(root)["FindDefinitions"]
        code = ProjectCode(root, (), os.environ)
        await tool.call({"name": "Server"}, CONTEXT)
        await code.refresh(SECONDS)
        assert (await code.status()).complete
        (root / "later.py").write_text("def came_later(): ...\n")
        await code.refresh(SECONDS)
        result = await tool.call({"name": "came_later"}, CONTEXT)
        assert isinstance(result, ToolResult)
        return str(result.content).split("\n")

    assert [line.partition(" ")[0] for line in asyncio.run(ask())] == ["later.py:1:"]


def test_a_row_of_a_file_that_has_changed_is_made_anew_from_the_file(root: Path) -> None:
    build_index(root)
    store = root / "app/store.py"
    store.write_text("\n\n" + store.read_text())
    (root / "web/draw.ts").unlink()
    with nothing_indexed(root):
        assert lines(root, "FindDefinitions", name="load_rows")[0].startswith("app/store.py:11-17:")
        assert "Nothing named draw" in lines(root, "FindDefinitions", name="draw")[0]
        assert any(line.startswith("app/store.py:11: ") for line in lines(root, "FindReferences", name="load_rows"))
        found = lines(root, "SemanticSearch", query="retried after a timeout", limit=1)
        assert (found[0].split()[0], found[1]) == ("app/store.py:11-17", "    11\tdef load_rows(store):")
        server = root / "app/server.py"
        server.write_text("\n" + server.read_text())
        assert any("app/server.py:21:" in line for line in lines(root, "CallChain", symbol="load_rows"))


def test_words_find_code_and_documents(root: Path) -> None:
    build_index(root)
    found = call(root, "SemanticSearch", query="retry rows after timeout", limit=2)
    assert str(found.content).split("\n")[:2] == [
        "app/store.py:9-15 (1.00): function load_rows",
        "     9\tdef load_rows(store):",
    ]
    assert {row.path for row in call(root, "SemanticSearch", query="serve pages", glob="*.md").structured.rows} == {
        "README.md"
    }
    names = {row.name for row in call(root, "SemanticSearch", query="load rows", language="python").structured.rows}
    assert names >= {"load_rows", "clean"}
    assert not names & {"Set-up"}
    rest = call(root, "SemanticSearch", query="load rows", exclude=["app", "*.ipynb", "README.md"]).structured.rows
    assert {row.path for row in rest} == {"tool.rb"}


def test_a_line_that_uses_a_name_twice_is_one_row(root: Path) -> None:
    (root / "again.py").write_text("from app.store import load_rows as load_rows\n")
    build_index(root)
    assert [line.partition(" | ")[0] for line in lines(root, "FindReferences", name="load_rows", path="again.py")] == [
        "again.py:1: import",
        "[1 places in 1 files: 1 import.]",
    ]


def test_code_with_other_names_is_found_as_like(root: Path) -> None:
    build_index(root)
    found = call(root, "SimilarCode", symbol="load_rows")
    assert str(found.content).startswith("app/store.py:18-24: ")
    assert found.structured.rows[0].score > 0.8


@pytest.mark.parametrize("indexed", [True, False])
def test_files_that_may_not_be_read_are_in_no_answer(root: Path, indexed: bool) -> None:
    policy = PermissionPolicy(cwd=root, deny=["Read(./app/store.py)"])
    context = ToolContext("toolu_test", lambda **_: None, may_read=policy.may_read)
    if indexed:
        build_index(root)

    async def ask() -> None:
        tools = tools_in(root)
        for name, given in (
            ("FindDefinitions", {"name": "load_rows"}),
            ("FindReferences", {"name": "load_rows"}),
            ("SemanticSearch", {"query": "load rows store"}),
            ("CodeOutline", {"path": "app"}),
            ("CallChain", {"symbol": "clean", "direction": "callees"}),
            ("ImportChain", {"path": "app/server.py"}),
            ("SimilarCode", {"snippet": "for row in store:\n if row:\n  rows.append(row)"}),
            ("CodeMetrics", {"path": "."}),
        ):
            result = await tools[name].call(dict(given), context)
            assert isinstance(result, ToolResult)
            assert "app/store.py" not in str(result.content), name
            assert not any(row.path == "app/store.py" for row in result.structured.rows), name
        like = await tools["FindDefinitions"].call({"name": "fetch_item"}, context)
        assert isinstance(like, ToolResult)
        assert "fetch_items" not in str(like.content), "nor are its names"
        with pytest.raises(ToolError):
            await tools["CodeContext"].call({"path": "app/store.py"}, context)
        with pytest.raises(ToolError):
            await tools["AnalyzeFunction"].call({"symbol": "fetch_items"}, context)

    with nothing_indexed(root):
        asyncio.run(ask())


def test_what_is_outside_of_the_project_is_refused_with_the_way_there(root: Path, own_place: Path) -> None:
    with pytest.raises(ToolError, match="Use Grep and Read there"):
        call(root, "FindDefinitions", name="x", path=str(own_place))


def test_a_damaged_index_is_an_error_for_nobody(root: Path) -> None:
    database = build_index(root)
    database.write_bytes(b"no database " * 10_000)
    assert lines(root, "FindDefinitions", name="Server.stop")[0].startswith("app/server.py:22-24:")


def test_rows_are_data_for_programs(root: Path) -> None:
    build_index(root)
    structured = call(root, "FindDefinitions", name="clean").structured
    assert json.loads(msgspec.json.encode(structured)) == {
        "rows": [
            {
                "path": "analysis.ipynb",
                "line": 2,
                "cell": 2,
                "name": "clean",
                "kind": "function",
                "text": "def clean(frame)",
            }
        ],
        "total": 1,
        "index": "complete",
    }


def test_read_tells_what_its_lines_are_within_and_which_files_belong_to_it(root: Path) -> None:
    (root / "tests").mkdir()
    (root / "tests" / "test_server.py").write_text("def test(): ...\n")
    assert "within" not in lines(root, "Read", file_path="app/server.py", offset=18, limit=2)[-1], "there is no index"
    build_index(root)
    tools = tools_in(root)

    def last_line(context: ToolContext = CONTEXT, **given: Any) -> str:
        result = asyncio.run(tools["Read"].call({"file_path": str(root / "app/server.py"), **given}, context))
        return str(result.content).rpartition("\n")[2]  # type: ignore[union-attr]

    within = "these lines are within Server (8-24), Server.start (15-20)"
    files = "imports app/store.py; imported by app/store.py; tests tests/test_server.py"
    assert last_line(offset=18, limit=2) == f"[{within}; {files}]"
    assert last_line() == '    24\t        return "load_rows"', "of the whole file it was told already"
    only_tests = ToolContext("toolu_test", lambda **_: None, may_read=lambda path: "tests" in path)
    assert last_line(only_tests, offset=1, limit=2).endswith("/test_server.py]")
