"""`%claude fix`: what failed, told to Claude in one bounded prompt; where nothing failed nothing is sent."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from IPython.core.interactiveshell import InteractiveShell
from notebook_kernel import NotebookKernel
from plain_shell import plain_shell, run

from cellwright.kernel.cell_log import CellLog
from cellwright.kernel.fix_prompt import (
    SOURCE_CHARS,
    Fixing,
    FixRequest,
    NothingToFix,
    fix_prompt,
    fix_request,
    nothing_to_fix,
)
from cellwright.kernel.kernel_telling import describe_lines
from cellwright.mention_text import find_mentions
from cellwright.testing import MessagesServer, say
from cellwright.tools.open_notebook import NothingOpen

LAST = FixRequest("", "")


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    monkeypatch.delattr(sys, "last_value", raising=False)  # of other tests
    with plain_shell() as shell:
        yield shell


@pytest.fixture
def log(shell: InteractiveShell) -> Iterator[CellLog]:
    log = CellLog(shell)
    log.start()
    yield log
    log.stop()


def asked(shell: InteractiveShell, log: CellLog, request: FixRequest = LAST, *, can_edit: bool = True) -> str | None:
    return Fixing(shell, log, can_edit, describe_lines).prompt(request)


def test_the_prompt_has_error_source_and_the_variables_of_the_failing_line(shell: InteractiveShell, log: CellLog):
    run(shell, "rates = {'de': 1.0}\nunused = 3\nimport math", "cell-1")
    run(shell, "total = 0\nfor country in ['de', 'dk']:\n    total += math.floor(\n        rates[country])", "cell-2")
    prompt = asked(shell, log)
    assert prompt is not None
    assert prompt.startswith("Fix the cell cell-2 (In [2]) of this notebook")
    assert "KeyError: 'dk'\n  Cell In[2], line 4: rates[country])" in prompt
    assert "<source_as_it_ran>\n```\ntotal = 0\nfor country" in prompt
    assert "```\ntotal: int = 1\nrates: dict (len 1) = {'de': 1.0}\ncountry: str (len 2) = 'dk'\n```\n</variables>" in prompt
    assert "NotebookEdit of the cell cell-2" in prompt


def test_the_users_words_are_told_and_nothing_is_too_long(shell: InteractiveShell, log: CellLog):
    run(shell, "1 / 0\n" + "# filler\n" * SOURCE_CHARS, "cell-1")
    prompt = asked(shell, log, FixRequest("", "keep the name"))
    assert prompt is not None
    assert "The user says: keep the name" in prompt
    assert "characters more)" in prompt
    assert len(prompt) < SOURCE_CHARS + 2_000


def test_what_is_quoted_mentions_nothing(shell: InteractiveShell, log: CellLog):
    run(shell, "text = '```'\ndef f(): return text + 1\n@f\ndef g(): pass  # see @notes.md and $text", "cell-1")
    prompt = asked(shell, log, FixRequest("", "as @style.md says"))
    assert prompt is not None
    assert [mention.text for mention in find_mentions(prompt)] == ["@style.md"]


def test_where_the_notebook_cannot_be_reached_code_is_asked_for(shell: InteractiveShell, log: CellLog):
    run(shell, "1 / 0", "cell-1")
    prompt = asked(shell, log, can_edit=False)
    assert prompt is not None
    assert "NotebookEdit" not in prompt
    assert "as one block of code" in prompt


def test_of_several_the_last_that_was_not_mended(shell: InteractiveShell, log: CellLog):
    run(shell, "1 / 0", "first")
    run(shell, "x", "second")
    run(shell, "x = 1", "second")
    assert "ZeroDivisionError" in str(asked(shell, log))
    assert "ZeroDivisionError" in str(asked(shell, log, FixRequest("first", "")))
    assert asked(shell, log, FixRequest("second", "")) is None
    assert "did not fail when it ran last" in nothing_to_fix(FixRequest("second", ""), log)
    run(shell, "1", "first")
    assert asked(shell, log) is None


@pytest.mark.parametrize("source", ["raise KeyboardInterrupt", "%claude fix\nraise RuntimeError", "1"])
def test_what_is_no_failure_of_the_users_code_is_not_fixed(shell: InteractiveShell, log: CellLog, source: str):
    run(shell, source, "cell-1")
    with pytest.raises(NothingToFix, match=r"Nothing was sent\.$"):
        fix_prompt("fix", shell, log, NothingOpen())
    with pytest.raises(NothingToFix, match="put the words into a %%claude cell"):
        fix_prompt("fix the typo in notes.md", shell, log, NothingOpen())


def test_the_failure_before_the_extension_was_loaded_is_known(shell: InteractiveShell):
    run(shell, "y = 2\n1 / 0", "cell-1")
    run(shell, "1 / 1", "cell-2")
    log = CellLog(shell)
    log.start()
    prompt, of_cell = asked(shell, log), asked(shell, log, FixRequest("cell-1", ""))
    log.stop()
    assert prompt is not None
    assert of_cell is not None
    assert of_cell.startswith("Fix the cell cell-1 of this notebook: its output is an error.")
    assert "It is this cell's if the source is the same.\n\n<error>\n```\nZeroDivisionError" in of_cell
    assert "NotebookEdit of the cell cell-1" in of_cell
    assert prompt.startswith("Fix a cell of this notebook")
    assert "ZeroDivisionError" in prompt
    assert "<source_as_it_ran>\n```\ny = 2\n1 / 0\n```\n</source_as_it_ran>" in prompt
    assert "Find the cell by its source with NotebookRead" in prompt


def test_a_cell_that_failed_in_another_kernel_is_read_first(shell: InteractiveShell, log: CellLog):
    prompt = asked(shell, log, FixRequest("cell-7", "please"))
    assert prompt is not None
    assert "Read it with NotebookRead" in prompt
    assert "The user says: please" in prompt
    assert "<error>" not in prompt
    assert asked(shell, log, FixRequest("cell-7", ""), can_edit=False) is None


def test_a_syntax_error_and_one_in_a_function_are_told(shell: InteractiveShell, log: CellLog):
    run(shell, "def half(n):\n    return n / 0", "cell-1")
    run(shell, "value = 4\nhalf(value)", "cell-2")
    prompt = str(asked(shell, log))
    assert "Cell In[2], line 2: half(value)" in prompt
    assert "in half" in prompt
    assert "value: int = 4" in prompt
    run(shell, "for", "cell-3")
    assert "SyntaxError" in str(asked(shell, log))


@pytest.mark.parametrize(
    ("line", "request_"),
    [
        ("fix", LAST),
        ("fix use vectorised code", FixRequest("", "use vectorised code")),
        ("fix @cell:cell-1", FixRequest("cell-1", "")),
        ("fix @cell:b2d4 and be brief", FixRequest("b2d4", "and be brief")),
        ("fix cell-1 and be brief", FixRequest("cell-1", "and be brief")),
        ("fix cell-2 and be brief", FixRequest("", "cell-2 and be brief")),
    ],
)
def test_a_line_names_a_cell_or_says_how(shell: InteractiveShell, log: CellLog, line: str, request_: FixRequest):
    run(shell, "1", "cell-1")
    assert fix_request(line, log) == request_


def test_in_a_kernel_nothing_is_sent_until_something_fails(kernel: NotebookKernel, model: MessagesServer):
    before = len(model.requests)
    cell = kernel.run("%claude fix")
    assert (cell.status, cell.stdout) == (
        "ok",
        "Nothing has failed in this kernel, so there is nothing to fix. Nothing was sent.\n",
    )
    assert len(model.requests) == before
    kernel.run("rate = 0\n1 / rate")
    model.add(say("Zero."), say("Words."))
    assert kernel.run("%claude --quiet fix say why").status == "ok"
    told = model.requests[-1].body["messages"][-1]["content"][-1]["text"]
    assert "ZeroDivisionError" in told
    assert "rate: int = 0" in told
    assert "The user says: say why" in told
    assert kernel.run("%%claude\nfix is a word").status == "ok"
    assert "fix is a word" in str(model.requests[-1].body["messages"][-1]["content"])
