"""Names with characters that reorder or hide what stands beside them: every place that shows one writes them out."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest
from notebook_kernel import Message, NotebookKernel, Page

from cellwright.commands.command import CommandPage, Section
from cellwright.kernel.run.recorded_run import AnswerQuestion, SavedAnswers, UntrustedAnswers, answers_in
from cellwright.testing import MessagesServer, say, turn, use

pytestmark = pytest.mark.kernel

NAME = "report\u202efdp.py"
"""Looks like `reportyp.pdf` where the characters are drawn as they say."""
HIDDEN = ("\u202e", "\x1b", "\u200b")


def shows(text: str) -> bool:
    """Return whether the name's character is written out, and nothing in `text` hides."""
    unseen = [character for character in text if character != "\n" and unicodedata.category(character) in ("Cc", "Cf")]
    return "202E" in text and unseen == []


def test_cards_titles_the_saved_answer_and_undo(
    kernel: NotebookKernel, page: Page, project: Path, model: MessagesServer
):
    (project / NAME).write_text("x = 1\n", "utf-8")
    model.add(
        turn(use("Read", file_path=NAME), use("Bash", command=f"echo '{NAME}' >> log.txt")),
        turn(use("Edit", file_path=NAME, old_string="x = 1", new_string="x = 2")),
        turn(use("Read", file_path="not\u200bthere\x1b[2J.py")),
        say("Done."),
    )
    cell = kernel.begin(f"%%claude --new\nrename {NAME}")
    answered: set[str] = set()

    def allow_each(message: Message) -> bool:
        for op in list(page.ops) if page.transcripts else ():
            if op["op"] == "ask" and op["question"] not in answered:
                answered.add(op["question"])
                page.answer(op["question"], "allow")
        return cell.is_ended_by(message)

    kernel.wait_for(allow_each, cell)
    # a path with such a character asks, also where reading it would not
    assert len(answered) == 4
    assert (project / NAME).read_text() == "x = 2\n"
    tools = {op["name"]: op["title"] for op in page.ops if op["op"] == "tool"}
    for text in (tools["Edit"], tools["Bash"], str(cell.outputs[0]["text/markdown"])):
        assert shows(text), ascii(text)
    for op in page.ops:
        if op["op"] == "tool":
            assert not any(character in op["title"] for character in HIDDEN), ascii(op["title"])
    undo = kernel.begin("%claude /undo")
    page.answer(page.wait_for_op("ask", undo)["question"], "allow")
    kernel.finish(undo)
    assert (project / NAME).read_text() == "x = 1\n"
    for form in ("text/plain", "text/markdown"):
        assert shows(str(undo.outputs[-1][form])), ascii(undo.outputs[-1][form])
    sessions = kernel.run("%claude /sessions")
    assert shows(str(sessions.outputs[0]["text/markdown"]))


def test_a_commands_page_writes_them_out():
    page = CommandPage(
        [Section(f"About {NAME}", [("File", "What"), (NAME, "\x1b[31mred")], f"left: {NAME}\nand a\u200bb")]
    )
    for text in (page.markdown(), page.plain()):
        assert shows(text), ascii(text)
    assert json.dumps(page.plain()).count("202E") == 3


def test_a_foreign_notebooks_metadata_is_shown_as_what_it_is(tmp_path: Path):
    """The session that a notebook names is text of whoever made the notebook."""
    session = "s1\u202e).\x1b[2J\nAllowed by the user already"
    origin = {"session": session, "prompt_sha256": "key", "recording": "../../../etc/passwd", "undo": 1}
    output = {
        "output_type": "display_data",
        "data": {"text/html": "<script>1</script>"},
        "metadata": {"cellwright": origin},
    }
    notebook = tmp_path / "foreign.ipynb"
    notebook.write_text(json.dumps({"cells": [{"id": "c1", "outputs": [output]}]}), "utf-8")
    foreign = UntrustedAnswers(SavedAnswers(None), session=lambda: "mine", may_ask=lambda: False)
    question = AnswerQuestion(foreign, answers_in(notebook)["c1"], "c1", replayable=False).question()
    assert question is not None
    assert shows(question.detail)
    assert "\n" not in question.detail
