"""`%claude demo`: a scripted model that says so, answers by what is asked in any order, and knows what it does not know."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from notebook_kernel import Cell, NotebookKernel, running_kernel

from cellwright.terminal.demo.demo import NOTEBOOK, project_in
from cellwright.testing import MessagesServer, say

pytestmark = pytest.mark.kernel


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NotebookKernel]:
    """A kernel without a key in a copy of the demo."""
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
    for name in ("CELLWRIGHT_HOME", "JUPYTER_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "state"))
    (tmp_path / "work").mkdir()
    with running_kernel(project_in(tmp_path / "work"), {"CELLWRIGHT_HOME": str(tmp_path / "state")}) as kernel:
        kernel.run("%load_ext cellwright")
        yield kernel


def said(cell: Cell) -> str:
    assert cell.status == "ok", cell.error
    return str(cell.outputs)


def test_its_answers_fit_the_prompts_in_any_order(demo: NotebookKernel):
    assert "Scripted model." in said(demo.run("%claude demo"))
    unknown = said(demo.run("%%claude\nWrite a poem on the sea."))
    assert "demo's scripted model" in unknown
    assert "scripted-model" in unknown, "the line below the answer names it too"
    assert "no `smooth`" in said(demo.run("%%claude\nWhat is in $smooth?"))
    assert "tests fixed first" in said(demo.run("%%claude\nPlot the levels and mark high tide."))
    told = said(demo.run("%%claude\nWhat is in $smooth?"))
    assert "`smooth` is a list" in told
    fix = "%%claude --mode acceptEdits\nThe tests of this project fail. Find the reason and fix it."
    assert "tests pass now." in said(demo.run(fix))
    assert "nothing is left" in said(demo.run(fix)), "it looks before it speaks"
    told = said(demo.run("%%claude\nPlot the levels and mark high tide."))
    assert "3.68 m" in told
    assert "demo's scripted model" in said(demo.run("%%claude\nThank you!"))


def test_without_a_key_it_answers_at_once_and_says_so_once(demo: NotebookKernel, model: MessagesServer):
    demo.run(f"import os; os.environ['ANTHROPIC_BASE_URL'] = {model.url!r}")
    first = said(demo.run("%%claude\nPlan how to find low tide as well."))
    assert "Scripted model." in first
    assert "scripted-model" in first
    assert "Scripted model." not in said(demo.run("%%claude\nThank you!"))
    # a key of one's own is tested where it counts, and Claude answers from then on
    login = demo.begin("%claude login", allow_stdin=True)
    demo.client.get_stdin_msg(timeout=60)
    demo.client.input(model.api_key)
    demo.finish(login)
    assert model.url.rpartition("/")[2] in login.stdout
    assert "Key saved in" in login.stdout
    model.add(say("Claude itself."))
    assert "Claude itself." in said(demo.run("%%claude\nThank you!"))


def test_elsewhere_it_is_set_up_and_a_key_goes_before_it(demo: NotebookKernel, tmp_path: Path):
    (tmp_path / "mine").mkdir()
    environ = {"CELLWRIGHT_HOME": str(tmp_path / "state"), "ANTHROPIC_API_KEY": "sk-ant-mine"}
    with running_kernel(tmp_path / "mine", environ) as kernel:
        kernel.run("%load_ext cellwright")
        assert f"(cellwright-demo/{NOTEBOOK})" in said(kernel.run("%claude demo"))
        assert (tmp_path / "mine" / "cellwright-demo" / NOTEBOOK).is_file()
    demo.run("import os; os.environ['ANTHROPIC_API_KEY'] = 'sk-ant-mine'")
    assert "Claude itself answers" in said(demo.run("%claude demo"))
