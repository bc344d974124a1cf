"""`/stability` in a real kernel: numbers of an answer on resampled data, with a signal and with noise."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from chat_panel import ChatPanel
from notebook_kernel import Cell, NotebookKernel, Page
from notebook_page import NotebookPage

from cellwright.kernel.branches.bounds import branches_enforced
from cellwright.testing import MessagesServer, say, use

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(
        sys.platform != "linux" or branches_enforced() is not None, reason="this system confines no branch"
    ),
]

DATA = """
import numpy as np, pandas as pd
rng = np.random.default_rng(3)
arm = rng.permutation(np.repeat(["new", "old"], 150))
df = pd.DataFrame({"arm": arm, "signal": rng.normal(0, 1, 300) + 1.5 * (arm == "new"), "noise": rng.normal(0, 1, 300)})
"""
CODE = """
means = df.groupby("arm").mean(numeric_only=True)
print("signal_gap", round(means.signal["new"] - means.signal["old"], 4))
print("noise_gap", round(means.noise["new"] - means.noise["old"], 4))
print("file_mean", 41.375)
"""


def ask(kernel: NotebookKernel, model: MessagesServer, code: str = CODE, tool: str = "Branch") -> dict[str, str]:
    """Have Claude run `code` and state each number that it prints; gives them by their names."""
    shown = kernel.run(code).stdout
    values = dict(line.split() for line in shown.splitlines() if line and len(line.split()) == 2)
    said = "The results: " + ", ".join(f"{name} is {value}" for name, value in values.items()) + "."
    model.add(use(tool, code=code), say(said))
    cell = kernel.run("%%claude --new --allow Python\nAre the gaps real?")
    assert cell.status == "ok", cell.error
    return values


def table(text: str) -> dict[str, list[str]]:
    """The rows of the first table by their numbers."""
    rows = [
        [part.strip() for part in line.strip().strip("|").split(" | ")]
        for line in text.splitlines()
        if line.startswith("|")
    ]
    return {row[0].replace("\\", ""): row[1:] for row in rows[2:]}


def stability(kernel: NotebookKernel, arguments: str = "") -> tuple[Cell, str]:
    cell = kernel.run(f"%claude --format json /stability {arguments}")
    assert cell.status == "ok", cell.error
    return cell, str(next(iter(json.loads(cell.stdout.splitlines()[-1]).values())))


@contextlib.contextmanager
def without_branches(kernel: NotebookKernel) -> Iterator[None]:
    kernel.run("%config Claude.branches = 'off'")
    try:
        yield
    finally:
        kernel.run("%config Claude.branches = 'on'")


def test_signal_noise_and_what_does_not_depend_on_the_data(kernel: NotebookKernel, model: MessagesServer) -> None:
    kernel.run(DATA)
    values = ask(kernel, model)
    _, page = stability(kernel, "df label=arm n=30 seconds=100")
    rows = table(page)
    assert "could be chance" in rows[values["noise_gap"]][0]
    assert "holds (0 of 30)" in rows[values["signal_gap"]][0]
    assert "could be chance" not in rows[values["signal_gap"]][0]
    assert "does not depend on df" in rows["41.375"][0]
    assert "30 resamples of its rows" in page
    assert kernel.value("len(df), sorted(set(df.columns))") == "(300, ['arm', 'noise', 'signal'])"
    assert kernel.value("'__cellwright_perturb__' in globals()") == "False"


def test_the_cells_between_the_data_and_the_call_run_again_and_the_choice_is_remembered(
    kernel: NotebookKernel, model: MessagesServer
) -> None:
    kernel.run(DATA)
    kernel.run("high = df[df.arm == 'new'].signal\nlow = df[df.arm == 'old'].signal", cell_id="halves")
    kernel.run("gap = high.mean() - low.mean()", cell_id="gap")
    values = ask(kernel, model, "print('gap_of_arms', round(gap, 4))")
    _, page = stability(kernel, "n=20 seconds=100")
    assert "df (300 rows)" in page
    assert "20 permutations of arm" in page
    assert "of 20)" in table(page)[values["gap_of_arms"]][0]
    assert page.count("cell &#91;") == 2
    _, page = stability(kernel, "df label=none n=5 seconds=100")
    assert "No label was permuted" in page
    _, page = stability(kernel, "n=5 seconds=100")  # as it was chosen last
    assert "No label was permuted" in page


def test_names_that_are_unknown_are_said_and_nothing_runs(kernel: NotebookKernel, model: MessagesServer) -> None:
    kernel.run(DATA)
    ask(kernel, model)
    for arguments, words in (
        ("nope", "No frame or array 'nope'"),
        ("df label=nope", "no column 'nope'"),
        ("df by=nope", "no column 'nope' to keep together"),
        ("df n=many", "'n=many' is not understood"),
    ):
        cell = kernel.run(f"%claude --format json /stability {arguments}")
        assert cell.status == "error"
        assert words in cell.error, cell.error
        assert "Nothing was run" in cell.error


def test_an_answer_without_numbers_of_code_has_nothing_to_test(kernel: NotebookKernel, model: MessagesServer) -> None:
    model.add(say("There are 7,043 of them."))
    kernel.run("%%claude --new\nHow many of the 7043?")
    _, page = stability(kernel)
    assert "no numbers that come from code" in page


def test_an_interrupt_ends_all_copies_at_once(
    kernel: NotebookKernel, page: Page, model: MessagesServer, project: Path
) -> None:
    kernel.run(DATA)
    stands = project / "stands"
    kernel.run("import os, time")
    ask(kernel, model, "while os.path.exists('stands'): time.sleep(1)\nprint('signal_sum', round(df.signal.sum(), 4))")
    cell = kernel.begin("%claude /stability df label=arm seconds=600")
    kernel.wait_for(lambda _: page.transcripts and any(" of 115 runs" in op.get("text", "") for op in page.ops), cell)
    stands.touch()
    kernel.interrupt()
    kernel.finish(cell)  # within a minute; the copies would stand still for ten minutes
    stands.unlink()
    assert cell.status == "error"
    living = "[b.owner for b in __import__('gc').get_objects() if type(b).__name__ == 'Branch' and b.alive]"
    assert kernel.value(living) == "[]"
    assert kernel.run("2 + 2").status == "ok"


def test_without_branches_it_says_why(kernel: NotebookKernel, model: MessagesServer) -> None:
    kernel.run(DATA)
    ask(kernel, model)
    with without_branches(kernel):
        _, page = stability(kernel, "df label=arm n=5 yes")
    assert "Branches of the kernel are switched off" in page
    assert "save it" in page


HOLDING = """
import asyncio, threading
notebook = get_ipython().find_cell_magic("claude").__self__.extension.conversation()
held, goes_on = threading.Event(), threading.Event()
async def hold():
    async with notebook.conversation.features.branches.use("agent", None) as used:
        held.set()
        await asyncio.to_thread(goes_on.wait)
        return used.branch.alive
holding = notebook.conversation.thread.submit(hold())
while not held.is_set():
    await asyncio.sleep(0.01)
"""


def test_a_branch_that_an_agent_is_at_work_in_is_neither_ended_nor_run_in(
    kernel: NotebookKernel, model: MessagesServer
) -> None:
    """It has values of another moment, or only those that its own code named."""
    kernel.run(DATA)
    ask(kernel, model)
    cell = kernel.run(HOLDING)
    assert cell.status == "ok", cell.error
    _, page = stability(kernel, "df label=arm n=5 yes")
    assert "A branch of the kernel is in use" in page
    assert kernel.run("goes_on.set()\nwhile not holding.done: await asyncio.sleep(0.01)").status == "ok"
    assert kernel.value("holding.result()") == "True"
    _, page = stability(kernel, "df label=arm n=5 seconds=100")
    assert "copies of your kernel" in page


@pytest.mark.thorough  # it starts four kernels; that they are asked about is tried below
def test_without_branches_fresh_kernels_run_the_notebook_first(
    kernel: NotebookKernel, model: MessagesServer, project: Path, forked_kernels: None
) -> None:
    code: dict[str, object] = {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": []}
    cells = [{**code, "id": "data", "source": DATA}, {**code, "id": "test", "source": "%claude /stability"}]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (project / "arms.ipynb").write_text(json.dumps(notebook))
    kernel.run(DATA)
    values = ask(kernel, model)
    with without_branches(kernel):
        unasked = kernel.run("%claude --format json --notebook arms.ipynb /stability df label=arm")
        cell = kernel.run("%claude --format json --notebook arms.ipynb /stability df label=arm n=2 seconds=40 yes")
    assert "needs your approval" in unasked.stdout
    page = next(iter(json.loads(cell.stdout.splitlines()[-1]).values()))
    assert "fresh kernels that run the notebook first" in page
    rows = table(page)
    assert {values["signal_gap"], values["noise_gap"], "41.375"} <= set(rows)


def test_the_panel_asks_about_fresh_kernels_without_a_cell(
    kernel: NotebookKernel, panel: ChatPanel, model: MessagesServer, project: Path
) -> None:
    cell = {"cell_type": "code", "id": "data", "metadata": {}, "execution_count": None, "outputs": [], "source": DATA}
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (project / "panel.ipynb").write_text(json.dumps(notebook))
    page = NotebookPage(kernel, project / "panel.ipynb", ("data", "code", DATA))
    page.open()
    kernel.run(DATA)
    ask(kernel, model)
    with without_branches(kernel):
        run = panel.prompt("/stability df label=arm n=2 seconds=40")
        question = panel.wait_for_op(run, "ask")
        assert "fresh kernels" in str(question)
        panel.answer(question["question"], "deny")
        panel.wait_for_end(run)
    page.close()
    kernel.run("")


def test_a_program_gets_the_report_as_data(kernel: NotebookKernel, model: MessagesServer) -> None:
    kernel.run(DATA)
    values = ask(kernel, model)
    cell = kernel.run("import cellwright, json\nreport = cellwright.stability('df', label='arm', n=20, seconds=100)")
    assert cell.status == "ok", cell.error
    found = json.loads(kernel.run("print(json.dumps(report.as_dict()))").stdout)
    assert [each["text"] for each in found["numbers"]] == list(values.values())
    assert [each["verdict"] for each in found["numbers"]] == ["signal", "no_signal", "independent"]
    assert (found["frame"], found["label"], found["done"]["bootstrap"]) == ("df", "arm", 20)
    first = found["numbers"][0]["spreads"][0]
    assert first["low"] < float(values["signal_gap"]) < first["high"]
    again = kernel.run("again = cellwright.stability('df', label='arm', n=20, seconds=100)")
    assert again.status == "ok", again.error
    same = "[s.values for n in {}.numbers for s in n.spreads]"
    assert kernel.value(f"{same.format('report')} == {same.format('again')}") == "True"
    refused = kernel.run("cellwright.stability('df', n=1)")
    assert "n must be between 2 and 1,000" in refused.error
