"""A turn as a preview in a real kernel: it works on copies, and only what is accepted comes to the user's own."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from chat_panel import ChatPanel
from notebook_kernel import Cell, NotebookKernel, Page, model_of, running_kernel
from notebook_page import NotebookPage

from cellwright.kernel.branches.bounds import branches_enforced
from cellwright.testing import Gate, MessagesServer, hold, say, turn, use
from processes.container_images import make_root

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(
        sys.platform != "linux" or branches_enforced() is not None, reason="this system confines no branch"
    ),
]


def tree_hash(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        digest.update(str(path.relative_to(folder)).encode())
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()


def said(model: MessagesServer) -> list[str]:
    """The texts of all tool results so far."""
    return [
        block["content"]
        if isinstance(block["content"], str)
        else "\n".join(b.get("text", "") for b in block["content"])
        for message in model.requests[-1].body["messages"]
        for block in (message["content"] if isinstance(message["content"], list) else [])
        if block["type"] == "tool_result"
    ]


def preview(kernel: NotebookKernel, model: MessagesServer, *calls: Any, options: str = "--new --branch") -> Cell:
    model.add(*calls, say("Done."))
    return kernel.run(f"%%claude {options}\ngo")


def test_nothing_accepted_changes_nothing(kernel: NotebookKernel, model: MessagesServer, project: Path) -> None:
    (project / "a.py").write_text("x = 1\n")
    kernel.run("numbers = [1, 2, 3]")
    before = tree_hash(project)
    cell = preview(
        kernel,
        model,
        use("Read", file_path=str(project / "a.py")),
        use("Edit", file_path=str(project / "a.py"), old_string="x = 1", new_string="x = 2"),
        use("Python", code="numbers.append(4)\nopen('made.txt', 'w').write('m')\nmore = {'a': 1}\nlen(numbers)"),
        use("Bash", command="cat a.py made.txt; echo b > from_bash.txt"),
        use("Read", file_path=str(project / "a.py")),
    )
    assert cell.status == "ok", cell.error
    results = said(model)
    assert results[2].endswith("\n4"), results
    assert "x = 2" in results[3], results
    assert "x = 2" in results[4], results
    assert tree_hash(project) == before
    value = kernel.value("numbers, 'more' in globals()")
    assert value == "([1, 2, 3], False)"
    shown = kernel.run("%claude /preview").outputs[-1]["text/plain"]
    for part in ("a.py +", "from_bash.txt (new file", "made.txt (new file", "3 items → 4", "`more`: new, dict"):
        assert part in shown, shown
    kernel.run("%claude /preview decline")
    assert tree_hash(project) == before
    value = kernel.value("numbers, 'more' in globals()")
    assert value == "([1, 2, 3], False)"


def answered(
    kernel: NotebookKernel,
    page: Page,
    model: MessagesServer,
    calls: list[Any],
    choose: list[str],
    options: str = "--new",
) -> tuple[Cell, dict[str, Any]]:
    """A preview whose question is answered with the options that begin with `choose` have; the question, too."""
    model.add(*calls, say("Done."))
    cell = kernel.begin(f"%%claude --branch {options}\ngo")
    try:
        question = page.wait_for_op("ask", cell)
    except AssertionError:
        print(cell.stdout, cell.error, cell.outputs)
        raise
    [asked] = question["input"]["questions"]
    labels = [option["label"] for option in asked["options"]]
    chosen = [label for label in labels if any(part in label for part in choose)]
    answers = {asked["question"]: ", ".join(chosen)}
    page.answer(question["question"], "allow", input={"answers": answers, "annotations": {}})
    return kernel.finish(cell), asked


def test_parts_are_accepted_and_undone(
    kernel: NotebookKernel, page: Page, model: MessagesServer, project: Path
) -> None:
    (project / "keep.txt").write_text("kept\n")
    kernel.run("import pandas as pd, numpy as np\ndf = pd.DataFrame({'a': range(5), 'b': list('vwxyz')})\nother = [1]")
    calls = [
        use("Write", file_path=str(project / "new.txt"), content="new\n"),
        use("Read", file_path="keep.txt"),
        use("Edit", file_path="keep.txt", old_string="kept", new_string="lost"),
        use(
            "Python",
            code="df = pd.concat([df, df])\nother.append(2)\narr = np.arange(3)\nmodel = object()\n"
            "total, b = df.a.sum(), df.b",
        ),
    ]
    cell, asked = answered(kernel, page, model, calls, ["new.txt", "df:", "arr:", "total:", "b:"])
    assert cell.status == "ok", cell.error
    labels = [option["label"] for option in asked["options"]]
    assert any("df: 5 rows → 10" in label for label in labels), labels
    assert not any("model:" in label for label in labels), labels
    assert "`model`: new, object (object is no frame" in next(
        o["preview"] for o in asked["options"] if "code" in o["label"]
    )
    value = kernel.value("int(total), b.tolist() == list('vwxyz') * 2")
    assert value == "(20, True)"
    assert (project / "new.txt").read_text() == "new\n"
    assert (project / "keep.txt").read_text() == "kept\n"
    value = kernel.value("len(df), list(df.columns), other, arr.tolist(), 'model' in globals()")
    assert value == "(10, ['a', 'b'], [1], [0, 1, 2], False)"
    undone = kernel.run("%claude /undo yes").outputs[-1]["text/plain"]
    assert not (project / "new.txt").exists(), undone
    value = kernel.value("len(df), 'arr' in globals()")
    assert value == "(5, False)", undone
    model.add(say("I see."))
    kernel.run("%%claude\nand?")
    told = str(model.requests[-1].body["messages"][-1]["content"])
    assert "accepted: new.txt (new file" in told, told
    assert "not accepted: keep.txt +" in told, told
    (project / "keep.txt").unlink()


def test_a_file_changed_meanwhile_is_a_conflict_and_what_has_effects_is_refused(
    kernel: NotebookKernel, model: MessagesServer, project: Path
) -> None:
    (project / "c.txt").write_text("1\n")
    preview(
        kernel,
        model,
        use("Read", file_path="c.txt"),
        use("Edit", file_path="c.txt", old_string="1", new_string="2"),
        use("Write", file_path="/tmp/outside-of-it.txt", content="x"),
        use("Bash", command="sleep 100", run_in_background=True),
        use("Bash", command=f"echo x > {project}/../escaped.txt; echo y > inside.txt; cat inside.txt"),
        use("Python", code="open('/tmp/outside-of-it.txt', 'w')"),
    )
    results = said(model)
    assert "A preview changes" in results[2], results
    assert "Not in a" in results[3], results
    assert not (project.parent / "escaped.txt").exists()
    assert "PermissionError" in results[5], results
    assert not Path("/tmp/outside-of-it.txt").exists()
    (project / "c.txt").write_text("mine\n")
    shown = kernel.run("%claude /preview accept all").outputs[-1]["text/plain"]
    assert "NOT changed" in shown, shown
    assert (project / "c.txt").read_text() == "mine\n"
    assert (project / "inside.txt").read_text() == "y\n"
    (project / "c.txt").unlink()
    kernel.run("%claude /undo yes")
    assert not (project / "inside.txt").exists()


def test_where_no_copy_can_be_made_it_is_said_before_anything_is_sent(
    kernel: NotebookKernel, model: MessagesServer
) -> None:
    before = len(model.requests)
    cell = kernel.run("%%claude --new --branch --branches off\ngo")
    assert "This turn cannot be a preview: Branches of the kernel are switched off" in f"{cell.error}{cell.stdout}", (
        cell
    )
    assert len(model.requests) == before


def test_commands_that_belong_in_a_container_have_no_preview(
    kernel: NotebookKernel, model: MessagesServer, project: Path, tmp_path: Path
) -> None:
    before = len(model.requests)
    settings = Path(kernel.value("__import__('os').path.expanduser('~/.claude/settings.json')").strip("'"))
    settings.parent.mkdir(exist_ok=True)
    assert not settings.exists()
    settings.write_text(json.dumps({"sandbox": {"container": {"files": str(make_root(tmp_path / "root"))}}}))
    try:
        cell = kernel.run("%%claude --new --branch\ngo")
    finally:
        settings.unlink()
    assert "This turn cannot be a preview: Commands run in the container" in f"{cell.error}{cell.stdout}", cell
    assert len(model.requests) == before


def test_code_is_accepted_by_running_it_and_agents_work_in_the_same_copy(
    kernel: NotebookKernel, page: Page, model: MessagesServer, project: Path
) -> None:
    kernel.run("count = 1")
    calls = [
        use("Agent", description="x", prompt="y", subagent_type="general-purpose"),
        use("Python", code="class Model: pass\nmodel = Model()\ncount = 3"),
        say("The agent is done."),
        use("Python", code="count"),
    ]
    cell, _ = answered(kernel, page, model, calls, ["Run the turn"], options="--new --mode bypassPermissions")
    assert cell.status == "ok", cell.error
    assert "3" in said(model)[-1]
    value = kernel.value("count, type(model).__name__")
    assert value == "(3, 'Model')"


def test_cells_are_staged_run_in_the_copy_and_accepted_one_by_one(
    kernel: NotebookKernel, page: Page, model: MessagesServer, project: Path
) -> None:
    shown = NotebookPage(kernel, project / "cells.ipynb", ("one", "code", "cells = 1"), ("two", "code", "print(cells)"))
    content = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (project / "cells.ipynb").write_text(json.dumps(content))
    shown.open()
    try:
        calls = [
            use("NotebookRead", notebook_path="cells.ipynb"),
            use("NotebookEdit", notebook_path="cells.ipynb", cell_id="one", new_source="cells = 10"),
            use("NotebookEdit", notebook_path="cells.ipynb", cell_id="two", new_source="print(cells * 2)"),
            use("NotebookRun", notebook_path="cells.ipynb", cell_ids=["one", "two"]),
        ]
        model.add(*calls, say("Done."))
        cell = kernel.begin("%%claude --branch --new\ngo")
        question = page.wait_for_op("ask", cell)
        assert shown.source("one") == "cells = 1"
        [ran] = [block for block in said(model) if block.startswith("cell “cells = 10”")]
        assert "20" in ran, said(model)
        tool = next(op for op in reversed(page.ops) if op["op"] == "tool")
        [asked] = tool["input"]["questions"]
        labels = [option["label"] for option in asked["options"]]
        chosen = next(label for label in labels if "“print(cells * 2)”" in label)
        answers = {asked["question"]: chosen}
        page.answer(question["question"], "allow", input={"answers": answers, "annotations": {}})
        assert kernel.finish(cell).status == "ok"
        assert (shown.source("one"), shown.source("two")) == ("cells = 1", "print(cells * 2)")
        assert kernel.value("'cells' in globals()") == "False"
    finally:
        shown.close()
        (project / "cells.ipynb").unlink()


def test_a_resumed_session_knows_what_was_accepted_and_a_killed_kernel_changes_nothing(
    model: MessagesServer, tmp_path: Path
) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    home.mkdir()
    places = {"HOME": str(home), "CELLWRIGHT_HOME": str(home / "cellwright"), "IPYTHONDIR": str(home / "ipython")}
    with running_kernel(project, {**model_of(model), **places}) as first:
        first.run("%load_ext cellwright")
        preview(
            first, model, use("Write", file_path="a.txt", content="a\n"), use("Write", file_path="b.txt", content="b\n")
        )
        first.run("%claude /preview accept 2")
        assert [path.name for path in project.iterdir()] == ["b.txt"]
    [told_later] = home.rglob("*.preview.json")
    with running_kernel(project, {**model_of(model), **places}) as second:
        second.run("%load_ext cellwright")
        model.add(say("I know."))
        second.run(f"%%claude --resume {told_later.name.partition('.')[0]}\nand?")
        told = str(model.requests[-1].body["messages"][-1]["content"])
        assert "accepted: b.txt" in told, told
        assert "not accepted: a.txt" in told, told
        before = tree_hash(project)
        preview(second, model, use("Python", code="open('d.txt', 'w').write('d')"))
        os.kill(int(second.value("__import__('os').getpid()")), signal.SIGKILL)
    assert tree_hash(project) == before


def test_a_kernel_that_is_killed_in_the_middle_of_a_preview_leaves_everything_as_it_was(
    model: MessagesServer, tmp_path: Path
) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    home.mkdir()
    (project / "a.txt").write_text("a\n")
    before, gate = tree_hash(project), Gate()
    places = {"HOME": str(home), "CELLWRIGHT_HOME": str(home / "cellwright"), "IPYTHONDIR": str(home / "ipython")}
    with running_kernel(project, {**model_of(model), **places}) as kernel:
        kernel.run("%load_ext cellwright")
        pid, sent = int(kernel.value("__import__('os').getpid()")), len(model.requests)
        model.add(
            use("Write", file_path="b.txt", content="b\n"),
            use("Python", code="open('a.txt', 'w').write('x'); open('c.txt', 'w').write('c')"),
            turn(say("And "), hold(gate)),
        )
        kernel.begin("%%claude --branch\ngo")
        model.wait_for_requests(sent + 3)
        os.kill(pid, signal.SIGKILL)
        gate.open()
    assert tree_hash(project) == before


def test_without_copies_the_user_chooses_a_turn_without_a_preview(
    kernel: NotebookKernel, page: Page, model: MessagesServer, project: Path
) -> None:
    model.add(use("Write", file_path="plain.txt", content="p\n"), say("Done."))
    cell = kernel.begin("%%claude --new --branch --branches off --mode bypassPermissions\ngo")
    question = page.wait_for_op("ask", cell)
    assert question["title"] == "Run without a preview"
    assert "switched off" in question["reason"]
    page.answer(question["question"], "allow")
    assert kernel.finish(cell).status == "ok"
    assert (project / "plain.txt").read_text() == "p\n"
    assert "<preview>" not in str(model.requests[-1].body["messages"])
    (project / "plain.txt").unlink()


WAITS = "import os, time\nprint('[begun]', flush=True)\nwhile not os.path.exists({!r}): time.sleep(0.01)"


def test_while_a_cell_runs_it_is_said_before_anything_is_sent(
    kernel: NotebookKernel, panel: ChatPanel, model: MessagesServer, project: Path
) -> None:
    gate, sent, before = project / "go-on", len(model.requests), tree_hash(project)
    busy = kernel.begin(WAITS.format(str(gate)))
    kernel.wait_for(lambda _: "[begun]" in busy.stdout, busy)
    for answer in ("deny", "allow"):
        if answer == "allow":
            model.add(say("Without one."))
        run = panel.prompt("go", options={"branch": True})
        question = panel.wait_for_op(run, "ask")
        assert question["title"] == "Run without a preview"
        assert "A cell of the user's is running" in question["reason"], question
        assert len(model.requests) == sent
        panel.answer(question["question"], answer)
        panel.wait_for_end(run)
        assert len(model.requests) == sent + (answer == "allow")
    assert "This turn cannot be a preview: A cell of the user's is running" in str(panel.ops)
    assert panel.text(run) == "Without one."
    gate.touch()
    assert kernel.finish(busy).status == "ok"
    gate.unlink()
    assert tree_hash(project) == before


def test_what_is_accepted_while_a_cell_runs_waits_for_its_end(
    kernel: NotebookKernel, panel: ChatPanel, model: MessagesServer, project: Path
) -> None:
    model.add(use("Python", code="late = [1, 2]"), say("Done."))
    run = panel.prompt("go", options={"branch": True})
    question = panel.wait_for_op(run, "ask")
    gate = project / "go-on"
    busy = kernel.begin(WAITS.format(str(gate)) + "\nprint('late' in globals())")
    kernel.wait_for(lambda _: "[begun]" in busy.stdout, busy)
    [asked] = question["input"]["questions"]
    answers = {asked["question"]: "All"}
    panel.answer(question["question"], "allow", input={"answers": answers, "annotations": {}})
    gate.touch()
    panel.wait_for_end(run)
    assert kernel.finish(busy).stdout.endswith("False\n")
    assert kernel.value("late") == "[1, 2]"
    gate.unlink()


def test_between_its_calls_no_code_runs_in_the_copy(
    kernel: NotebookKernel, model: MessagesServer, project: Path
) -> None:
    count = """
import itertools, pathlib, threading, time
file = pathlib.Path("count.txt")
def count():
    for number in itertools.count():
        pathlib.Path("next.txt").write_text(f"{number}\\n")
        pathlib.Path("next.txt").replace(file)
threading.Thread(target=count, daemon=True).start()
while not file.exists():
    time.sleep(0.01)
"""
    after = "seen = file.read_text()\nwhile file.read_text() == seen:\n    pass\n'on'"
    cell = preview(
        kernel,
        model,
        use("Branch", code=count),
        use("Bash", command="cat count.txt; sleep 0.3; echo; cat count.txt"),
        use("Branch", code=after),
    )
    assert cell.status == "ok", cell.error
    first, stands, goes_on = said(model)
    assert "Traceback" not in first
    numbers = [line for line in stands.splitlines() if line.isdigit()]
    assert len(numbers) == 2, stands
    assert len(set(numbers)) == 1, stands
    assert goes_on.endswith("'on'"), goes_on
    kernel.run("%claude /preview decline")


def test_variables_are_those_of_the_copy(kernel: NotebookKernel, model: MessagesServer, project: Path) -> None:
    kernel.run("numbers = [1, 2, 3]")
    look = use("Variables", names=["numbers"])
    cell = preview(kernel, model, look, use("Python", code="numbers.append(4); added = 'of the copy'"), look)
    assert cell.status == "ok", cell.error
    before, _, after = said(model)
    assert ("In your branch" in before, "4" in before) == (False, False), before
    assert "In your branch. Preview" in after, after
    assert "4" in after, after
    kernel.run("%claude /preview decline")
    assert kernel.value("numbers") == "[1, 2, 3]"
