"""A turn as a preview in a real kernel: it works on copies, and what is accepted, and nothing else, comes to the user's own."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

import pytest
from notebook_kernel import Cell, NotebookKernel, Page

from cellwright.kernel.branches.bounds import branches_enforced
from cellwright.testing import MessagesServer, say, turn, use

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(
        sys.platform != "linux" or branches_enforced() is not None, reason="this system confines no branch"
    ),
]


def tree_hash(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        digest.update(str(path.relative_to(folder)).encode())
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()


def said(model: MessagesServer) -> list[str]:
    """The texts of all tool results so far."""
    return [
        block["content"]
        if isinstance(block["content"], str)
        else "\n".join(b.get("text", "") for b in block["content"])
        for message in model.requests[-1].body["messages"]
        for block in (message["content"] if isinstance(message["content"], list) else [])
        if block["type"] == "tool_result"
    ]


def preview(kernel: NotebookKernel, model: MessagesServer, *calls: Any, options: str = "--new --branch") -> Cell:
    model.add(*calls, say("Done."))
    return kernel.run(f"%%claude {options}\ngo")


def test_nothing_accepted_changes_nothing(kernel: NotebookKernel, model: MessagesServer, project: Path) -> None:
    (project / "a.py").write_text("x = 1\n")
    kernel.run("numbers = [1, 2, 3]")
    before = tree_hash(project)
    cell = preview(
        kernel,
        model,
        use("Read", file_path=str(project / "a.py")),
        use("Edit", file_path=str(project / "a.py"), old_string="x = 1", new_string="x = 2"),
        use("Python", code="numbers.append(4)\nopen('made.txt', 'w').write('m')\nmore = {'a': 1}\nlen(numbers)"),
        use("Bash", command="cat a.py made.txt; echo b > from_bash.txt"),
        use("Read", file_path=str(project / "a.py")),
    )
    assert cell.status == "ok", cell.error
    results = said(model)
    assert results[2].endswith("\n4"), results
    assert "x = 2" in results[3], results
    assert "x = 2" in results[4], results
    assert tree_hash(project) == before
    assert kernel.value("numbers, 'more' in globals()") == "([1, 2, 3], False)"
    shown = kernel.run("%claude /preview").outputs[-1]["text/plain"]
    for part in ("a.py (changed", "from_bash.txt (new file", "made.txt (new file", "3 items → 4", "`more`: new, dict"):
        assert part in shown, shown
    kernel.run("%claude /preview decline")
    assert tree_hash(project) == before
    assert kernel.value("numbers, 'more' in globals()") == "([1, 2, 3], False)"
