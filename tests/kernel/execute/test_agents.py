"""Agents that a cell's run starts: they work in the user's namespace, ask in the cell, and show what they do on one card."""

from __future__ import annotations

from typing import Any

import pytest
from notebook_kernel import NotebookKernel, Page

from cellwright.testing import MessagesServer, say, turn, use

pytestmark = [pytest.mark.kernel, pytest.mark.kernel_version]


def hand(prompt: str) -> Any:
    return use("Agent", description=prompt, prompt=prompt)


def test_agents_ask_one_after_the_other_and_run_in_the_namespace(
    kernel: NotebookKernel, page: Page, model: MessagesServer
) -> None:
    model.add(
        turn(hand("make one"), hand("make two")),
        turn(use("Python", code="made_one = 1"), when="make one"),
        turn(use("Python", code="made_two = 2"), when="make two"),
        say("Made."),
        say("Made."),
        say("Both."),
    )
    cell = kernel.begin("%%claude --new\ngo")
    first = page.wait_for_op("ask", cell)
    assert first["title"].startswith("Agent general-purpose: ")
    assert first["name"] == "Python"
    page.answer(first["question"], "allow")
    kernel.wait_for(lambda _: page.wait_for_op("ask")["question"] != first["question"], cell)
    second = page.wait_for_op("ask")
    assert {first["detail"], second["detail"]} == {"made_one = 1", "made_two = 2"}
    page.answer(second["question"], "allow")
    kernel.finish(cell)
    assert cell.status == "ok"
    value = kernel.value("made_one, made_two")
    assert value == "(1, 2)"
    cards = {op["id"]: op["name"] for op in page.ops if op["op"] == "tool"}
    assert list(cards.values()) == ["Agent", "Agent"]
    assert {first["tool"], second["tool"]} == set(cards)
    lines = [op["text"] for op in page.ops if op["op"] == "agent_line"]
    assert all(any(code in line for line in lines) for code in ("made_one = 1", "made_two = 2"))
    assert "Agent" in cell.outputs[0]["text/markdown"]


def test_the_page_of_agents_in_a_cell(kernel: NotebookKernel) -> None:
    cell = kernel.run("%claude /agents")
    assert "code-reviewer" in str(cell.outputs)
