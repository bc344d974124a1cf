"""The shape of the house: folders that can be taken in at a glance, rooms that say what they are, paths that are there."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAX_ENTRIES = 16
MAX_ENTRIES_AT_THE_TOP = 30
SOURCES = ("src/cellwright/", "labextension/src/", "labextension/test/", "tests/")
IN_DOCUMENTS = re.compile(
    r"`((?:src|tests|benchmarks|labextension|agent|checkpoints|codebase|commands|config|conversation|doctor|features|kernel|markdown|model"
    r"|permissions|python_api"
    r"|redaction|sandbox|server|sessions|telemetry|terminal|testing|tools)/[\w./-]+\.(?:py|ts|mjs))`"
)
"""Paths of ours; others in documents are examples."""
ITS_OWN = ("src/cellwright/terminal/demo/sample_project/",)
"""A user's project, as users lay theirs out."""


def tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.splitlines() if (ROOT / name).exists()]


def test_folders_can_be_taken_in_at_a_glance() -> None:
    entries: dict[str, set[str]] = defaultdict(set)
    for name in tracked():
        if name.startswith(SOURCES) and not name.startswith(ITS_OWN):
            parts = name.split("/")
            for depth in range(1, len(parts)):
                if parts[depth] != "__init__.py":
                    entries["/".join(parts[:depth])].add(parts[depth])
    tops = {folder.rstrip("/") for folder in SOURCES}
    wide = {
        folder: len(inside)
        for folder, inside in entries.items()
        if len(inside) > (MAX_ENTRIES_AT_THE_TOP if folder in tops else MAX_ENTRIES)
    }
    assert wide == {}, "two concerns live together there"


def test_the_linter_sees_what_git_tracks() -> None:
    command = [sys.executable, "-m", "ruff", "check", "--show-files", "."]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    seen = {Path(line).relative_to(ROOT).as_posix() for line in shown.splitlines()}
    ours = {name for name in tracked() if name.endswith((".py", ".pyi")) and not name.startswith(ITS_OWN)}
    assert ours - seen == set()


def test_every_room_says_what_it_is_for() -> None:
    inits = [
        ROOT / name
        for name in tracked()
        if name.startswith("src/cellwright/") and name.endswith("/__init__.py") and not name.startswith(ITS_OWN)
    ]
    public = {ROOT / f"src/cellwright/{name}__init__.py" for name in ("", "testing/", "claude_agent_sdk/")}
    silent, crowded = [], []
    for init in inits:
        tree = ast.parse(init.read_text("utf-8"))
        if not ast.get_docstring(tree):
            silent.append(str(init))
        if len(tree.body) > 1 and init not in public:
            crowded.append(str(init))
    assert silent == []
    assert crowded == [], "an __init__ holds a docstring, nothing else"


def test_every_file_that_is_named_is_there() -> None:
    """In documents, and in what rooms say of themselves."""
    names = tracked()
    there = set(names)
    missing = []
    for name in names:
        if not name.endswith((".md", "/__init__.py")) or name.startswith(("notebooks/", "tests/", *ITS_OWN)):
            continue
        text = (ROOT / name).read_text("utf-8")
        paths = (
            re.findall(r"`([\w./-]+\.(?:py|ts|mjs))`", text) if name.startswith(SOURCES) else IN_DOCUMENTS.findall(text)
        )
        missing += [f"{name}: {path}" for path in paths if there.isdisjoint(_meant(path, name))]
    assert missing == []


def _meant(path: str, named_in: str) -> list[str]:
    """The files that `path` may mean: from the top or the package on; in a room, also from it or a room around it on."""
    around = Path(named_in).parents if named_in.startswith(SOURCES) else ()
    return [path, f"src/cellwright/{path}", *(f"{folder}/{path}" for folder in around)]


def test_a_path_is_meant_exactly() -> None:
    assert _meant("policy.py", "docs/guide.md") == ["policy.py", "src/cellwright/policy.py"]
    assert "src/cellwright/permissions/policy.py" in _meant(
        "policy.py", "src/cellwright/permissions/judges/__init__.py"
    )
    assert "src/cellwright/server/policy.py" not in _meant("policy.py", "src/cellwright/permissions/__init__.py")
