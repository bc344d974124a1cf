"""A small project of several languages, and the indexer run over it as the tools run it."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from cellwright.codebase.store import IndexRequest, index_path
from cellwright.tools.code.navigation.project_code import LISTING
from cellwright.tools.search.ripgrep import search_program

FILES = {
    "app/server.py": '''"""Serves pages."""
import json
from app.store import Store, load_rows

LIMIT = 3


class Server:
    """Answers requests."""

    def __init__(self) -> None:
        self.running = False
        self.store = Store()

    def start(self, port):
        """Start to listen."""
        if port < 0 and port != -1:
            raise ValueError("port")
        self.running = True
        return load_rows(self.store)

    def stop(self):
        self.running = False  # load_rows is not called here
        return "load_rows"
''',
    "app/store.py": '''"""Keeps rows."""
from app import server


class Store:
    pass


def load_rows(store):
    """Load all rows of a store, retried after a timeout."""
    rows = []
    for row in store:
        if row:
            rows.append(row)
    return rows


def fetch_items(source):
    """Fetch all items."""
    items = []
    for item in source:
        if item:
            items.append(item)
    return items
''',
    "app/__init__.py": "",
    "web/view.ts": """import { draw } from './draw';
/** Shows a page. */
export class View {
  show(): void { draw(1); }
}
""",
    "web/draw.ts": "export const draw = (count: number) => count + 1;\n",
    "README.md": "# Pages\nHow to serve.\n\n## Set-up\nCall `load_rows`.\n",
    "tool.rb": "def load_rows(x)\n  x\nend\n",
}
CELLS = [
    ("markdown", "# Analysis"),
    ("code", "%matplotlib inline\ndef clean(frame):\n    return load_rows(frame)"),
    ("code", "%%claude\nclean(1) and load_rows(2): whyever?"),
    ("code", "%%time\nclean(1)"),
]


def make_project(root: Path) -> Path:
    """The project in `root`, under git so that its .gitignore counts."""
    for name, text in FILES.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    cells: list[dict[str, Any]] = [
        {"cell_type": kind, "id": str(n), "metadata": {}, "source": text.splitlines(keepends=True)}
        | ({"outputs": [], "execution_count": None} if kind == "code" else {})
        for n, (kind, text) in enumerate(CELLS)
    ]
    (root / "analysis.ipynb").write_text(
        json.dumps({"cells": cells, "metadata": {"score": math.nan}, "nbformat": 4, "nbformat_minor": 5})
    )
    (root / ".gitignore").write_text("made/\n")
    (root / "made").mkdir()
    (root / "made" / "built.py").write_text("def built_only(): ...\n")
    (root / ".git").mkdir()
    return root


def request_for(root: Path, **fields: Any) -> bytes:
    """A request to index `root`, as a line."""
    fields = {"wait_seconds": 60.0, "listing": (*search_program(), *LISTING), **fields}
    return msgspec.json.encode(IndexRequest(root=str(root), database=str(index_path(root)), **fields)) + b"\n"


def start_indexer(root: Path, **fields: Any) -> subprocess.Popen[bytes]:
    """An indexer at work on `root`."""
    command = [sys.executable, "-P", "-m", "cellwright.codebase.indexer"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(request_for(root, **fields))
    process.stdin.close()
    return process


def build_index(root: Path, **fields: Any) -> Path:
    """The index of `root`, brought up to date."""
    process = start_indexer(root, **fields)
    assert process.stderr is not None
    errors = process.stderr.read()
    assert process.wait(60) == 0, errors
    return index_path(root)
