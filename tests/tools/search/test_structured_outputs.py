"""Each tool's structured result: the facts that it is for, on real files and programs, and its page in the documentation."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cellwright.agent.calls.tool_results import json_of
from cellwright.agent.tool import Tool, ToolContext
from cellwright.tools.planning.todos import todo_write_tool
from cellwright.tools.shell.bash import bash_tool
from declared_tools import declared

PAGE = Path(__file__).parents[3] / "docs" / "protocol" / "results.md"
ROW = re.compile(r"^\| (?P<tools>`\w+`(?: `\w+`)*) \| (?P<fields>[^|]*) \|", re.MULTILINE)


def output_of(tool: Tool, **given: Any) -> Any:
    result: Any = asyncio.run(tool.call(given, ToolContext("", lambda **_: None)))
    return json_of(result.structured, tool.name)


def test_the_page_names_every_field_of_every_tool() -> None:
    told = {
        tool: re.findall(r"`(\w+)`", row["fields"])
        for row in ROW.finditer(PAGE.read_text("utf-8"))
        for tool in re.findall(r"`(\w+)`", row["tools"])
    }
    there = {
        name: [field.encode_name for field in msgspec.structs.fields(tool.output_type)]
        for name, tool in declared().items()
        if tool.output_type is not None
    }
    assert told == there


def test_the_example_is_what_grep_gives(tools, tmp_path) -> None:
    (tmp_path / "app.py").write_text("def load(path):\n    return open(path)\n")
    [example] = re.findall(r"```json\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    given = {"pattern": "path", "output_mode": "content"}
    line = msgspec.json.decode(example)
    told, found = line["data"]["structured"], output_of(tools.tools["Grep"], **given)
    assert told.pop("search_time_ms") > 0 < found.pop("search_time_ms")
    assert told == found
    assert line["data"]["result"] == tools.text("Grep", **given)


def test_read_tells_size_encoding_and_time(tools, tmp_path) -> None:
    file = tmp_path / "latin.txt"
    file.write_bytes("größe\nzwei\n".encode("latin-1"))
    told = output_of(tools.tools["Read"], file_path="latin.txt")
    assert told["encoding"] in ("latin-1", "cp1252")
    assert (told["kind"], told["size"], told["modified"]) == ("text", 11, file.stat().st_mtime)
    assert (told["first"], told["last"], told["total"], told["path"]) == (1, 2, 2, file.resolve().as_posix())
    assert "größe" not in str(told), "the file is not in it twice"


def test_ls_tells_sizes_and_times_of_each_entry(tools, tmp_path) -> None:
    (tmp_path / "a.txt").write_text("abc")
    (tmp_path / "sub").mkdir()
    (tmp_path / "link").symlink_to("a.txt")
    told = output_of(tools.tools["LS"], path=".")
    status = (tmp_path / "a.txt").stat()
    by_name = {entry["name"]: entry for entry in told["entries"]}
    assert (by_name["a.txt"]["size"], by_name["a.txt"]["modified"]) == (3, status.st_mtime)
    assert [by_name[name]["type"] for name in ("sub", "a.txt", "link")] == ["folder", "file", "link"]
    assert by_name["link"]["target"] == "a.txt"
    # null only if the file system does not keep it: a file is not older than its folder
    assert by_name["a.txt"].get("created_time", status.st_mtime) == pytest.approx(status.st_mtime, abs=60)
    found = output_of(tools.tools["Glob"], pattern="*.txt")["files"]
    assert found[0]["created_time"] == by_name["a.txt"].get("created_time")


def test_writers_tell_the_files_and_a_summary(tools, tmp_path) -> None:
    made = output_of(tools.tools["Write"], file_path="a.txt", content="one\ntwo\n")
    path = (tmp_path / "a.txt").resolve().as_posix()
    assert made["files"] == [{"path": path, "type": "create", "added": 2, "removed": 0}]
    assert made["summary"].endswith("(+2 −0)")
    assert made["replacements_made"] is None
    changed = output_of(tools.tools["Edit"], file_path="a.txt", old_string="two", new_string="2")
    assert (changed["replacements_made"], changed["edit_summary"]) == (1, "1 replacement, +1 −1 lines")
    assert "2\t2" in changed["preview"], "the new text, with line numbers"
    several = [{"old_string": "e", "new_string": "E", "replace_all": True}, {"old_string": "2", "new_string": "two"}]
    output_of(tools.tools["Write"], file_path="c.txt", content="e2e\n")
    assert output_of(tools.tools["MultiEdit"], file_path="c.txt", edits=several)["replacements_made"] == 3
    assert changed["files"] == [{"path": path, "type": "update", "added": 1, "removed": 1}]
    patch = "--- a/a.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-one\n-2\n--- /dev/null\n+++ b/b.txt\n@@ -0,0 +1 @@\n+b\n"
    patched = output_of(tools.tools["ApplyPatch"], patch=patch)
    assert [(Path(file["path"]).name, file["type"]) for file in patched["files"]] == [
        ("a.txt", "delete"),
        ("b.txt", "create"),
    ]


def test_bash_tells_both_outputs_apart_the_exit_code_and_the_time(tmp_path) -> None:
    told = output_of(bash_tool(tmp_path), command="echo out; echo err >&2; exit 3")
    assert (told["stdout"], told["stderr"], told["exit_code"]) == ("out\n", "err\n", 3)
    assert told["seconds"] >= 0
    long = output_of(bash_tool(tmp_path), command="yes | head -c 1000000; echo err >&2")
    assert len(long["stdout"]) < 40_000
    assert long["stderr"] == "err\n"
    assert Path(long["output_file"]).stat().st_size == 1_000_004


def test_todos_tell_totals() -> None:
    todos = [
        {"content": name, "status": status, "activeForm": name}
        for name, status in (("a", "completed"), ("b", "in_progress"), ("c", "pending"), ("d", "pending"))
    ]
    told = output_of(todo_write_tool(), todos=todos)
    assert [told[name] for name in ("total", "completed", "in_progress", "pending")] == [4, 1, 1, 2]
    assert told["todos"] == todos
