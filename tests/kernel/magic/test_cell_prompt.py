"""Prompts that we write: people see a few words, Claude receives the instructions beside them."""

from __future__ import annotations

import json
from typing import get_args

import pytest
from notebook_kernel import NotebookKernel

from cellwright.agent.prompt import TitledPrompt
from cellwright.conversation.runs.kinds import CellAction, CellActionName
from cellwright.features.numbers.answers import TracedAnswers
from cellwright.kernel.chat.prompts import titled_prompt
from cellwright.kernel.magic.cell_prompt import page_prompt
from cellwright.testing import MessagesServer, say, turn

pytestmark = pytest.mark.kernel

REFRESH = (
    "%%claude\nRefresh 1 number\n<cellwright-instructions>\nNumbers in your answer below are out of date:\n"
    "<answer>\nThe mean is 2.4.\n</answer>\n</cellwright-instructions>"
)
STORY = tuple(
    json.dumps(message, separators=(",", ":")).encode()
    for message in (
        {"role": "user", "content": "How many?"},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "t1", "name": "Python", "input": {"code": "ages"}}],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "age 41.37\ntall 187.43"}],
        },
    )
)
"""Numbers are marked in answers that state one of a result."""


def of_action(name: CellActionName) -> TitledPrompt:
    error, words = ("KeyError" if name == "fix" else ""), ("Use polars" if name == "edit" else "")
    return titled_prompt(CellAction(name=name, path="a.ipynb", id="c3", label="cell [3]", error=error, words=words))


def check() -> TitledPrompt:
    answers = TracedAnswers()
    found = answers.event("At 41.37 years and 187.43 cm, 31.8 % left, and 14.25 % came.", STORY)
    assert found is not None
    return TitledPrompt(found.check, answers.instructions(found.check))


def refresh() -> TitledPrompt:
    found = page_prompt(REFRESH.partition("\n")[2])
    assert found is not None
    return found.prompt


def test_each_is_named_in_a_few_words() -> None:
    written = {name: of_action(name) for name in get_args(CellActionName)} | {"check": check(), "refresh": refresh()}
    assert {name: prompt.title.split()[0].rstrip(":") for name, prompt in written.items()} == {
        name: name.title() for name in written
    }
    # a fix's are completed when its run begins
    assert [name for name, prompt in written.items() if not prompt.instructions] == ["fix"]


def test_two_answers_with_as_many_marks_have_checks_of_their_own() -> None:
    answers = TracedAnswers()
    texts = "It is 31.8 % of 41.37.", "It is 47.25 km at 41.37."
    titles = [found.check for text in texts if (found := answers.event(text, STORY))]
    assert titles[0] == "Check 1 number"
    assert titles[1].startswith("Check 1 number")
    assert "31.8 %" in answers.instructions(titles[0])
    assert "47.25" in answers.instructions(titles[1])


def test_the_instructions_of_the_page_go_beside_the_title(kernel: NotebookKernel, model: MessagesServer) -> None:
    model.add(turn(say("The mean is 2.6.")))
    assert kernel.run(REFRESH).status == "ok"
    texts = [block["text"] for block in model.requests[-1].body["messages"][0]["content"] if block["type"] == "text"]
    assert "Refresh 1 number" in texts
    assert [text.startswith("<instructions>\nNumbers in") for text in texts].count(True) == 1
    assert "cellwright-instructions" not in json.dumps(texts)
