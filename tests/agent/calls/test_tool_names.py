"""Other names of tools and fields, row by row: taken for what they mean, judged as that, never over what is given."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.calls.input_schema import check_input
from cellwright.agent.calls.tool_input import FIELDS, with_own_fields
from cellwright.agent.calls.tool_names import meant_tool
from cellwright.agent.tool import Tool, tool
from cellwright.conversation.tools.toolset import builtin_tools
from cellwright.errors import ToolError
from cellwright.events import Decided, ToolEnd, ToolStart
from cellwright.permissions.policy import PermissionPolicy
from cellwright.testing import say, turn, use
from declared_tools import declared
from row_tables import for_each_row

TAKEN = [
    (
        "Read",
        {"filePath": "a.py", "start_line": 5, "end_line": 9},
        {"file_path": "a.py", "offset": 5, "limit": 5},
    ),
    ("Read", {"path": "a.py", "endLine": 9}, {"file_path": "a.py", "limit": 9}),
    ("Write", {"filename": "a.py", "contents": "x"}, {"file_path": "a.py", "content": "x"}),
    (
        "Edit",
        {"filePath": "a.py", "oldString": "x", "newString": "y", "replaceAll": True},
        {"file_path": "a.py", "old_string": "x", "new_string": "y", "replace_all": True},
    ),
    (
        "MultiEdit",
        {"filePath": "a.py", "edits": [{"oldString": "x", "new_text": "y"}]},
        {"file_path": "a.py", "edits": [{"old_string": "x", "new_string": "y"}]},
    ),
    (
        "Grep",
        {
            "regex": "x",
            "case_insensitive": True,
            "context_before": 1,
            "context_after": 2,
            "show_line_numbers": False,
            "max_results": 4,
            "file_patterns": ["*.py", "*.pyi"],
            "exclude_patterns": "build",
        },
        {
            "pattern": "x",
            "-i": True,
            "-B": 1,
            "-A": 2,
            "-n": False,
            "head_limit": 4,
            "glob": "{*.py,*.pyi}",
            "ignore": ["build"],
        },
    ),
    ("Grep", {"pattern": "x", "context_around": 3, "caseSensitive": False}, {"pattern": "x", "-C": 3, "-i": True}),
    ("Glob", {"file_patterns": ["*.py"], "directory": "src"}, {"pattern": "*.py", "path": "src"}),
    ("Bash", {"cmd": "ls", "workdir": "src"}, {"command": "ls", "working_directory": "src"}),
    ("Bash", {"command": "ls", "timeout_seconds": 5}, {"command": "ls", "timeout": 5_000}),
    ("RunTests", {"working_directory": "src"}, {"path": "src"}),
    ("SemanticSearch", {"query": "x", "max_results": 4}, {"query": "x", "limit": 4}),
    (
        "NotebookEdit",
        {"notebookPath": "a.ipynb", "source": "1", "cellId": "c"},
        {"notebook_path": "a.ipynb", "new_source": "1", "cell_id": "c"},
    ),
    (
        "TodoWrite",
        {"todos": [{"content": "Read it", "status": "pending"}]},
        {"todos": [{"content": "Read it", "status": "pending", "activeForm": "Read it"}]},
    ),
]  # fmt: skip


@for_each_row(("name", "given", "own"), TAKEN)
def test_other_names_of_fields_are_taken_for_what_they_mean(name, given, own):
    assert check_input(declared()[name], given) == own


@for_each_row(
    ("name", "given", "own"),
    [
        ("Read", {"file_path": "a", "filePath": "b", "path": "c"}, {"file_path": "a"}),
        ("Grep", {"pattern": "x", "head_limit": 3, "max_results": 9}, {"pattern": "x", "head_limit": 3}),
        ("Grep", {"pattern": "x", "-i": False, "case_insensitive": True}, {"pattern": "x", "-i": False}),
        ("SemanticSearch", {"query": "x", "limit": 2, "max_results": 9}, {"query": "x", "limit": 2}),
    ],
)
def test_a_name_that_is_given_is_never_overridden(name, given, own):
    assert check_input(declared()[name], given) == own


def test_two_other_names_for_one_field_are_an_error():
    with pytest.raises(ToolError, match="there is no field filename"):
        check_input(declared()["Read"], {"path": "a.py", "filename": "b.py"})


def test_every_row_of_the_tables_means_something_and_hides_nothing():
    fields = {name: set(each.input_schema.get("properties", ())) for name, each in declared().items()}
    inner = {"old_string", "new_string", "content"}  # of edits and todos
    empty = [
        (name, field)
        for name, meant in FIELDS.items()
        for field in meant
        if field not in inner and not any(field in known and name not in known for known in fields.values())
    ]
    assert empty == [], "no tool has this field under another name"
    others = {name for tool in declared().values() for name in tool.other_names}
    assert len(others) > 60
    assert others.isdisjoint(declared())


@for_each_row(
    ("name", "given", "meant"),
    [
        ("read_file", {"path": "a"}, "Read"),
        ("write_file", {"path": "a", "content": "x"}, "Write"),
        ("list_files", {"path": "."}, "LS"),
        ("list_files", {"pattern": "*.py"}, "Glob"),
        ("codebase_search", {"query": "x"}, "SemanticSearch"),
        ("edit_file", {"path": "a", "edits": []}, "MultiEdit"),
        ("list_files", {"path": ".", "depth": 2}, "FileTree"),
        ("search_by_pattern", {"pattern": "x", "file_patterns": ["*.py"]}, "Grep"),
        ("run_command", {"command": "ls"}, "Bash"),
        ("runCommand", {"command": "ls"}, "Bash"),
        ("bash", {"command": "ls"}, "Bash"),
        ("todo_write", {"todos": []}, "TodoWrite"),
        ("find_references", {"name": "x"}, "FindReferences"),
        ("notebook_edit", {}, "NotebookEdit"),
        ("mcp__files__read_file", {"path": "a"}, "mcp__files__read_file"),
        ("no_such_tool", {}, "no_such_tool"),
    ],
)
def test_a_call_of_another_name_means_a_tool_of_ours(name, given, meant):
    assert meant_tool(name, given, dict(declared())) == meant


def test_every_own_name_is_known_in_every_spelling():
    tools = dict(declared())
    snake = re.compile(r"(?<=[a-z])(?=[A-Z])")
    spelled = {name: snake.sub("_", name).lower() for name in tools}
    assert {name: meant_tool(spelling, {}, tools) for name, spelling in spelled.items()} == {
        name: name for name in tools
    }


def names_run(played: Any) -> list[str]:
    return [call.name for start in played.of(ToolStart) for call in start.calls]


def test_rules_hold_for_the_tool_that_is_meant(play: Any, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("words in it\n")
    policy = PermissionPolicy(mode="bypassPermissions", deny=("Bash",), roots=(tmp_path,), cwd=tmp_path)
    calls = (use("read_file", path="a.txt"), use("run_command", command="touch made", workdir="."))
    played = play([turn(*calls), say("ok")], tools=builtin_tools(cwd=tmp_path), policy=policy)
    read, run = played.of(ToolEnd)
    assert (read.status, "words in it" in str(read.content), run.status) == ("success", True, "denied")
    assert not (tmp_path / "made").exists()
    assert names_run(played) == ["Read", "Bash"]
    assert [event.rule for event in played.of(Decided) if event.behavior == "deny"] == ["Bash"]
    # the conversation knows the tools by their own names: what is sent, resumed and exported agrees with what ran
    kept = [b["name"] for m in played.session.messages for b in m["content"] if b["type"] == "tool_use"]
    assert kept == ["Read", "Bash"]


def test_a_tool_of_that_name_is_itself(play: Any, tmp_path: Path) -> None:
    @tool(read_only=True)
    def fetch(what: str) -> str:
        """Fetch it."""
        return f"own {what}"

    played = play([use("fetch", what="thing"), say("ok")], tools=(*builtin_tools(cwd=tmp_path), fetch))
    assert [str(end.content) for end in played.of(ToolEnd)] == ["own thing"]


def test_a_missing_tool_has_its_code_its_call_and_whether_it_may_work_later(play: Any, tmp_path: Path) -> None:
    calls = turn(use("mcp__gone__look", a=1), use("no_such_tool"))
    played = play([calls, say("ok")], tools=builtin_tools("Read", cwd=tmp_path))
    first, second = played.of(ToolEnd)
    assert [end.error["code"] for end in (first, second)] == ["MCP_TOOL_NOT_FOUND", "TOOL_NOT_FOUND"]
    for end in (first, second):
        assert (end.error["tool_call_id"], end.error["recoverable"]) == (end.tool_use_id, False)


def test_other_names_need_no_schema_of_ours() -> None:
    assert with_own_fields({"filePath": 1, "x": 2}, ("file_path",)) == {"file_path": 1, "x": 2}
    plain = Tool(name="plain", description="A server's.", input_schema={"properties": {"path": {}}}, call=_never)
    assert plain.canonical({"filePath": 1}) == {"filePath": 1}, "what others' tools are given is theirs to say"


async def _never(*_given: Any) -> Any:
    raise AssertionError("it is not called")
