"""The kernel asks the page that shows a notebook for pictures of what only a page draws."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from notebook_kernel import NotebookKernel
from notebook_page import NotebookPage
from PIL import Image

from cellwright.testing import MessagesServer, say, turn, use

pytestmark = [pytest.mark.kernel]

STYLED = {"text/html": "<b style='color: red'>1</b>", "text/plain": "1"}
OUTPUT = {"output_type": "display_data", "data": STYLED, "metadata": {}}
LOOK = "%%claude --mode bypassPermissions\nLook"


def picture() -> str:
    out = io.BytesIO()
    Image.new("RGB", (20, 10), "red").save(out, "PNG")
    return base64.b64encode(out.getvalue()).decode()


@pytest.fixture
def shown(kernel: NotebookKernel, project: Path, request: pytest.FixtureRequest) -> Iterator[NotebookPage]:
    path = project / f"{request.node.name.partition('[')[0]}.ipynb"
    path.write_text(json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}), "utf-8")
    page = NotebookPage(kernel, path, ("a1", "code", "x = 1"))
    page.cells[0]["outputs"] = [OUTPUT]
    page.open()
    yield page
    page.close()
    kernel.run("")  # the goodbye has arrived before the next test


def result(model: MessagesServer) -> list[dict[str, Any]]:
    """The blocks of the newest result."""
    content = model.requests[-1].body["messages"][-1]["content"][0]["content"]
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


def read(kernel: NotebookKernel, model: MessagesServer, page: NotebookPage, **more: Any) -> list[dict[str, Any]]:
    model.add(turn(use("NotebookRead", notebook_path=page.path.name, **more)), turn(say("I see.")))
    assert kernel.run("%%claude\nLook").status == "ok"
    return result(model)


def test_a_cell_that_is_read_in_full_comes_with_the_pages_picture(
    kernel: NotebookKernel, model: MessagesServer, shown: NotebookPage
) -> None:
    assert not any(block["type"] == "image" for block in read(kernel, model, shown))
    assert "pictures" not in shown.asked
    shown.pictures = [{"data": picture(), "media_type": "image/png", "cut": True}]
    blocks = read(kernel, model, shown, outputs="full")
    assert [block["type"] for block in blocks[:2]] == ["text", "image"]
    assert "[its lower part is cut off]" in blocks[2]["text"]
    assert shown.params["pictures"] == {
        "path": shown.path.name,
        "outputs": [{"cell": "a1", "index": 0, "kinds": ["text/html", "text/plain"]}],
    }


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ([{"problem": "refused"}], "settings do not let you see"),
        ([{"problem": "a code of tomorrow"}], "could not make a picture"),
        ([{"data": 3}], "could not make a picture"),
        ([], "could not make a picture"),
        (None, "has to be reloaded first"),
    ],
)
def test_what_the_page_cannot_give_is_said_with_what_to_do(
    kernel: NotebookKernel, model: MessagesServer, shown: NotebookPage, given: Any, reason: str
) -> None:
    shown.pictures = given
    text = "".join(block["text"] for block in read(kernel, model, shown, outputs="full"))
    assert reason in text
    assert "save it as a PNG" in text


def test_what_code_displays_is_asked_for_by_the_key_in_its_metadata(
    kernel: NotebookKernel, model: MessagesServer, shown: NotebookPage
) -> None:
    shown.pictures = [{"data": picture(), "media_type": "image/png"}]
    code = f"from IPython.display import display\ndisplay({STYLED!r}, raw=True)\nprint('below')"
    model.add(turn(use("Python", code=code)), turn(say("I see.")))
    cell = kernel.run("%%claude --allow Python\nLook")
    assert cell.status == "ok"
    assert [block["type"] for block in result(model)] == ["text", "image", "text"]
    ((key,),) = [list(each.values()) for each in shown.params["pictures"]["outputs"]]
    displayed = [content["metadata"].get("cellwright", {}).get("display") for content in cell.of_type("display_data")]
    assert key in displayed
