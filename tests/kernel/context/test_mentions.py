"""Cells and variables that a prompt mentions, in a real kernel: what the request holds, and what the user is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from notebook_kernel import NotebookKernel, Page, model_of, running_kernel

from cellwright.testing import MessagesServer, say, turn, use

pytestmark = pytest.mark.kernel

CELLS: list[dict[str, Any]] = [
    {"id": "title", "cell_type": "markdown", "metadata": {}, "source": "# Prices\n"},
    {
        "id": "load",
        "cell_type": "code",
        "metadata": {},
        "execution_count": 7,
        "source": "prices = [3, 4]\nprint('two prices')",
        "outputs": [{"output_type": "stream", "name": "stdout", "text": "two prices\nAKIAIOSFODNN7EXAMPLE\n"}],
    },
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    notebook = {"cells": CELLS, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (folder / "prices.ipynb").write_text(json.dumps(notebook, indent=1))
    return folder


@pytest.fixture(scope="module")
def loaded(model: MessagesServer, project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NotebookKernel]:
    home = tmp_path_factory.mktemp("home")
    environ = {"HOME": str(home), "CELLWRIGHT_HOME": str(home / "cellwright"), "IPYTHONDIR": str(home / "ipython")}
    session = {"JPY_SESSION_NAME": str(project / "prices.ipynb")}
    with running_kernel(project, {**model_of(model), **environ, **session}) as kernel:
        assert kernel.run("%load_ext cellwright").status == "ok"
        yield kernel


def attached(model: MessagesServer, request: int = -1) -> list[str]:
    """What was attached to the newest prompt."""
    (content,) = (m["content"] for m in model.requests[request].body["messages"][-1:])
    return [block["text"] for block in content if block["type"] == "text" and block["text"].startswith("<attached")]


def prompt(kernel: NotebookKernel, words: str, options: str = "--new --context none") -> None:
    cell = kernel.run(f"%%claude {options}\n{words}", cell_id="prompt")
    assert cell.status == "ok", cell.error


def notices(page: Page) -> list[str]:
    return [op["text"] for op in page.ops if op["op"] == "notice"]


@pytest.mark.parametrize("mention", ["@cell:load", "@cell:2", "@cell:7", "@cell:[7]"])
def test_a_cell_by_id_number_or_count(kernel: NotebookKernel, page: Page, model: MessagesServer, mention: str):
    model.add(say("ok"))
    prompt(kernel, f"explain {mention}.")
    (text,) = attached(model)
    assert text.startswith(f'<attached mention="{mention}" what="cell [7], id load">')
    assert "prices = [3, 4]" in text
    assert "two prices" in text
    assert "AKIAIOSFODNN7EXAMPLE" not in text
    assert "# Prices" not in text
    (told,) = [op for op in page.ops if op["op"] == "told"]
    assert ("cell", "cell [7], id load") in [(part["kind"], part["title"]) for part in told["parts"]]


def test_a_cell_that_is_not_there_is_said(kernel: NotebookKernel, page: Page, model: MessagesServer):
    model.add(say("ok"))
    prompt(kernel, "explain @cell:nothing and @cell:99")
    assert attached(model) == []
    assert notices(page) == [
        "@cell:nothing: no such cell in prices.ipynb. It was sent as text.",
        "@cell:99: no such cell in prices.ipynb. It was sent as text.",
    ]


def test_a_mentioned_cell_may_be_edited_at_once(
    kernel: NotebookKernel, page: Page, model: MessagesServer, project: Path
):
    edit = {"notebook_path": "prices.ipynb", "cell_id": "title", "new_source": "# Dear prices", "cell_type": "markdown"}
    model.add(turn(use("NotebookEdit", **edit)), say("ok"))
    prompt(kernel, "rename @cell:title", "--new --context none --mode acceptEdits --notebook prices.ipynb")
    (end,) = [op for op in page.ops if op["op"] == "tool_end"]
    assert end["status"] == "success", end["result"]
    assert "# Dear prices" in (project / "prices.ipynb").read_text()


def test_variables_and_files_together(kernel: NotebookKernel, page: Page, model: MessagesServer, project: Path):
    (project / "rules.txt").write_text("No discounts.\n")
    kernel.run("basket = {'pears': 3}\nclass Shy:\n    def __repr__(self): raise RuntimeError\nshy = Shy()")
    model.add(say("ok"))
    prompt(kernel, "apply @rules.txt to $basket and $shy, it costs $5; see $HOME and ```$basket```")
    rules, basket, shy = attached(model)
    assert "No discounts." in rules
    assert "pears" in basket
    assert "Shy" in shy
    assert notices(page) == []


def test_the_line_magic_mentions_too(kernel: NotebookKernel, model: MessagesServer):
    kernel.run("speed = 88")
    model.add(say("ok"))
    kernel.run_ok("%claude --new --context none is $speed enough?", cell_id="line")
    (text,) = attached(model)
    assert "speed: int = 88" in text


def test_the_whole_notebook_on_demand(kernel: NotebookKernel, model: MessagesServer):
    model.add(say("ok"))
    prompt(kernel, "what is this?", "--new --context full")
    sent = json.dumps(model.requests[-1].body["messages"])
    assert "prices = [3, 4]" in sent
    assert "two prices" in sent
    assert "AKIAIOSFODNN7EXAMPLE" not in sent
