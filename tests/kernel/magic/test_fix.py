"""`%claude fix`: what failed, told to Claude in one bounded prompt; where nothing failed nothing is sent."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from notebook_kernel import NotebookKernel
from plain_shell import plain_shell, run

from cellwright.conversation.mentions import find_mentions
from cellwright.kernel.magic.fix import (
    NOTHING_FAILED,
    REMEMBERED,
    SOURCE_CHARS,
    Fix,
    FixContext,
    FixRequest,
    NothingToFix,
    fix_of,
    fix_request,
    nothing_to_fix,
)
from cellwright.kernel.namespace.cell_log import CellLog
from cellwright.kernel.notebook_context import describe_lines
from cellwright.sessions.api_messages import is_attached, split_attached
from cellwright.testing import MessagesServer, say
from cellwright.tools.notebook.open_notebook import NothingOpen

LAST = FixRequest("", "")


def told(fix: Fix) -> str:
    """What failed, as Claude gets it."""
    return "\n\n".join(fix.failure)


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    monkeypatch.delattr(sys, "last_value", raising=False)  # of other tests
    with plain_shell() as shell:
        yield shell


def asked(shell: InteractiveShell, log: CellLog, request: FixRequest = LAST, *, can_edit: bool = True) -> Fix:
    fix = fixed(shell, log, request, can_edit=can_edit)
    assert fix is not None
    return fix


def fixed(shell: InteractiveShell, log: CellLog, request: FixRequest = LAST, *, can_edit: bool = True) -> Fix | None:
    return FixContext(shell, log, can_edit, describe_lines).fix(request)


def test_the_cell_is_mentioned_and_its_error_and_the_variables_of_the_failing_line_are_told(
    shell: InteractiveShell, log: CellLog
):
    run(shell, "rates = {'de': 1.0}\nunused = 3\nimport math", "cell-1")
    run(shell, "total = 0\nfor country in ['de', 'dk']:\n    total += math.floor(\n        rates[country])", "cell-2")
    fix = asked(shell, log)
    assert fix.prompt.instructions.startswith("Fix @cell:cell-2")
    assert "NotebookEdit" in fix.prompt.instructions
    assert [mention.name for mention in find_mentions(fix.prompt.instructions)] == ["cell-2"]
    assert "Cell In[2], line 4:" in told(fix)
    named = re.findall(r"^\w+(?=: )", told(fix).partition("<variables>")[2], re.MULTILINE)
    assert named == ["total", "rates", "country"]
    assert "KeyError" in fix.prompt.title
    assert "cell [2]" in fix.prompt.title
    # what Claude gets besides is never taken for the user's words
    assert all(map(is_attached, (fix.prompt.context.blocks[0]["text"], *fix.failure)))
    assert "source_as_it_ran" not in told(fix)  # the cell is attached as it stands now


def test_the_users_words_are_told_and_nothing_is_too_long(shell: InteractiveShell, log: CellLog):
    run(shell, "1 / 0\n" + "# filler\n" * SOURCE_CHARS, "cell-1")
    fix = asked(shell, log, FixRequest("", "keep the name"), can_edit=False)
    assert ": keep the name" in fix.prompt.title
    assert "characters more)" in told(fix)
    assert len(fix.prompt.instructions + told(fix)) < SOURCE_CHARS + 2_000


def test_where_the_notebook_cannot_be_reached_code_is_asked_for(shell: InteractiveShell, log: CellLog):
    run(shell, "def half(n): return n / 0\nhalf(1)", "cell-1")
    fix = asked(shell, log, can_edit=False)
    assert fix.prompt.instructions.startswith("Fix the cell")
    assert find_mentions(fix.prompt.instructions) == []
    assert "NotebookEdit" not in fix.prompt.instructions
    assert "one block" in fix.prompt.instructions
    assert "half(n): return n / 0\nhalf" in told(fix)


def test_of_several_the_last_that_was_not_mended(shell: InteractiveShell, log: CellLog):
    run(shell, "1 / 0", "first")
    run(shell, "x", "second")
    run(shell, "x = 1", "second")
    assert "ZeroDivisionError" in told(asked(shell, log))
    assert "ZeroDivisionError" in told(asked(shell, log, FixRequest("first", "")))
    assert fixed(shell, log, FixRequest("second", "")) is None
    assert "did not fail" in nothing_to_fix(FixRequest("second", ""), log)
    run(shell, "1", "first")
    assert fixed(shell, log) is None


@pytest.mark.parametrize("source", ["raise KeyboardInterrupt", "%claude fix\nraise RuntimeError", "1"])
def test_what_is_no_failure_of_the_users_code_is_not_fixed(shell: InteractiveShell, log: CellLog, source: str):
    run(shell, source, "cell-1")
    with pytest.raises(NothingToFix, match=r"Nothing was sent\.$"):
        fix_of("fix", shell, log, NothingOpen())
    with pytest.raises(NothingToFix, match="put the words into a %%claude cell"):
        fix_of("fix the typo in notes.md", shell, log, NothingOpen())


def test_the_failure_before_the_extension_was_loaded_is_known(shell: InteractiveShell):
    run(shell, "y = 2\n1 / 0", "cell-1")
    run(shell, "1 / 1", "cell-2")
    log = CellLog(shell)
    log.start()
    last, of_cell = asked(shell, log), asked(shell, log, FixRequest("cell-1", ""))
    log.stop()
    for fix in (last, of_cell):
        assert "ZeroDivisionError" in told(fix)
        assert "<source_as_it_ran>\ny = 2\n1 / 0\n</source_as_it_ran>" in fix.failure
    assert last.prompt.instructions.startswith("Fix a cell")
    assert "its source" in last.prompt.instructions
    assert of_cell.prompt.instructions.startswith("Fix @cell:cell-1:")
    assert "NotebookEdit" in of_cell.prompt.instructions
    assert of_cell.failure[0] == f"<note>\n{REMEMBERED}\n</note>"


def test_a_cell_that_failed_in_another_kernel_is_attached(shell: InteractiveShell, log: CellLog):
    fix = asked(shell, log, FixRequest("cell-7", "please"))
    assert fix.prompt.instructions.startswith("Fix @cell:cell-7:")
    assert [mention.name for mention in find_mentions(fix.prompt.instructions)] == ["cell-7"]
    assert "cell: please" in fix.prompt.title
    assert fix.failure == ()
    assert fixed(shell, log, FixRequest("cell-7", ""), can_edit=False) is None


def test_a_syntax_error_and_one_in_a_function_are_told(shell: InteractiveShell, log: CellLog):
    run(shell, "def half(n):\n    return n / 0", "cell-1")
    run(shell, "value = 4\nhalf(value)", "cell-2")
    text = told(asked(shell, log))
    assert "line 2: half(value)" in text
    assert "in half" in text
    assert "value: int" in text
    run(shell, "for", "cell-3")
    assert "SyntaxError" in told(asked(shell, log))


def test_a_line_of_another_file_says_nothing_of_the_cells_variables(
    shell: InteractiveShell, log: CellLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "failing_module.py").write_text("a = 1\n1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    run(shell, "first = 1\nsecond = first + 1\nimport failing_module", "cell-1")
    text = told(asked(shell, log))
    assert "_module.py, line 2" in text
    assert "second" not in text


@pytest.mark.parametrize(
    ("line", "request_"),
    [
        ("fix", LAST),
        ("fix use vectorised code", FixRequest("", "use vectorised code")),
        ("fix @cell:cell-1", FixRequest("cell-1", "")),
        ("fix @cell:b2d4 and be brief", FixRequest("b2d4", "and be brief")),
        ("fix @cell:[1] now", FixRequest("cell-1", "now")),
        ("fix @cell:In[1]", FixRequest("cell-1", "")),
        ("fix @cell:[7]", FixRequest("[7]", "")),
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
    assert cell.status == "ok"
    assert cell.stdout == f"{NOTHING_FAILED}\n"
    assert len(model.requests) == before
    kernel.run("rate = 0\napi_token = 'ghp_' + 'a1B2' * 9\nopen(1 / rate, api_token)")
    model.add(say("Zero."), say("Words."))
    kernel.run_ok("%claude --quiet fix say why")
    content = model.requests[-1].body["messages"][-1]["content"]
    sent = json.dumps(content)
    assert "rate: int" in sent
    assert "a1B2a1B2" not in sent
    (title,) = split_attached([block["text"] for block in content])[0]
    assert re.search(r"cell \[\d+\]: say why$", title)
    kernel.run_ok("%%claude\nfix is a word")
    assert "What failed" not in str(model.requests[-1].body["messages"][-1]["content"])
