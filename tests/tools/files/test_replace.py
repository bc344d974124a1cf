"""Changes whose result would be larger than the tools can change again: refused before anything is written or even made."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest

from cellwright.errors import ErrorCode
from cellwright.tools.files.replace import EDITED_BYTES
from cellwright.tools.notebook.notebook_edit import NOTEBOOK_BYTES

MB = 2**20


def put(tools, name: str, data: bytes) -> Path:
    path = tools.cwd / name
    path.write_bytes(data)
    tools.result("Read", file_path=name)
    return path


CALLS = {
    "Write": {"file_path": "a.txt", "content": "x" * (EDITED_BYTES + 1)},
    "Edit": {"file_path": "a.txt", "old_string": "a", "new_string": "b" * 100_000, "replace_all": True},
    "MultiEdit": {
        "file_path": "a.txt",
        "edits": [{"old_string": "a", "new_string": "b" * 100_000, "replace_all": True}],
    },
    "ApplyPatch": {"patch": f"--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-{'a' * 200}\n+{'c' * EDITED_BYTES}\n"},
}


@pytest.mark.parametrize("name", CALLS)
def test_a_result_that_is_too_large_is_refused(tools, name):
    path = put(tools, "a.txt", b"a" * 200 + b"\n")
    error = tools.error(name, **CALLS[name])
    assert "a.txt would have " in error.message
    assert "10 MB" in error.message
    assert "Nothing" in error.message
    assert path.read_bytes() == b"a" * 200 + b"\n"
    assert "limit is 10 MB" in tools.cannot(name, **CALLS[name]).error.message


def test_of_a_hundred_terabytes_none_is_made(tools):
    put(tools, "a.txt", b"a" * 9 * MB)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    error = tools.error("Edit", file_path="a.txt", old_string="a", new_string="b" * 9 * MB, replace_all=True)
    assert error.code == ErrorCode.INVALID_PARAMETERS
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000


def test_what_is_just_small_enough_is_written_and_can_be_changed(tools):
    tools.result("Write", file_path="a.txt", content="x" * (EDITED_BYTES - 1) + "a")
    tools.result("Edit", file_path="a.txt", old_string="a", new_string="b")


def test_a_notebook_that_would_be_too_large(tools):
    cell = {"cell_type": "code", "id": "big", "metadata": {}, "execution_count": None, "source": "x"}
    output = {"output_type": "stream", "name": "stdout", "text": "y" * (NOTEBOOK_BYTES - 3_000)}
    content = {"cells": [{**cell, "outputs": []}, {**cell, "id": "large", "outputs": [output]}], "metadata": {}}
    path = put(tools, "n.ipynb", json.dumps({**content, "nbformat": 4, "nbformat_minor": 5}).encode())
    given = {"notebook_path": "n.ipynb", "cell_id": "big", "new_source": "z" * 4_000}
    assert "limit is 160 MB" in tools.error("NotebookEdit", **given).message
    assert path.stat().st_size < NOTEBOOK_BYTES
