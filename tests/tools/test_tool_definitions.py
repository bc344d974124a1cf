from __future__ import annotations

import re

from row_tables import for_each_row

NAMES = [
    *("Read", "Write", "Edit", "MultiEdit", "ApplyPatch", "EditSymbol"),
    *("Glob", "Grep", "LS", "FileTree", "NotebookEdit", "NotebookRead"),
]


@for_each_row("name", NAMES)
def test_every_field_is_described_and_nothing_else_is_taken(tools, name):
    tool = tools.tools[name]
    schema = tool.input_schema
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert set(schema["required"]) <= set(schema["properties"])
    assert 40 < len(tool.description) < 1500
    for key, field in schema["properties"].items():
        assert re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", key)  # what the Messages API takes as a key
        assert field["description"].endswith(".")


def test_what_permission_needs_to_know(tools):
    keys = {name: (tool.rule_key, tool.read_only) for name, tool in tools.tools.items()}
    assert keys == {
        "Read": ("file_path", True),
        "Write": ("file_path", False),
        "Edit": ("file_path", False),
        "MultiEdit": ("file_path", False),
        "ApplyPatch": ("patch", False),
        "EditSymbol": ("file_path", False),
        "Glob": ("path", True),
        "Grep": ("path", True),
        "LS": ("path", True),
        "FileTree": ("path", True),
        "NotebookEdit": ("notebook_path", False),
        "NotebookRead": ("notebook_path", True),
    }
    assert all(tool.preview is not None for tool in tools.tools.values() if not tool.read_only)


@for_each_row("name", NAMES)
def test_a_field_that_is_not_known_is_refused(tools, name):
    tool = tools.tools[name]
    given = tool.input_examples[0] if tool.input_examples else dict.fromkeys(tool.input_schema["required"], "x")
    assert "surprise" in tools.error(name, **given, surprise=1).message
