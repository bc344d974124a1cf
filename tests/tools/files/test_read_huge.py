"""Files that no memory holds: each call in a process of its own, which says what it took."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pictures import picture

from cellwright.model.images import FILE_LIMITS

SCRIPT = """
import asyncio, json, pathlib, resource, sys, time
from cellwright.errors import ToolError
from cellwright.agent.tool import ToolContext
from cellwright.tools.files.file_state import FileState
from cellwright.tools.files.edit import edit_tool
from cellwright.tools.files.read import read_tool
from cellwright.tools.files.write import write_tool
from cellwright.tools.notebook.notebook_edit import notebook_edit_tool
from cellwright.tools.notebook.notebook_read import notebook_read_tool

state, cwd, (name, warm, given) = FileState(), pathlib.Path(sys.argv[1]), json.loads(sys.argv[2])
makers = (read_tool, write_tool, edit_tool, notebook_edit_tool, notebook_read_tool)
tools = {tool.name: tool for tool in (make(state, cwd) for make in makers)}

def call(tool_input):
    try:
        result = asyncio.run(tools[name].call(tool_input, ToolContext("toolu_test", print)))
    except ToolError as error:
        return error.message
    content = getattr(result, "content", result)
    return content if isinstance(content, str) else "".join(block.get("text", block["type"]) for block in content)

def peak():
    # of this program: `ru_maxrss` begins with what the test's own process had, and would hide whatever is below that
    [line] = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
    return int(line.split()[1]) // 1024

if warm:
    call(warm)
before, start = peak(), time.process_time()
text = call(given)
seconds, start = time.process_time() - start, time.process_time()
sum(len(str(number)) for number in range(100_000))
print(json.dumps({"text": text, "seconds": seconds, "pace": time.process_time() - start, "mb": peak() - before}))
"""

MAX_MB = 100
GIGABYTE = 1 << 30


def call(folder: Path, name: str, warm: dict[str, Any] | None = None, **given: Any) -> dict[str, Any]:
    """A call in a new process: its text, its CPU seconds, those of a fixed piece of Python, and how many MB memory grew.

    `warm` is a call before it, which imports what is imported once.
    """
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder), json.dumps([name, warm, given])],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(run.stdout)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of 5 GB, of which the disk holds three: its middle is a hole."""
    path = tmp_path_factory.mktemp("huge")
    with (path / "huge.log").open("wb") as file:
        file.write(b"".join(b"first %d\n" % number for number in range(200_000)))
        file.seek(5 * GIGABYTE)
        file.write(b"\n" + b"".join(b"last %d\n" % number for number in range(60_000)))
    (path / "small.txt").write_text("a\n")
    return path


@pytest.mark.parametrize(
    ("given", "first", "last"),
    [
        ({"offset": -3}, "    -3\tlast 59997", "number them.]"),
        (
            {"offset": -50_000, "limit": 2},
            "-50000\tlast 10000",
            "[PARTIAL: lines -50000 to -49999. Go on with offset=-49998.]",
        ),
        ({}, "     1\tfirst 0", "One result holds no more. Go on with offset=5713.]"),
        (
            {"offset": 150_000, "limit": 1},
            "150000\tfirst 149999",
            "[PARTIAL: lines 150000-150000. Go on with offset=150001.]",
        ),
    ],
)
def test_a_log_of_5_gb(folder, given, first, last):
    found = call(folder, "Read", {"file_path": "small.txt"}, file_path="huge.log", **given)
    assert found["text"].startswith(first)
    assert found["text"].endswith(last)
    assert found["mb"] < 30
    assert found["seconds"] < 400 * found["pace"]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le"])
def test_the_end_of_a_log_whose_line_feeds_are_wide(tmp_path, encoding):
    marks = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff", "utf-32-le": b"\xff\xfe\0\0"}
    with (tmp_path / "wide.log").open("wb") as file:
        file.write(marks[encoding] + "first\n".encode(encoding) * 300_000)
        file.seek(80 << 20)
        # characters of which a part looks like a line feed
        file.write("".join(f"\n\u0a0a\u010a {number}" for number in range(60_000)).encode(encoding))
    found = call(tmp_path, "Read", file_path="wide.log", offset=-50_000, limit=1)
    assert found["text"].startswith("-50000\t\u0a0a\u010a 10000\n")
    assert found["mb"] < MAX_MB


def test_a_line_of_256_mb(tmp_path):
    with (tmp_path / "line.txt").open("wb") as file:
        file.write(b"x" * (2 << 20))
        file.truncate(256 << 20)
    found = call(tmp_path, "Read", file_path="line.txt", limit=2)
    assert "line 1" in found["text"]
    assert "(268,435,456" in found["text"]
    assert found["mb"] < MAX_MB


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """100 MB: many lines of output, and pictures."""
    path = tmp_path_factory.mktemp("notebook")
    text = json.dumps([f"epoch {number} loss 0.1234567 accuracy 0.98765 é\n" for number in range(10_000)])
    stream = f'{{"output_type": "stream", "name": "stdout", "text": {text}}}'
    image = f'{{"output_type": "display_data", "metadata": {{}}, "data": {{"image/png": "{"A" * 4_600_000}"}}}}'
    with (path / "n.ipynb").open("w", encoding="utf-8") as file:
        file.write('{"cells": [\n')
        for number in range(20):
            outputs = f"{stream}, {image}" if number else f'{stream}, {{"data": "{"B" * 12_000_000}"}}'
            cell = f'{{"cell_type": "code", "id": "c{number}", "metadata": {{}}, "execution_count": 1, '
            file.write(f'{cell}"source": ["x = {number}"], "outputs": [{outputs}]}}{"," if number < 19 else ""}\n')
        file.write('], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}\n')
    (path / "small.ipynb").write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    assert (path / "n.ipynb").stat().st_size > 100_000_000
    return path


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("NotebookRead", {"cell_ids": ["c17"]}, '<cell id="c17" number="18" type="code"'),
        ("NotebookRead", {"cells": "1", "outputs": "full"}, "an output of 12,"),
        ("NotebookRead", {"outline": True}, "20 cells"),
        ("NotebookRead", {"outputs": "none"}, '<cell id="c19" number="20"'),
        ("Read", {"offset": -1}, '<cell id="c19" number="20"'),
        ("Read", {"offset": 5, "limit": 1}, "x = 4"),
    ],
)
def test_a_notebook_of_100_mb_is_read_by_part(notebook, name, given, expected):
    key = "notebook_path" if name == "NotebookRead" else "file_path"
    found = call(notebook, name, {key: "small.ipynb"}, **{key: "n.ipynb"}, **given)
    assert expected in found["text"]
    assert found["mb"] < MAX_MB


@pytest.mark.parametrize(
    ("mode", "size"),
    [("RGBA", (4600, 4600)), ("RGB", (5500, 3900)), ("P", (9000, 9000)), ("I;16", (4600, 4600)), ("LA", (3800, 3800))],
)
def test_a_large_image_is_scaled_in_little_memory(tmp_path, mode, size):
    (tmp_path / "large.png").write_bytes(picture("PNG", *size, mode))
    (tmp_path / "small.png").write_bytes(picture("PNG"))
    found = call(tmp_path, "Read", {"file_path": "small.png"}, file_path="large.png")
    assert f"{size[0]} × {size[1]} pixels" in found["text"]
    assert found["text"].endswith("image")
    # its pixels, and no copy of them
    assert found["mb"] < FILE_LIMITS.decoded_bytes / 2**20 + 25


def test_a_large_photograph_is_decoded_at_a_fraction_of_its_size(tmp_path):
    (tmp_path / "large.jpg").write_bytes(picture("JPEG", 9000, 6000))
    (tmp_path / "small.jpg").write_bytes(picture("JPEG"))
    found = call(tmp_path, "Read", {"file_path": "small.jpg"}, file_path="large.jpg")
    assert found["text"].startswith("[large.jpg:")
    assert "9000 × 6000" in found["text"]
    assert found["mb"] < 40
