"""Edits of real notebooks, each held against git and nbformat: `python -m benchmarks.notebook_round_trips REPOSITORY...`

A REPOSITORY is a git repository (a work tree or a bare one); the notebooks of its last commit are taken. Each is read
and then edited in seven ways, each time from the original, by the tools as Claude calls them. After each edit:

* every byte outside the edited cell is what it was, and so is the content of all other cells;
* `git diff` shows no more lines than the cell has, old and new;
* the notebook is valid by nbformat's own validator if it was before.

Exits with 1 when anything else happens.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cellwright.agent.tool import ToolContext
from cellwright.errors import ToolError
from cellwright.tools.files.file_state import FileState
from cellwright.tools.notebook.notebook_edit import notebook_edit_tool
from cellwright.tools.notebook.notebook_json import Notebook, parse_notebook
from cellwright.tools.notebook.notebook_read import notebook_read_tool
from cellwright.tools.notebook.notebook_source import NotANotebook

NEW_SOURCE = 'new = "é"\n\tprint(new)\\n'
NEW_LINES = 14
"""A new cell has at most so many lines in a notebook that is written line by line."""

BIG_OUTPUTS = 1 << 20

Edit = dict[str, Any]


def notebooks(repository: Path) -> Iterator[tuple[str, bytes]]:
    """The notebooks of the last commit."""
    git = ["git", "-C", str(repository)]
    names = subprocess.run([*git, "ls-tree", "-r", "-z", "--name-only", "HEAD"], capture_output=True, check=True).stdout
    for name in names.decode().split("\0"):
        if name.endswith(".ipynb"):
            shown = subprocess.run([*git, "show", f"HEAD:{name}"], capture_output=True, check=False)
            # the largest files of a snapshot may be absent
            if shown.returncode == 0:
                yield name, shown.stdout


def edits(notebook: Notebook) -> Iterator[tuple[Edit, set[int], int]]:
    """Each edit, the positions of the cells that it touches, and how many lines it may add and take away."""
    ids = notebook.ids()
    new = {"cell_type": "code", "new_source": NEW_SOURCE, "edit_mode": "insert"}
    yield {**new}, set(), NEW_LINES
    yield {**new, "position": "start"}, set(), NEW_LINES
    # nothing is guessed where two cells have one id
    if not ids or len(set(ids)) < len(ids):
        return
    middle = len(ids) // 2
    lines = _lines(notebook, middle)
    yield {**new, "cell_id": ids[middle], "cell_type": "markdown"}, set(), NEW_LINES
    yield {"cell_id": ids[middle], "new_source": NEW_SOURCE}, {middle}, lines + NEW_LINES
    yield {"cell_id": ids[middle], "edit_mode": "delete"}, {middle}, lines + 3
    other = "markdown" if notebook.kind(middle) == "code" else "code"
    yield {"cell_id": ids[middle], "cell_type": other}, {middle}, 2 * lines + NEW_LINES
    yield {"cell_id": ids[middle], "edit_mode": "move", "position": "start"}, {middle}, 2 * lines + 4


def _lines(notebook: Notebook, position: int) -> int:
    cell = notebook.source.cells[position]
    return notebook.data.count(b"\n", cell.start, cell.stop) + 1


def problems(folder: Path, data: bytes, notebook: Notebook) -> Iterator[str]:
    """What goes wrong with the edits of a notebook."""
    before, after = folder / "before.ipynb", folder / "n.ipynb"
    before.write_bytes(data)
    valid = _is_valid(data)
    for edit, touched, lines in edits(notebook):
        after.write_bytes(data)
        try:
            _run(folder, {"notebook_path": "n.ipynb", **edit})
        except ToolError as error:
            yield f"{edit}: {error.message}"
            continue
        new = after.read_bytes()
        if valid and not _is_valid(new):
            yield f"{edit}: no longer valid"
        if _other_cells(data, touched) != _other_cells(new, _added(data, new, touched, edit)):
            yield f"{edit}: another cell has changed"
        if (changed := _changed_lines(before, after)) > lines:
            yield f"{edit}: {changed} lines of difference, {lines} expected"
        if not touched and not _only_inserted(data, new):
            yield f"{edit}: bytes outside the new cell have changed"


def _run(folder: Path, tool_input: Edit) -> None:
    state = FileState()
    tools = {tool.name: tool for tool in (notebook_read_tool(state, folder), notebook_edit_tool(state, folder))}
    context = ToolContext("toolu_round_trip", lambda **_: None)
    shown = {"notebook_path": "n.ipynb", "outputs": "none"}
    if "cell_id" in tool_input:
        shown["cell_ids"] = [tool_input["cell_id"]]  # type: ignore[assignment]
    asyncio.run(tools["NotebookRead"].call(shown, context))  # type: ignore[arg-type]
    asyncio.run(tools["NotebookEdit"].call(tool_input, context))  # type: ignore[arg-type]


def _is_valid(data: bytes) -> bool:
    from nbformat.validator import iter_validate  # a second to import

    return next(iter_validate(json.loads(data)), None) is None  # type: ignore[no-untyped-call]


def _cells(content: Any) -> list[Any]:
    return (
        content["cells"] if "cells" in content else [cell for sheet in content["worksheets"] for cell in sheet["cells"]]
    )


def _other_cells(data: bytes, touched: set[int]) -> tuple[Any, list[Any]]:
    content = json.loads(data)
    cells = [cell for number, cell in enumerate(_cells(content)) if number not in touched]
    content.pop("cells", None)
    for sheet in content.get("worksheets", ()):
        sheet.pop("cells")
    return content, cells


def _added(data: bytes, new: bytes, touched: set[int], edit: Edit) -> set[int]:
    """The positions in the new notebook of what was inserted, replaced or moved."""
    mode = edit.get("edit_mode", "replace")
    if mode == "replace":
        return touched
    if mode == "delete":
        return set()
    if edit.get("position") == "start":
        return {0}
    count = len(_cells(json.loads(new)))
    return {count - 1} if "cell_id" not in edit else {(count - 1) // 2 + 1}


def _changed_lines(before: Path, after: Path) -> int:
    diff = subprocess.run(
        ["git", "diff", "--no-index", "--numstat", "--text", str(before), str(after)], capture_output=True, check=False
    ).stdout.decode()
    return sum(int(number) for number in diff.split("\t")[:2]) if diff else 0


def _only_inserted(data: bytes, new: bytes) -> bool:
    same = next((at for at, (old, now) in enumerate(zip(data, new, strict=False)) if old != now), len(data))
    return new.endswith(data[same:]) and len(new) > len(data)


def traits(data: bytes, notebook: Notebook) -> Iterator[str]:
    """What kinds of notebooks it is counted among."""
    yield f"nbformat {notebook.source.major}.{notebook.source.minor}"
    if any("id" in head for head in notebook.heads):
        yield "with ids"
    if b"application/vnd.jupyter.widget" in data:
        yield "with widgets"
    if any(head.get("attachments") for head in notebook.heads):
        yield "with attachments"
    if any(cell.outputs and cell.outputs[1] - cell.outputs[0] > BIG_OUTPUTS for cell in notebook.source.cells):
        yield "with an output over 1 MB"
    if not _is_valid(data):
        yield "not valid before"


def main(repositories: list[str]) -> int:
    """Edit all notebooks of the repositories; the exit code."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for repository in map(Path, repositories):
            for path, data in notebooks(repository):
                try:
                    notebook = parse_notebook(data)
                except NotANotebook as error:
                    counts["refused"] += 1
                    print(f"refused  {repository.name}:{path}: {error}")
                    continue
                found = list(problems(folder, data, notebook))
                counts.update(["notebooks", *traits(data, notebook)])
                counts["edits"] += sum(1 for _ in edits(notebook))
                counts["problems"] += len(found)
                for problem in found:
                    print(f"PROBLEM  {repository.name}:{path}: {problem}")
    for what, count in sorted(counts.items()):
        print(f"{count:6d}  {what}")
    return 1 if counts["problems"] or not counts["notebooks"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
