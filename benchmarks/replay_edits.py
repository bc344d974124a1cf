"""Replay a repository's history through the tools that edit files, and compare each file with what the commit made of it.

    python benchmarks/replay_edits.py GIT_DIR [--commits 1500]

For each commit that is no merge, the files that it changed are written to a folder as they were before, and read with Read.
Then the commit is made three times: each hunk as an `Edit`, all hunks of a file as one `MultiEdit`, the whole diff as one
`ApplyPatch`. What comes out must be the commit's own bytes. It prints the counts as JSON; `wrong` must be 0: the exit code.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cellwright.agent.tool import ToolContext
from cellwright.errors import ToolError
from cellwright.permissions.patch_text import FilePatch, read_patch
from cellwright.tools.files.apply_patch import apply_patch_tool
from cellwright.tools.files.edit import edit_tool, multi_edit_tool
from cellwright.tools.files.encodings import NotText, decode
from cellwright.tools.files.file_state import FileState
from cellwright.tools.files.read import read_tool

CONTEXT = ToolContext("replay", lambda **_: None)
NO_FILES = ("120000", "160000")


@dataclass(frozen=True)
class Touched:
    """One file of a commit: `before` and `after` are its contents, None where there is no file."""

    old: str
    new: str
    before: bytes | None
    after: bytes | None
    patch: str


class Replay:
    """Counts what became of each commit, file and hunk."""

    def __init__(self, git_dir: Path) -> None:
        self.git_dir = git_dir
        self.counts: dict[str, Counter[str]] = {name: Counter() for name in ("all", "Edit", "MultiEdit", "ApplyPatch")}
        self.refusals: Counter[str] = Counter()
        self.wrong: list[str] = []

    def git(self, *arguments: str) -> bytes:
        return subprocess.run(["git", f"--git-dir={self.git_dir}", *arguments], capture_output=True, check=True).stdout

    def commits(self, number: int) -> list[str]:
        return self.git("rev-list", "--no-merges", f"--max-count={number}", "HEAD").decode().split()

    def files(self, commit: str) -> Iterator[Touched]:
        """What a commit changed; what is no file, or no text, is counted and left out."""
        raw = self.git("diff-tree", "-r", "-M", "--root", "--no-commit-id", "--raw", "--no-abbrev", "-z", commit)
        diff = self.git("diff-tree", "-r", "-M", "--root", "--no-commit-id", "-p", "--full-index", commit)
        sections = [b"diff --git " + part for part in (b"\n" + diff).split(b"\ndiff --git ")[1:]]
        fields = raw.decode("utf-8", "surrogateescape").split("\0")
        at = 0
        for section in sections:
            old_mode, new_mode, old_blob, new_blob, status = fields[at][1:].split(" ")
            old = fields[at + 1]
            new = fields[at + 2] if status[0] in "RC" else old
            at += 3 if status[0] in "RC" else 2
            if old_mode in NO_FILES or new_mode in NO_FILES:
                self.counts["all"]["links and submodules"] += 1
                continue
            before = None if status == "A" else self.git("cat-file", "blob", old_blob)
            after = None if status == "D" else self.git("cat-file", "blob", new_blob)
            try:
                for data in (before, after):
                    decode(data or b"")
            except NotText:
                self.counts["all"]["binary files"] += 1
                continue
            if b"\nBinary files " in section:
                self.counts["all"]["binary files"] += 1
                continue
            yield Touched(old, new, before, after, _text(section) + "\n")

    async def replay(self, commit: str) -> None:
        files = list(self.files(commit))
        self.counts["all"]["commits"] += 1
        for file in files:
            self.counts["all"]["files"] += 1
            (patch,) = read_patch(file.patch)
            self.counts["all"]["hunks"] += len(patch.hunks)
            if file.before is None or file.after is None or not patch.hunks:
                continue
            if unlike := _not_for_edit(file):
                self.counts["Edit"][unlike] += 1
                self.counts["MultiEdit"][unlike] += 1
                continue
            await self.edit(commit, file, patch)
            await self.multi_edit(commit, file, patch)
        if files:
            await self.apply_patch(commit, files)

    async def edit(self, commit: str, file: Touched, patch: FilePatch) -> None:
        with tempfile.TemporaryDirectory() as name:
            tools, folder = await _place(Path(name), [file])
            for number in range(len(patch.hunks)):
                try:
                    one = _as_edits(_decoded(folder / file.old), patch, number)
                    await tools["Edit"].call({"file_path": file.old, **one, "allow_syntax_errors": True}, CONTEXT)
                except ToolError as error:
                    self.refuse("Edit", commit, error)
                    return
            self.compare("Edit", commit, folder, {file.old: file.after}, len(patch.hunks))

    async def multi_edit(self, commit: str, file: Touched, patch: FilePatch) -> None:
        with tempfile.TemporaryDirectory() as name:
            tools, folder = await _place(Path(name), [file])
            text, edits = _decoded(folder / file.old), []
            for number in range(len(patch.hunks)):
                edits.append(_as_edits(text, patch, number))
                text = text.replace(edits[-1]["old_string"], edits[-1]["new_string"], 1)
            try:
                await tools["MultiEdit"].call({"file_path": file.old, "edits": edits}, CONTEXT)
            except ToolError as error:
                self.refuse("MultiEdit", commit, error)
                return
            self.compare("MultiEdit", commit, folder, {file.old: file.after}, len(patch.hunks))

    async def apply_patch(self, commit: str, files: list[Touched]) -> None:
        with tempfile.TemporaryDirectory() as name:
            tools, folder = await _place(Path(name), files)
            try:
                await tools["ApplyPatch"].call({"patch": "".join(file.patch for file in files)}, CONTEXT)
            except ToolError as error:
                self.refuse("ApplyPatch", commit, error)
                return
            expected = {file.old: None for file in files if file.old != file.new} | {f.new: f.after for f in files}
            self.compare("ApplyPatch", commit, folder, expected, sum(file.patch.count("\n@@ ") for file in files))

    def refuse(self, tool: str, commit: str, error: ToolError) -> None:
        self.counts[tool]["refused"] += 1
        self.refusals[f"{tool} {commit[:10]}: {error.message[:300]}"] += 1

    def compare(self, tool: str, commit: str, folder: Path, expected: dict[str, bytes | None], hunks: int) -> None:
        for name, data in expected.items():
            path = folder / name
            if (path.read_bytes() if path.exists() else None) != data:
                self.counts[tool]["wrong"] += 1
                self.wrong.append(f"{tool} {commit[:10]} {name}")
                return
        self.counts[tool]["exact"] += 1
        self.counts[tool]["hunks exact"] += hunks


def _text(section: bytes) -> str:
    try:
        return section.decode()
    except UnicodeDecodeError:
        return section.decode("latin-1")


def _decoded(path: Path) -> str:
    return decode(path.read_bytes())[0]


def _not_for_edit(file: Touched) -> str:
    """Why a change cannot be said by replacing text: what Edit keeps is what it changes."""
    before, after = file.before or b"", file.after or b""
    if (b"\r\n" in before) != (b"\r\n" in after) or (
        b"\r\n" in before and before.count(b"\n") != before.count(b"\r\n")
    ):
        return "not tried: changes or mixes line ends"
    if decode(before)[1] != decode(after)[1]:
        return "not tried: changes the encoding"
    return ""


async def _place(folder: Path, files: list[Touched]) -> tuple[dict[str, Any], Path]:
    state, makers = FileState(), (read_tool, edit_tool, multi_edit_tool, apply_patch_tool)
    tools = {tool.name: tool for tool in (make(state, folder) for make in makers)}
    for file in files:
        if file.before is not None:
            path = folder / file.old
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.before)
            await tools["Read"].call({"file_path": file.old, "limit": 1}, CONTEXT)
    return tools, folder


def _as_edits(text: str, patch: FilePatch, number: int) -> dict[str, str]:
    """A hunk as an edit: its lines, and as many around them as make them the only ones of their kind."""
    hunk = patch.hunks[number]
    old, new = "".join(hunk.old).removeprefix("\ufeff"), "".join(hunk.new).removeprefix("\ufeff")
    lines = text.split("\n")
    start = hunk.new_start - 1 if hunk.old else hunk.new_start
    stop = start + len(hunk.old)
    while text.count(old) > 1 or text.find(old) != text.rfind(old) or not old:
        if start > 0:
            start -= 1
            old, new = f"{lines[start]}\n{old}", f"{lines[start]}\n{new}"
        elif stop < len(lines) - 1:
            old, new = f"{old}{lines[stop]}\n", f"{new}{lines[stop]}\n"
            stop += 1
        else:
            break
    return {"old_string": old, "new_string": new}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("git_dir", type=Path)
    parser.add_argument("--commits", type=int, default=1500)
    arguments = parser.parse_args()
    replay = Replay(arguments.git_dir)

    async def run() -> None:
        for commit in replay.commits(arguments.commits):
            await replay.replay(commit)

    asyncio.run(run())
    counts = {name: dict(counter) for name, counter in replay.counts.items()}
    print(
        json.dumps({"counts": counts, "refused": replay.refusals, "wrong": replay.wrong}, indent=1, ensure_ascii=False)
    )
    return 1 if replay.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
