"""What tools send at their largest: docs/context.md says it, and each is made to send as much as it can."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.calls.tool_results import bounded
from cellwright.agent.tool import Tool, ToolContext
from cellwright.config.settings.settings import load_settings
from cellwright.conversation.tools.built_in_tools import ToolEnvironment, make_tools

ROOT = Path(__file__).parents[3]
ROW = re.compile(r"\| `(?P<tool>\w+)` \| [^|]+ \| (?P<chars>[\d,]+) \| (?P<tokens>[\d,]+) \|")
PIXELS_PER_TOKEN = 28 * 28
"""What the API takes of an image."""


def stated() -> dict[str, tuple[int, int]]:
    """The most characters and the most tokens of pictures that the document says, by tool."""
    document = (ROOT / "docs" / "context.md").read_text("utf-8")
    return {
        row["tool"]: (int(row["chars"].replace(",", "")), int(row["tokens"].replace(",", "")))
        for row in ROW.finditer(document)
    }


def picture(width: int, height: int) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.effect_noise((width, height), 90).convert("RGB").save(out, "JPEG")
    return out.getvalue()


def huge_notebook() -> bytes:
    png = base64.b64encode(picture(1_200, 900)).decode()
    flood = {"output_type": "stream", "name": "stdout", "text": "flood of words\n" * 100_000}
    shown = {
        "output_type": "display_data",
        "data": {"image/jpeg": png, "text/html": "<b>x</b>" * 50_000},
        "metadata": {},
    }
    cells = [
        {
            "id": f"cell-{number}",
            "cell_type": "code",
            "execution_count": number,
            "metadata": {},
            "source": "print('x')\n" * 300,
            "outputs": [flood, shown, shown],
        }
        for number in range(12)
    ]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder where everything is too much."""
    folder = tmp_path_factory.mktemp("too-much")
    (folder / "long.txt").write_text("".join(f"line {number} of very many\n" for number in range(400_000)))
    (folder / "one_line.json").write_text("x" * 9_900_000)
    (folder / "huge.ipynb").write_bytes(huge_notebook())
    (folder / "photo.jpg").write_bytes(picture(3_200, 2_400))
    many = folder / "many"
    many.mkdir()
    for number in range(3_000):
        (many / f"{'a-long-name-' * 12}{number}.txt").write_text("line of\n")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(many)]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "Many"]):
        subprocess.run([*git, *command], check=True)
    return folder


CALLS: Mapping[str, tuple[Mapping[str, Any], ...]] = {
    "Read": (
        {"file_path": "long.txt"},
        {"file_path": "long.txt", "limit": 400_000},
        {"file_path": "one_line.json"},
        {"file_path": "photo.jpg"},
        {"file_path": "huge.ipynb"},
    ),
    "NotebookRead": ({"notebook_path": "huge.ipynb"}, {"notebook_path": "huge.ipynb", "outputs": "full"}),
    "Bash": (
        {"command": "yes flood | head -c 20000000"},
        {"command": "head -c 5000000 /dev/zero | tr '\\0' x; head -c 5000000 /dev/zero | tr '\\0' y >&2"},
    ),
    "Grep": (
        {"pattern": ".", "output_mode": "content", "head_limit": 0},
        {"pattern": "x", "output_mode": "content"},
        {"pattern": ".", "output_mode": "files_with_matches", "head_limit": 0},
    ),
    "Glob": ({"pattern": "**/*"},),
    "LS": ({"path": "many"},),
    "FileTree": ({"path": "."},),
    "Git": ({"subcommand": "show", "path": "many"}, {"subcommand": "ls-files", "path": "many"}),
}


def sizes(content: Any) -> tuple[int, int]:
    """The characters of the text, and the tokens of the pictures."""
    from PIL import Image

    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    chars, tokens = 0, 0.0
    for block in blocks:
        if block["type"] == "text":
            chars += len(block["text"])
        else:
            width, height = Image.open(io.BytesIO(base64.b64decode(block["source"]["data"]))).size
            assert max(width, height) <= 1_568, "the API would scale it down"
            tokens += width * height / PIXELS_PER_TOKEN
    return chars, round(tokens)


def largest(tool: Tool, calls: tuple[Mapping[str, Any], ...]) -> tuple[int, int]:
    async def called(given: Mapping[str, Any]) -> tuple[int, int]:
        from cellwright.errors import ToolError

        try:
            result = await tool.call(dict(given), ToolContext("toolu_1", lambda **_: None))
        except ToolError as error:
            return len(error.message), 0
        return sizes(bounded(result.content, tool.limits.result_chars))

    found = [asyncio.run(called(given)) for given in calls]
    return max(chars for chars, _ in found), max(tokens for _, tokens in found)


@pytest.mark.thorough
def test_no_tool_sends_more_than_the_document_says(project: Path, own_place: Path) -> None:
    environ = {"HOME": str(own_place), "PATH": os.environ["PATH"]}
    settings = load_settings(project, environ)
    tools = {each.name: each for each in make_tools(ToolEnvironment(cwd=project, settings=settings, environ=environ))}
    said = stated()
    assert said.keys() >= CALLS.keys()
    wrong = {}
    for name, calls in CALLS.items():
        chars, tokens = largest(tools[name], calls)
        if chars > said[name][0] or tokens > said[name][1]:
            wrong[name] = f"{chars:,} characters and {tokens:,} tokens of pictures, not {said[name]}"
    assert wrong == {}
